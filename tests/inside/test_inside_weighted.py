"""Partitions of equal cost, beside brute force and on domains with planted costs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from precice_lb.inside import Cells, FeatureCosts, partition_of

WEIGHTS = st.lists(st.one_of(st.just(0.0), st.floats(0, 1e6), st.floats(1, 2)), min_size=1, max_size=9)
COSTS = FeatureCosts(("cells",), np.ones(1), np.zeros(1))


def ranks_of(centres: NDArray[np.float64], weights: NDArray[np.float64], ranks: int) -> NDArray[np.int64]:
    """Partition cells of these costs."""
    return partition_of(COSTS, Cells(centres, ("cells",), weights[:, None]), ranks).rank_of


def box(shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Centres of the cells of a box, the last axis fastest."""
    return np.array(list(itertools.product(*map(range, shape))), dtype=float) + 0.5


@given(WEIGHTS, st.data())
def test_two_parts_of_a_line_are_those_of_brute_force(weights: list[float], data: st.DataObject) -> None:
    row = np.array([*weights, 1.0])
    ranks = data.draw(st.integers(2, len(row)))
    left, right = ranks // 2, ranks - ranks // 2
    best = min(max(row[:cut].sum() / left, row[cut:].sum() / right) for cut in range(left, len(row) - right + 1))
    places = np.column_stack([np.arange(len(row)), np.zeros(len(row))])
    is_left = ranks_of(places.astype(float), row, ranks) < left
    assert max(row[is_left].sum() / left, row[~is_left].sum() / right) == pytest.approx(best, rel=1e-9)


def _all_cuts(centres: NDArray[np.float64], weights: NDArray[np.float64], ranks: int) -> float:
    """Least largest part of all recursive bisections along any axes, whatever the cuts."""
    if ranks == 1:
        return float(weights.sum())
    best = np.inf
    for axis in range(centres.shape[1]):
        order = np.argsort(centres[:, axis], kind="stable")
        for cut in range(ranks // 2, len(order) - ranks // 2 + 1):
            halves = [_all_cuts(centres[side], weights[side], ranks // 2) for side in (order[:cut], order[cut:])]
            best = min(best, max(halves))
    return best


@pytest.mark.parametrize("ranks", [2, 4])
def test_bisection_of_a_few_cells_is_near_the_best_of_all_cuts(ranks: int) -> None:
    generator = np.random.default_rng(3)
    ratios = []
    for _ in range(15):
        centres, weights = generator.random((9, 2)), generator.uniform(1, 3, 9)
        largest = np.bincount(ranks_of(centres, weights, ranks), weights).max()
        ratios.append(largest / _all_cuts(centres, weights, ranks))
    assert min(ratios) >= 1 - 1e-12
    assert np.mean(ratios) < 1.25


def test_the_longest_axis_is_cut() -> None:
    rank_of = ranks_of(box((12, 6)), np.ones(72), 4)
    assert rank_of.reshape(12, 6).tolist() == [[2 * (x // 6) + y // 3 for y in range(6)] for x in range(12)]


@pytest.mark.parametrize("ranks", [7, 12, 16])
def test_domains_of_unlike_cells_are_balanced_within_three_percent(ranks: int) -> None:
    centres = box((32, 24, 20))
    x, y, z = centres.T
    weights = 1.0 + 6 * ((x < 8) & (y < 12)) + 3 * (z < 3)
    partition = partition_of(COSTS, Cells(centres, ("cells",), weights[:, None]), ranks)
    assert partition.seconds == pytest.approx(np.bincount(partition.rank_of, weights))
    assert 1 - partition.seconds.min() / partition.seconds.max() <= 0.03
    assert 1 - partition.equal_seconds.min() / partition.equal_seconds.max() > 0.3


def test_ranks_have_compact_parts() -> None:
    rank_of = ranks_of(box((16, 16, 16)), np.ones(4096), 8).reshape(16, 16, 16)
    assert sum(int((np.diff(rank_of, axis=axis) != 0).sum()) for axis in range(3)) <= 1.35 * 3 * 16 * 16


@given(WEIGHTS, st.data())
def test_every_rank_has_a_cell_whatever_the_weights(weights: list[float], data: st.DataObject) -> None:
    ranks = data.draw(st.integers(1, len(weights)))
    places = st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=len(weights), max_size=len(weights))
    rank_of = ranks_of(np.array(data.draw(places), dtype=float), np.array(weights), ranks)
    assert rank_of.dtype == np.int64
    assert (np.bincount(rank_of, minlength=ranks) >= 1).all()
    assert len(np.bincount(rank_of)) == ranks
