"""The globe in cells of 7.5 degrees, what covers each, and the part of them that a rank owns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from mpi4py import MPI
    from numpy.typing import ArrayLike, NDArray

ROWS, COLUMNS = 24, 48
RADIUS = 6.371e6  # m
EDGES = np.linspace(-0.5 * np.pi, 0.5 * np.pi, ROWS + 1)  # latitudes between the rows, in radians
STEP = 2.0 * np.pi / COLUMNS  # from one column to the next, in radians
LATITUDE = np.repeat(0.5 * (EDGES[:-1] + EDGES[1:]), COLUMNS)
LONGITUDE = np.tile((np.arange(COLUMNS) + 0.5) * STEP, ROWS)
AREA = np.repeat(np.diff(np.sin(EDGES)) * STEP * RADIUS**2, COLUMNS)  # m^2
POINTS = np.degrees(np.stack([LONGITUDE, LATITUDE], axis=1))


def _within(west: float, east: float, south: float, north: float) -> NDArray[np.bool_]:
    longitude, latitude = POINTS.T
    return (longitude > west) & (longitude < east) & (latitude > south) & (latitude < north)


#: Two continents and one at the south pole; sea ice where the sea is poleward of 67.5 degrees.
LAND = (
    _within(15, 75, -37.5, 60) | _within(15, 150, 15, 75) | _within(240, 300, -52.5, 67.5) | _within(0, 360, -90, -75)
)
ICE = ~LAND & (np.abs(POINTS[:, 1]) > 67.5)
COVER = {"Atmosphere": np.ones_like(LAND), "Land": LAND, "Ice": ICE, "Ocean": ~LAND, "Coupler": np.ones_like(LAND)}


def neighbours() -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the cells beside each cell (cells, 4), -1 beyond a pole, and edge length over distance (cells, 4)."""
    number = np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS)
    rim = np.full((1, COLUMNS), -1)
    beside = [np.roll(number, 1, axis=1), np.roll(number, -1, axis=1)]
    beside += [np.vstack([rim, number[:-1]]), np.vstack([number[1:], rim])]
    height = EDGES[1] - EDGES[0]
    along = np.repeat(height / (np.cos(0.5 * (EDGES[:-1] + EDGES[1:])) * STEP), COLUMNS)
    south, north = (np.repeat(np.cos(edge) * STEP / height, COLUMNS) for edge in (EDGES[:-1], EDGES[1:]))
    return np.stack([side.ravel() for side in beside], axis=1), np.stack([along, along, south, north], axis=1)


class Part:
    """The cells of one constituent, of which this rank owns a stretch.

    MPI libraries poll while they wait. A ``patient`` part sleeps between its own polls, so that more ranks than cores
    leave the cores to whoever has work.
    """

    def __init__(self, name: str, comm: MPI.Comm | None = None, *, patient: bool = False) -> None:
        self.comm, self.patient = comm, patient
        self.rank, self.ranks = (0, 1) if comm is None else (comm.Get_rank(), comm.Get_size())
        self.cells = np.flatnonzero(COVER[name])
        if self.ranks > len(self.cells):
            raise ValueError(f"{self.ranks} ranks for {len(self.cells)} cells: start at most {len(self.cells)} ranks")
        self.bounds = np.arange(self.ranks + 1) * len(self.cells) // self.ranks
        self.own = self.cells[self.bounds[self.rank] : self.bounds[self.rank + 1]]

    @property
    def points(self) -> NDArray[np.float64]:
        """Longitude and latitude (own cells, 2) in degrees."""
        return POINTS[self.own]

    def whole(self, values: ArrayLike) -> NDArray[np.float64]:
        """Return the values (cells of the constituent,) of all ranks, on every rank."""
        mine = np.ascontiguousarray(values, dtype=np.float64)
        if self.comm is None:
            return mine
        everyone = np.empty(len(self.cells))
        request = self.comm.Iallgatherv(mine, [everyone, np.diff(self.bounds)])
        if self.patient:
            from emulation import wait_asleep

            wait_asleep([request], longest=2e-4)
        request.Wait()
        return everyone

    def whole_rows(self, values: ArrayLike) -> NDArray[np.float64]:
        """Return rows of values (..., cells of the constituent) of all ranks, on every rank; a number stays one."""
        mine = np.asarray(values)
        return np.apply_along_axis(self.whole, -1, mine) if mine.ndim else mine

    def integral(self, values: ArrayLike) -> float:
        """Return the sum of values (own cells,) times area over all ranks, the same for any number of them."""
        return float(AREA[self.cells] @ self.whole(values))


class Diffusion:
    """Horizontal diffusion inside the cells of one constituent; nothing passes its borders."""

    def __init__(self, part: Part, diffusivity: float) -> None:
        self.part = part
        beside, conductance = neighbours()
        place = np.full(ROWS * COLUMNS + 1, -1)
        place[part.cells] = np.arange(len(part.cells))
        self.beside = place[beside[part.own]]
        self.rate = np.where(self.beside >= 0, diffusivity * conductance[part.own] / AREA[part.own, None], 0.0)
        # The same number of steps on every rank, for stability of the explicit Euler method with a margin.
        largest = part.whole(self.rate.sum(axis=1)).max()
        self.stable_step = 0.5 / largest

    def advance(self, values: NDArray[np.float64], dt: float) -> NDArray[np.float64]:
        """Return the values (own cells,) after ``dt`` seconds."""
        steps = max(1, int(np.ceil(dt / self.stable_step)))
        for _ in range(steps):
            everyone = self.part.whole(values)
            values = values + dt / steps * (self.rate * (everyone[self.beside] - values[:, None])).sum(axis=1)
        return values
