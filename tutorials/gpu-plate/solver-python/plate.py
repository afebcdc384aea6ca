"""Two solvers coupled semi-implicitly by preCICE: the flow carries heat once per time window, conduction iterates."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import precice
from case import COLD, build
from conduction import LIBRARIES, array_maker, on_host
from mpi4py import MPI

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(name: str, refine: int, library: str, comm: MPI.Comm) -> tuple[Any, list[float]]:
    """Run a participant to the end of the coupling; return its body and this rank's heat rate in W/m per window."""
    participant = precice.Participant(name, "../precice-config.xml", comm.Get_rank(), comm.Get_size())
    # The body needs the time step, which preCICE tells once it is initialised.
    body = build(name, 1.0, refine, comm=comm)
    surface = body.x[body.plate] if name == "Fluid" else body.x
    mesh, reads, writes = f"{name}-Mesh", "Temperature", "Heat-Rate"
    if name == "Solid":
        reads, writes = writes, reads
    ids = participant.set_mesh_vertices(mesh, np.stack([surface, np.zeros_like(surface)], axis=1))
    if participant.requires_initial_data():
        # No heat has flowed yet.
        participant.write_data(mesh, writes, ids, np.zeros(len(ids)))
    participant.initialize()
    dt = participant.get_max_time_step_size()
    body = build(name, dt, refine, array_maker(library, comm.Get_rank()), comm)
    # Rates over a face are summed up where faces are larger; what the solvers compute with is per area.
    area = body.size
    rates = []
    while participant.is_coupling_ongoing():
        if participant.requires_writing_checkpoint():
            found = body.temperature
            if name == "Fluid":
                body.carry()
        values = participant.read_data(mesh, reads, ids, dt)
        if name == "Fluid":
            found, flux = body.conduct(values, found)
            # An array on a device, if that is where it was computed.
            participant.write_data(mesh, writes, ids, flux * area)
            rate = float(flux.sum()) * area
        else:
            found, wall = body.conduct(values / area, found)
            participant.write_data(mesh, writes, ids, wall)
            rate = body.conductance * float((body.bottom - found[0]).sum()) * area
        participant.advance(dt)
        # To go back means to solve again from what was carried, so there is nothing to restore.
        if not participant.requires_reading_checkpoint():
            body.temperature = found
            rates.append(rate)
    participant.finalize()
    return body, rates


def save(path: str, body: Any, rates: list[float]) -> None:
    """Write temperatures in K, heat rates in W/m per time window and what was counted, from rank 0."""
    temperatures, columns = body.comm.gather(on_host(body.temperature)), body.comm.gather(body.x)
    total = body.comm.reduce(np.array(rates))
    if temperatures is not None:
        np.savez_compressed(
            path,
            x=np.concatenate(columns),
            y=body.y,
            temperature=COLD + np.concatenate(temperatures, axis=1),
            heat_rate=total,
            time=body.seconds * len(rates),
            solves=body.solves,
            advections=getattr(body, "advections", 0),
        )


def refuse(message: str) -> NoReturn:
    """End all ranks; the first of them says why."""
    if MPI.COMM_WORLD.Get_rank() == 0:
        print(message, file=sys.stderr)
    sys.exit(2)


def main(arguments: Sequence[str] | None = None) -> None:
    """Solve one participant's part as the command line asks."""
    parser = argparse.ArgumentParser(description="One side of the flow over a heated plate.")
    parser.add_argument("participant", choices=["Fluid", "Solid"])
    parser.add_argument("--refine", type=int, default=1, help="cells smaller by this factor (default: %(default)s)")
    parser.add_argument("--array", choices=LIBRARIES, default="numpy", help="what computes (default: %(default)s)")
    parser.add_argument("--output", metavar="FILE.npz", help="write the temperature at the end")
    options = parser.parse_args(arguments)
    name: str = options.participant
    comm = MPI.COMM_WORLD
    try:
        array_maker(options.array, comm.Get_rank())
        build(name, 1.0, options.refine, comm=comm)
    except (ImportError, ValueError) as error:
        refuse(f"{name} --array {options.array} --refine {options.refine}: {error}")
    body, rates = run(name, options.refine, options.array, comm)
    if options.output:
        save(options.output, body, rates)


if __name__ == "__main__":
    main()
