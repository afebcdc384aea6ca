"""A Gaussian pressure pulse that spreads from an inner into an outer domain, two solvers coupled by preCICE.

Both solvers write pressure and velocity at the Gauss nodes of their faces on the interface and read the partner's
there, which is the state outside their upwind flux for the whole time window.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import precice
from acoustics import Domain
from domains import build_mesh, initial_pressure
from mpi4py import MPI

if TYPE_CHECKING:
    from collections.abc import Sequence

    from precice_lb.emulation import EmulatedLoad


def solve(name: str, domain: Domain, load: EmulatedLoad | None) -> float:
    """Run a participant from the pulse to the end of the coupling; return the time reached."""
    domain.state[0] = initial_pressure(domain.nodes)
    partner, mesh = "Outer" if name == "Inner" else "Inner", f"{name}-Mesh"
    participant = precice.Participant(name, "precice-config.xml", domain.comm.Get_rank(), domain.comm.Get_size())
    ids = participant.set_mesh_vertices(mesh, domain.vertices)

    def write() -> None:
        pressure, velocity = domain.boundary()
        participant.write_data(mesh, f"{name}-Pressure", ids, pressure)
        participant.write_data(mesh, f"{name}-Velocity", ids, velocity)

    if participant.requires_initial_data():
        write()
    participant.initialize()
    reached, window = 0.0, 0
    while participant.is_coupling_ongoing():
        begin = time.perf_counter()
        dt = participant.get_max_time_step_size()
        domain.partner(
            participant.read_data(mesh, f"{partner}-Pressure", ids, 0.0),
            participant.read_data(mesh, f"{partner}-Velocity", ids, 0.0),
        )
        if load is not None:
            load.sleep(window, begin, 0.25)  # no arithmetic while other ranks are still exchanging data
        domain.advance(dt)
        write()
        if load is not None:
            load.sleep(window, begin)
        participant.advance(dt)
        reached += dt
        window += 1
    participant.finalize()
    return reached


def save(path: str, domain: Domain, reached: float) -> None:
    """Write the fields of the whole mesh (elements, order^2) from rank 0: x, y, pressure, velocity (2, ...), time."""
    fields = domain.gather()
    if fields is not None:
        x, y = np.moveaxis(domain.mesh.nodes(slice(None)), -1, 0)
        np.savez_compressed(path, x=x, y=y, pressure=fields[0], velocity=fields[1:], time=reached)


def refuse(message: str) -> NoReturn:
    """End all ranks; the first of them says why."""
    if MPI.COMM_WORLD.Get_rank() == 0:
        print(message, file=sys.stderr)
    sys.exit(2)


def main(name: str, arguments: Sequence[str] | None = None) -> None:
    """Solve one participant's domain as the command line asks."""
    parser = argparse.ArgumentParser(description=f"The {name.lower()} domain of the coupled pressure pulse.")
    parser.add_argument("--load", choices=["real", "emulated"], default="real", help="default: %(default)s")
    parser.add_argument("--law", default="law.json", help="cost laws of the emulated load (default: %(default)s)")
    parser.add_argument("--refine", type=int, default=1, metavar="N", help="split every element into N x N")
    parser.add_argument("--output", metavar="FILE.npz", help="write the fields at the end")
    options = parser.parse_args(arguments)
    if options.refine < 1:
        parser.error(f"--refine must be at least 1, found {options.refine}")
    emulated, comm = options.load == "emulated", MPI.COMM_WORLD
    try:
        domain = Domain(build_mesh(name, emulated=emulated, refine=options.refine), comm, patient=emulated)
    except ValueError as error:
        refuse(f"{name}: {error}")
    load = None
    if emulated:
        from precice_lb.emulation import EmulatedLoad

        load = EmulatedLoad.of_solver(options.law, name, comm)
    reached = solve(name, domain, load)
    if load is not None and len(domain.vertices):
        load.report()
    if options.output:
        save(options.output, domain, reached)
