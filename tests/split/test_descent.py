"""The descent from a split to a better one near by."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from precice_lb.split.problem import problems_of
from precice_lb.split.solve import descend

RANKS = np.arange(1, 65)
TIMES = {"A": 100.0 / RANKS, "B": 400.0 / RANKS, "C": 900.0 / RANKS}


@pytest.mark.parametrize("start", [(61, 0, 0), (0, 61, 0), (30, 30, 1), (0, 0, 0)])
def test_a_descent_moves_ranks_between_participants_until_no_move_is_better(start: tuple[int, int, int]) -> None:
    (problem,) = problems_of(TIMES, 64, "serial")
    curves = problem.curves()

    def seconds(indices: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray(sum(curve.seconds[column] for curve, column in zip(curves, indices.T, strict=True)))

    indices, least = descend(curves, problem.machine, seconds, np.array(start))

    # Of 64 ranks: the sum of w/p is least where p is in proportion to the root of w, 10, 20 and 30 to 60.
    splits = np.array([(a, b, 64 - a - b) for a in RANKS for b in RANKS if a + b < 64])
    sums = 100.0 / splits[:, 0] + 400.0 / splits[:, 1] + 900.0 / splits[:, 2]
    assert least == pytest.approx(sums.min(), rel=1e-9)
    assert tuple(indices + 1) == tuple(splits[sums.argmin()])
