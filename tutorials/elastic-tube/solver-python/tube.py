"""The tube: its data in SI units, and how its cells are divided among ranks that solve one system together.

The numbers are those of a nylon hose of 20 mm, 2 mm thick, full of hydraulic oil.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import solve_banded

if TYPE_CHECKING:
    from mpi4py import MPI
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Tube:
    """Geometry, material and inflow."""

    length: float = 0.6  # m
    radius: float = 0.01  # m
    density: float = 870.0  # kg/m^3, of the fluid
    viscosity: float = 5e-5  # m^2/s, kinematic
    bulk_modulus: float = 1.6e9  # Pa
    modulus: float = 1.5e9  # Pa, Young's, of the wall
    poisson: float = 0.4
    thickness: float = 2e-3  # m
    wall_density: float = 1140.0  # kg/m^3
    stroke: float = 2e-8  # m^3, what a piston pushes in
    pulse: float = 5e-4  # s, how long it pushes

    @property
    def area(self) -> float:
        """Cross-section (m^2)."""
        return np.pi * self.radius**2

    @property
    def stiffness(self) -> float:
        """Pressure (Pa) that widens a ring of the wall by one metre of radius."""
        return self.modulus * self.thickness / self.radius**2

    @property
    def shear(self) -> float:
        """Resistance (N/m) of the wall to neighbouring rings of different radius: 5/6 of shear modulus by thickness."""
        return 5.0 / 6.0 * self.modulus / (2.0 * (1.0 + self.poisson)) * self.thickness

    @property
    def inertia(self) -> float:
        """Mass (kg/m^2) of the wall per area."""
        return self.wall_density * self.thickness

    @property
    def wave_speed(self) -> float:
        """Speed (m/s) of long waves without friction: Moens and Korteweg's, with Korteweg's compressible fluid."""
        return (self.density * (1.0 / self.bulk_modulus + 2.0 * self.radius / (self.modulus * self.thickness))) ** -0.5

    @property
    def impedance(self) -> float:
        """Pressure over flow (Pa s/m^3) in such a wave that travels towards the outlet."""
        return self.density * self.wave_speed / self.area

    def inflow(self, seconds: ArrayLike) -> NDArray[np.float64]:
        """Return the flow (m^3/s) into the tube: one smooth pulse at the start, nothing afterwards."""
        s = np.asarray(seconds, dtype=np.float64) / self.pulse
        shape = np.where((s > 0.0) & (s < 1.0), np.sin(np.pi * s) ** 4, 0.0)
        return 8.0 / 3.0 * self.stroke / self.pulse * shape


class Stretch:
    """The consecutive cells that a rank owns, and what it hears from the ranks beside it.

    MPI libraries poll while they wait. A ``patient`` stretch sleeps between its own polls, so that more ranks than
    cores leave the cores to whoever has work.
    """

    def __init__(self, length: float, cells: int, comm: MPI.Comm | None = None, *, patient: bool = False) -> None:
        self.rank, self.ranks = (0, 1) if comm is None else (comm.Get_rank(), comm.Get_size())
        if self.ranks > cells:
            raise ValueError(f"{self.ranks} ranks for {cells} cells: start at most {cells} ranks")
        self.comm, self.cells, self.patient = comm, cells, patient
        bounds = np.arange(self.ranks + 1) * cells // self.ranks
        self.size = length / cells
        self.begin, self.end = int(bounds[self.rank]), int(bounds[self.rank + 1])
        self.x = (np.arange(self.begin, self.end) + 0.5) * self.size

    @property
    def first(self) -> bool:
        """Whether the tube's inlet is here."""
        return self.rank == 0

    @property
    def last(self) -> bool:
        """Whether the tube's outlet is here."""
        return self.rank == self.ranks - 1

    def all(self, values: ArrayLike) -> NDArray[np.float64]:
        """Return every rank's values (ranks, ...), in the order of the ranks."""
        mine = np.ascontiguousarray(values, dtype=np.float64)
        if self.comm is None:
            return mine[None]
        everyone = np.empty((self.ranks, *mine.shape))
        request = self.comm.Iallgather(mine, everyone)
        if self.patient:
            from emulation import wait_asleep

            wait_asleep([request])
        request.Wait()
        return everyone

    def before(self, mine: ArrayLike, at_inlet: ArrayLike) -> NDArray[np.float64]:
        """Return the values of the rank before this one, or those at the inlet."""
        everyone = self.all(mine)
        return np.asarray(at_inlet) if self.first else everyone[self.rank - 1]

    def behind(self, mine: ArrayLike, at_outlet: ArrayLike) -> NDArray[np.float64]:
        """Return the values of the rank behind this one, or those at the outlet."""
        everyone = self.all(mine)
        return np.asarray(at_outlet) if self.last else everyone[self.rank + 1]

    def solve(
        self,
        lower: NDArray[np.float64],
        upper: NDArray[np.float64],
        diagonal: NDArray[np.float64],
        right: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Solve a tridiagonal system over the whole tube; every rank gives its rows (cells,) and gets its values.

        ``lower`` multiplies the value before a row's own, ``upper`` the one behind it. After Wang (1981): a rank solves
        its block for its own right-hand side and for a unit value beyond either end; what is beyond the ends then
        follows from a small system of the first and last value of every rank, which every rank solves.
        """
        banded = np.zeros((3, len(right)))
        banded[0, 1:], banded[1], banded[2, :-1] = upper[:-1], diagonal, lower[1:]
        columns = np.zeros((len(right), 3))
        columns[:, 0], columns[0, 1], columns[-1, 2] = right, -lower[0], -upper[-1]
        own, before, behind = solve_banded((1, 1), banded, columns).T
        ends = self.all([[own[0], before[0], behind[0]], [own[-1], before[-1], behind[-1]]])
        system = np.eye(2 * self.ranks)
        for rank in range(1, self.ranks):  # last value of the rank before, first value of the rank behind
            system[2 * rank : 2 * rank + 2, 2 * rank - 1] = -ends[rank, :, 1]
            system[2 * rank - 2 : 2 * rank, 2 * rank] = -ends[rank - 1, :, 2]
        values = np.concatenate([[0.0], np.linalg.solve(system, ends[:, :, 0].ravel()), [0.0]])
        return own + values[2 * self.rank] * before + values[2 * self.rank + 3] * behind

    def gather(self, values: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Return the values (cells, ...) of the whole tube on rank 0, None on the others."""
        if self.comm is None:
            return values
        parts: list[Any] | None = self.comm.gather(values)
        return None if parts is None else np.concatenate(parts)
