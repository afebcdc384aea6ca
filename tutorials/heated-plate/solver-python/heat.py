"""Heat in a channel flow and in a plate, by finite volumes on square cells, divided among MPI ranks by columns.

The channel's flow is developed: a parabola over its height, which solves the incompressible Navier-Stokes equations, so
that only the temperature changes. Advection is interpolated upwind at third order, conduction is of second order, and
time steps are those of the third-order Runge-Kutta method of Shu and Osher. What is conducted through a face leaves one
cell and enters the other, so heat is conserved to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from mpi4py import MPI
    from numpy.typing import NDArray

STAGES = ((1.0, 0.0), (0.25, 0.75), (2.0 / 3.0, 1.0 / 3.0))  # share of the stage's result, share of the step's start
WEIGHTS = (1.0 / 6.0, 1.0 / 6.0, 2.0 / 3.0)  # of the stages' rates in the whole step


@dataclass(frozen=True)
class Material:
    """Conductivity in W/(m K) and volumetric heat capacity in J/(m^3 K)."""

    conductivity: float
    capacity: float

    @property
    def diffusivity(self) -> float:
        """Thermal diffusivity in m^2/s."""
        return self.conductivity / self.capacity


class Body:
    """One rank's columns of a rectangle of cells, with their temperature.

    Parameters
    ----------
    lower, cells, size
        Lower left corner (2,) in m, columns and rows of the whole rectangle, edge of a cell in m.
    material
        What fills it.
    temperature
        At the start, in K.
    comm
        The participant's ranks; None for one.
    patient
        Sleep while waiting for other ranks: for more ranks than cores.

    Attributes
    ----------
    temperature
        (rows, columns) in K; of this rank's columns, without halo.
    """

    halo = 1

    def __init__(
        self,
        lower: tuple[float, float],
        cells: tuple[int, int],
        size: float,
        material: Material,
        temperature: float,
        comm: MPI.Comm | None = None,
        *,
        patient: bool = False,
    ) -> None:
        rank, ranks = (0, 1) if comm is None else (comm.Get_rank(), comm.Get_size())
        if ranks * self.halo > cells[0]:
            raise ValueError(f"{ranks} ranks for {cells[0]} columns: start at most {cells[0] // self.halo} ranks")
        bounds = np.arange(ranks + 1) * cells[0] // ranks
        self.size, self.material, self.comm, self.patient = size, material, comm, patient
        self._left, self._right = (other if 0 <= other < ranks else None for other in (rank - 1, rank + 1))
        self.x = lower[0] + size * (np.arange(bounds[rank], bounds[rank + 1]) + 0.5)
        self.y = lower[1] + size * (np.arange(cells[1]) + 0.5)
        self._padded = np.full((cells[1], len(self.x) + 2 * self.halo), temperature)
        self._columns = slice(self.halo, self.halo + len(self.x))
        first, last, halo = self._columns.start, self._columns.stop, self.halo
        self._messages = [  # other rank, own columns to send, halo columns to fill
            (other, send, receive, np.empty((cells[1], halo)), np.empty((cells[1], halo)))
            for other, send, receive in (
                (self._left, slice(first, first + halo), slice(0, halo)),
                (self._right, slice(last - halo, last), slice(last, last + halo)),
            )
            if other is not None
        ]

    @property
    def temperature(self) -> NDArray[np.float64]:
        """Temperature (rows, columns) of this rank's columns, a view."""
        return self._padded[:, self._columns]

    @property
    def stable_step(self) -> float:
        """Time step in s that is stable."""
        return 1.0 / (4.0 * self.material.diffusivity / self.size**2)

    @property
    def conductance(self) -> float:
        """Conductance in W/(m^2 K) between the centre of a cell and its edge."""
        return 2.0 * self.material.conductivity / self.size

    def exchange(self) -> NDArray[np.float64]:
        """Fill the halo, from other ranks and by the boundary conditions; return temperatures with halo."""
        if self._messages:
            from mpi4py import MPI

            requests = [self.comm.Irecv(receive, other) for other, _, _, _, receive in self._messages]
            for other, columns, _, send, _ in self._messages:
                send[...] = self._padded[:, columns]
                requests.append(self.comm.Isend(send, other))
            if self.patient:
                from emulation import wait_asleep

                wait_asleep(requests)
            MPI.Request.Waitall(requests)
            for _, _, columns, _, receive in self._messages:
                self._padded[:, columns] = receive
        if self._left is None:
            self._padded[:, : self.halo] = self.left_of_all()
        if self._right is None:
            self._padded[:, self._columns.stop :] = self.temperature[:, -1:]  # nothing is conducted
        return self._padded

    def left_of_all(self) -> NDArray[np.float64] | float:
        """Return the temperature beyond the left end; here the last column's, so that nothing is conducted."""
        return self.temperature[:, :1]

    def flux_in_x(self, padded: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the heat flux (rows, columns + 1) in W/m^2 through faces in x, towards the right."""
        here = self._columns
        return -self.material.conductivity / self.size * np.diff(padded[:, here.start - 1 : here.stop + 1], axis=1)

    def rate(self, below: NDArray[np.float64], above: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the rate (rows, columns) in K/s, with the flux (columns,) in W/m^2 upwards through bottom and top."""
        padded = self.exchange()
        inner = -self.material.conductivity / self.size * np.diff(self.temperature, axis=0)
        flux_in_y = np.vstack([below, inner, above])
        flows = np.diff(self.flux_in_x(padded), axis=1) + np.diff(flux_in_y, axis=0)
        return -flows / (self.size * self.material.capacity)


class Fluid(Body):
    """A channel that a developed flow passes from left to right; nothing is conducted through its walls but the plate.

    ``velocity`` is the mean over the height in m/s, ``inlet`` the temperature of what comes in.
    """

    halo = 2

    def __init__(self, *arguments: object, velocity: float, inlet: float, plate: tuple[float, float], **others: object):
        super().__init__(*arguments, **others)
        self.inlet = inlet
        # The mean over each cell's height, so that the rows carry exactly what flows.
        edges = np.linspace(0.0, 1.0, len(self.y) + 1)
        self.velocity = velocity * np.diff(edges**2 * (3.0 - 2.0 * edges))[:, None] * len(self.y)
        self.plate = np.flatnonzero((self.x > plate[0]) & (self.x < plate[1]))

    @property
    def stable_step(self) -> float:
        """Time step in s that is stable."""
        return 1.0 / (1.0 / super().stable_step + float(self.velocity.max()) / self.size)

    def left_of_all(self) -> float:
        """Return the temperature of what comes in."""
        return self.inlet

    def flux_in_x(self, padded: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the heat flux (rows, columns + 1) in W/m^2 through faces in x, conducted and carried along."""
        first, last = self._columns.start, self._columns.stop
        far, near, next_ = (padded[:, first - 2 + shift : last - 1 + shift] for shift in range(3))
        carried = (2.0 * next_ + 5.0 * near - far) / 6.0
        return super().flux_in_x(padded) + self.material.capacity * self.velocity * carried

    def advance(self, seconds: float, wall: NDArray[np.float64]) -> NDArray[np.float64]:
        """Step over a time with the plate at ``wall`` (plate columns,) in K; return the mean flux from it in W/m^2."""
        mean = np.zeros(len(self.plate))
        none = np.zeros(len(self.x))

        def rate(weight: float) -> NDArray[np.float64]:
            below = none.copy()
            below[self.plate] = self.conductance * (wall - self.temperature[0, self.plate])
            mean[...] += weight * below[self.plate]
            return self.rate(below, none)

        march(self, seconds, rate)
        return mean


class Solid(Body):
    """The plate: hot at its bottom, insulated at its ends."""

    def __init__(self, *arguments: object, bottom: float, **others: object):
        super().__init__(*arguments, **others)
        self.bottom = bottom

    def surface(self, flux: NDArray[np.float64] | float) -> NDArray[np.float64]:
        """Return the temperature (columns,) in K of the upper surface where a flux in W/m^2 leaves through it."""
        return self.temperature[-1] - flux / self.conductance

    def advance(self, seconds: float, flux: NDArray[np.float64]) -> float:
        """Step over a time with ``flux`` (columns,) in W/m^2 leaving; return the mean heat rate into it in W/m."""
        mean = [0.0]

        def rate(weight: float) -> NDArray[np.float64]:
            below = self.conductance * (self.bottom - self.temperature[0])
            mean[0] += weight * float(below.sum()) * self.size
            return self.rate(below, flux)

        march(self, seconds, rate)
        return mean[0]


def march(body: Body, seconds: float, rate: Callable[[float], NDArray[np.float64]]) -> None:
    """Step a body over a time in equal stable steps; ``rate`` is told the weight of each stage in the mean over all."""
    steps = max(1, int(np.ceil(seconds / body.stable_step - 1e-9)))
    dt = seconds / steps
    for _ in range(steps):
        before = body.temperature.copy()
        for (new, old), weight in zip(STAGES, WEIGHTS, strict=True):
            body.temperature[...] = old * before + new * (body.temperature + dt * rate(weight / steps))
