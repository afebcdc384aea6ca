"""Oil in a tube that moves: viscous axisymmetric flow of long waves.

Where waves are long against the radius R, the pressure p is the same all over a cross-section, and the axial velocity u
follows from its gradient and friction (Womersley, 1955):

    u_t = -p_x / rho + nu (1/r) (r u_r)_r    u = 0 at the wall    2 pi R d_t + A p_t / K + Q_x = 0

with the wall's displacement d, the bulk modulus K and the flow Q of u through the cross-section A. Displacements are
small against R and velocities against the speed of the waves; terms of second order in them are left out. Along the
tube these are finite volumes, with pressure and displacement in the cells and flow and velocity profile at their right
faces; time stepping is the implicit BDF2. A profile is a sum of the modes of radial friction, each of which decays on
its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tube import Stretch, Tube


class Friction:
    """Radial friction on rings that get finer towards the wall, for a section of radius 1 and a viscosity of 1.

    ``rates`` (modes,) are how fast the modes decay, ``mean`` (modes,) what each counts for in the mean velocity, and
    ``profiles`` (rings, modes) the modes themselves. A velocity of 1 everywhere has the amplitudes ``mean``.
    """

    def __init__(self, rings: int) -> None:
        edges = np.sin(0.5 * np.pi * np.arange(rings + 1) / rings)
        self.middle = np.sqrt(0.5 * (edges[:-1] ** 2 + edges[1:] ** 2))
        shares = np.diff(edges**2)
        gaps = np.append(np.diff(self.middle), 1.0 - self.middle[-1])
        between = 2.0 * edges[1:] / gaps  # stress at a ring's outer edge for a unit jump, over half a ring's share
        matrix = np.diag(between) + np.diag(np.append(0.0, between[:-1]))
        matrix -= np.diag(between[:-1], 1) + np.diag(between[:-1], -1)
        root = np.sqrt(shares)
        self.rates, vectors = np.linalg.eigh(matrix / np.outer(root, root))
        self.mean = root @ vectors
        self.profiles = vectors / root[:, None]


class Flow:
    """One rank's part of the flow: from the wall's displacement at the end of a step, the pressure there."""

    def __init__(self, tube: Tube, stretch: Stretch, rings: int) -> None:
        self.tube, self.stretch, self.friction = tube, stretch, Friction(rings)
        cells = stretch.end - stretch.begin
        rest, still = np.zeros(cells), np.zeros((cells, rings))
        self.pressures = (rest, rest)  # Pa, at this step's begin and at the one before
        self.displacements = (rest, rest)  # m, likewise
        self.modes = (still, still)  # m/s, amplitudes at the right faces
        self.flow = rest  # m^3/s, at the right faces

    @property
    def pressure(self) -> NDArray[np.float64]:
        """Pressure (cells,) in Pa."""
        return self.pressures[0]

    def advance(self, displacement: NDArray[np.float64], inflow: float, dt: float) -> None:
        """Step over ``dt`` seconds to the given displacement (cells,) and inflow (m^3/s) at the step's end."""
        tube, stretch, dx, area = self.tube, self.stretch, self.stretch.size, self.tube.area
        # Flow at a face: what its modes do by themselves, and what a pressure difference adds.
        decay = 1.5 / dt + tube.viscosity / tube.radius**2 * self.friction.rates
        free = (4.0 * self.modes[0] - self.modes[1]) / (2.0 * dt) / decay
        pushed = self.friction.mean / decay
        by_itself = area * (free @ self.friction.mean)
        gain = np.full(len(displacement), area * (pushed @ self.friction.mean) / (tube.density * dx))
        if stretch.last:  # half a cell, and behind it waves leave as if the tube went on
            by_itself[-1] /= 1.0 + 2.0 * gain[-1] * tube.impedance
            gain[-1] *= 2.0 / (1.0 + 2.0 * gain[-1] * tube.impedance)
        before = stretch.before([by_itself[-1], gain[-1]], at_inlet=[inflow, 0.0])
        entering, lower = np.append(before[0], by_itself[:-1]), np.append(before[1], gain[:-1])
        # What a cell takes up is what flows in less what flows out.
        swelling = 2.0 * np.pi * tube.radius * _slope(displacement, self.displacements, dt)
        stored = area / tube.bulk_modulus
        upper = np.append(gain[:-1], 0.0 if stretch.last else gain[-1])
        right = entering - by_itself - dx * (swelling + stored * _slope(0.0, self.pressures, dt))
        pressure = stretch.solve(-lower, -upper, 1.5 * dx * stored / dt + lower + gain, right)
        beyond = stretch.behind([pressure[0]], at_outlet=[0.0])
        drop = pressure - np.append(pressure[1:], beyond)
        self.flow = by_itself + gain * drop
        force = (self.flow - area * (free @ self.friction.mean)) / (area * (pushed @ self.friction.mean))
        self.pressures = (pressure, self.pressures[0])
        self.displacements = (displacement, self.displacements[0])
        self.modes = (free + force[:, None] * pushed, self.modes[0])

    def velocity(self) -> NDArray[np.float64]:
        """Return the velocity (cells, rings) in m/s at the right faces."""
        return self.modes[0] @ self.friction.profiles.T

    def checkpoint(self) -> tuple[object, ...]:
        """Return what a step changes; arrays are replaced by steps, never written to."""
        return self.pressures, self.displacements, self.modes

    def restore(self, saved: tuple[object, ...]) -> None:
        """Go back to a checkpoint."""
        self.pressures, self.displacements, self.modes = saved


def _slope(
    new: NDArray[np.float64] | float, old: tuple[NDArray[np.float64], NDArray[np.float64]], dt: float
) -> NDArray[np.float64]:
    """Return the time derivative of BDF2 at the end of a step, from there, from its begin and from the one before."""
    return (3.0 * new - 4.0 * old[0] + old[1]) / (2.0 * dt)
