"""Coupled solvers whose cost is planted: they sleep, so that compute time and wait of every time window are known."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from clock_helpers import emulated_clock
from record_helpers import environment, finish

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


def configuration(
    participants: str, schemes: Sequence[tuple[str, str]], windows: int, *, end: str = "", head: str = ""
) -> str:
    """Text of precice-config.xml for one-letter participants; schemes such as ("serial-explicit", "AB").

    Implicit schemes end with the solvers' own convergence; the first participant of ("multi", "BAC") controls.
    """
    neighbours: dict[str, list[str]] = {name: [] for name in participants}
    pairs = [(names[0], other) for _, names in schemes for other in names[1:]]
    for one, other in pairs:
        neighbours[one].append(other)
        neighbours[other].append(one)
    parts = ["<precice-configuration>", head, '<log enabled="false"/>']
    parts += [f'<data:scalar name="{name}-Data"/>' for name in participants]
    for name, others in neighbours.items():
        uses = "".join(f'<use-data name="{other}-Data"/>' for other in [name, *others])
        parts.append(f'<mesh name="{name}-Mesh" dimensions="2">{uses}</mesh>')
    for name, others in neighbours.items():
        parts += [f'<participant name="{name}">', f'<provide-mesh name="{name}-Mesh"/>']
        parts += [f'<receive-mesh name="{other}-Mesh" from="{other}"/>' for other in others]
        parts.append(f'<write-data name="{name}-Data" mesh="{name}-Mesh"/>')
        parts += [f'<read-data name="{other}-Data" mesh="{name}-Mesh"/>' for other in others]
        parts += [
            f'<mapping:nearest-neighbor direction="read" from="{other}-Mesh" to="{name}-Mesh" constraint="consistent"/>'
            for other in others
        ]
        parts.append("</participant>")
    parts += [f'<m2n:sockets acceptor="{one}" connector="{other}" exchange-directory="."/>' for one, other in pairs]
    for kind, names in schemes:
        parts.append(f"<coupling-scheme:{kind}>")
        if kind == "multi":
            parts += [f'<participant name="{n}"{" control=" + repr("yes") if n == names[0] else ""}/>' for n in names]
        else:
            parts.append(f'<participants first="{names[0]}" second="{names[1]}"/>')
        parts += [f'<max-time-windows value="{windows}"/>', '<time-window-size value="1.0"/>']
        for other in names[1:]:
            parts += [
                f'<exchange data="{a}-Data" mesh="{a}-Mesh" from="{a}" to="{b}"/>'
                for a, b in ((names[0], other), (other, names[0]))
            ]
        if kind == "multi" or kind.endswith("implicit"):
            measured = names[0] if kind != "multi" else names[1]
            parts += [
                '<max-iterations value="50"/>',
                f'<absolute-convergence-measure limit="1e-9" data="{measured}-Data" mesh="{measured}-Mesh"/>',
                end,
            ]
        parts.append(f"</coupling-scheme:{kind}>")
    return "\n".join([*parts, "</precice-configuration>", ""])


def run(directory: Path, text: str, roles: Mapping[str, Role], *, backend: str, mpiexec: str | None = None) -> Path:
    """Run a coupled case to its end, recorded; returns the directory of its stores.

    Beside libprecice and the embedded backend there is ``emulated``: the latter on an emulated clock.
    """
    variables = environment(
        PRECICE_LB_BACKEND="embedded" if backend == "emulated" else backend, PRECICE_LB_DIR=str(directory / "stores")
    )
    (directory / "precice-config.xml").write_text(text)
    (directory / "solver.py").write_text(SOLVER)
    started = {}
    for name, role in roles.items():
        ranks = len(role.seconds)
        told = {
            "name": name,
            "reads": [other for other in roles if f'<read-data name="{other}-Data" mesh="{name}-Mesh"/>' in text],
            **role.__dict__,
            "interface": list(role.on_interface),
        }
        launch = [] if ranks == 1 else [str(mpiexec), "-n", str(ranks)]
        started[name] = subprocess.Popen(
            [*launch, sys.executable, "-m", "precice_lb", "run", "solver.py", json.dumps(told)],
            cwd=directory,
            env=emulated_clock(variables) if backend == "emulated" else variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
    for name, result in finish(started).items():
        assert result.returncode == 0, f"{name}: {result.stdout}"
    return directory / "stores"
