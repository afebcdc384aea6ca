"""Linear acoustics in two dimensions by the discontinuous Galerkin method on square elements.

The equations are p_t + u_x + v_y = 0, u_t + p_x = 0, v_t + p_y = 0: sound speed and density are 1. The unknowns sit
at tensor-product Gauss-Legendre nodes, so the mass matrix is diagonal and no node lies on an edge or in a corner. Faces
are joined by the upwind flux, which is the exact solution of the Riemann problem in the face's normal direction. Time
stepping is the classical Runge-Kutta method of order four.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.polynomial import legendre

if TYPE_CHECKING:
    from mpi4py import MPI
    from numpy.typing import NDArray

SIDES = np.array([(-1, 0), (1, 0), (0, -1), (0, 1)])  # left, right, bottom, top: outward normals
OPPOSITE = np.array([1, 0, 3, 2])
SIGN = np.array([-1.0, 1.0, -1.0, 1.0])[:, None]  # outward against the direction of the axis
OPEN, COUPLED = -1, -2  # what lies behind a face that has no neighbouring element


@dataclass(frozen=True)
class Mesh:
    """Square elements of one size and one order, numbered along a Morton curve so that neighbours in number are close.

    ``lower`` (elements, 2) are the elements' lower left corners, ``neighbours`` (elements, 4) the element behind each
    side, or OPEN, or COUPLED.
    """

    size: float
    order: int
    lower: NDArray[np.float64]
    neighbours: NDArray[np.int64]

    @staticmethod
    def box(
        half_width: float, size: float, order: int, *, hole: float = 0.0, border: int = OPEN, periodic: bool = False
    ) -> Mesh:
        """Mesh the square [-half_width, half_width]^2 without [-hole, hole]^2; behind the hole's faces is COUPLED."""
        cells = round(2 * half_width / size)
        ix, iy = (index.ravel() for index in np.meshgrid(np.arange(cells), np.arange(cells), indexing="ij"))
        middle = np.stack([ix, iy], axis=1) * size + 0.5 * size - half_width
        keep = np.abs(middle).max(axis=1) >= hole
        ix, iy = ix[keep], iy[keep]
        bits = range(cells.bit_length())
        morton = sum(((ix >> bit) & 1) << (2 * bit) | ((iy >> bit) & 1) << (2 * bit + 1) for bit in bits)
        along = np.argsort(morton)
        ix, iy = ix[along], iy[along]
        number = np.full((cells + 2, cells + 2), border)  # with a rim of one cell, which is the outside
        number[1:-1, 1:-1] = COUPLED
        number[ix + 1, iy + 1] = np.arange(len(ix))
        if periodic:
            number[0], number[-1] = number[-2], number[1]
            number[:, 0], number[:, -1] = number[:, -2], number[:, 1]
        neighbours = np.stack([number[ix + 1 + dx, iy + 1 + dy] for dx, dy in SIDES], axis=1)
        return Mesh(size, order, np.stack([ix, iy], axis=1) * size - half_width, neighbours)

    @property
    def elements(self) -> int:
        """Number of elements."""
        return len(self.lower)

    @property
    def degrees_of_freedom(self) -> int:
        """Number of unknowns: three variables at order^2 nodes in every element."""
        return 3 * self.elements * self.order**2

    @property
    def stable_step(self) -> float:
        """Time step (seconds), at most 0.72 of the stability limit of Runge-Kutta 4 for orders 1 to 8."""
        return self.size / (self.order * (self.order + 1))

    @cached_property
    def gauss(self) -> NDArray[np.float64]:
        """Gauss-Legendre nodes (order,) on [0, 1]."""
        return 0.5 * (legendre.leggauss(self.order)[0] + 1.0)

    def nodes(self, elements: slice | NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the coordinates (elements, order^2, 2) of the nodes; x runs fastest."""
        y, x = np.meshgrid(self.gauss, self.gauss, indexing="ij")
        return self.lower[elements][:, None, :] + self.size * np.stack([x.ravel(), y.ravel()], axis=1)

    def face_nodes(self, elements: NDArray[np.int64], sides: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the coordinates (faces, order, 2) of the nodes of the given faces."""
        one, zero = np.ones(self.order), np.zeros(self.order)
        by_side = [(zero, self.gauss), (one, self.gauss), (self.gauss, zero), (self.gauss, one)]
        return self.lower[elements][:, None, :] + self.size * np.array([np.stack(s, axis=1) for s in by_side])[sides]


class Operators:
    """The element's matrices, written for states as rows: (…, order^2) @ matrix."""

    def __init__(self, mesh: Mesh) -> None:
        n = mesh.order
        nodes, weights = legendre.leggauss(n)
        vandermonde = legendre.legvander(nodes, n - 1)
        slopes = np.stack([legendre.legval(nodes, legendre.legder(row)) for row in np.eye(n)], axis=1)
        derivative = slopes @ np.linalg.inv(vandermonde)
        ends = legendre.legvander(np.array([-1.0, 1.0]), n - 1) @ np.linalg.inv(vandermonde)
        # The weak form, integrated by parts; Gauss quadrature is exact for it.
        stiffness = (2.0 / mesh.size) * derivative.T * weights / weights[:, None]
        lift = (2.0 / mesh.size) * ends / weights
        unit = np.eye(n)
        self.along_x = np.kron(unit, stiffness).T.copy()
        self.along_y = np.kron(stiffness, unit).T.copy()
        self.traces = np.hstack(
            [np.kron(unit, end[:, None]) for end in ends] + [np.kron(end[:, None], unit) for end in ends]
        )
        self.lift_x = np.vstack([np.kron(unit, end) for end in lift])
        self.lift_y = np.vstack([np.kron(end, unit) for end in lift])
        self.lift = np.vstack([self.lift_x, self.lift_y])


class Domain:
    """One rank's part of a mesh: its state, its faces and the exchange of face traces with the other ranks.

    ``state`` (3, elements, order^2) holds p, u, v. Faces live in one array (3, faces, order): first this rank's own
    (four per element), then copies of other ranks' faces, then the coupling partner's, last a zero state for open
    boundaries: an upwind flux with nothing outside lets waves out.

    MPI libraries poll while they wait. A ``patient`` domain sleeps between its own polls, so that more ranks than cores
    leave the cores to whoever has work.
    """

    def __init__(self, mesh: Mesh, comm: MPI.Comm | None = None, *, patient: bool = False) -> None:
        rank, ranks = (0, 1) if comm is None else (comm.Get_rank(), comm.Get_size())
        if ranks > mesh.elements:
            raise ValueError(f"{ranks} ranks for {mesh.elements} elements: start at most {mesh.elements} ranks")
        self.mesh, self.comm, self.patient, self.operators = mesh, comm, patient, Operators(mesh)
        bounds = np.arange(ranks + 1) * mesh.elements // ranks
        begin, end = int(bounds[rank]), int(bounds[rank + 1])
        self.own = slice(begin, end)
        n, count = mesh.order, end - begin
        behind = mesh.neighbours[begin:end]
        owner = np.where(behind >= 0, np.searchsorted(bounds, behind, side="right") - 1, rank)
        face = 4 * (behind - begin) + OPPOSITE  # the neighbour's face that looks back, if it is ours
        slot = 4 * count
        self._messages: list[tuple[int, NDArray[np.int64], slice, NDArray[np.float64], NDArray[np.float64]]] = []
        for other in np.unique(owner[owner != rank]):
            element, side = np.nonzero(owner == other)
            # Both ranks list the faces they share by the lower rank's element and side.
            mine, theirs = 4 * (element + begin) + side, 4 * behind[element, side] + OPPOSITE[side]
            along = np.argsort(mine if rank < other else theirs)
            element, side = element[along], side[along]
            face[element, side] = slot + np.arange(len(element))
            buffers = np.empty((2, 3, len(element), n))
            here = slice(slot, slot + len(element))
            self._messages.append((int(other), 4 * element + side, here, buffers[0], buffers[1]))
            slot += len(element)
        element, side = np.nonzero(behind == COUPLED)
        self.coupled = 4 * element + side
        self._partner = slice(slot, slot + len(element))
        face[element, side] = slot + np.arange(len(element))
        face[behind == OPEN] = slot + len(element)
        self._behind = face
        self._faces = np.zeros((3, slot + len(element) + 1, n))
        self.vertices = mesh.face_nodes(element + begin, side).reshape(-1, 2)
        self.state = np.zeros((3, count, n * n))

    @property
    def nodes(self) -> NDArray[np.float64]:
        """Coordinates (elements, order^2, 2) of this rank's nodes."""
        return self.mesh.nodes(self.own)

    def partner(self, pressure: NDArray[np.float64], velocity: NDArray[np.float64]) -> None:
        """Take the partner's pressure (vertices,) and velocity (vertices, 2) at this rank's coupling vertices."""
        shape = self._faces[0, self._partner].shape
        self._faces[0, self._partner] = pressure.reshape(shape)
        self._faces[1:, self._partner] = velocity.T.reshape(2, *shape)

    def boundary(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return this rank's own pressure (vertices,) and velocity (vertices, 2) at its coupling vertices."""
        self._trace(self.state)
        traces = self._faces[:, self.coupled].reshape(3, -1)
        return traces[0].copy(), traces[1:].T.copy()

    def _trace(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        elements, n = state.shape[1], self.mesh.order
        own = self._faces[:, : 4 * elements].reshape(3, elements, 4 * n)  # a view
        np.matmul(state, self.operators.traces, out=own)
        return own.reshape(3, elements, 4, n)

    def _exchange(self) -> None:
        if not self._messages:
            return
        from mpi4py import MPI

        requests = [self.comm.Irecv(receive, other) for other, _, _, _, receive in self._messages]
        for other, mine, _, send, _ in self._messages:
            send[...] = self._faces[:, mine]
            requests.append(self.comm.Isend(send, other))
        if self.patient:
            from emulation import wait_asleep

            wait_asleep(requests)
        MPI.Request.Waitall(requests)
        for _, _, here, _, receive in self._messages:
            self._faces[:, here] = receive

    def rate(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the time derivative of the state, by the same operations in the same order for any number of ranks."""
        own = self._trace(state)
        self._exchange()
        other = self._faces[:, self._behind]
        own_normal = np.concatenate([own[1, :, :2], own[2, :, 2:]], axis=1)
        other_normal = np.concatenate([other[1, :, :2], other[2, :, 2:]], axis=1)
        pressure = 0.5 * SIGN * (own[0] + other[0]) + 0.5 * (own_normal - other_normal)
        normal = 0.5 * SIGN * (own_normal + other_normal) + 0.5 * (own[0] - other[0])
        elements, m, rows = len(pressure), self.operators, 2 * self.mesh.order
        flux = pressure.reshape(elements, 2 * rows)
        p, u, v = state
        rate = np.empty_like(state)
        rate[0] = u @ m.along_x + v @ m.along_y - normal.reshape(elements, 2 * rows) @ m.lift
        rate[1] = p @ m.along_x - flux[:, :rows] @ m.lift_x
        rate[2] = p @ m.along_y - flux[:, rows:] @ m.lift_y
        return rate

    def advance(self, seconds: float) -> None:
        """Step the state over the given time in as many equal steps as stability asks for."""
        steps = max(1, int(np.ceil(seconds / self.mesh.stable_step - 1e-9)))
        dt = seconds / steps
        for _ in range(steps):
            k1 = self.rate(self.state)
            k2 = self.rate(self.state + 0.5 * dt * k1)
            k3 = self.rate(self.state + 0.5 * dt * k2)
            k4 = self.rate(self.state + dt * k3)
            self.state += dt / 6.0 * (k1 + 2.0 * (k2 + k3) + k4)

    def gather(self) -> NDArray[np.float64] | None:
        """Return the state of the whole mesh (3, all elements, order^2) on rank 0, None on the others."""
        if self.comm is None:
            return self.state
        parts = self.comm.gather(self.state)
        return None if parts is None else np.concatenate(parts, axis=1)
