"""Level 1 against brute force on degenerate boxes, and its errors."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import FULL_COUNTS
from numpy.typing import NDArray

from precice_lb.exceptions import DataError
from precice_lb.partners import connected_ranks

CASES = 2000


def _brute_force(provider: NDArray[np.float64], receiver: NDArray[np.float64], factor: float) -> NDArray[np.int64]:
    """preCICE's loops, box by box: default boxes are inside out, and only others are scaled."""
    big = np.finfo(float).max
    pairs = []
    for p, provided in enumerate(provider):
        for r, received in enumerate(receiver):
            a, b = (np.stack([np.full(len(x), big), np.full(len(x), -big)], 1) if np.isnan(x).any() else x.copy()
                    for x in (received, provided))  # fmt: skip
            if not np.isnan(received).any():
                longest = (a[:, 1] - a[:, 0]).max()
                a[:, 1] += factor * longest
                a[:, 0] -= factor * longest
            apart = ((a[:, 0] < b[:, 0]) & (a[:, 1] < b[:, 0])) | ((b[:, 0] < a[:, 0]) & (b[:, 1] < a[:, 0]))
            if not apart.any():
                pairs.append((p, r))
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _random_boxes(generator: np.random.Generator, ranks: int, dimensions: int) -> NDArray[np.float64]:
    """Boxes on a coarse grid, so that they touch, coincide and shrink to faces, lines and points."""
    low = generator.integers(0, 6, (ranks, dimensions)).astype(float)
    size = generator.integers(0, 4, (ranks, dimensions)) * generator.integers(0, 2, (ranks, dimensions))
    boxes = np.stack([low, low + size], axis=2) * generator.choice([1.0, 0.1, 1e-9, 1e6])
    boxes[generator.random(ranks) < generator.choice([0.0, 0.2, 1.0], p=[0.5, 0.4, 0.1])] = np.nan
    return boxes


def test_pairs_equal_brute_force_on_degenerate_boxes() -> None:
    generator = np.random.default_rng(8)
    seen = 0
    for _ in range(CASES):
        dimensions = int(generator.integers(2, 4))
        sizes = generator.integers(1, 24 if FULL_COUNTS else 14, 2)
        provider, receiver = (_random_boxes(generator, int(n), dimensions) for n in sizes)
        factor = float(generator.choice([0.0, 0.1, 0.5, 1.0, 3.0]))
        found = connected_ranks(provider, receiver, safety_factor=factor)
        expected = _brute_force(provider, receiver, factor)
        assert found.dtype == np.int64
        assert np.array_equal(found, expected)
        seen += len(expected)
    assert seen > 5 * CASES


def test_an_empty_rank_meets_only_empty_ranks() -> None:
    nothing = [[np.nan, np.nan]] * 2
    unit = [[0.0, 1.0]] * 2
    assert connected_ranks([nothing, unit], [unit, nothing, nothing]).tolist() == [[0, 1], [0, 2], [1, 0]]


def test_the_longest_edge_moves_every_side() -> None:
    provider = [[[2.0, 3.0], [5.0, 6.0]]]
    receiver = [[[0.0, 10.0], [0.0, 0.0]]]
    assert len(connected_ranks(provider, receiver, safety_factor=0.5)) == 1
    assert len(connected_ranks(provider, receiver, safety_factor=0.49)) == 0


def test_no_rank_has_no_pair() -> None:
    assert connected_ranks(np.empty((0, 3, 2)), np.empty((4, 3, 2)) * 0).shape == (0, 2)


@pytest.mark.parametrize(
    ("provider", "receiver", "factor", "message"),
    [
        ([[[0, 1], [0, 1]]], [[[0, 1], [0, 1], [0, 1]]], 0.5, "same dimensions"),
        ([[[0, 1], [0, 1]]], [[[0, 1], [0, np.nan]]], 0.5, "NaN alone for an empty rank"),
        ([[[0, 1], [0, np.inf]]], [[[0, 1], [0, 1]]], 0.5, "finite bounds"),
        ([[[1, 0], [0, 1]]], [[[0, 1], [0, 1]]], 0.5, "lower <= upper"),
        ([[0, 1]], [[[0, 1], [0, 1]]], 0.5, "shape"),
        ([[["a", 1], [0, 1]]], [[[0, 1], [0, 1]]], 0.5, "numbers"),
        ([[[0, 1], [0, 1]]], [[[0, 1], [0, 1]]], -0.1, "at least 0"),
        ([[[0, 1], [0, 1]]], [[[0, 1], [0, 1]]], np.nan, "at least 0"),
    ],
)
def test_bad_boxes_are_one_error(provider: object, receiver: object, factor: float, message: str) -> None:
    with pytest.raises(DataError, match=message):
        connected_ranks(provider, receiver, safety_factor=factor)  # type: ignore[arg-type]
