"""What to change about partner ranks: each sentence, where it is said, and where not."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from partners_helpers import LINK, pairs, planted

from precice_lb.case import parse_configuration
from precice_lb.partners import LinkMapping, PartitionedMesh, PartnersReport, StartUp, make_mesh, partners_report
from precice_lb.partners.report import advise

SURFACE = (Path(__file__).parents[1] / "data" / "configurations" / "partners-surface.xml").read_text(encoding="utf-8")
TITLE = "Fluid-Mesh: Fluid to Solid"
SWITCH_ON = (
    f"{TITLE}: switch two-level initialisation on; it pays from thousands of ranks (about 0.5 s instead of 2.5 s by "
    "the stated model)"
)
SWITCH_OFF = f"{TITLE}: switch two-level initialisation off: preCICE refuses it for a mesh with several receivers"
MESHES = {"Fluid-Mesh": make_mesh("Fluid-Mesh", "Fluid", np.zeros((3, 3)), [0, 1, 2], 3)}


def boxes(fluid: int, solid: int) -> dict[str, Any]:
    return {"provider_boxes": np.zeros((fluid, 3, 2)), "receiver_boxes": np.zeros((solid, 3, 2))}


def seconds(one: float, two: float) -> dict[str, Any]:
    return {"cost": {False: StartUp(one, 0.0, 0.0, {}), True: StartUp(two, 0.0, 0.0, {})}}


@pytest.mark.parametrize("ranks", [(1000, 2), (2, 1000), (5000, 5000)])
def test_two_levels_are_advised_from_a_thousand_ranks_of_either_side(ranks: tuple[int, int]) -> None:
    assert advise((planted(**boxes(*ranks)),), MESHES) == (SWITCH_ON,)


@pytest.mark.parametrize(
    "changes",
    [
        boxes(999, 2),
        boxes(2, 999),
        boxes(1000, 1),
        boxes(1, 1000),
        seconds(0.5, 0.5),
        seconds(0.5, 2.5),
        {"link": dataclasses.replace(LINK, two_level=True)},
        {"link": dataclasses.replace(LINK, gathered=True)},
    ],
    ids=["fewer", "fewer receivers", "serial receiver", "serial provider", "as fast", "slower", "is on", "gathered"],
)
def test_two_levels_are_not_advised_where_they_are_no_help_or_not_possible(changes: dict[str, Any]) -> None:
    assert advise((planted(**{**boxes(1000, 1000), **changes}),), MESHES) == ()


def test_two_levels_are_advised_against_for_a_mesh_of_several_receivers() -> None:
    one, two = (
        planted(**boxes(1000, 1000), link=dataclasses.replace(LINK, two_level=levels)) for levels in (False, True)
    )

    assert advise((one, one), MESHES) == ()
    assert advise((two, two), MESHES) == (SWITCH_OFF, SWITCH_OFF)
    assert advise((two,), MESHES) == ()


MAPPED = dataclasses.replace(LINK, mappings=(LinkMapping("nearest-neighbor", "Solid-Mesh"),))


def stops(changes: dict[str, Any], ranks: Sequence[int] = (0, 0, 1)) -> list[str]:
    """What is said of ranks that get nothing; the three vertices of Solid are on these ranks."""
    analysis = planted(**{"link": MAPPED, "level_2": pairs((0, 0)), **changes})
    solid = make_mesh("Solid-Mesh", "Solid", np.zeros((3, 3)), ranks, analysis.ranks[1])
    return [text for text in advise((analysis,), {**MESHES, "Solid-Mesh": solid}) if "stop" in text]


def test_ranks_with_vertices_that_get_nothing_make_precice_stop() -> None:
    assert stops({}) == [
        f"{TITLE}: preCICE will stop, as no vertex lies in the boxes of 1 rank of Solid (the first is 1): check that "
        "the meshes describe the same geometry, or enlarge the safety-factor 0.5"
    ]
    (both,) = stops({"level_2": pairs()})
    assert "of 2 ranks of Solid (the first is 0)" in both


@pytest.mark.parametrize(
    ("changes", "ranks"),
    [
        ({"level_2": pairs((0, 0), (2, 1))}, (0, 0, 1)),
        ({}, (0, 0, 0)),
        ({"level_2": None}, (0, 0, 1)),
        ({"link": dataclasses.replace(MAPPED, filtered=False)}, (0, 0, 1)),
        ({"receiver_boxes": np.zeros((1, 3, 2)), "level_2": pairs()}, (0, 0, 0)),
    ],
    ids=["all get some", "an empty rank", "boxes alone", "unfiltered", "serial"],
)
def test_ranks_that_get_what_they_need_or_need_nothing_do_not_stop(
    changes: dict[str, Any], ranks: tuple[int, ...]
) -> None:
    assert stops(changes, ranks) == []


def line(name: str, *parts: Sequence[float]) -> PartitionedMesh:
    """Vertices along a line, by rank."""
    x = np.concatenate([np.asarray(part, dtype=float) for part in parts])
    points = np.stack([x, np.zeros_like(x), np.zeros_like(x)], axis=1)
    rank_of = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    return make_mesh(name, name.removesuffix("-Mesh"), points, rank_of, len(parts))


def report(fluid: PartitionedMesh, solid: PartitionedMesh, **received: str) -> PartnersReport:
    attributes = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in received.items())
    text = SURFACE.replace('from="Fluid"/>', f'from="Fluid"{attributes}/>')
    return partners_report(parse_configuration(text), {mesh.name: mesh for mesh in (fluid, solid)})


# Two ranks of Solid of length 1.
SOLID = line("Solid-Mesh", [0, 1], [10, 11])


def test_a_smaller_safety_factor_is_advised_with_room_for_what_moves() -> None:
    """The vertex at -0.25 is needed, so a factor of 0.25; half as much again, in steps of 0.05, is 0.4."""
    fluid = line("Fluid-Mesh", [-0.25], [1], [1.75], [9.25], [10], [11])

    assert report(fluid, SOLID, safety_factor="1").advice == (
        f"{TITLE}: safety-factor 0.4 instead of 1 is enough for the mapping (0.25 is needed) and leaves 4 of 6 pairs "
        "of level 1",
    )


def test_the_least_safety_factor_that_is_advised_is_a_twentieth() -> None:
    fluid = line("Fluid-Mesh", [0], [1], [1.25], [9.75], [10], [11])

    assert report(fluid, SOLID).advice == (
        f"{TITLE}: safety-factor 0.05 instead of 0.5 is enough for the mapping (0 is needed) and leaves 4 of 6 pairs "
        "of level 1",
    )


def test_a_safety_factor_is_advised_only_where_it_saves_a_fifth_of_the_pairs() -> None:
    four_of_five = line("Fluid-Mesh", [0], [1], [1.25], [10], [11])
    all_of_four = line("Fluid-Mesh", [0], [1], [10], [11])
    five_of_six = line("Fluid-Mesh", [0], [1], [1.25], [10], [10], [11])

    (text,) = report(four_of_five, SOLID).advice
    assert "leaves 4 of 5 pairs" in text
    assert report(all_of_four, SOLID).advice == ()
    assert report(five_of_six, SOLID).advice == ()


def test_no_safety_factor_is_advised_where_nothing_is_filtered_or_access_is_direct() -> None:
    fluid = line("Fluid-Mesh", [0], [1], [1.25], [9.75], [10], [11])

    assert report(fluid, SOLID, geometric_filter="no-filter").advice == ()
    assert report(fluid, SOLID, api_access="true").advice == ()


def test_compact_partitions_are_advised_where_ranks_lie_across_each_other() -> None:
    """Ranks hold each other vertex; an empty one on either side meets the other empty one alone."""
    fluid, solid = (line(name, [0, 10], [1, 11], []) for name in ("Fluid-Mesh", "Solid-Mesh"))

    assert report(fluid, solid).advice == (
        f"{TITLE}: compact partitions (recursive coordinate bisection) would connect 2 pairs in level 1 instead of 4",
        "1 of 3 ranks of Fluid hold nothing of Fluid-Mesh and take no part in its exchange",
        "1 of 3 ranks of Solid hold nothing of Solid-Mesh and take no part in its exchange",
    )


def test_nothing_is_advised_where_all_is_well() -> None:
    assert report(line("Fluid-Mesh", [0, 1], [10, 11]), SOLID).advice == ()


def test_of_meshes_apart_no_fewer_pairs_are_promised() -> None:
    """There are none to save; a serial receiver keeps all vertices wherever they lie."""
    ranks_stop = report(line("Fluid-Mesh", [0, 1], [10, 11]), line("Solid-Mesh", [50, 51], [60, 61])).advice

    assert len(ranks_stop) == 1
    assert "preCICE will stop" in ranks_stop[0]
    for factor in ("0", "0.5"):
        assert report(line("Fluid-Mesh", [0, 1]), line("Solid-Mesh", [50]), safety_factor=factor).advice == ()
