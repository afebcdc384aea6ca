"""The case: an airfoil in a uniform flow, three domains around each other, and what each of them solves.

Lengths are in chords, velocities in speeds of sound. The domains overlap by four cells of the coarser one, so that
ghost cells lie well inside the partner's domain. Cells grow by a factor of three from domain to domain: the centre of
every coarse ghost cell is the centre of a fine cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from blocks import INSIDE, OUTSIDE, Domain, Grid
from flow import GAMMA, Euler, LinearisedEuler, NavierStokes, Scheme
from pores import Pores

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mpi4py import MPI
    from numpy.typing import NDArray

MACH = 0.35
REYNOLDS = 1000.0
ANGLE = np.radians(8.0)  # of attack
THICKNESS = 0.12  # of a symmetric four-digit NACA airfoil
FASTEST = 1.6  # |velocity| + sound stays below this
BACKGROUND = np.array([1.0, MACH, 0.0, 1.0 / GAMMA])  # density, velocity, pressure
APPEARS = 1.0  # the airfoil moves along with the flow at first, and has stopped after this time
RESPONSE = 0.005  # time in which the fluid inside the airfoil takes its velocity
SPONGE = 2.0  # width of the layer that takes up waves at the far end


@dataclass(frozen=True)
class Part:
    """What a participant solves: order of the scheme, cells per block edge, partners by side."""

    order: int
    shape: tuple[int, int]
    lower: tuple[float, float]
    hole: tuple[int, int, int, int]
    size: float
    width: int
    partners: dict[int, str]

    @property
    def halo(self) -> int:
        """Layers of ghost cells."""
        return (self.order + 1) // 2

    def grid(self, coarsen: int = 1) -> Grid:
        """Return the grid, or one with fewer and larger cells in blocks of the same size."""
        return Grid(self.lower, self.shape, self.size * coarsen, self.width // coarsen, self.hole)


PARTS = {
    "Inner": Part(3, (12, 8), (-1.0, -1.0), (0, 0, 0, 0), 1 / 48, 12, {OUTSIDE: "Middle"}),
    "Middle": Part(5, (15, 15), (-3.25, -3.75), (5, 6, 5, 3), 1 / 16, 8, {INSIDE: "Inner", OUTSIDE: "Outer"}),
    "Outer": Part(7, (10, 10), (-7.0, -7.5), (3, 3, 4, 4), 3 / 16, 8, {INSIDE: "Middle"}),
}


def build_scheme(
    name: str,
    comm: MPI.Comm | None = None,
    *,
    coarsen: int = 1,
    patient: bool = False,
    partition: NDArray[np.int64] | None = None,
) -> Scheme:
    """Return a participant's scheme with the undisturbed flow as its state."""
    part = PARTS[name]
    coupled = tuple(part.partners)
    domain = Domain(part.grid(coarsen), part.halo, comm, coupled=coupled, patient=patient, partition=partition)
    equations: LinearisedEuler | Euler
    if name == "Inner":
        equations = NavierStokes(FASTEST, MACH / REYNOLDS)
    elif name == "Middle":
        equations = Euler(FASTEST)
    else:
        equations = LinearisedEuler(BACKGROUND)
    undisturbed = equations.from_primitive(BACKGROUND[:, None])
    domain.values[...] = undisturbed
    return Scheme(domain, equations, part.order)


def cells_for(partner: str, domain: Domain, name: str, *, coarsen: int = 1) -> NDArray[np.int64]:
    """Return which of a rank's own cells (cells,) tell the partner about its ghost cells.

    A partner with a coarser grid gets the cells at the centres of its ghost cells, one with a finer grid a band of
    cells from which preCICE interpolates.
    """
    part = PARTS[partner]
    grid, side = part.grid(coarsen), next(side for side, other in part.partners.items() if other == name)
    if grid.size > domain.grid.size:
        return domain.find(grid.ghosts(part.halo, side))
    lower, upper = grid.box
    outside = np.maximum(lower - domain.centres, domain.centres - upper).max(axis=-1).ravel() / domain.grid.size
    return np.flatnonzero((outside > -2.0) & (outside < 3.0))


class Airfoil:
    """A symmetric airfoil, turned around its quarter chord, whose cells the fluid cannot cross: a porous medium.

    The airfoil moves with the flow at first and comes to rest smoothly, so that the sound of the start has wavelengths
    that the outer grid resolves. With a number of ``pores``, a cell has so many of them, each with friction of its own.
    """

    def __init__(self, domain: Domain, equations: Euler, pores: int = 0) -> None:
        self.domain, self.equations = domain, equations
        inner = domain.grid.size * ((np.arange(8) + 0.5) / 8 - 0.5)
        points = domain.centres[..., None, None, :] + np.stack(np.meshgrid(inner, inner), axis=-1)
        covered = self.contains(points[..., 0], points[..., 1]).mean(axis=(-1, -2))
        self._cells = np.nonzero(covered)
        self._covered = covered[self._cells]
        index = np.rint((domain.centres[self._cells] - domain.grid.lower) / domain.grid.size - 0.5).astype(np.int64)
        self._pores = Pores(index, pores) if pores else None
        self.force = np.zeros(2)  # of the fluid on the airfoil in the last step

    @property
    def cells_per_block(self) -> NDArray[np.int64]:
        """Porous cells of each of this rank's blocks."""
        return np.bincount(self._cells[0], minlength=len(self.domain.centres))

    @staticmethod
    def contains(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return whether points lie in the airfoil of chord 1 with its leading edge near the origin."""
        along = 0.25 + np.cos(ANGLE) * (x - 0.25) - np.sin(ANGLE) * y
        across = np.sin(ANGLE) * (x - 0.25) + np.cos(ANGLE) * y
        s = np.clip(along, 0.0, 1.0)
        half = 5.0 * THICKNESS * (0.2969 * np.sqrt(s) + s * (-0.1260 + s * (-0.3516 + s * (0.2843 - 0.1036 * s))))
        return (along == s) & (np.abs(across) <= half)

    def act(self, time: float, dt: float) -> None:
        """Draw the fluid inside towards the airfoil's velocity over a step that ends at ``time``; pressure stays."""
        at = (slice(None), *self._cells)
        state = self.domain.state
        primitive = self.equations.primitive(state[at])
        velocity = MACH * np.cos(0.5 * np.pi * min(time / APPEARS, 1.0)) ** 2
        target = np.array([[velocity], [0.0]])
        times = self._covered * dt / RESPONSE
        left = np.exp(-times) if self._pores is None else self._pores.left(np.hypot(*(primitive[1:3] - target)), times)
        after = target + (primitive[1:3] - target) * left
        self.force = (primitive[0] * (primitive[1:3] - after)).sum(axis=1) * self.domain.grid.size**2 / dt
        primitive[1:3] = after
        state[at] = self.equations.from_primitive(primitive)


class Sponge:
    """A layer along the edge of the outer box in which disturbances fade, so that none come back."""

    def __init__(self, domain: Domain) -> None:
        lower, upper = domain.grid.box
        depth = SPONGE - np.minimum(domain.centres - lower, upper - domain.centres).min(axis=-1)
        self.domain, self.strength = domain, 3.0 * np.clip(depth / SPONGE, 0.0, 1.0) ** 2

    def act(self, time: float, dt: float) -> None:
        """Let disturbances fade over a step."""
        state = self.domain.state
        state *= np.exp(-self.strength * dt)


def advance(
    scheme: Scheme,
    actors: Sequence[Airfoil | Sponge],
    begin: float,
    seconds: float,
    set_ghosts: Callable[[float], None] = lambda share: None,
) -> None:
    """Step over a time window in as many equal steps as stability asks for.

    ``set_ghosts`` is told the share of the window before each stage of a step.
    """
    steps = max(1, int(np.ceil(seconds / scheme.stable_step - 1e-9)))
    dt = seconds / steps
    for step in range(steps):
        scheme.step(dt, lambda share, step=step: set_ghosts((step + share) / steps))
        for actor in actors:
            actor.act(begin + (step + 1) * dt, dt)


def save(path: str, scheme: Scheme, reached: float, forces: list[NDArray[np.float64]]) -> None:
    """Write the fields of the whole grid (blocks, rows, columns) from rank 0, and lift and drag per time window."""
    domain = scheme.domain
    fields = domain.gather(scheme.equations.primitive(domain.state))
    centres = domain.gather(np.moveaxis(domain.centres, -1, 0))
    total = domain.comm.reduce(np.array(forces))
    if fields is not None:
        drag, lift = total.reshape(-1, 2).T / (0.5 * MACH**2)
        x, y = centres
        np.savez_compressed(
            path,
            x=x,
            y=y,
            density=fields[0],
            velocity=fields[1:3],
            pressure=fields[3],
            time=reached,
            drag=drag,
            lift=lift,
        )
