"""Budgets in nodes of several kinds, against an enumeration with arithmetic of its own."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precice_lb.exceptions import InfeasibleError
from precice_lb.layout import Layout, Layouts
from precice_lb.split import Constraints, NodeKind, optimize_split, tradeoff_curve

KINDS = (NodeKind("cpu", 3, 4), NodeKind("gpu", 2, 4, 2))


def _times(most: int, seed: int, factor: float) -> np.ndarray[Any, Any]:
    ranks = np.arange(1, most + 1)
    return factor * (1 / ranks + 0.05 * np.random.default_rng(seed).random(most))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    coupling=st.sampled_from(["parallel", "serial"]),
    nodes=st.tuples(st.integers(1, 4), st.integers(1, 3)),
    gpus=st.integers(1, 4),
    per_node=st.none() | st.integers(1, 4),
    budget=st.none() | st.integers(2, 6),
)
def test_versions_on_kinds_as_brute_force(
    seed: int, coupling: str, nodes: tuple[int, int], gpus: int, per_node: int | None, budget: int | None
) -> None:
    kinds = (NodeKind("cpu", nodes[0], 4), NodeKind("gpu", nodes[1], 6, gpus))
    most = 24
    times = {
        "Fluid": {"cpu": _times(most, seed, 9.0), "gpu": _times(most, seed + 1, 2.0)},
        "Solid": _times(most, seed + 2, 3.0),
    }
    constraints = Constraints(
        kinds=kinds,
        kind={"Fluid:gpu": "gpu"},
        gpus_per_rank={"Fluid:gpu": 1},
        ranks_per_node={} if per_node is None else {"Solid": per_node},
        nodes=budget,
    )
    total, constraints = constraints.constraints()
    assert total == min(budget or sum(nodes), sum(nodes))
    best = math.inf
    for version, fluid, solid in product(("cpu", "gpu"), range(1, most + 1), range(1, most + 1)):
        first = math.ceil(fluid / (4 if version == "cpu" else min(6, gpus)))
        second = math.ceil(solid / (per_node or 4))
        cpu, gpu = (first + second, 0) if version == "cpu" else (second, first)
        if cpu <= nodes[0] and gpu <= nodes[1] and cpu + gpu <= total:
            own = [float(times["Fluid"][version][fluid - 1]), float(times["Solid"][solid - 1])]  # type: ignore[index]
            best = min(best, max(own) if coupling == "parallel" else sum(own))
    if math.isinf(best):
        with pytest.raises(InfeasibleError, match="node"):
            optimize_split(times, total, coupling=coupling, constraints=constraints)
        return
    found = optimize_split(times, total, coupling=coupling, constraints=constraints)
    assert found.window_seconds == pytest.approx(best)
    assert found.gap == 0
    assert found.used["nodes"] == found.used["cpu nodes"] + found.used["gpu nodes"] <= total
    # What fewer nodes of all kinds together would give.
    curve = tradeoff_curve(times, total, coupling=coupling, constraints=constraints)
    assert curve.points[-1].window_seconds == pytest.approx(best)
    assert all(point.budget <= total for point in curve.points)


def test_a_node_without_nodes_and_more_ranks_than_a_node_holds_are_refused() -> None:
    with pytest.raises(InfeasibleError, match="nodes: expected greater than or equal to 1, found 0"):
        NodeKind("cpu", 0, 4)
    times = {"Fluid": np.ones(8), "Solid": np.ones(8)}
    words = {"kinds": KINDS, "unit": "nodes"}
    with pytest.raises(InfeasibleError, match=r"at most 2 ranks of Fluid on a node of kind 'gpu', found 3"):
        optimize_split(
            times, 5, constraints=Constraints(**words, kind={"Fluid": "gpu"}, gpus_per_rank={"Fluid": 1},
                                              ranks_per_node={"Fluid": 3})
        )  # fmt: skip
    with pytest.raises(InfeasibleError, match='rank of "Fluid" to fit on one node'):
        optimize_split(times, 5, constraints=Constraints(**words, gpus_per_rank={"Fluid": 1}))
    with pytest.raises(InfeasibleError, match="4 nodes of kind 'cpu', found 3"):
        optimize_split(times, 5, constraints=Constraints(minimum=8, **words))


def test_threads_of_a_rank_lie_on_one_node_of_its_kind() -> None:
    times = {"Fluid": 4 / np.arange(1, 13), "Solid": 9 / np.arange(1, 13)}

    def split_of(layouts: Layouts) -> dict[str, int]:
        constraints = Constraints(kinds=KINDS, unit="nodes", layouts={"Solid": layouts})
        return dict(optimize_split(times, 5, constraints=constraints).split)

    assert split_of(Layouts(1, None)) == {"Fluid": 8, "Solid": 4}
    assert split_of(Layouts(None, None, (Layout(1, 2), Layout(1, 8)))) == {"Fluid": 8, "Solid": 2}
    # Of three cores only one rank fits, so that eight take more than there are nodes.
    assert split_of(Layouts(None, 3)) == {"Fluid": 4, "Solid": 6}
    with pytest.raises(InfeasibleError, match='rank of "Solid" to fit on one node'):
        split_of(Layouts(None, 6))
    for layouts in (Layouts(1, 6), Layouts(None, None, (Layout(1, 6),))):
        with pytest.raises(InfeasibleError, match=r'rank of "Solid" to fit on one node, found that it has 6 cores'):
            split_of(layouts)
