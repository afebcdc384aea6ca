"""Coupled solvers whose cost is planted: they sleep, so that compute time and wait of every time window are known."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clock_helpers import emulated_clock
from embedded.embedded_helpers import write_configuration
from record_helpers import environment, finish, start

SOLVER = '''
"""Sleeps in every step, in one case after the other."""
import json
import os
import sys
import time
import numpy as np
import precice

world = None
if sys.argv[2] != "1":
    from mpi4py import MPI
    world = MPI.COMM_WORLD


def meet():
    """Wait for all ranks; a barrier that leaves the processor to the others."""
    if world is not None:
        request = world.Ibarrier()
        while not request.Test():
            time.sleep(1e-4)


for number, role in enumerate(json.loads(sys.argv[1]), 1):
    name, ranks, rank = role["name"], len(role["seconds"]), world.Get_rank() if world else 0
    os.chdir(role["directory"])
    if "EMULATED_EPOCH" in os.environ:
        # All begin a case at once.
        sys.modules["sitecustomize"].now = number * 10**13
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


def configuration(directory: Path, participants: str, schemes: Sequence[tuple[str, str]], windows: int) -> Path:
    """Write precice-config.xml of one-letter participants, whose schemes are such as ("serial-explicit", "AB").

    Implicit schemes end with the solvers' own convergence; the first participant of ("multi", "BAC") controls.
    """
    exchanges, measured = [], ""
    for kind, (first, *others) in schemes:
        what = " ".join(f"{first}-Data:{first}>{other} {other}-Data:{other}>{first}" for other in others)
        exchanges.append((kind, first, ",".join(others), what))
        measured = measured or {"multi": others[0]}.get(kind, first if kind.endswith("implicit") else "")
    directory.mkdir(exist_ok=True)
    write_configuration(
        directory / "precice-config.xml",
        participants={name: [] for name in participants},
        exchanges=exchanges,
        end=f'<max-time-windows value="{windows}"/>',
        window=1.0,
        iteration=f'<max-iterations value="50"/><absolute-convergence-measure limit="1e-9" data:{measured}-Data />',
    )
    return directory


def run(cases: Mapping[Path, Mapping[str, Role]], backend: str, mpiexec: str = "") -> list[Path]:
    """Run coupled cases in their directories to their end, recorded; returns the directories of their stores.

    One after the other, in the same processes. Beside libprecice and the embedded backend there is ``emulated``: the
    latter on an emulated clock.
    """
    variables = environment(PRECICE_LB_BACKEND="embedded" if backend == "emulated" else backend)
    variables = emulated_clock(variables) if backend == "emulated" else variables
    told: dict[str, list[dict[str, Any]]] = {}
    for directory, roles in cases.items():
        text = (directory / "precice-config.xml").read_text()
        for name, role in roles.items():
            reads = [other for other in roles if f'<read-data name="{other}-Data" mesh="{name}-Mesh" />' in text]
            more = {"directory": str(directory), "reads": reads, "interface": list(role.on_interface)}
            told.setdefault(name, []).append({"name": name, **role.__dict__, **more})
    place, commands = next(iter(cases)), {}
    (place / "solver.py").write_text(SOLVER)
    for name, roles_of in told.items():
        ranks = str(len(roles_of[0]["seconds"]))
        launch = [] if ranks == "1" else [mpiexec, "-n", ranks]
        command = [sys.executable, "-m", "precice_lb", "run", "solver.py", json.dumps(roles_of), ranks]
        commands[name] = [*launch, *command]
    for name, result in finish(start(place, commands, dict.fromkeys(told, variables))).items():
        assert result.returncode == 0, f"{name}: {result.stdout}{result.stderr}"
    return [directory / "precice-lb-store" for directory in cases]
