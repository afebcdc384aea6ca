"""What the fluid and the solid have in common: the coupling with its checkpoints, and the command line."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import precice
from mpi4py import MPI
from tube import Stretch, Tube

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from emulation import EmulatedLoad
    from numpy.typing import NDArray

CELLS = {"real": 200, "emulated": 64}
ITERATIONS = 4  # median over the time windows of a calibration run, with emulated load


class Solver(Protocol):
    """One side of the coupling on one rank."""

    reads: str
    writes: str
    tube: Tube
    stretch: Stretch

    def step(self, read: NDArray[np.float64], reached: float, dt: float) -> NDArray[np.float64]:
        """Step from ``reached`` over ``dt`` seconds with what was read for the end; return what to write there."""

    def checkpoint(self) -> tuple[object, ...]:
        """Return the state."""

    def restore(self, saved: tuple[object, ...]) -> None:
        """Go back to a state."""


def solve(name: str, solver: Solver, load: EmulatedLoad | None, record: Callable[[], None]) -> list[float]:
    """Run a participant to the end of the coupling, call ``record`` after every time window, return their ends."""
    stretch, mesh = solver.stretch, f"{name}-Mesh"
    participant = precice.Participant(name, "../precice-config.xml", stretch.rank, stretch.ranks)
    ids = participant.set_mesh_vertices(mesh, np.stack([stretch.x, np.full_like(stretch.x, solver.tube.radius)], 1))
    participant.initialize()
    reached, saved = 0.0, solver.checkpoint()
    ends: list[float] = []
    while participant.is_coupling_ongoing():
        begin = time.perf_counter()
        if participant.requires_writing_checkpoint():
            saved = solver.checkpoint()
        dt = participant.get_max_time_step_size()
        read = participant.read_data(mesh, solver.reads, ids, dt)
        if load is not None:
            load.sleep(len(ends), begin, 0.25)  # no arithmetic while other ranks are still exchanging data
        participant.write_data(mesh, solver.writes, ids, solver.step(read, reached, dt))
        if load is not None:
            load.sleep(len(ends), begin)
        participant.advance(dt)
        if participant.requires_reading_checkpoint():
            solver.restore(saved)
        else:
            reached += dt
            ends.append(reached)
            record()
    participant.finalize()
    return ends


def run(
    name: str,
    build: Callable[[Tube, Stretch], Solver],
    fields: Callable[[Any], dict[str, NDArray[np.float64]]],
) -> None:
    """Solve as the command line asks: ``build`` makes the solver, ``fields`` says what of it belongs in the output."""
    options, comm = parse(name), MPI.COMM_WORLD
    emulated, tube = options.load == "emulated", Tube()
    try:
        stretch = Stretch(tube.length, CELLS[options.load] * options.refine, comm, patient=emulated)
    except ValueError as error:
        if comm.Get_rank() == 0:
            print(f"{name}: {error}", file=sys.stderr)
        sys.exit(2)
    load = None
    if emulated:
        from emulation import EmulatedLoad

        load = EmulatedLoad.of_solver(options.law, name, comm, ITERATIONS)
    solver = build(tube, stretch)
    history: list[dict[str, NDArray[np.float64]]] = []
    times = solve(name, solver, load, lambda: history.append(fields(solver)))
    if load is not None:
        load.report()
    if options.output:
        whole = {key: stretch.gather(np.array([entry[key] for entry in history]).T) for key in history[0]}
        x = stretch.gather(stretch.x)
        if stretch.first:
            np.savez_compressed(options.output, x=x, time=times, **{key: values.T for key, values in whole.items()})


def parse(name: str, arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=f"The {name.lower()} of the elastic tube.")
    parser.add_argument("--load", choices=["real", "emulated"], default="real", help="default: %(default)s")
    parser.add_argument("--law", default="../law.json", help="cost laws of the emulated load (default: %(default)s)")
    parser.add_argument("--refine", type=int, default=1, metavar="N", help="divide every cell into N")
    parser.add_argument("--output", metavar="FILE.npz", help="write the history of the fields at the end")
    options = parser.parse_args(arguments)
    if options.refine < 1:
        parser.error(f"--refine must be at least 1, found {options.refine}")
    return options
