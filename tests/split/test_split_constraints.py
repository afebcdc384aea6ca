"""What constraints mean, and what is said when they clash."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from precice_lb.case.coupling import AcceptedRanks, RankBound
from precice_lb.exceptions import InfeasibleError
from precice_lb.layout import Layout, Layouts
from precice_lb.schedule import Schedule
from precice_lb.split import Constraints, NodeKind, SharedCores, optimize_split

RANKS = np.arange(1, 2001)
TIMES = {"A": 900.0 / RANKS, "B": 300.0 / RANKS}
BOTH = Schedule.parallel(list("AB"))
IN_TURNS = Schedule.serial(list("AB"))
NODES: dict[str, Any] = {"unit": "nodes", "cores_per_node": 8, "whole_nodes": True}
KINDS = (NodeKind("cpu", 3, 4), NodeKind("gpu", 2, 4, 2))


def split_of(
    budget: int, schedule: Schedule = BOTH, times: dict[str, Any] = TIMES, **constraints: Any
) -> dict[str, int]:
    return optimize_split(times, budget, coupling=schedule, constraints=Constraints(**constraints)).split


def test_ranks_that_precice_accepts_are_those_of_the_constraints_else_of_the_schedule() -> None:
    schedule = Schedule.parallel(list("AB"))
    schedule.accepted_ranks = {"B": AcceptedRanks(most=RankBound(2, "a rule"))}
    assert split_of(12, schedule) == {"A": 10, "B": 2}
    assert split_of(12, schedule, accepted_ranks={"B": AcceptedRanks(most=RankBound(1))}) == {"A": 11, "B": 1}


def test_whole_nodes_and_shared_nodes() -> None:
    machine = {"unit": "nodes", "cores_per_node": 48}
    assert split_of(10, **machine) == {"A": 360, "B": 120}
    # 7 and 3 nodes instead of 7.5 and 2.5.
    assert split_of(10, **machine, whole_nodes=True) == {"A": 336, "B": 144}
    # A's ranks of 20 cores: two of them on a node.
    layouts = {"A": Layouts(None, 20)}
    assert split_of(10, **machine, whole_nodes=True, layouts=layouts, maximum={"B": 48}) == {"A": 360, "B": 48}
    assert split_of(480, unit="cores", cores_per_node=48, whole_nodes=["B"]) == {"A": 336, "B": 144}
    result = optimize_split(TIMES, 10, coupling=BOTH, constraints=Constraints(**machine, maximum={"A": 100, "B": 20}))
    assert result.used == {"ranks": 120, "cores": 144, "nodes": 3}


def test_bounds_of_all_kinds() -> None:
    assert split_of(100, multiple=8) == {"A": 72, "B": 24}
    assert split_of(100, allow={"A": [64, 80, 100]}) == {"A": 64, "B": 36}
    assert split_of(100, allow={"B": [60]}) == {"A": 40, "B": 60}
    assert split_of(100, memory={"B": 400e9}, memory_per_rank=8e9) == {"A": 50, "B": 50}
    assert split_of(100, memory={"B": 1e6}, memory_per_rank={"B": 25_000.0}) == {"A": 60, "B": 40}
    assert split_of(100, maximum={"A": 50}) == {"A": 50, "B": 50}


def test_bounds_count_cores_but_what_a_rank_holds_counts_ranks() -> None:
    four = {"B": Layouts(None, 4)}
    assert split_of(64, layouts=four) == {"A": 48, "B": 16}
    assert split_of(64, layouts=four, maximum={"B": 15}) == {"A": 52, "B": 12}
    assert split_of(64, layouts=four, allow={"B": [20]}) == {"A": 44, "B": 20}
    assert split_of(64, layouts=four, multiple={"B": 6}) == {"A": 40, "B": 24}
    assert split_of(64, layouts=four, allow={"B": [6, 8]}) == {"A": 56, "B": 8}
    assert split_of(64, layouts=four, memory={"B": 50.0}, memory_per_rank=10.0) == {"A": 44, "B": 20}
    two_ranks = {"B": Layouts(None, None, (Layout(1, 16), Layout(2, 4)))}
    assert split_of(64, layouts=two_ranks) == {"A": 48, "B": 16}
    assert split_of(64, layouts=two_ranks, memory={"B": 20.0}, memory_per_rank=10.0) == {"A": 56, "B": 8}


def test_versions_choose_their_resource() -> None:
    times = {"A": {"cpu": 900.0 / RANKS, "gpu": 60.0 / RANKS}, "B": 300.0 / RANKS}
    machine = {"unit": "nodes", "cores_per_node": 48, "gpus_per_node": 4, "gpus_per_rank": {"A:gpu": 1}}
    machine["whole_nodes"] = ["A"]
    result = optimize_split(times, 10, coupling=BOTH, constraints=Constraints(**machine))
    # Seven nodes of it have 28 GPUs, for 60/28 = 2.1 s, or 336 cores, for 2.7 s; three are left to B, for 2.1 s.
    assert result.versions == {"A": "gpu"}
    assert result.split == {"A": 28, "B": 144}
    without = optimize_split(times, 10, coupling=BOTH, constraints=Constraints(**machine | {"gpus_per_node": 0}))
    assert without.versions == {"A": "cpu"}
    few = optimize_split(
        times, 480, coupling=BOTH, constraints=Constraints(gpus_per_node=8, gpus_per_rank={"A:gpu": 1})
    )
    assert few.versions == {"A": "cpu"}


def test_cores_in_turns() -> None:
    shared = [SharedCores((("A",), ("B",)), overhead=0.1)]
    result = optimize_split(TIMES, 100, coupling=IN_TURNS, constraints=Constraints(shared=shared))
    assert result.split == {"A": 100, "B": 100}
    assert result.window_seconds == pytest.approx(12.0 * 1.1)
    assert result.used == {"ranks": 200, "cores": 100}
    with pytest.raises(InfeasibleError, match="A and B, which parallel A, B lets overlap"):
        split_of(100, shared=shared)


@pytest.mark.parametrize(
    ("budget", "constraints", "message"),
    [
        (9, {"minimum": {"A": 8, "B": 4}}, r"at least 12 ranks .*\(minima: A 8, B 4\), found 9; give 12 ranks"),
        (1, {"unit": "nodes", "cores_per_node": 4, "whole_nodes": True}, r"2 nodes .*A 1 \(1 whole node\), B 1"),
        (9, {"allow": {"A": [8, 16]}, "multiple": {"B": 4}}, r"A 8 \(allowed\), B 4 \(multiples of 4\)"),
        (9, {"memory": {"A": 90.0}, "memory_per_rank": 8.0}, r"at least 13 ranks .*A 12 \(memory\)"),
        (9, {"allow": {"A": [9]}}, r"at least 10 ranks .*A 9 \(allowed\)"),
        (99, {"minimum": {"A": 10}, "allow": {"A": [2, 4, 8]}}, "clash .*: 10 at least .*one of 2, 4, 8"),
        (99, {"multiple": {"A": 16}, "maximum": {"A": 12}}, r"12 at most \(maximum.*\); multiples of 16"),
        (99, {"allow": {"A": [6]}, "multiple": 4}, "multiples of 4; one of 6"),
        (99, {"memory": {"A": 1e6}, "memory_per_rank": 1e3, "maximum": {"A": 64}}, "1000 at least .*; 64 at most"),
        (99, {"gpus_per_rank": {"A": 4}}, "needs 4 GPUs and a node has 0; change gpus_per_rank, gpus_per_node"),
        (99, {"gpus_per_node": 4, "gpus_per_rank": {"A": 4}}, "budget in nodes for ranks with GPUs, found ranks"),
        (9, {"unit": "nodes", "cores_per_node": 8, "gpus_per_node": 1, "gpus_per_rank": {"A": 1}},
         r"whole nodes for A, .* say machine.whole_nodes = true, or \['A'\]"),
        (9, {"nodes": 9, "cores_per_node": 8}, 'expected one budget, found 9 and nodes .* say unit="nodes"'),
        (9, {"layouts": {"C": Layouts(1, None)}}, "layouts of A, B, found one of 'C'"),
        (9, {"layouts": {"B": Layouts(None, 12)}}, r"at least 13 cores .*B 12 \(a multiple of 12\)"),
        (9, {"layouts": {"B": Layouts(None, 4)}, "allow": {"B": [6]}}, r'cores \(a multiple of 4\) of "B".* one of 6'),
        (2, {"layouts": {"B": Layouts(1, 9)}, **NODES}, '"B" to fit on one node'),
        (2, {"layouts": {"B": Layouts(None, 9)}, **NODES}, '"B" to fit on one node'),
        (2, {"layouts": {"B": Layouts(None, 4)}, **NODES, "whole_nodes": False}, r"whole nodes for B, .* or \['B'\]"),
        (9, {"layouts": {"B": Layouts(1, None)}, "memory": {"B": 3.0}, "memory_per_rank": 1.0}, "3 ranks at least"),
        (4, {"layouts": {"B": Layouts(None, None, (Layout(4, 1), Layout(1, 5)))}, "gpus_per_rank": {"B": 1}, **NODES,
             "gpus_per_node": 2}, "pairs of B .* with 4 and 5 cores"),
        (9, {"maximum": {"C": 3}}, "maximum of A, B, found one of 'C'"),
        (9, {"whole_nodes": ["C"], "cores_per_node": 4}, "found one of 'C'"),
        (9, {"shared": [SharedCores((("A",), ("C",)))]}, "found C though it is not in the coupling"),
        (9, {"shared": [SharedCores((("A",), ("A",)))]}, "found A twice"),
    ],
)  # fmt: skip
def test_what_clashes_is_said(budget: int, constraints: dict[str, Any], message: str) -> None:
    with pytest.raises(InfeasibleError, match=message) as caught:
        split_of(budget, IN_TURNS, **constraints)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "constraints",
    [
        {"unit": "racks"},
        {"unit": "nodes"},
        {"whole_nodes": True},
        {"allow": {"A": [2.5]}},
        {"gpus_per_node": -1},
        {"multiple": True},
        {"nodes": 0},
        {"memory": {"A": 1.0}},
        {"memory": {"A": -1.0}, "memory_per_rank": 1.0},
        {"memory": {"A": 1.0}, "memory_per_rank": {"A": float("nan")}},
        {"shared": [{"turns": [["A", "B"]]}]},
        {"shared": [{"turns": [["A"], []]}]},
        {"shared": [{"turns": [["A"], ["B"]], "overhead": -0.1}]},
        {"kinds": (*KINDS, KINDS[0])},
        {"kinds": KINDS, "kind": {"Fluid": "fat"}},
        {"kinds": KINDS, "cores_per_node": 4},
        {"kind": {"Fluid": "cpu"}},
    ],
)
def test_nonsense_is_refused(constraints: dict[str, Any]) -> None:
    with pytest.raises(InfeasibleError, match="expected"):
        Constraints(**constraints)
