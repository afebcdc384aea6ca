"""Flow over a heated plate, two solvers coupled by preCICE: the fluid is told temperatures and tells heat rates."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import precice
from case import build_fluid, build_solid
from mpi4py import MPI

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulation import EmulatedLoad
    from heat import Body, Fluid, Solid
    from numpy.typing import NDArray


class FluidSide:
    """Reads the surface's temperature, solves the channel, writes the heat that each face of the plate gave."""

    def __init__(self, participant: precice.Participant, fluid: Fluid) -> None:
        self.participant, self.body = participant, fluid
        x = fluid.x[fluid.plate]
        self.ids = participant.set_mesh_vertices("Fluid-Mesh", np.stack([x, np.zeros_like(x)], axis=1))

    def write(self, flux: NDArray[np.float64]) -> None:
        """Write the heat rate in W per metre of depth, which preCICE sums up where faces are larger."""
        self.participant.write_data("Fluid-Mesh", "Heat-Rate", self.ids, flux * self.body.size)

    def write_initial(self) -> None:
        """Write that no heat has flowed yet."""
        self.write(np.zeros(len(self.ids)))

    def solve(self, dt: float) -> float:
        """Step over a time window; return the mean heat rate from this rank's part of the plate in W/m."""
        wall = self.participant.read_data("Fluid-Mesh", "Temperature", self.ids, dt)
        flux = self.body.advance(dt, wall)
        self.write(flux)
        return float(flux.sum()) * self.body.size


class SolidSide:
    """Reads the heat that left through each face, solves the plate, writes its surface's temperature."""

    def __init__(self, participant: precice.Participant, solid: Solid) -> None:
        self.participant, self.body = participant, solid
        self.ids = participant.set_mesh_vertices("Solid-Mesh", np.stack([solid.x, np.zeros_like(solid.x)], axis=1))

    def write(self, flux: NDArray[np.float64] | float) -> None:
        """Write the temperature of the surface through which a flux in W/m^2 leaves."""
        self.participant.write_data("Solid-Mesh", "Temperature", self.ids, self.body.surface(flux))

    def write_initial(self) -> None:
        """Write the temperature of the surface before any heat flows."""
        self.write(0.0)

    def solve(self, dt: float) -> float:
        """Step over a time window; return the mean heat rate into this rank's part of the bottom in W/m."""
        flux = self.participant.read_data("Solid-Mesh", "Heat-Rate", self.ids, dt) / self.body.size
        rate = self.body.advance(dt, flux)
        self.write(flux)
        return rate


def solve(name: str, body: Body, load: EmulatedLoad | None) -> tuple[float, list[float]]:
    """Run a participant to the end of the coupling; return the time reached and this rank's heat rate per window."""
    participant = precice.Participant(name, "../precice-config.xml", body.comm.Get_rank(), body.comm.Get_size())
    side = FluidSide(participant, body) if name == "Fluid" else SolidSide(participant, body)
    if participant.requires_initial_data():
        side.write_initial()
    participant.initialize()
    reached, window = 0.0, 0
    rates = []
    while participant.is_coupling_ongoing():
        begin = time.perf_counter()
        dt = participant.get_max_time_step_size()
        if load is not None:
            load.sleep(window, begin, 0.25)  # no arithmetic while other ranks are still exchanging data
        rates.append(side.solve(dt))
        if load is not None:
            load.sleep(window, begin)
        participant.advance(dt)
        reached += dt
        window += 1
    participant.finalize()
    return reached, rates


def save(path: str, body: Body, reached: float, rates: list[float]) -> None:
    """Write the temperature (rows, columns) of the whole body from rank 0, and its heat rate in W/m per time window."""
    temperatures, columns = body.comm.gather(body.temperature), body.comm.gather(body.x)
    total = body.comm.reduce(np.array(rates))
    if temperatures is not None:
        np.savez_compressed(
            path,
            x=np.concatenate(columns),
            y=body.y,
            temperature=np.concatenate(temperatures, axis=1),
            heat_rate=total,
            time=reached,
        )


def refuse(message: str) -> NoReturn:
    """End all ranks; the first of them says why."""
    if MPI.COMM_WORLD.Get_rank() == 0:
        print(message, file=sys.stderr)
    sys.exit(2)


def main(arguments: Sequence[str] | None = None) -> None:
    """Solve one participant's part as the command line asks."""
    parser = argparse.ArgumentParser(description="One participant of the coupled flow over a heated plate.")
    parser.add_argument("participant", choices=["Fluid", "Solid"])
    parser.add_argument("--load", choices=["real", "emulated"], default="real", help="default: %(default)s")
    parser.add_argument("--law", default="../law.json", help="cost laws of the emulated load (default: %(default)s)")
    parser.add_argument("--coarsen", type=int, choices=[1, 2], help="1: the full grid, 2: cells twice as large")
    parser.add_argument("--output", metavar="FILE.npz", help="write the temperature at the end")
    options = parser.parse_args(arguments)
    name: str = options.participant
    emulated, comm = options.load == "emulated", MPI.COMM_WORLD
    build = build_fluid if name == "Fluid" else build_solid
    try:
        body = build(comm, coarsen=options.coarsen or (2 if emulated else 1), patient=emulated)
    except ValueError as error:
        refuse(f"{name}: {error}")
    load = None
    if emulated:
        from emulation import EmulatedLoad

        load = EmulatedLoad.of_solver(options.law, name, comm)
    reached, rates = solve(name, body, load)
    if load is not None:
        load.report()
    if options.output:
        save(options.output, body, reached, rates)


if __name__ == "__main__":
    main()
