"""Which splits a campaign measures: distinct, inside the bounds, and far apart for every participant."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
from conftest import FULL_COUNTS
from hypothesis import given, settings
from hypothesis import strategies as st

from precice_lb.calibrate.design import FixedDesign, space_filling_splits
from precice_lb.exceptions import InfeasibleError


@st.composite
def problems(draw: st.DrawFn) -> tuple[dict[str, tuple[int, int]], int, int]:
    number = draw(st.integers(1, 8))
    bounds = {}
    for name in "ABCDEFGH"[:number]:
        low = draw(st.integers(1, 4))
        bounds[name] = (low, low + draw(st.integers(0, 200)))
    budget = sum(low for low, _ in bounds.values()) + draw(st.integers(0, 300))
    return bounds, budget, draw(st.integers(1, 8))


@given(problems())
@settings(max_examples=1000 if FULL_COUNTS else 15)
def test_splits_are_distinct_and_feasible(problem: tuple[dict[str, tuple[int, int]], int, int]) -> None:
    bounds, budget, count = problem
    splits = space_filling_splits(bounds, budget, count)
    assert 1 <= len(splits) <= count
    assert len({tuple(split.values()) for split in splits}) == len(splits)
    for split in splits:
        assert list(split) == list(bounds)
        assert all(low <= split[name] <= high for name, (low, high) in bounds.items())
        assert sum(split.values()) <= budget


@given(st.integers(1, 3), st.integers(0, 5), st.lists(st.integers(1, 4), min_size=3, max_size=3), st.integers(1, 30))
def test_as_many_splits_as_wanted_wherever_there_are_as_many(
    number: int, spare: int, widths: list[int], count: int
) -> None:
    bounds = {name: (1, width) for name, width in zip("ABC"[:number], widths, strict=False)}
    budget = number + spare
    feasible = [s for s in product(*(range(1, high + 1) for _, high in bounds.values())) if sum(s) <= budget]
    assert len(space_filling_splits(bounds, budget, count)) == min(count, len(feasible))


@pytest.mark.parametrize("budget", [16, 32, 128, 512, 4096])
def test_two_participants_see_few_and_many_ranks_and_what_lies_between(budget: int) -> None:
    splits = space_filling_splits({"A": (1, budget), "B": (1, budget)}, budget, 5)
    assert all(split["A"] + split["B"] == budget for split in splits)
    for name in "AB":
        counts = sorted(split[name] for split in splits)
        assert counts[0] == budget // 16
        assert counts[-1] == budget - budget // 16
        assert all(b - a >= budget // 8 for a, b in pairwise(counts))


@pytest.mark.parametrize("number", [3, 4, 6, 8])
def test_every_participant_varies_with_the_others_varying_too(number: int) -> None:
    names = "ABCDEFGH"[:number]
    splits = space_filling_splits(dict.fromkeys(names, (1, 256)), 256, 6)
    assert len(splits) == 6
    for name in names:
        counts = {split[name] for split in splits}
        assert len(counts) >= 5
        assert max(counts) >= 6 * min(counts)


def test_one_participant_gets_a_geometric_scale() -> None:
    assert sorted(split["A"] for split in space_filling_splits({"A": (1, 16)}, 16, 5)) == [1, 2, 4, 8, 16]


def test_where_the_bounds_leave_one_full_split_smaller_ones_are_measured_too() -> None:
    splits = space_filling_splits({"A": (1, 4), "B": (1, 4)}, 16, 5)
    assert {"A": 4, "B": 4} in splits
    assert len({split["A"] for split in splits}) >= 3


def test_the_same_question_has_the_same_answer() -> None:
    bounds = dict.fromkeys("ABCD", (1, 100))
    assert space_filling_splits(bounds, 128, 5) == space_filling_splits(bounds, 128, 5)


def test_the_first_split_is_the_most_even_one() -> None:
    assert space_filling_splits({"A": (1, 16), "B": (1, 16)}, 16, 5)[0] == {"A": 8, "B": 8}


@pytest.mark.parametrize(("bounds", "budget"), [({"A": (1, 4), "B": (1, 4)}, 1), ({"A": (3, 2)}, 9)])
def test_what_cannot_be_split_is_refused(bounds: dict[str, tuple[int, int]], budget: int) -> None:
    with pytest.raises(InfeasibleError, match=r"A"):
        space_filling_splits(bounds, budget, 3)


def test_a_fixed_design_asks_for_each_split_once_in_order() -> None:
    design = FixedDesign(({"A": 1, "B": 3}, {"A": 2, "B": 2}), "listed,")
    first = design.ask([])
    assert first is not None
    assert (first.split, first.reason) == ({"A": 1, "B": 3}, "listed, 1 of 2")
    second = design.ask([{"B": 3, "A": 1}])
    assert second is not None
    assert second.split == {"A": 2, "B": 2}
    assert design.ask([{"A": 2, "B": 2}, {"A": 1, "B": 3}]) is None
