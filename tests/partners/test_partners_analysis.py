"""One received mesh and a forecast of it, on vertices along a line: every number worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from partners_helpers import planted

from precice_lb.case import Configuration, parse_configuration
from precice_lb.exceptions import DataError
from precice_lb.partners import CostModel, LinkPartners, PartitionedMesh, PartnersReport, make_mesh, partners_report

CONFIGURATIONS = Path(__file__).parents[1] / "data" / "configurations"
SURFACE = (CONFIGURATIONS / "partners-surface.xml").read_text(encoding="utf-8")


def line(name: str, *parts: Sequence[float], cells: Mapping[str, Any] | None = None) -> PartitionedMesh:
    """Vertices along a line, by rank."""
    x = np.concatenate([np.asarray(part, dtype=float) for part in parts])
    points = np.stack([x, np.zeros_like(x), np.zeros_like(x)], axis=1)
    rank_of = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    return make_mesh(name, name.removesuffix("-Mesh"), points, rank_of, len(parts), cells=cells)


def configuration(changes: Mapping[str, str] | None = None, **received: str) -> Configuration:
    """Read the configuration with texts replaced, and with attributes of the received mesh."""
    attributes = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in received.items())
    text = SURFACE.replace('from="Fluid"/>', f'from="Fluid"{attributes}/>')
    for old, new in (changes or {}).items():
        assert old in text
        text = text.replace(old, new)
    return parse_configuration(text)


def report(
    fluid: PartitionedMesh, solid: PartitionedMesh, changes: Mapping[str, str] | None = None, **more: Any
) -> PartnersReport:
    return partners_report(configuration(changes), {mesh.name: mesh for mesh in (fluid, solid)}, **more)


def link(fluid: PartitionedMesh, solid: PartitionedMesh, **received: str) -> LinkPartners:
    (found,) = partners_report(configuration(**received), {mesh.name: mesh for mesh in (fluid, solid)}).links
    return found


# Six ranks of one vertex; with a safety factor of 1 the first three meet rank 0 of Solid, the others rank 1.
FLUID = line("Fluid-Mesh", [-0.25], [1], [1.75], [9.25], [10], [11])
SOLID = line("Solid-Mesh", [0, 1], [10, 11])


def test_pairs_of_both_levels_and_what_is_needed() -> None:
    result = link(FLUID, SOLID, safety_factor="1")

    assert result.ranks == (6, 2)
    assert result.level_1.tolist() == [[0, 0], [1, 0], [2, 0], [3, 1], [4, 1], [5, 1]]
    assert result.level_2 is not None
    assert result.vertices is not None
    assert result.one_level is not None
    assert result.level_2.tolist() == result.one_level.tolist() == [[0, 0], [1, 0], [4, 1], [5, 1]]
    assert result.vertices.tolist() == [1, 1, 1, 1]
    assert result.empty_pairs == 2
    assert result.mesh_vertices == 6
    assert result.needed_factor == 0.25
    assert result.partners(0).tolist() == [1] * 6
    assert result.partners(1).tolist() == [3, 3]
    assert result.partners(0, result.level_2).tolist() == [1, 1, 0, 0, 1, 1]


MODEL = CostModel(latency=1.0, file=10.0, vertex=0.1, copy=0.01)


def test_start_up_counts_the_ranks_vertices_and_partners_of_the_case() -> None:
    model_of_one = {
        "connect primary ranks": 4.0,
        # Two vertices of a rank of Solid, and two ranks of it.
        "set up own vertices": 0.2,
        "settle owners": 2.0,
        # Each rank of Fluid asks one partner.
        "connect": 90.0,
        "gather and send the mesh": 1.2,
        "broadcast the mesh": 0.06,
        # Of six vertices four are kept, and there are eight ranks.
        "broadcast distributions": 0.1 + 8.0,
    }

    (result,) = partners_report(
        configuration(safety_factor="1"), {"Fluid-Mesh": FLUID, "Solid-Mesh": SOLID}, model=MODEL
    ).links

    one, two = result.cost[False], result.cost[True]
    assert one.parts == pytest.approx(model_of_one)
    assert one.primary_bytes == 6 * 72 + 10 * 4
    # Three vertices reach a rank of Solid.
    first = {"connect primary ranks": 4.0, "set up own vertices": 0.2, "settle owners": 2.0}
    assert two.parts == pytest.approx({**first, "connect": 60.0, "exchange pieces": 0.03})
    assert two.rank_bytes == 6 * 160 + 3 * 72


def test_the_acceptor_asks_its_partners() -> None:
    changes = {'acceptor="Fluid" connector="Solid"': 'acceptor="Solid" connector="Fluid"'}
    (result,) = partners_report(
        configuration(changes, safety_factor="1"), {"Fluid-Mesh": FLUID, "Solid-Mesh": SOLID}, model=MODEL
    ).links

    # A rank of Solid asks two ranks in one level and three in two, besides 8 and 5 files.
    assert result.cost[False].parts["connect"] == pytest.approx(100.0)
    assert result.cost[True].parts["connect"] == pytest.approx(80.0)


def test_meshes_apart_have_no_pairs_and_ask_nobody() -> None:
    (result,) = report(FLUID, line("Solid-Mesh", [50, 51, 52], [60, 61]), model=MODEL).links

    assert result.level_1.shape == (0, 2)
    assert result.level_2 is not None
    assert result.vertices is not None
    assert result.level_2.shape == (0, 2)
    assert result.vertices.shape == (0,)
    assert math.isnan(result.needed_factor)
    assert result.empty_pairs == 0
    assert result.cost[False].parts["connect"] == pytest.approx(80.0)
    assert result.cost[True].parts["connect"] == pytest.approx(50.0)
    assert result.cost[True].parts["exchange pieces"] == 0.0
    assert result.cost[True].parts["set up own vertices"] == pytest.approx(0.3)
    assert result.cost[True].rank_bytes == 6 * 160


def test_the_default_constants_are_those_that_are_stated() -> None:
    assert CostModel().to_dict() == {
        "latency": 5e-6,
        "file": 1e-3,
        "vertex": 2.9e-6,
        "copy": 50e-9,
        "vertex_bytes": 72.0,
        "box_bytes": 160.0,
    }


def test_without_a_filter_one_level_finds_vertices_of_ranks_that_two_levels_do_not_connect() -> None:
    """The vertex at 12 is nearest to 11, beyond the box of its rank, which ends at 11.5."""
    fluid, solid = line("Fluid-Mesh", [0, 1], [9.75], [12]), line("Solid-Mesh", [0, 1], [10, 11])

    plain, filtered = link(fluid, solid, geometric_filter="no-filter"), link(fluid, solid)

    assert plain.level_1.tolist() == filtered.level_1.tolist() == [[0, 0], [1, 1]]
    for result in (plain, filtered):
        assert result.level_2 is not None
        assert result.level_2.tolist() == [[0, 0], [1, 1]]
    assert plain.one_level is not None
    assert filtered.one_level is not None
    assert plain.one_level.tolist() == [[0, 0], [1, 1], [2, 1]]
    assert filtered.one_level.tolist() == [[0, 0], [1, 1]]


@pytest.mark.parametrize(("vertices", "is_followed"), [(10_000, True), (10_001, False)])
def test_a_mesh_without_a_filter_is_followed_through_one_level_up_to_some_size(
    vertices: int, is_followed: bool
) -> None:
    """Up to five hundred million vertices times ranks."""
    solid = make_mesh("Solid-Mesh", "Solid", [[1.0, 0.0, 0.0], [3.0, 0.0, 0.0]], [0, 1], 50_000)

    result = link(line("Fluid-Mesh", np.arange(vertices).tolist()), solid, geometric_filter="no-filter")

    assert result.level_2 is not None
    assert (result.one_level is not None) is is_followed
    # Two vertices are kept.
    assert result.cost[False].rank_bytes == vertices * 72 + (vertices + 2) * 4


PROJECTION = {"nearest-neighbor": "nearest-projection"}
EDGES = {"edges": [[0, 1], [2, 3]]}


@pytest.mark.parametrize(
    ("changes", "cells", "solid", "approximated"),
    [
        (PROJECTION, None, SOLID, ("nearest-projection",)),
        ({"nearest-neighbor": "linear-cell-interpolation"}, None, SOLID, ("linear-cell-interpolation",)),
        (PROJECTION, EDGES, SOLID, ()),
        (PROJECTION, None, line("Solid-Mesh", [0, 1, 10, 11]), ()),
        ({}, None, SOLID, ()),
    ],
    ids=["projection", "cells of three dimensions", "connected", "serial receiver", "nearest vertices"],
)
def test_projections_without_connectivity_are_named_as_approximated(
    changes: dict[str, str], cells: dict[str, Any] | None, solid: PartitionedMesh, approximated: tuple[str, ...]
) -> None:
    fluid = line("Fluid-Mesh", [0, 1], [10, 11], cells=cells)

    assert report(fluid, solid, changes).links[0].approximated == approximated


def test_a_case_of_boxes_alone_approximates_nothing_and_keeps_all_vertices() -> None:
    fluid, solid = (PartitionedMesh(mesh.name, mesh.participant, mesh.counts, mesh.boxes) for mesh in (FLUID, SOLID))

    (result,) = report(fluid, solid, PROJECTION).links

    assert result.approximated == ()
    assert math.isnan(result.needed_factor)
    assert result.cost[False].rank_bytes == 6 * 72 + 12 * 4


@pytest.mark.parametrize(
    ("changes", "iterations", "values", "messages"),
    [
        ({}, 1.0, 3, 1),
        ({}, 2.5, 7.5, 2.5),
        ({'substeps="false"': 'substeps="true"'}, 1.0, 6, 1),
        ({"data:vector": "data:scalar"}, 1.0, 1, 1),
    ],
    ids=["a vector", "iterations", "substeps", "a scalar"],
)
def test_data_per_window_count_components_substeps_and_iterations(
    changes: dict[str, str], iterations: float, values: float, messages: float
) -> None:
    (result,) = report(line("Fluid-Mesh", [0, 1], [10, 11]), SOLID, changes, iterations=iterations).links

    assert (result.values, result.messages) == (values, messages)
    assert result.pair_bytes is not None
    assert result.pair_bytes.tolist() == [2 * 8 * values] * 2
    assert result.messages_per_window == 2 * messages


def test_a_report_as_a_mapping_has_every_number_of_a_link() -> None:
    analysis = planted()

    document = PartnersReport({"Fluid": 3, "Solid": 2}, (analysis,), {}, ("do this",), None, MODEL, ("more",)).to_dict()

    (result,) = document.pop("links")
    assert document == {
        "ranks": {"Fluid": 3, "Solid": 2},
        "advice": ["do this"],
        "missing": ["more"],
        "forecast": None,
        "cost_model": {
            **{"latency": 1.0, "file": 10.0, "vertex": 0.1, "copy": 0.01},
            **{"vertex_bytes": 72.0, "box_bytes": 160.0},
        },
    }
    assert result == {
        "mesh": "Fluid-Mesh",
        "provider": "Fluid",
        "receiver": "Solid",
        "safety_factor": 0.5,
        "two_level": False,
        "ranks": [3, 2],
        "mesh_vertices": 405,
        "level_1_pairs": 5,
        "level_2_pairs": 2,
        "empty_pairs": 3,
        "one_level_pairs": 3,
        # 405 vertices of three numbers of eight bytes.
        "bytes_per_window": 9720.0,
        "messages_per_window": 3.0,
        "needed_safety_factor": 0.1,
        "approximated_mappings": [],
        "provider_partners": {"mean": pytest.approx(5 / 3), "maximum": 2, "histogram": [0, 1, 2]},
        "receiver_partners": {"mean": 2.5, "maximum": 3, "histogram": [0, 0, 1, 1]},
        "one_level": {"seconds": 2.5, "primary_bytes": 4096.0, "rank_bytes": 2048.0, "parts": {}},
        "two_levels": {"seconds": 0.5, "primary_bytes": 1000.0, "rank_bytes": 500.0, "parts": {}},
    }


def test_what_is_not_known_is_none_in_the_mapping() -> None:
    analysis = planted(level_2=None, vertices=None, one_level=None)

    (result,) = PartnersReport({}, (analysis,), {}, (), None, MODEL).to_dict()["links"]

    names = ("level_2_pairs", "empty_pairs", "one_level_pairs", "bytes_per_window")
    assert [result[name] for name in names] == [None] * 4
    assert result["messages_per_window"] == 5.0


# Rank 0 lies across the whole interface, and so meets both ranks of Solid.
ACROSS = line("Fluid-Mesh", [0, 11], [1], [10])


def test_a_forecast_states_how_far_it_misses_for_the_measured_ranks() -> None:
    """Bisection makes parts of 0 and 1, of 10, and of 11.

    Ranks of Fluid then have 1, 1, 1 partners instead of 2, 1, 1, and those of Solid 1 and 2 instead of 2 and 2.
    """
    result = report(ACROSS, SOLID, ranks={"Fluid": 4}).forecast

    assert result is not None
    assert result.partitions == {"Fluid-Mesh": "bisection", "Solid-Mesh": "bisection"}
    assert result.mean_error == pytest.approx(0.25)
    assert result.max_error == pytest.approx(0.5)


def test_a_forecast_misses_all_where_measured_ranks_have_no_partners() -> None:
    """Solid's ranks of 4 and of 6 to 6.2 meet nothing at 5; bisection makes parts of 4 to 6 and of 6.2."""
    result = report(line("Fluid-Mesh", [5]), line("Solid-Mesh", [4], [6, 6.2]), ranks={"Solid": 3}).forecast

    assert result is not None
    assert (result.mean_error, result.max_error) == (1.0, 1.0)


def test_a_forecast_of_meshes_apart_misses_nothing() -> None:
    result = report(FLUID, line("Solid-Mesh", [50, 51], [60]), ranks={"Solid": 3}).forecast

    assert result is not None
    assert (result.mean_error, result.max_error) == (0.0, 0.0)


def test_partitions_from_files_miss_nothing_and_are_named(tmp_path: Path) -> None:
    fluid, solid = tmp_path / "fluid.txt", tmp_path / "solid.txt"
    fluid.write_text("1\n0\n0\n0\n")
    solid.write_text("0\n0\n1\n2\n")
    partitions = {"Fluid-Mesh": fluid, "Solid-Mesh": solid}

    result = report(ACROSS, SOLID, ranks={"Fluid": 2, "Solid": 3}, partitions=partitions)

    assert result.forecast is not None
    assert result.forecast.partitions == {"Fluid-Mesh": str(fluid), "Solid-Mesh": str(solid)}
    assert (result.forecast.mean_error, result.forecast.max_error) == (0.0, 0.0)
    assert result.ranks == {"Fluid": 2, "Solid": 3}
    assert {name: mesh.counts.tolist() for name, mesh in result.meshes.items()} == {
        "Fluid-Mesh": [3, 1],
        "Solid-Mesh": [2, 1, 1],
    }


def test_participants_that_are_not_named_keep_their_ranks_in_a_forecast() -> None:
    result = report(ACROSS, SOLID, ranks={"Solid": 4})

    assert result.ranks == {"Fluid": 3, "Solid": 4}
    assert {name: mesh.counts.tolist() for name, mesh in result.meshes.items()} == {
        # Two thirds of four vertices are 2.7, and of the three half is 1.5, which is rounded to the even number.
        "Fluid-Mesh": [2, 1, 1],
        "Solid-Mesh": [1, 1, 1, 1],
    }


def test_without_a_forecast_the_measured_partition_is_told() -> None:
    result = report(ACROSS, SOLID)

    assert result.forecast is None
    assert result.ranks == {"Fluid": 3, "Solid": 2}
    assert result.missing == ()


def test_a_forecast_for_an_unknown_name_is_refused(tmp_path: Path) -> None:
    problem = r"expected a participant or mesh of the case \(Fluid, Solid, Fluid-Mesh, Solid-Mesh\), found 'Gas'"

    with pytest.raises(DataError, match=problem):
        report(FLUID, SOLID, ranks={"Gas": 4})
    with pytest.raises(DataError, match=problem):
        report(FLUID, SOLID, partitions={"Gas": tmp_path})


def test_access_regions_are_refused_for_a_forecast() -> None:
    text = (CONFIGURATIONS / "partners-regions.xml").read_text(encoding="utf-8")
    meshes = {
        name: make_mesh(name, who, [[0.0, 0.0], [1.0, 1.0]], [0, 1], 2)
        for name, who in (("Hot", "Left"), ("Cold", "Right"))
    }
    region: NDArray[np.float64] = np.array([[[0.0, 1.0], [0.0, 1.0]]] * 2)

    problem = "expected no access regions for a forecast, found some: nobody knows them for other ranks"
    with pytest.raises(DataError, match=problem):
        partners_report(parse_configuration(text), meshes, {"Hot": region}, ranks={"Left": 4})
