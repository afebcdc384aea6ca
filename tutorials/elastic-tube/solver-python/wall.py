"""The tube's wall: elastic rings with inertia, joined by shear, known as the generalised string model.

The radial displacement d under the pressure p inside follows

    m d_tt + k d - G d_xx = p

with the mass m and the stiffness k of a ring and the shear G between rings. Its ends are free. Finite volumes along the
tube and the implicit BDF2 in time leave one tridiagonal system per step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tube import Stretch, Tube


class Wall:
    """One rank's part of the wall: from the pressure at the end of a step, its displacement there."""

    def __init__(self, tube: Tube, stretch: Stretch) -> None:
        self.tube, self.stretch = tube, stretch
        rest = np.zeros(stretch.end - stretch.begin)
        self.displacements = (rest, rest)  # m, of this step's begin and of the one before
        self.speeds = (rest, rest)  # m/s

    @property
    def displacement(self) -> NDArray[np.float64]:
        """Radial displacement (cells,) in metres."""
        return self.displacements[0]

    def advance(self, pressure: NDArray[np.float64], dt: float) -> None:
        """Step over ``dt`` seconds under the pressure (cells,) at the step's end, in Pa."""
        tube = self.tube
        old, speeds = self.displacements, self.speeds
        moved = (4.0 * old[0] - old[1]) / (2.0 * dt)  # speed = 1.5 d / dt - moved
        right = pressure + tube.inertia / (2.0 * dt) * (3.0 * moved + 4.0 * speeds[0] - speeds[1])
        tie = tube.shear / self.stretch.size**2
        lower, upper = np.full((2, len(right)), -tie)
        if self.stretch.first:
            lower[0] = 0.0
        if self.stretch.last:
            upper[-1] = 0.0
        diagonal = 2.25 * tube.inertia / dt**2 + tube.stiffness - lower - upper
        displacement = self.stretch.solve(lower, upper, diagonal, right)
        self.displacements = (displacement, old[0])
        self.speeds = (1.5 * displacement / dt - moved, speeds[0])

    def checkpoint(self) -> tuple[object, ...]:
        """Return what a step changes; arrays are replaced by steps, never written to."""
        return self.displacements, self.speeds

    def restore(self, saved: tuple[object, ...]) -> None:
        """Go back to a checkpoint."""
        self.displacements, self.speeds = saved
