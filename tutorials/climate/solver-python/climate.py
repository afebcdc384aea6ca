"""A climate model of four constituents around a coupler, each a participant: python3 climate.py Ocean.

The coupler turns temperatures into fluxes every hour. Atmosphere, land and sea ice take their hour's fluxes and answer;
the ocean works through a day at once, with the mean fluxes of the day before.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import precice
from constituents import CONSTITUENTS
from coupler import DAY, Coupler
from grid import Part
from mpi4py import MPI

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulation import EmulatedLoad

History = dict[str, list[Any]]


def run(name: str, part: Part, load: EmulatedLoad | None, restart: str | None) -> History:
    """Run a participant to the end of the coupling; return its history."""
    solver = Coupler(part) if name == "Coupler" else CONSTITUENTS[name](part)
    reached, windows = 0.0, 0
    if restart and os.path.exists(restart):
        reached, windows = read_restart(restart, name, part, solver)
    history: History = {"time": [], "energy": [], "temperature": []}
    record(history, reached, solver, part)
    mesh = f"{name}-Mesh"
    participant = precice.Participant(name, "../precice-config.xml", part.rank, part.ranks)
    ids = participant.set_mesh_vertices(mesh, part.points)
    if participant.requires_initial_data():
        if name == "Coupler":
            participant.write_data(mesh, "Ocean-Flux", ids, solver.into_ocean / DAY)  # the mean of the day before
        else:
            participant.write_data(mesh, f"{name}-Temperature", ids, solver.temperature)
    participant.initialize()
    while participant.is_coupling_ongoing():
        begin = time.perf_counter()
        dt = participant.get_max_time_step_size()
        if name == "Coupler":
            read = {key: participant.read_data(mesh, f"{key}-Temperature", ids, 0.0) for key in CONSTITUENTS}
        else:
            fluxes = [participant.read_data(mesh, flux, ids, dt) for flux in solver.fluxes]
        if load is not None:
            load.sleep(windows, begin, 0.25)  # no arithmetic while other ranks are still exchanging data
        if name == "Coupler":
            for flux, values in solver.fluxes(read, reached, dt).items():
                participant.write_data(mesh, flux, ids, values)
        else:
            solver.advance(dt, *fluxes)
            participant.write_data(mesh, f"{name}-Temperature", ids, solver.temperature)
        reached += dt
        windows += 1
        record(history, reached, solver, part)
        if load is not None:
            load.sleep(windows - 1, begin)
        participant.advance(dt)
    participant.finalize()
    if restart:
        write_restart(restart, name, part, solver, reached, windows)
    return history


def record(history: History, reached: float, solver: Any, part: Part) -> None:
    """Add a moment to the history: of the coupler, energy from space and energy under way to the ocean."""
    history["time"].append(reached)
    if isinstance(solver, Coupler):
        history["energy"].append([solver.gained, part.integral(solver.into_ocean)])
    else:
        history["energy"].append(part.integral(solver.energy()))
        history["temperature"].append(solver.temperature)


def read_restart(path: str, name: str, part: Part, solver: Any) -> tuple[float, int]:
    """Take over the state that an earlier run ended with, on any number of ranks; return its time and windows."""
    import h5py

    own = slice(part.bounds[part.rank], part.bounds[part.rank + 1])
    try:
        with h5py.File(path) as file:
            for key in solver.state:
                values = file[name][key]
                setattr(solver, key, values[..., own] if values.shape else values[()])
            reached, windows = float(file.attrs["time"]), int(file.attrs["windows"])
    except (OSError, KeyError) as error:
        refuse(f"{path}: expected a restart file of {name}: {error}; without the file it begins anew", part.rank)
    if part.rank == 0:
        print(f"{name} goes on after {reached / DAY:g} days: {path}")
    return reached, windows


def write_restart(path: str, name: str, part: Part, solver: Any, reached: float, windows: int) -> None:
    """Write the state of all cells from rank 0, beside the file and in its place when it is whole."""
    import h5py

    state = {key: part.whole_rows(getattr(solver, key)) for key in solver.state}
    if part.rank == 0:
        with h5py.File(f"{path}.new", "w") as file:
            for key, values in state.items():
                file[f"{name}/{key}"] = values
            file.attrs.update(time=reached, windows=windows)
        os.replace(f"{path}.new", path)


def refuse(message: str, rank: int) -> NoReturn:
    """End all ranks; the first of them says why."""
    if rank == 0:
        print(message, file=sys.stderr)
    sys.exit(2)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the participant that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("participant", choices=["Coupler", *CONSTITUENTS])
    parser.add_argument("--load", choices=["real", "emulated"], default="real", help="default: %(default)s")
    parser.add_argument("--law", default="../law.json", help="cost laws of the emulated load (default: %(default)s)")
    parser.add_argument("--output", metavar="FILE.npz", help="write the history at the end")
    parser.add_argument("--restart", metavar="FILE.h5", help="begin with what is there, if it is; write it at the end")
    options = parser.parse_args(arguments)
    comm, emulated = MPI.COMM_WORLD, options.load == "emulated"
    try:
        part = Part(options.participant, comm, patient=emulated)
    except ValueError as error:
        refuse(f"{options.participant}: {error}", comm.Get_rank())
    load = None
    if emulated:
        from emulation import EmulatedLoad

        load = EmulatedLoad.of_solver(options.law, options.participant, comm)
    history = run(options.participant, part, load, options.restart)
    if load is not None:
        load.report()
    if options.output:
        fields = np.array([part.whole(values) for values in history["temperature"]])
        if part.rank == 0:
            np.savez_compressed(
                options.output, time=history["time"], energy=history["energy"], temperature=fields, cells=part.cells
            )


if __name__ == "__main__":
    main()
