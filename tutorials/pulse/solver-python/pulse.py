"""A Gaussian pressure pulse that spreads from an inner into an outer domain, two solvers coupled by preCICE.

Both solvers write pressure and velocity at the Gauss nodes of their faces on the interface and read the partner's
there, which is the state outside their upwind flux for the whole time window.
"""

from __future__ import annotations

import argparse
import os
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

    from emulation import EmulatedLoad


def solve(name: str, domain: Domain, load: EmulatedLoad | None, reached: float, window: int) -> tuple[float, int]:
    """Run a participant to the end of the coupling, from a time and after so many windows; return those of the end."""
    partner, mesh = "Outer" if name == "Inner" else "Inner", f"{name}-Mesh"
    participant = precice.Participant(name, "../precice-config.xml", domain.comm.Get_rank(), domain.comm.Get_size())
    ids = participant.set_mesh_vertices(mesh, domain.vertices)

    def write() -> None:
        pressure, velocity = domain.boundary()
        participant.write_data(mesh, f"{name}-Pressure", ids, pressure)
        participant.write_data(mesh, f"{name}-Velocity", ids, velocity)

    if participant.requires_initial_data():
        write()
    participant.initialize()
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
    return reached, window


def read_restart(path: str, name: str, domain: Domain) -> tuple[float, int]:
    """Take over the fields that an earlier run ended with, on any number of ranks; return its time and windows."""
    import h5py

    try:
        with h5py.File(path) as file:
            if file["state"].shape != (3, domain.mesh.elements, domain.mesh.order**2):
                raise ValueError(f"found {file['state'].shape[1]} elements")
            domain.state[...] = file["state"][:, domain.own]
            reached, window = float(file.attrs["time"]), int(file.attrs["windows"])
    except (OSError, KeyError, ValueError) as error:
        refuse(f"{path}: expected a restart file of {name} on this mesh: {error}; without the file it begins anew")
    if domain.comm.Get_rank() == 0:
        print(f"{name} goes on at time {reached:g}: {path}")
    return reached, window


def write_restart(path: str, domain: Domain, reached: float, window: int) -> None:
    """Write the fields of the whole mesh from rank 0, beside the file and in its place when they are whole."""
    import h5py

    state = domain.gather()
    if state is not None:
        with h5py.File(f"{path}.new", "w") as file:
            file["state"] = state  # (3, elements, order^2)
            file.attrs.update(time=reached, windows=window)
        os.replace(f"{path}.new", path)


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


def main(arguments: Sequence[str] | None = None) -> None:
    """Solve one participant's domain as the command line asks."""
    parser = argparse.ArgumentParser(description="One domain of the coupled pressure pulse.")
    parser.add_argument("participant", choices=["Inner", "Outer"])
    parser.add_argument("--load", choices=["real", "emulated"], default="real", help="default: %(default)s")
    parser.add_argument("--law", default="../law.json", help="cost laws of the emulated load (default: %(default)s)")
    parser.add_argument("--refine", type=int, default=1, metavar="N", help="split every element into N x N")
    parser.add_argument("--output", metavar="FILE.npz", help="write the fields at the end")
    parser.add_argument("--restart", metavar="FILE.h5", help="begin with what is there, if it is; write it at the end")
    options = parser.parse_args(arguments)
    if options.refine < 1:
        parser.error(f"--refine must be at least 1, found {options.refine}")
    name: str = options.participant
    emulated, comm = options.load == "emulated", MPI.COMM_WORLD
    try:
        domain = Domain(build_mesh(name, emulated=emulated, refine=options.refine), comm, patient=emulated)
    except ValueError as error:
        refuse(f"{name}: {error}")
    load = None
    if emulated:
        from emulation import EmulatedLoad

        load = EmulatedLoad.of_solver(options.law, name, comm)
    if options.restart and os.path.exists(options.restart):
        begin = read_restart(options.restart, name, domain)
    else:
        domain.state[0] = initial_pressure(domain.nodes)
        begin = (0.0, 0)
    reached, window = solve(name, domain, load, *begin)
    if load is not None and len(domain.vertices):
        load.report()
    if options.output:
        save(options.output, domain, reached)
    if options.restart:
        write_restart(options.restart, domain, reached, window)


if __name__ == "__main__":
    main()
