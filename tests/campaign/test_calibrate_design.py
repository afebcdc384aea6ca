"""Which splits a campaign measures before it knows anything: distinct, inside the bounds, alike for everybody."""

from __future__ import annotations

from itertools import product

import pytest
from conftest import FULL_COUNTS
from hypothesis import given, settings
from hypothesis import strategies as st

from precice_lb.campaign.design import spread_splits
from precice_lb.split import Constraints
from precice_lb.split.admissible import Limits, limits_of


def limits(bounds: dict[str, tuple[int, int]], budget: int) -> Limits:
    """Bounds and a budget of ranks alone."""
    low, high = ({name: pair[end] for name, pair in bounds.items()} for end in (0, 1))
    return limits_of(tuple(bounds), budget, low, high, Constraints())


def splits_of(bounds: Limits, count: int, nodes: dict[str, int] | None = None) -> list[dict[str, int]]:
    return list(spread_splits(bounds, count, nodes))


@st.composite
def problems(draw: st.DrawFn) -> tuple[dict[str, tuple[int, int]], int, int]:
    number = draw(st.integers(1, 4))
    bounds = {}
    for name in "ABCD"[:number]:
        low = draw(st.integers(1, 4))
        bounds[name] = (low, low + draw(st.integers(0, 100)))
    budget = sum(low for low, _ in bounds.values()) + draw(st.integers(0, 300))
    return bounds, budget, draw(st.integers(1, 4))


@given(problems())
@settings(max_examples=200 if FULL_COUNTS else 10)
def test_splits_are_distinct_and_feasible(problem: tuple[dict[str, tuple[int, int]], int, int]) -> None:
    bounds, budget, count = problem
    splits = splits_of(limits(bounds, budget), count)
    assert 1 <= len(splits) <= count
    assert len({tuple(split.values()) for split in splits}) == len(splits)
    for split in splits:
        assert list(split) == list(bounds)
        assert all(low <= split[name] <= high for name, (low, high) in bounds.items())
        assert sum(split.values()) <= budget


def test_as_many_splits_as_wanted_wherever_there_are_as_many() -> None:
    bounds = {"A": (1, 3), "B": (1, 2)}
    feasible = [s for s in product(*(range(1, high + 1) for _, high in bounds.values())) if sum(s) <= 4]
    assert len(splits_of(limits(bounds, 4), 3)) == 3
    assert len(splits_of(limits(bounds, 4), 30)) == len(feasible) == 5


@pytest.mark.parametrize("number", [2, 3, 4])
def test_after_the_even_split_each_participant_has_the_most_in_turn_and_then_by_a_wider_ratio(number: int) -> None:
    names = "ABCD"[:number]
    splits = splits_of(limits(dict.fromkeys(names, (1, 240)), 240), 1 + 2 * number)
    assert all(sum(split.values()) == 240 for split in splits)
    assert splits[0] == dict.fromkeys(names, 240 // number)
    for part, ratio in ((splits[1 : 1 + number], 3), (splits[1 + number :], 9)):
        assert {max(split, key=split.__getitem__) for split in part} == set(names)
        assert max(part[0].values()) == pytest.approx(ratio * min(part[0].values()), rel=0.15)


def test_splits_on_whole_nodes_come_first() -> None:
    free = limits(dict.fromkeys("AB", (1, 128)), 128)
    nodes = {"A": 32, "B": 32}
    splits = splits_of(free, 12, nodes)
    assert splits[0] == {"A": 64, "B": 64}
    whole = [all(count % 32 == 0 for count in split.values()) for split in splits]
    # All six that there are, those that leave nodes unused too, before any other.
    assert whole == [True] * 6 + [False] * 6
    assert splits_of(limits(dict.fromkeys("AB", (1, 40)), 40), 1, nodes) == [{"A": 20, "B": 20}]
