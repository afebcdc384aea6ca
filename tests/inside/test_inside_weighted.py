"""Partitions of equal cost, beside brute force and on domains with planted costs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from precice_lb.exceptions import DataError
from precice_lb.inside import Cells, FeatureCosts, partition_of
from precice_lb.inside.mesh import PARTITIONERS, pieces, whole_weights

WEIGHTS = st.lists(st.one_of(st.just(0.0), st.floats(0, 1e6), st.floats(1, 2)), min_size=1, max_size=9)


def _line(weights: list[float]) -> Cells:
    number = len(weights)
    pairs = np.column_stack([np.arange(number - 1), np.arange(1, number)])
    return Cells(np.column_stack([np.arange(number), np.zeros(number)]), ("cells",), np.ones((number, 1)), pairs)


def _box(shape: tuple[int, ...]) -> Cells:
    number = np.arange(np.prod(shape)).reshape(shape)
    centres = np.array(list(itertools.product(*map(range, shape))), dtype=float) + 0.5
    pairs = []
    for axis in range(len(shape)):
        behind, before = np.delete(number, 0, axis).ravel(), np.delete(number, -1, axis).ravel()
        pairs.append(np.column_stack([before, behind]))
    return Cells(centres, ("cells",), np.ones((len(centres), 1)), np.concatenate(pairs))


def _sums(rank_of: NDArray[np.int64], weights: NDArray[np.float64], ranks: int) -> NDArray[np.float64]:
    return np.bincount(rank_of, weights, ranks)


def _partition(name: str, cells: Cells, weights: NDArray[np.float64], ranks: int) -> NDArray[np.int64]:
    if name == "metis":
        pytest.importorskip("pymetis", reason="no pymetis: install the extra metis")
    return PARTITIONERS[name](cells, weights, ranks)


@given(WEIGHTS, st.data())
def test_the_largest_piece_is_that_of_brute_force(weights: list[float], data: st.DataObject) -> None:
    parts = data.draw(st.integers(1, len(weights)))
    row = np.array(weights)
    best = min(
        max(map(np.sum, np.split(row, cuts))) for cuts in itertools.combinations(range(1, len(weights)), parts - 1)
    )
    ends = pieces(row, parts)
    assert ends[-1] == len(weights)
    assert (np.diff(ends, prepend=0) >= 1).all()
    assert np.add.reduceat(row, np.append(0, ends[:-1])).max() == pytest.approx(best, rel=1e-9)
    held = data.draw(st.integers(1, len(weights) // parts))
    assert (np.diff(pieces(row, parts, held), prepend=0) >= held).all()


def test_pieces_of_the_same_largest_are_even() -> None:
    row = np.random.default_rng(0).uniform(1, 4, 64_000)
    sums = np.add.reduceat(row, np.append(0, pieces(row, 64)[:-1]))
    # Filled up one after the other, the last piece would be left with less by many cells.
    assert (sums.max() - sums.min()) / sums.max() < 8 / (64_000 / 64 * 2.5)


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
        cells = Cells(centres, ("cells",), np.ones((9, 1)), np.empty((0, 2), np.int64))
        largest = _sums(PARTITIONERS["bisection"](cells, weights, ranks), weights, ranks).max()
        ratios.append(largest / _all_cuts(centres, weights, ranks))
    assert min(ratios) >= 1 - 1e-12
    # The longest axis is cut unless another one is better by 30 %, at each level.
    assert max(ratios) <= 0.7 ** -np.log2(ranks)
    assert np.mean(ratios) < 1.25


def test_the_longest_axis_is_cut_unless_another_is_much_better() -> None:
    # Along x the heavy cell lies between the others; along y it lies behind them.
    centres = np.array([[0, 0], [5, 2], [10, 1]], dtype=float)
    cells = Cells(centres, ("cells",), np.ones((3, 1)), np.empty((0, 2), np.int64))
    assert PARTITIONERS["bisection"](cells, np.array([1, 2.0, 1]), 2).tolist() == [0, 1, 0]
    assert PARTITIONERS["bisection"](cells, np.array([1, 1.7, 1]), 2).tolist() in ([0, 0, 1], [0, 1, 1])
    # Prime factors: three slabs, each in two halves.
    rank_of = PARTITIONERS["bisection"](_box((12, 6)), np.ones(72), 6)
    assert rank_of.reshape(12, 6).tolist() == [[2 * (x // 4) + y // 3 for y in range(6)] for x in range(12)]


@pytest.mark.parametrize("name", PARTITIONERS)
@pytest.mark.parametrize("ranks", [7, 12, 16])
def test_domains_of_unlike_cells_are_balanced_within_three_percent(name: str, ranks: int) -> None:
    cells = _box((32, 24, 20))
    x, y, z = cells.centres.T
    weights = 1.0 + 6 * ((x < 8) & (y < 12)) + 3 * (z < 3)
    sums = _sums(_partition(name, cells, weights, ranks), weights, ranks)
    equal = _sums(_partition(name, cells, np.ones(len(x)), ranks), weights, ranks)
    assert 1 - sums.min() / sums.max() <= 0.03
    assert 1 - equal.min() / equal.max() > 0.3


@pytest.mark.parametrize("name", PARTITIONERS)
def test_ranks_have_compact_parts(name: str) -> None:
    cells = _box((16, 16, 16))
    rank_of = _partition(name, cells, np.ones(4096), 8)
    cut = (rank_of[cells.neighbours[:, 0]] != rank_of[cells.neighbours[:, 1]]).sum()
    assert cut <= 1.35 * 3 * 16 * 16


@given(WEIGHTS, st.data())
def test_every_rank_has_a_cell_whatever_the_weights(weights: list[float], data: st.DataObject) -> None:
    ranks = data.draw(st.integers(1, len(weights)))
    places = data.draw(
        st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=len(weights), max_size=len(weights)), label="places"
    )
    row = np.array(weights)
    cells = Cells(np.array(places, dtype=float), ("cells",), np.ones((len(row), 1)), np.empty((0, 2), np.int64))
    for each in (cells, _line(weights)):
        rank_of = PARTITIONERS["bisection"](each, row, ranks)
        assert rank_of.dtype == np.int64
        assert (np.bincount(rank_of, minlength=ranks) >= 1).all()
        assert len(np.bincount(rank_of)) == ranks


@pytest.mark.parametrize("name", PARTITIONERS)
def test_what_cannot_be_is_refused(name: str) -> None:
    line = _line([1.0, 2.0, 3.0])
    if name == "metis":
        pytest.importorskip("pymetis", reason="no pymetis: install the extra metis")
        with pytest.raises(DataError, match="expected METIS to give each of 3 ranks cells, found 1 without"):
            PARTITIONERS[name](line, np.array([1.0, 2, 3]), 3)
    else:
        assert sorted(PARTITIONERS[name](line, np.array([1.0, 2, 3]), 3)) == [0, 1, 2]
    assert _partition(name, line, np.zeros(3), 1).tolist() == [0, 0, 0]
    for ranks in (0, 4):
        with pytest.raises(DataError, match=f"from 1 to 3 ranks, one for each cell at most, found {ranks}"):
            partition_of(FeatureCosts(("cells",), np.ones(1), np.zeros(1)), line, ranks, name)


def test_metis_needs_its_library_and_faces(monkeypatch: pytest.MonkeyPatch) -> None:
    lonely = Cells(np.zeros((3, 2)), ("cells",), np.ones((3, 1)), np.empty((0, 2), np.int64), "m.vtu")
    monkeypatch.setitem(__import__("sys").modules, "pymetis", None)
    with pytest.raises(DataError, match=r"pip install precice_lb\[metis\]"):
        PARTITIONERS["metis"](lonely, np.ones(3), 2)
    monkeypatch.undo()
    pytest.importorskip("pymetis", reason="no pymetis: install the extra metis")
    with pytest.raises(DataError, match=r"m\.vtu: expected cells that share faces for METIS"):
        PARTITIONERS["metis"](lonely, np.ones(3), 2)


@given(WEIGHTS)
def test_whole_weights_keep_their_ratios(weights: list[float]) -> None:
    found = whole_weights(np.array(weights))
    assert (found >= 1).all()
    assert found.sum() < 2**31
    if any(weights):
        assert found / found.sum() == pytest.approx(
            np.array(weights) / max(weights) / sum(np.array(weights) / max(weights)), abs=1e-7
        )
