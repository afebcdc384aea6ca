"""Flow around an airfoil in three domains with equations of their own, three solvers coupled by preCICE.

Every solver writes density, velocity and pressure of those of its cells that its partners need, and reads them at its
ghost cells, which lie inside the partners' domains.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import precice
from case import PARTS, Airfoil, Sponge, advance, build_scheme, cells_for, save
from mpi4py import MPI

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulation import EmulatedLoad
    from flow import Scheme
    from numpy.typing import NDArray


class Neighbour:
    """The coupling with one partner: own cells that it gets, ghost cells that it tells."""

    def __init__(
        self, participant: precice.Participant, name: str, side: int, partner: str, scheme: Scheme, coarsen: int
    ) -> None:
        self.participant, self.side, self.scheme = participant, side, scheme
        self._cells = cells_for(partner, scheme.domain, name, coarsen=coarsen)
        mesh = f"{name}-{partner}-Mesh" if len(PARTS[name].partners) > 1 else f"{name}-Mesh"
        self._written, self._read = f"{mesh}-Cells", f"{mesh}-Ghosts"
        own = scheme.domain.centres.reshape(-1, 2)[self._cells]
        self._written_ids = participant.set_mesh_vertices(self._written, own)
        self._read_ids = participant.set_mesh_vertices(self._read, scheme.domain.ghosts[side])
        self._now: NDArray[np.float64] | None = None

    def write(self) -> None:
        """Tell the partner the state of the own cells it needs."""
        density, u, v, pressure = self.scheme.equations.primitive(self.scheme.domain.values[:, self._cells])
        self.participant.write_data(self._written, "Density", self._written_ids, density)
        self.participant.write_data(self._written, "Velocity", self._written_ids, np.stack([u, v], axis=1))
        self.participant.write_data(self._written, "Pressure", self._written_ids, pressure)

    def read(self) -> None:
        """Take the state of the ghost cells at the beginning of a time window, and remember that of the last one."""
        density = self.participant.read_data(self._read, "Density", self._read_ids, 0.0)
        velocity = self.participant.read_data(self._read, "Velocity", self._read_ids, 0.0)
        pressure = self.participant.read_data(self._read, "Pressure", self._read_ids, 0.0)
        now = self.scheme.equations.from_primitive(np.stack([density, *velocity.reshape(-1, 2).T, pressure]))
        self._before = now if self._now is None else self._now
        self._now = now

    def set_ghosts(self, share: float) -> None:
        """Set the ghost cells at a share of the time window, continued from the last two windows."""
        self.scheme.domain.set_ghosts(self.side, self._now + share * (self._now - self._before))


def solve(
    name: str, scheme: Scheme, load: EmulatedLoad | None, coarsen: int, pores: int = 0
) -> tuple[float, list[NDArray[np.float64]]]:
    """Run a participant to the end of the coupling; return the time reached and this rank's force on the airfoil."""
    comm = scheme.domain.comm
    participant = precice.Participant(name, "../precice-config.xml", comm.Get_rank(), comm.Get_size())
    neighbours = [
        Neighbour(participant, name, side, partner, scheme, coarsen) for side, partner in PARTS[name].partners.items()
    ]
    actors: list[Airfoil | Sponge] = []
    if name == "Inner":
        airfoil = Airfoil(scheme.domain, scheme.equations, pores)
        actors.append(airfoil)
        if hasattr(participant, "count"):  # where precice_lb records: what this rank holds
            porous = int(airfoil.cells_per_block.sum())
            participant.count("fluid", scheme.domain.own - porous)
            participant.count("porous", porous)
    elif name == "Outer":
        actors.append(Sponge(scheme.domain))
    if participant.requires_initial_data():
        for neighbour in neighbours:
            neighbour.write()
    participant.initialize()

    def set_ghosts(share: float) -> None:
        for neighbour in neighbours:
            neighbour.set_ghosts(share)

    reached, window = 0.0, 0
    forces = []
    while participant.is_coupling_ongoing():
        begin = time.perf_counter()
        dt = participant.get_max_time_step_size()
        for neighbour in neighbours:
            neighbour.read()
        if load is not None:
            load.sleep(window, begin, 0.25)  # no arithmetic while other ranks are still exchanging data
        advance(scheme, actors, reached, dt, set_ghosts)
        forces += [actor.force for actor in actors if isinstance(actor, Airfoil)]
        for neighbour in neighbours:
            neighbour.write()
        if load is not None:
            load.sleep(window, begin)
        participant.advance(dt)
        reached += dt
        window += 1
    participant.finalize()
    return reached, forces


def write_blocks(path: str, scheme: Scheme) -> None:
    """Write the blocks as the cells of a mesh, with the numbers of fluid and porous cells in each."""
    import meshio

    domain, edge = scheme.domain, scheme.domain.grid.size * scheme.domain.grid.width
    corners = domain.grid.lower + edge * (domain.grid.blocks[:, None] + np.array([[0, 0], [1, 0], [1, 1], [0, 1]]))
    points, quads = np.unique(np.rint(corners.reshape(-1, 2) / edge), axis=0, return_inverse=True)
    porous = Airfoil(domain, scheme.equations).cells_per_block
    counts = {"fluid": [domain.grid.width**2 - porous], "porous": [porous]}
    meshio.Mesh(edge * np.pad(points, ((0, 0), (0, 1))), [("quad", quads.reshape(-1, 4))], cell_data=counts).write(path)


def refuse(message: str) -> NoReturn:
    """End all ranks; the first of them says why."""
    if MPI.COMM_WORLD.Get_rank() == 0:
        print(message, file=sys.stderr)
    sys.exit(2)


def main(arguments: Sequence[str] | None = None) -> None:
    """Solve one participant's domain as the command line asks."""
    parser = argparse.ArgumentParser(description="One domain of the coupled flow around an airfoil.")
    parser.add_argument("participant", choices=PARTS)
    parser.add_argument("--load", choices=["real", "emulated"], default="real", help="default: %(default)s")
    parser.add_argument("--law", default="../law.json", help="cost laws of the emulated load (default: %(default)s)")
    parser.add_argument("--coarsen", type=int, choices=[1, 2], help="1: the full grid, 2: cells twice as large")
    parser.add_argument("--output", metavar="FILE.npz", help="write the fields at the end")
    parser.add_argument("--partition", metavar="FILE", help="the rank of each block, one per line, along the curve")
    parser.add_argument("--pores", type=int, default=0, metavar="N", help="Inner: in each cell of the airfoil")
    parser.add_argument("--blocks", metavar="FILE.vtu", help="Inner: write the blocks, and what cells they have; end")
    options = parser.parse_args(arguments)
    name: str = options.participant
    if name != "Inner" and (options.pores or options.blocks):
        parser.error(f"--pores and --blocks are for Inner, found {name}")
    emulated, comm = options.load == "emulated", MPI.COMM_WORLD
    coarsen = options.coarsen or (2 if emulated else 1)
    if options.blocks:
        write_blocks(options.blocks, build_scheme(name, coarsen=coarsen))
        return
    try:
        partition = np.loadtxt(options.partition, dtype=int, ndmin=1) if options.partition else None
        scheme = build_scheme(name, comm, coarsen=coarsen, patient=emulated, partition=partition)
    except (OSError, ValueError) as error:
        refuse(f"{name}: {error}")
    load = None
    if emulated:
        from emulation import EmulatedLoad

        load = EmulatedLoad.of_solver(options.law, name, comm)
    reached, forces = solve(name, scheme, load, coarsen, options.pores)
    if load is not None and any(len(cells) for cells in scheme.domain.ghosts.values()):
        load.report()
    if options.output:
        save(options.output, scheme, reached, forces)


if __name__ == "__main__":
    main()
