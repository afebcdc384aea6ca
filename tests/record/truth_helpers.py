"""Coupled solvers whose cost is planted: they sleep, so that compute time and wait of every time window are known."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from clock_helpers import emulated_clock
from embedded.embedded_helpers import write_configuration
from record_helpers import environment, finish, start

SOLVER = '''
"""Sleeps in every step."""
import json
import sys
import time
import numpy as np
import precice

role = json.loads(sys.argv[1])
name, ranks = role["name"], len(role["seconds"])
rank, world = 0, None
if ranks > 1:
    from mpi4py import MPI
    world = MPI.COMM_WORLD
    rank = world.Get_rank()


def meet():
    """Wait for all ranks; a barrier that leaves the processor to the others."""
    if world is not None:
        request = world.Ibarrier()
        while not request.Test():
            time.sleep(1e-4)


participant = precice.Participant(name, "precice-config.xml", rank, ranks)
mesh = f"{name}-Mesh"
x = np.linspace(0.0, 1.0, 12)
on = role["interface"]
x = x[on.index(rank) :: len(on)] if rank in on else x[:0]
ids = participant.set_mesh_vertices(mesh, np.stack([x, np.zeros_like(x)], axis=1))
if participant.requires_initial_data():
    participant.write_data(mesh, f"{name}-Data", ids, np.zeros(len(x)))
participant.initialize()
window, iteration = 1, 0
while participant.is_coupling_ongoing():
    participant.requires_writing_checkpoint()
    iteration += 1
    dt = participant.get_max_time_step_size()
    if role["subcycles"] > 1:
        dt = min(dt, 1.0 / role["subcycles"])
    if "before" in role["collective"]:
        meet()
    time.sleep(role["seconds"][rank])
    if "after" in role["collective"]:
        meet()
    for other in role["reads"]:
        participant.read_data(mesh, f"{other}-Data", ids, dt)
    # The same values as in the iteration before, hence convergence, in iteration number `stop`.
    stop = role["iterations"][window % len(role["iterations"])]
    participant.write_data(mesh, f"{name}-Data", ids, np.full(len(x), 100.0 * window + min(iteration, stop - 1)))
    participant.advance(dt)
    participant.requires_reading_checkpoint()
    if participant.is_time_window_complete():
        window, iteration = window + 1, 0
participant.finalize()
'''


@dataclass(frozen=True)
class Role:
    """What one participant's solver does.

    ``seconds`` per step by rank; ``interface``: ranks with vertices, by default all; ``collective``: where all ranks
    meet in each step, "before" and/or "after" their work; ``iterations`` per time window, in turn.
    """

    seconds: Sequence[float]
    interface: Sequence[int] | None = None
    collective: str = ""
    iterations: Sequence[int] = (1,)
    subcycles: int = 1

    @property
    def on_interface(self) -> Sequence[int]:
        """Ranks that have vertices."""
        return range(len(self.seconds)) if self.interface is None else self.interface


def configuration(directory: Path, participants: str, schemes: Sequence[tuple[str, str]], windows: int) -> str:
    """Write precice-config.xml for one-letter participants; schemes such as ("serial-explicit", "AB").

    Implicit schemes end with the solvers' own convergence; the first participant of ("multi", "BAC") controls.
    """
    exchanges, measured = [], ""
    for kind, (first, *others) in schemes:
        what = " ".join(f"{first}-Data:{first}>{other} {other}-Data:{other}>{first}" for other in others)
        exchanges.append((kind, first, ",".join(others), what))
        measured = measured or {"multi": others[0]}.get(kind, first if kind.endswith("implicit") else "")
    return write_configuration(
        directory / "precice-config.xml",
        participants={name: [] for name in participants},
        exchanges=exchanges,
        end=f'<max-time-windows value="{windows}"/>',
        window=1.0,
        iteration=f'<max-iterations value="50"/><absolute-convergence-measure limit="1e-9" data:{measured}-Data />',
    ).read_text()


def run(directory: Path, text: str, roles: Mapping[str, Role], backend: str, mpiexec: str | None = None) -> Path:
    """Run a coupled case to its end, recorded; returns the directory of its stores.

    Beside libprecice and the embedded backend there is ``emulated``: the latter on an emulated clock.
    """
    variables = environment(
        PRECICE_LB_BACKEND="embedded" if backend == "emulated" else backend, PRECICE_LB_DIR=str(directory / "stores")
    )
    (directory / "solver.py").write_text(SOLVER)
    variables = emulated_clock(variables) if backend == "emulated" else variables
    commands = {}
    for name, role in roles.items():
        told = {
            "name": name,
            "reads": [other for other in roles if f'<read-data name="{other}-Data" mesh="{name}-Mesh" />' in text],
            **role.__dict__,
            "interface": list(role.on_interface),
        }
        launch = [] if len(role.seconds) == 1 else [str(mpiexec), "-n", str(len(role.seconds))]
        commands[name] = [*launch, sys.executable, "-m", "precice_lb", "run", "solver.py", json.dumps(told)]
    for name, result in finish(start(directory, commands, dict.fromkeys(roles, variables))).items():
        assert result.returncode == 0, f"{name}: {result.stdout}{result.stderr}"
    return directory / "stores"
