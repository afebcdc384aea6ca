"""What slows the flow in cells of the airfoil, pore by pore: straight pores of many diameters side by side.

Friction in a pore is laminar and turbulent, for a speed s of the fluid along a pore of diameter d

    ds/dt = -(s / d^2 + TURBULENT s^1.75 / d^1.25) / RESPONSE,

by the laws of Hagen and Poiseuille and of Blasius, with d in mean diameters. Each cell has pores of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

TURBULENT = 3.0  # friction over laminar friction, at the speed of sound in a pore of the mean diameter
SPREAD = 0.3  # standard deviation of the diameters' logarithms
ITERATIONS = 6  # of Newton's method, which then has converged to rounding


class Pores:
    """The pores (cells, number) of cells with given columns and rows (cells, 2)."""

    def __init__(self, index: NDArray[np.int64], number: int) -> None:
        # Drawn by cell, so that a cell has the same pores on whichever rank it lies.
        normal = np.array([np.random.default_rng(cell).standard_normal(number) for cell in index.tolist()])
        diameters = np.exp(SPREAD * normal.reshape(-1, number))
        section = diameters**2
        self._share = section / section.sum(axis=1, keepdims=True)
        self._laminar, self._turbulent = 1.0 / section, TURBULENT / diameters**1.25

    def left(self, speed: NDArray[np.float64], times: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the share (cells,) of the speed (cells,) that is left after so many response times (cells,).

        By an implicit Euler step in each pore; the pores of a cell mix after it.
        """
        left = [self._left(cell, start, time) for cell, (start, time) in enumerate(zip(speed, times, strict=True))]
        return np.array(left)

    def _left(self, cell: int, speed: float, time: float) -> float:
        # Cell by cell all stays in a processor's cache, and a cell costs the same beside many and few.
        laminar, turbulent = time * self._laminar[cell], time * speed**0.75 * self._turbulent[cell]
        left = np.ones_like(laminar)
        for _ in range(ITERATIONS):
            power = turbulent * left**0.75
            left -= (left * (1.0 + laminar + power) - 1.0) / (1.0 + laminar + 1.75 * power)
        return float(self._share[cell] @ left)
