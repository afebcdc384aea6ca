"""Participants that are split by cores: ranks with threads, beside brute force."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precice_lb.exceptions import InfeasibleError
from precice_lb.layout import Layout, Layouts
from precice_lb.split import Constraints, optimize_split

COUNTS = np.arange(1, 201)
NODES: dict[str, Any] = {"unit": "nodes", "cores_per_node": 8, "whole_nodes": True}
PAIRS = Layouts(None, None, (Layout(1, 2), Layout(1, 4), Layout(2, 4), Layout(3, 4)))
LAYOUTS = [Layouts(1, None), Layouts(2, None), Layouts(None, 2), Layouts(None, 4), Layouts(2, 3), PAIRS]


def brute_force(
    times: dict[str, np.ndarray[Any, np.dtype[np.float64]]],
    layouts: dict[str, Layouts],
    most: int,
    fits: Callable[[list[Layout]], bool],
) -> tuple[float, int] | None:
    """Shortest window of all splits that fit, and how many fit."""
    ways = [
        [layouts.get(name, Layouts()).of(n) for n in layouts.get(name, Layouts()).allowed(1, most)] for name in times
    ]
    windows = [
        max(float(times[name][way.cores - 1]) for name, way in zip(times, chosen, strict=True))
        for chosen in itertools.product(*ways)
        if fits(list(chosen))
    ]
    return (min(windows), len(windows)) if windows else None


times_of = st.lists(st.integers(1, 60), min_size=30, max_size=30).map(lambda each: np.array(each, dtype=np.float64))


@given(times_of, times_of, st.sampled_from(LAYOUTS), st.sampled_from([*LAYOUTS, None]), st.integers(2, 24))
def test_budgets_in_cores(
    first: np.ndarray[Any, np.dtype[np.float64]],
    second: np.ndarray[Any, np.dtype[np.float64]],
    one: Layouts,
    other: Layouts | None,
    budget: int,
) -> None:
    times, layouts = {"A": first, "B": second}, {"A": one} | ({"B": other} if other else {})
    best = brute_force(times, layouts, budget, lambda chosen: sum(way.cores for way in chosen) <= budget)
    for unit in ("ranks", "cores"):
        constraints = Constraints(unit=unit, layouts=layouts)
        if best is None:
            with pytest.raises(InfeasibleError):
                optimize_split(times, budget, constraints=constraints)
            continue
        found = optimize_split(times, budget, constraints=constraints)
        assert found.window_seconds == best[0]
        ways = [layouts.get(name, Layouts()).of(count) for name, count in found.split.items()]
        assert found.used == {"ranks": sum(way.ranks for way in ways), "cores": sum(way.cores for way in ways)}
        assert found.used["cores"] <= budget


@given(times_of, times_of, st.sampled_from(LAYOUTS[:5]), st.integers(1, 4), st.sampled_from([4, 6, 8]))
def test_budgets_in_nodes(
    first: np.ndarray[Any, np.dtype[np.float64]],
    second: np.ndarray[Any, np.dtype[np.float64]],
    one: Layouts,
    nodes: int,
    node: int,
) -> None:
    times, layouts = {"A": first[: nodes * node], "B": second[: nodes * node]}, {"A": one}

    def whole_fit(chosen: list[Layout]) -> bool:
        return all(way.threads <= node for way in chosen) and nodes >= sum(
            -(-way.ranks // (node // way.threads)) for way in chosen
        )

    best = brute_force(times, layouts, min(nodes * node, 30), whole_fit)
    constraints = Constraints(unit="nodes", cores_per_node=node, whole_nodes=True, layouts=layouts)
    if best is None:
        with pytest.raises(InfeasibleError):
            optimize_split(times, nodes, constraints=constraints)
        return
    found = optimize_split(times, nodes, constraints=constraints)
    assert whole_fit([layouts.get(name, Layouts()).of(count) for name, count in found.split.items()])
    assert found.used["nodes"] <= nodes
    assert found.window_seconds == best[0]


def test_who_has_threads_has_whole_nodes() -> None:
    times = {"A": 900.0 / COUNTS, "B": 300.0 / COUNTS}
    machine: dict[str, Any] = {"unit": "nodes", "cores_per_node": 16}
    # Its rank with all cores of a node, or with eight of them, leaves no room for A's ranks.
    found = optimize_split(times, 2, constraints=Constraints(**machine, layouts={"B": Layouts(1, None)}))
    assert found.split == {"A": 16, "B": 16}
    for layouts, cores in ((Layouts(None, 4), 16), (Layouts(1, 5), 5)):
        machine["layouts"] = {"B": layouts}
        with pytest.raises(InfeasibleError, match=r"whole nodes for B, .* or \['B'\] for it alone"):
            optimize_split(times, 2, constraints=Constraints(**machine))
        found = optimize_split(times, 2, constraints=Constraints(**machine, whole_nodes=["B"]))
        assert found.split == {"A": 16, "B": cores}
    # A rank's threads lie on one node.
    machine["layouts"] = {"A": Layouts(1, None)}
    assert optimize_split(times, 4, constraints=Constraints(**machine)).split == {"A": 16, "B": 48}
