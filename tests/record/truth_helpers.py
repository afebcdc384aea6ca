"""Coupled solvers whose cost is planted: they sleep, so that compute time and wait of every time window are known.

A busy machine makes sleeps longer and wakes waiting processes late. So each solver also logs, by the clock that all
processes of a host share, when its steps began and ended, from which `bounds` tells what its waits must have been.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from clock_helpers import emulated_clock
from numpy.typing import NDArray
from record_helpers import environment, finish

__all__ = ["Bounds", "Role", "bounds", "configuration", "run"]

SOLVER = '''
"""Sleeps in every step; logs of each the window, begin and end outside preCICE, and whether it ends an iteration."""
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
begin = time.perf_counter()
window, iteration, steps = 1, 0, []
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
    end = time.perf_counter()
    participant.advance(dt)
    back = time.perf_counter()
    done = participant.requires_reading_checkpoint() or participant.is_time_window_complete()
    steps.append((window, begin, end, done))
    begin = back
    if participant.is_time_window_complete():
        window, iteration = window + 1, 0
steps.append((window, begin, np.nan, False))
participant.finalize()
np.save(f"{name}-{rank}.npy", steps)
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


@dataclass(frozen=True)
class Bounds:
    """What a participant did per time window, each of shape (windows,), in seconds.

    Its wait is at least the time from the end of its own step to the end of the partner's, and at most the time it was
    away in preCICE; the same but for what preCICE and a busy machine take in between. ``iterations`` counts
    coupling iterations.
    """

    iterations: NDArray[np.float64]
    wait_low: NDArray[np.float64]
    wait_high: NDArray[np.float64]
    own_low: NDArray[np.float64]
    own_high: NDArray[np.float64]


@dataclass(frozen=True)
class _Iterations:
    """One rank's coupling iterations: window (from 0), wall seconds, when it called preCICE and when it was back."""

    window: NDArray[np.int64]
    wall: NDArray[np.float64]
    call: NDArray[np.float64]
    back: NDArray[np.float64]

    @classmethod
    def read(cls, path: Path) -> _Iterations:
        window, begin, end, done = np.load(path).T
        last = np.flatnonzero(done)
        first = np.concatenate([[0], last[:-1] + 1])
        return cls(window[last].astype(np.int64) - 1, begin[last + 1] - begin[first], end[last], begin[last + 1])


def bounds(
    directory: Path, schemes: Sequence[tuple[str, str]], roles: Mapping[str, Role], windows: int
) -> dict[str, Bounds]:
    """Tell from the solvers' logs what each participant waited; a wait is in the window that its data is for."""
    ranks = {
        name: [_Iterations.read(directory / f"{name}-{rank}.npy") for rank in role.on_interface]
        for name, role in roles.items()
    }
    calls = {name: np.min([rank.call for rank in all_ranks], axis=0) for name, all_ranks in ranks.items()}
    last = {name: np.flatnonzero(np.diff(rs[0].window, append=windows)) for name, rs in ranks.items()}

    def at(times: NDArray[np.float64], ahead: int) -> NDArray[np.float64]:
        return np.concatenate([times[ahead:], np.full(ahead, -np.inf)])

    def ahead(kind: str, names: str, name: str) -> int:
        return int(kind.startswith("serial") and names[1] == name)

    converged: dict[str, NDArray[np.float64]] = {}
    ready = {name: np.full(len(times), -np.inf) for name, times in calls.items()}
    for kind, names in schemes:
        if not kind.endswith("explicit"):
            for name in names:
                for other in set(names) - {name}:
                    ready[name] = np.maximum(ready[name], at(calls[other], ahead(kind, names, name)))
    # Explicit exchanges come after the implicit scheme of the same participant.
    for name, times in calls.items():
        converged[name] = np.maximum(times, ready[name])[last[name]]
    for kind, names in schemes:
        if kind.endswith("explicit"):
            for name, other in ((names[0], names[1]), (names[1], names[0])):
                sent = at(converged[other], ahead(kind, names, name))
                ready[name][last[name]] = np.maximum(ready[name][last[name]], sent)

    result = {}
    for name, all_ranks in ranks.items():
        window = all_ranks[0].window
        wall = np.mean([rank.wall for rank in all_ranks], axis=0)
        low = np.min([np.maximum(ready[name] - rank.call, 0.0) for rank in all_ranks], axis=0)
        high = np.min([rank.back - rank.call for rank in all_ranks], axis=0)
        second = any(ahead(kind, names, name) for kind, names in schemes)
        waits = [np.concatenate([[np.nan], wait[:-1]]) if second else wait for wait in (low, high)]
        values = [np.ones(len(window)), *waits, wall - high, wall - low]
        result[name] = Bounds(*(np.bincount(window, value, windows).astype(np.float64) for value in values))
    return result
