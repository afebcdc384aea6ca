"""A Gaussian pressure pulse that spreads from an inner into an outer domain, two solvers coupled by preCICE.

The inner domain is a fine mesh of low order, the outer a coarse mesh of high order around it. Both write pressure and
velocity at the Gauss nodes of their faces on the interface and read the partner's, which is the state outside their
upwind flux for the whole time window.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
import precice
from acoustics import COUPLED, OPEN, Domain, Mesh
from mpi4py import MPI

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

HALF_WIDTH = 0.25  # the pulse has fallen to a half here
ELEMENT_SIZE = {  # (real load, emulated load)
    "Inner": (1 / 32, 1 / 8),
    "Outer": (1 / 4, 1 / 2),
}


def build_mesh(name: str, *, emulated: bool = False, refine: int = 1) -> Mesh:
    """Mesh a participant's domain: third order in [-0.5, 0.5]^2, sixth order in the rest of [-2.5, 2.5]^2.

    No vertex of one mesh lies midway between two of the other, so that the nearest neighbour never hangs on rounding.
    """
    size = ELEMENT_SIZE[name][emulated] / refine
    if name == "Inner":
        return Mesh.box(0.5, size, 3, border=COUPLED)
    return Mesh.box(2.5, size, 6, hole=0.5, border=OPEN)


def initial_pressure(nodes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Gaussian pulse of height 1 around the origin at nodes (..., 2)."""
    return np.exp2(-(nodes**2).sum(axis=-1) / HALF_WIDTH**2)


class EmulatedLoad:
    """Makes every window's solve last as long as the participant's cost law says for its number of ranks."""

    def __init__(self, name: str, path: str, ranks: int) -> None:
        from precice_lb.emulation import read_laws

        self.law = read_laws(path)[name]
        self.base = float(self.law.seconds(ranks))
        self.late: list[float] = []

    def sleep(self, window: int, begin: float) -> None:
        """Sleep away what is left of the window's cost since ``begin`` (seconds of perf_counter)."""
        left = begin + self.base * self.law.factor(window) - time.perf_counter()
        if left > 0.0:
            time.sleep(left)
        else:
            self.late.append(-left)


def solve(name: str, mesh: Mesh, load: EmulatedLoad | None) -> tuple[Domain, float]:
    """Run a participant to the end of the coupling; return its domain and the time reached."""
    comm = MPI.COMM_WORLD
    domain = Domain(mesh, comm)
    domain.state[0] = initial_pressure(domain.nodes)
    partner, mine = "Outer" if name == "Inner" else "Inner", f"{name}-Mesh"

    participant = precice.Participant(name, "precice-config.xml", comm.Get_rank(), comm.Get_size())
    ids = participant.set_mesh_vertices(mine, domain.vertices)

    def write() -> None:
        pressure, velocity = domain.boundary()
        participant.write_data(mine, f"{name}-Pressure", ids, pressure)
        participant.write_data(mine, f"{name}-Velocity", ids, velocity)

    if participant.requires_initial_data():
        write()
    participant.initialize()
    reached, window = 0.0, 0
    while participant.is_coupling_ongoing():
        begin = time.perf_counter()
        dt = participant.get_max_time_step_size()
        domain.partner(
            participant.read_data(mine, f"{partner}-Pressure", ids, 0.0),
            participant.read_data(mine, f"{partner}-Velocity", ids, 0.0),
        )
        domain.advance(dt)
        write()
        if load is not None:
            load.sleep(window, begin)
        participant.advance(dt)
        reached += dt
        window += 1
    participant.finalize()
    return domain, reached


def save(path: str, domain: Domain, reached: float) -> None:
    """Write the fields of the whole mesh (elements, order^2) from rank 0: x, y, pressure, velocity (2, ...), time."""
    fields = domain.gather()
    if fields is not None:
        x, y = np.moveaxis(domain.mesh.nodes(slice(None)), -1, 0)
        np.savez_compressed(path, x=x, y=y, pressure=fields[0], velocity=fields[1:], time=reached)


def main(name: str, arguments: Sequence[str] | None = None) -> None:
    """Solve one participant's domain as the command line asks."""
    parser = argparse.ArgumentParser(description=f"The {name.lower()} domain of the coupled pressure pulse.")
    parser.add_argument("--load", choices=["real", "emulated"], default="real", help="default: %(default)s")
    parser.add_argument("--law", default="law.json", help="cost laws of the emulated load (default: %(default)s)")
    parser.add_argument("--refine", type=int, default=1, metavar="N", help="split every element into N x N")
    parser.add_argument("--output", metavar="FILE.npz", help="write the fields at the end")
    options = parser.parse_args(arguments)
    rank, ranks = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()
    emulated = options.load == "emulated"
    mesh = build_mesh(name, emulated=emulated, refine=options.refine)
    if ranks > mesh.elements:
        if rank == 0:
            print(f"{name}: {ranks} ranks, but {mesh.elements} elements; use fewer ranks or --refine", file=sys.stderr)
        sys.exit(2)
    load = EmulatedLoad(name, options.law, ranks) if emulated else None
    domain, reached = solve(name, mesh, load)
    if load is not None and load.late:
        print(
            f"{name}, rank {rank}: {len(load.late)} windows took longer than the cost law says,"
            f" by up to {max(load.late):.3f} s: this machine is too busy for the emulated load",
            file=sys.stderr,
        )
    if options.output:
        save(options.output, domain, reached)
