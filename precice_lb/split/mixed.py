"""Splits by mixed-integer linear programming, where there are too many boxes of them to bound."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from precice_lb.split.layout import Layout
from precice_lb.split.linear import Curves, LinearProgram
from precice_lb.split.rows import Rows

__all__ = ["mixed_integer_split", "output_to_stderr"]

Integers = NDArray[np.int64]

# HiGHS closes gaps to 1e-6 in absolute terms: windows of this size make that a billionth.
_SIZE = 1e3
_EXACT = 1e-9


@contextmanager
def output_to_stderr() -> Iterator[None]:
    """Keep what C code prints out of standard output, where results stand: HiGHS has notes that no option turns off."""
    try:
        saved = os.dup(1)
    except OSError:  # There is no standard output to keep clean.
        yield
        return
    flush = ctypes.CDLL(None).fflush
    sys.stdout.flush()
    flush(None)
    os.dup2(2, 1)
    try:
        yield
    finally:
        flush(None)
        os.dup2(saved, 1)
        os.close(saved)


def mixed_integer_split(
    curves: Curves, layout: Layout, capacity: Integers, rows: Rows, scale: float, seconds: float
) -> tuple[tuple[tuple[int, int], ...] | None, float]:
    """Minimise the window time with HiGHS, one binary variable for each count on each curve.

    Rows of the window time are added until it agrees with the solution.

    Parameters
    ----------
    curves, layout, capacity, rows, scale
        As for `relax`.
    seconds
        Time limit.

    Returns
    -------
    choice : tuple or None
        Version and index of each participant; None where no split was found in time.
    bound : float
        No split has a shorter window, in seconds.
    """
    linear = LinearProgram(curves, layout, capacity, scale / _SIZE)
    columns = [
        (i, v, j)
        for i, own in enumerate(curves.values())
        for v, curve in enumerate(own)
        for j in range(len(curve.ranks))
    ]
    ends = time.monotonic() + seconds
    bound, choice = 0.0, None
    while (left := ends - time.monotonic()) > 0:
        table = linear.tableau(columns, rows.matrix)
        binary = np.zeros(len(table.cost))
        binary[: len(columns)] = 1
        most = np.where(binary == 1, 1.0, np.inf)
        limits = [LinearConstraint(table.upper, -np.inf, table.right), LinearConstraint(table.each, 1, 1)]
        options = {"time_limit": left, "mip_rel_gap": 0.0}
        with output_to_stderr():
            done = milp(table.cost, integrality=binary, bounds=Bounds(0, most), constraints=limits, options=options)
        if done.mip_dual_bound is not None and np.isfinite(done.mip_dual_bound):
            bound = max(bound, float(done.mip_dual_bound) * linear.scale)
        if done.x is None:
            break
        chosen = {columns[k][0]: columns[k][1:] for k in np.flatnonzero(done.x[: len(columns)] > 0.5)}
        choice = tuple(chosen[i] for i in range(len(linear.curves)))
        costs = np.array([linear.curves[i][v].seconds[j] for i, (v, j) in enumerate(choice)])
        if done.status != 0 or not rows.learn(costs):
            break
    return choice, bound
