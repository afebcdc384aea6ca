"""Square cells in square blocks, divided among MPI ranks, with the halo that finite differences need.

Blocks are numbered along a Morton curve; each rank owns a stretch of it, or the blocks that a partition gives it. All
cells that a rank needs to know lie in one array: its own, copies of other ranks' cells, ghost cells that coupling
partners tell, and one cell for all that is far away. A fancy index makes blocks with halos of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from mpi4py import MPI
    from numpy.typing import NDArray

FAR, INSIDE, OUTSIDE = -1, -2, -3  # what lies where a grid has no cell: nothing, or a coupling partner


@dataclass(frozen=True)
class Grid:
    """A box of square cells, or what a box leaves of another.

    ``lower`` (2,) is the lower left corner, ``shape`` and ``hole`` are in blocks: (columns, rows) of the box, and first
    column, first row, columns, rows of the hole. A block has ``width`` x ``width`` cells of edge ``size``. In
    ``order`` the blocks are where they do not go along the curve.
    """

    lower: tuple[float, float]
    shape: tuple[int, int]
    size: float
    width: int
    hole: tuple[int, int, int, int] = (0, 0, 0, 0)
    order: tuple[int, ...] = ()

    @cached_property
    def blocks(self) -> NDArray[np.int64]:
        """Columns and rows (blocks, 2) of the blocks, along a Morton curve unless ``order`` says otherwise."""
        x, y = (index.ravel() for index in np.meshgrid(*map(np.arange, self.shape), indexing="ij"))
        left, bottom, columns, rows = self.hole
        keep = (x < left) | (x >= left + columns) | (y < bottom) | (y >= bottom + rows)
        x, y = x[keep], y[keep]
        bits = range(max(self.shape).bit_length())
        morton = sum(((x >> bit) & 1) << (2 * bit) | ((y >> bit) & 1) << (2 * bit + 1) for bit in bits)
        curve = np.argsort(morton)
        return np.stack([x, y], axis=1)[curve[list(self.order)] if self.order else curve]

    @property
    def cells(self) -> int:
        """Number of cells."""
        return len(self.blocks) * self.width**2

    @property
    def box(self) -> NDArray[np.float64]:
        """Corners (2, 2) of the box: lower left, upper right."""
        lower = np.array(self.lower)
        return np.stack([lower, lower + self.size * self.width * np.array(self.shape)])

    def centres(self, index: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the centres (..., 2) of cells with the given columns and rows (..., 2)."""
        return np.array(self.lower) + self.size * (index + 0.5)

    def padded(self, halo: int) -> NDArray[np.int64]:
        """Return columns and rows (blocks, width + 2 halo, width + 2 halo, 2) of the cells of all blocks with halos.

        Axes are block, row, column, as in all arrays of cells.
        """
        along = np.arange(-halo, self.width + halo)
        y, x = np.meshgrid(along, along, indexing="ij")
        return self.width * self.blocks[:, None, None] + np.stack([x, y], axis=-1)

    def numbers(self, index: NDArray[np.int64], *, periodic: bool = False) -> NDArray[np.int64]:
        """Return which cell (...,) has the given column and row (..., 2), or INSIDE for the hole, or OUTSIDE."""
        if periodic:
            index = index % (np.array(self.shape) * self.width)
        table = np.full((self.shape[0] + 2, self.shape[1] + 2), OUTSIDE)  # with a rim
        left, bottom, columns, rows = self.hole
        table[left + 1 : left + 1 + columns, bottom + 1 : bottom + 1 + rows] = INSIDE
        table[self.blocks[:, 0] + 1, self.blocks[:, 1] + 1] = np.arange(len(self.blocks))
        block = np.clip(index // self.width, -1, self.shape)
        number = table[block[..., 0] + 1, block[..., 1] + 1]
        inner = index % self.width
        return np.where(number < 0, number, (number * self.width + inner[..., 1]) * self.width + inner[..., 0])

    def ghosts(self, halo: int, side: int) -> NDArray[np.float64]:
        """Return the centres (cells, 2) of all ghost cells on a coupled side, INSIDE or OUTSIDE, each once."""
        index = self.padded(halo)
        return self.centres(np.unique(index[self.numbers(index) == side], axis=0))


class Domain:
    """One rank's blocks of a grid, and the halo around them.

    Parameters
    ----------
    grid
        The whole grid.
    halo
        Layers of cells that each block needs around it.
    comm
        The participant's ranks; None for one.
    coupled
        Sides of the grid behind which there is a partner; beyond the others the ``far`` state lies.
    patient
        Sleep while waiting for other ranks: for more ranks than cores.
    partition
        The rank (blocks,) of each block along the curve; equal numbers of blocks if None.

    Attributes
    ----------
    values
        All cells this rank knows (variables, cells); the first ``own`` are its own.
    ghosts
        By coupled side: the centres (ghost cells, 2) that this rank wants to know from the partner.
    """

    def __init__(
        self,
        grid: Grid,
        halo: int,
        comm: MPI.Comm | None = None,
        *,
        variables: int = 4,
        coupled: tuple[int, ...] = (),
        periodic: bool = False,
        patient: bool = False,
        partition: NDArray[np.int64] | None = None,
    ) -> None:
        rank, ranks = (0, 1) if comm is None else (comm.Get_rank(), comm.Get_size())
        if ranks > len(grid.blocks):
            raise ValueError(f"{ranks} ranks for {len(grid.blocks)} blocks: start at most {len(grid.blocks)} ranks")
        if partition is None:
            partition = np.searchsorted(
                np.arange(1, ranks) * len(grid.blocks) // ranks, np.arange(len(grid.blocks)), side="right"
            )
        elif len(partition) != len(grid.blocks) or not np.array_equal(np.unique(partition), np.arange(ranks)):
            raise ValueError(
                f"the partition has {len(partition)} blocks on ranks {sorted(set(partition.tolist()))}: "
                f"expected {len(grid.blocks)} blocks, and some on each of the {ranks} ranks from 0"
            )
        order = np.argsort(partition, kind="stable")  # so that each rank owns a stretch
        self._along_curve = np.argsort(order)
        grid = replace(grid, order=tuple(order.tolist()))
        self.grid, self.halo, self.comm, self.patient = grid, halo, comm, patient
        bounds = np.searchsorted(partition[order], np.arange(ranks + 1)) * grid.width**2  # in cells
        begin, end = int(bounds[rank]), int(bounds[rank + 1])
        self.own = end - begin
        index = grid.padded(halo)
        wanted = grid.numbers(index, periodic=periodic)
        # Who wants whose cells: the same list on every rank, so that both ends agree without a message.
        reader = np.broadcast_to(
            (np.repeat(np.arange(ranks), np.diff(bounds // grid.width**2)))[:, None, None], wanted.shape
        )
        foreign = wanted >= 0
        owner = np.searchsorted(bounds, wanted[foreign], side="right") - 1
        pairs = np.unique(np.stack([reader[foreign], owner, wanted[foreign]])[:, reader[foreign] != owner], axis=1)
        blocks = slice(begin // grid.width**2, end // grid.width**2)
        index, wanted = index[blocks], wanted[blocks]
        slot = np.where((wanted >= begin) & (wanted < end), wanted - begin, -1)
        free = self.own
        self._messages: list[tuple[int, NDArray[np.int64], slice, NDArray[np.float64], NDArray[np.float64]]] = []
        for other in range(ranks):
            mine = pairs[2, (pairs[0] == rank) & (pairs[1] == other)]  # this rank reads them
            theirs = pairs[2, (pairs[0] == other) & (pairs[1] == rank)]
            if not len(mine) and not len(theirs):
                continue
            here = slice(free, free + len(mine))
            free += len(mine)
            found = np.isin(wanted, mine)
            slot[found] = here.start + np.searchsorted(mine, wanted[found])
            buffers = np.empty((variables, len(theirs))), np.empty((variables, len(mine)))
            self._messages.append((other, theirs - begin, here, *buffers))
        self.ghosts: dict[int, NDArray[np.float64]] = {}
        self._ghost_slots: dict[int, slice] = {}
        for side in coupled:
            found = wanted == side
            cells, which = np.unique(index[found], axis=0, return_inverse=True)
            self.ghosts[side] = grid.centres(cells).reshape(-1, 2)
            self._ghost_slots[side] = slice(free, free + len(cells))
            slot[found] = free + which.ravel()
            free += len(cells)
        slot[slot < 0] = free  # the far state
        self._slot = slot
        self.values = np.zeros((variables, free + 1))
        self.centres = grid.centres(index[:, halo : halo + grid.width, halo : halo + grid.width])

    @property
    def state(self) -> NDArray[np.float64]:
        """This rank's own cells (variables, blocks, width, width), a view; rows before columns."""
        return self.values[:, : self.own].reshape(len(self.values), -1, self.grid.width, self.grid.width)

    def set_far(self, values: NDArray[np.float64]) -> None:
        """Set the state (variables,) of all that lies far away."""
        self.values[:, -1] = values

    def set_ghosts(self, side: int, values: NDArray[np.float64]) -> None:
        """Set the ghost cells of a coupled side to values (variables, ghost cells)."""
        self.values[:, self._ghost_slots[side]] = values

    def exchange(self) -> NDArray[np.float64]:
        """Update the copies of other ranks' cells; return all blocks with halos (variables, blocks, rows, columns)."""
        if self._messages:
            from mpi4py import MPI

            requests = [self.comm.Irecv(receive, other) for other, _, _, _, receive in self._messages]
            for other, cells, _, send, _ in self._messages:
                send[...] = self.values[:, cells]
                requests.append(self.comm.Isend(send, other))
            if self.patient:
                from emulation import wait_asleep

                wait_asleep(requests)
            MPI.Request.Waitall(requests)
            for _, _, here, _, receive in self._messages:
                self.values[:, here] = receive
        return self.values[:, self._slot]

    def find(self, points: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return which of this rank's cells (found,) have their centre at one of the points (points, 2)."""
        scale = self.grid.size / 4.0  # far above rounding, far below the distance of two centres
        places = {tuple(place) for place in np.rint((points - self.grid.lower) / scale).astype(int)}
        centres = np.rint((self.centres.reshape(-1, 2) - self.grid.lower) / scale).astype(int)
        return np.flatnonzero([tuple(place) in places for place in centres])

    def gather(self, values: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Return values (..., blocks, rows, columns) of all blocks along the curve on rank 0, None on the others."""
        if self.comm is None:
            return values
        parts = self.comm.gather(values)
        return None if parts is None else np.concatenate(parts, axis=-3)[..., self._along_curve, :, :]
