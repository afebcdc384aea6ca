"""Implicit conduction of heat on square cells by conjugate gradients, divided among MPI ranks by columns.

The arrays are those of numpy, PyTorch or CuPy, by one function that makes them: everything else is written in what the
three have in common (slices, sums, products).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from mpi4py import MPI
    from numpy.typing import NDArray

LIBRARIES = ("numpy", "torch", "cupy")
TOLERANCE = 1e-10  # of the residual, over the right-hand side


def array_maker(library: str, rank: int = 0) -> Callable[[NDArray[np.float64]], Any]:
    """Return what copies a numpy array to where a library computes: a GPU per rank if there is one, by turns."""
    if library == "numpy":
        return np.array
    if library == "torch":
        import torch

        count = torch.cuda.device_count()
        device = f"cuda:{rank % count}" if count else "cpu"
        return lambda values: torch.tensor(values, device=device)
    import cupy

    cupy.cuda.Device(rank % cupy.cuda.runtime.getDeviceCount()).use()
    return cupy.array


def on_host(values: Any) -> NDArray[np.float64]:
    """Return an array as one of numpy."""
    for name in ("cpu", "get"):
        if hasattr(values, name):
            values = getattr(values, name)()
    return np.asarray(values)


class Conduction:
    """One rank's columns of a rectangle of cells, and the linear system of a step of backward Euler in it.

    Parameters
    ----------
    lower, cells, size
        Lower left corner (2,) in m, columns and rows of the whole rectangle, edge of a cell in m.
    conductivity, capacity
        In W/(m K) and J/(m^3 K).
    seconds
        The time step.
    array
        Copies a numpy array to where is computed.
    comm
        The participant's ranks; None for one.

    Attributes
    ----------
    temperature
        (rows, columns) in K above what all has at the start, of this rank's columns.
    solves, steps
        How many systems were solved, and steps of conjugate gradients taken.
    """

    def __init__(
        self,
        lower: tuple[float, float],
        cells: tuple[int, int],
        size: float,
        conductivity: float,
        capacity: float,
        seconds: float,
        array: Callable[[NDArray[np.float64]], Any] = np.array,
        comm: MPI.Comm | None = None,
    ) -> None:
        rank, ranks = (0, 1) if comm is None else (comm.Get_rank(), comm.Get_size())
        if ranks > cells[0]:
            raise ValueError(f"{ranks} ranks for {cells[0]} columns: start at most {cells[0]} ranks")
        bounds = np.arange(ranks + 1) * cells[0] // ranks
        self.size, self.conductivity, self.capacity, self.seconds = size, conductivity, capacity, seconds
        self.array, self.comm = array, comm
        self.left, self.right = (other if 0 <= other < ranks else None for other in (rank - 1, rank + 1))
        self.x = lower[0] + size * (np.arange(bounds[rank], bounds[rank + 1]) + 0.5)
        self.y = lower[1] + size * (np.arange(cells[1]) + 0.5)
        self.temperature = array(np.zeros((cells[1], len(self.x))))
        # In units of what a face conducts, conductivity times its length over the distance of two centres.
        self.stored = size**2 * capacity / (conductivity * seconds)
        neighbours = np.full((cells[1], len(self.x)), 4.0)
        neighbours[0] -= 1.0
        neighbours[-1] -= 1.0
        neighbours[:, 0] -= self.left is None
        neighbours[:, -1] -= self.right is None
        self._diagonal = array(self.stored + neighbours)
        self.solves = self.steps = 0

    @property
    def conductance(self) -> float:
        """Conductance in W/(m^2 K) between the centre of a cell and its edge."""
        return 2.0 * self.conductivity / self.size

    def hold(self, row: int, columns: Any) -> None:
        """Give the outer edge of cells of the first or last row a temperature, which is half a cell away."""
        mask = np.zeros(tuple(self._diagonal.shape))
        mask[row, columns] = 2.0
        self._diagonal = self._diagonal + self.array(mask)

    def halo(self, values: Any) -> tuple[Any, Any]:
        """Return the neighbouring ranks' columns of a field on the left and right; None where there is none."""
        found = []
        for other, column, tag in ((self.left, 0, 0), (self.right, -1, 1)):
            if other is None:
                found.append(None)
                continue
            received = np.empty(len(self.y))
            sent = np.ascontiguousarray(on_host(values[:, column]))
            self.comm.Sendrecv(sent, other, tag, received, other, 1 - tag)
            found.append(self.array(received))
        return found[0], found[1]

    def apply(self, values: Any) -> Any:
        """Multiply by the matrix, which is symmetric and positive definite."""
        left, right = self.halo(values)
        result = self._diagonal * values
        result[1:] -= values[:-1]
        result[:-1] -= values[1:]
        result[:, 1:] -= values[:, :-1]
        result[:, :-1] -= values[:, 1:]
        if left is not None:
            result[:, 0] -= left
        if right is not None:
            result[:, -1] -= right
        return result

    def dot(self, left: Any, right: Any) -> float:
        """Return the scalar product over all ranks."""
        own = float((left * right).sum())
        return own if self.comm is None else self.comm.allreduce(own)

    def solve(self, right_side: Any, start: Any) -> Any:
        """Solve by conjugate gradients (Hestenes and Stiefel, 1952), beginning at ``start``, which stays as it is."""
        found = 0.0 + start
        residual = right_side - self.apply(found)
        direction = 0.0 + residual
        square, limit = self.dot(residual, residual), TOLERANCE**2 * self.dot(right_side, right_side)
        while square > limit:
            product = self.apply(direction)
            length = square / self.dot(direction, product)
            found += length * direction
            residual -= length * product
            before, square = square, self.dot(residual, residual)
            direction = residual + (square / before) * direction
            self.steps += 1
        self.solves += 1
        return found


class Fluid(Conduction):
    """A channel that a developed flow of mean ``velocity`` in m/s passes, over a plate from where to where."""

    def __init__(self, *arguments: Any, velocity: float, plate: tuple[float, float], **others: Any) -> None:
        super().__init__(*arguments, **others)
        # The mean over each cell's height, so that the rows carry exactly what flows.
        edges = np.linspace(0.0, 1.0, len(self.y) + 1)
        rows = velocity * np.diff(edges**2 * (3.0 - 2.0 * edges)) * len(self.y)
        self.substeps = max(1, int(np.ceil(self.seconds * rows.max() / self.size)))
        self._share = self.array(rows[:, None] * self.seconds / (self.size * self.substeps))
        covered = np.flatnonzero((self.x > plate[0]) & (self.x < plate[1]))
        self.plate = slice(covered[0], covered[-1] + 1) if len(covered) else slice(0, 0)
        self.hold(0, self.plate)
        self.advections = 0
        self._carried = self.temperature

    def carry(self) -> None:
        """Let the flow carry the heat for a time step, explicitly and upwind: once per time window."""
        values = 0.0 + self.temperature
        for _ in range(self.substeps):
            left, _ = self.halo(values)
            inflow = 0.0 * values
            inflow[:, 1:] = values[:, :-1]
            if left is not None:
                inflow[:, 0] = left
            values = values + self._share * (inflow - values)
        self._carried = values
        self.advections += 1

    def conduct(self, wall: NDArray[np.float64], start: Any) -> tuple[Any, Any]:
        """Conduct heat with the plate at ``wall`` (plate columns,): in every coupling iteration.

        Returns the temperature at the end of the time step and the flux (plate columns,) in W/m^2 from the plate.
        """
        wall = self.array(wall)
        right_side = self.stored * self._carried
        right_side[0, self.plate] += 2.0 * wall
        found = self.solve(right_side, start)
        return found, self.conductance * (wall - found[0, self.plate])


class Solid(Conduction):
    """The plate, kept at ``bottom`` in K above the start."""

    def __init__(self, *arguments: Any, bottom: float, **others: Any) -> None:
        super().__init__(*arguments, **others)
        self.bottom = bottom
        self.hold(0, slice(None))

    def conduct(self, flux: NDArray[np.float64], start: Any) -> tuple[Any, Any]:
        """Conduct heat where a flux (columns,) in W/m^2 leaves at the top.

        Returns the temperature at the end of the time step and that of the surface (columns,).
        """
        flux = self.array(flux)
        right_side = self.stored * self.temperature
        right_side[0] += 2.0 * self.bottom
        right_side[-1] -= flux * (self.size / self.conductivity)
        found = self.solve(right_side, start)
        return found, found[-1] - flux / self.conductance
