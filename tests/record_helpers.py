"""Two small coupled solvers and their configuration, to be run with and without recording."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from clock_helpers import emulated_clock
from store_helpers import PARALLEL, metadata

from precice_lb.record import Recorder
from precice_lb.record.participant import Backend, recording_class
from precice_lb.store import RankFile, StoreWriter, find_stores, read_store

WINDOWS = 7
BACKENDS = ["embedded", pytest.param("libprecice", marks=pytest.mark.precice)]

SOLVER = '''
"""A solver of a scalar that follows its partner's; writes every value it read, bit for bit."""
import sys
import numpy as np
import precice

name, partner, ranks = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 1
rank = 0
if ranks > 1:
    from mpi4py import MPI
    rank = MPI.COMM_WORLD.Get_rank()
participant = precice.Participant(name, "precice-config.xml", rank, ranks)
mesh = f"{name}-Mesh"
x = np.linspace(0.0, 1.0, 11)[rank::ranks]
ids = participant.set_mesh_vertices(mesh, np.stack([x, np.zeros_like(x)], axis=1))
if participant.requires_initial_data():
    participant.write_data(mesh, f"{name}-Data", ids, x)
participant.initialize()
value, log, saved = x.copy(), [], None
while participant.is_coupling_ongoing():
    if participant.requires_writing_checkpoint():
        saved = value.copy()
    dt = participant.get_max_time_step_size()
    if "subcycle" in sys.argv:
        dt = min(dt, 0.05)
    read = participant.read_data(mesh, f"{partner}-Data", ids, dt)
    value = np.cos(0.3 * value + 0.1 * read + dt)
    participant.write_data(mesh, f"{name}-Data", ids, value)
    participant.advance(dt)
    if participant.requires_reading_checkpoint():
        value = saved.copy()
    log.append(read.copy())
participant.finalize()
np.save(f"{name}-{rank}.npy", np.array(log))
print(f"{name} ends with {value.sum()!r}")
'''

_SCHEMES = {
    "explicit": "",
    "implicit": """
    <max-iterations value="20"/>
    <relative-convergence-measure limit="1e-6" data="A-Data" mesh="A-Mesh"/>""",
}


def configuration(kind: str, windows: int = WINDOWS) -> str:
    """Text of precice-config.xml of two participants A and B with a scheme such as ``serial-implicit``."""
    text = (Path(__file__).parent / "data" / "configurations" / "pair.xml.in").read_text(encoding="utf-8")
    return text.format(kind=kind, windows=windows, scheme=_SCHEMES[kind.rpartition("-")[2]])


def environment(**variables: str) -> dict[str, str]:
    """This process's environment with its import path, and with more variables."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), **variables}


class StandIn:
    """The calls of a backend's participant that recording makes, and that do nothing here: base of stand-ins."""

    def __init__(self, *arguments: object) -> None: ...

    initialize = finalize = stop_last_profiling_section = lambda self: None
    is_coupling_ongoing = requires_reading_checkpoint = is_time_window_complete = lambda self: False
    advance = start_profiling_section = lambda self, argument: None


def stand_in(participant: type, *arguments: object) -> Any:
    """A recorded participant of a backend that a stand-in takes the place of."""
    # The embedded backend is a room, without which other tests work.
    from precice_lb import embedded

    return recording_class(Backend("embedded", embedded, participant))(*arguments)


def python(directory: Path | None, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run this Python in a directory, to whatever end."""
    command, null = [sys.executable, *arguments], subprocess.DEVNULL
    return subprocess.run(
        command, cwd=directory, env=environment(**variables), stdin=null, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip


def program(path: Path, text: str) -> None:
    """Write what can be executed."""
    path.write_text(text)
    path.chmod(0o755)


def start(
    directory: Path, commands: Mapping[str, Sequence[str]], variables: Mapping[str, Mapping[str, str]]
) -> dict[str, subprocess.Popen[str]]:
    """Start each participant's command in a session of its own, with the environment that its variables make."""
    more: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return {
        name: subprocess.Popen(command, cwd=directory, env=variables[name], start_new_session=True, **more)
        for name, command in commands.items()
    }


def finish(started: Mapping[str, subprocess.Popen[str]]) -> dict[str, subprocess.CompletedProcess[str]]:
    """Wait for processes, which have a session of their own; kill them with their ranks if they do not end."""
    results, limit = {}, time.monotonic() + 300
    try:
        for name, process in started.items():
            output, errors = process.communicate(timeout=max(limit - time.monotonic(), 1.0))
            results[name] = subprocess.CompletedProcess(process.args, process.returncode, output, errors)
    finally:
        for process in started.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
    return results


def new_recorder(directory: Path | str) -> tuple[Recorder, Callable[..., None]]:
    """A recorder of one rank, and what gives it, at chosen times, what an ``advance`` gives it."""
    recorder, left = Recorder(StoreWriter(directory, metadata(), PARALLEL)), 1

    def advance(begin: int, end: int, complete: bool) -> None:
        nonlocal left
        recorder.take((begin, end, 0.1, complete, 0, 0))
        if complete:
            left -= 1
            if left <= 0:
                left = recorder.flush_due()
        else:
            recorder.stayed()

    return recorder, advance


def rank_stores(directory: Path) -> dict[tuple[str, int], RankFile]:
    """The stores below a directory, of which there is at least one, by participant and rank."""
    stores = [read_store(path) for path in find_stores([directory / "precice-lb-store"])]
    assert stores
    return {(store.metadata["participant"], store.metadata["rank"]): store for store in stores}


def only_store(directory: Path) -> RankFile:
    """The one store below a directory."""
    (path,) = find_stores([directory])
    return read_store(path)


def assert_whole(directory: Path) -> None:
    """The stores of A and B have come to their end and have all time windows, of one step."""
    stores = rank_stores(directory)
    assert {name for name, _ in stores} == {"A", "B"}
    for store in stores.values():
        assert store.metadata["finished"] is True
        assert store.advances["window"].tolist() == list(range(1, WINDOWS + 1))


def warnings_of(result: subprocess.CompletedProcess[str]) -> list[str]:
    """The warnings of a recorded solver."""
    return [line for line in result.stderr.splitlines() if line.startswith("precice-lb: warning:")]


def run_pair(
    directory: Path,
    kind: str = "serial-explicit",
    *,
    recorded: bool = True,
    windows: int = WINDOWS,
    solver: str = SOLVER,
    launch: Sequence[str] = (),
    arguments: Sequence[str] = (),
    mpiexec: str = "",
    backend: str = "embedded",
    emulated: bool = False,
    head: str = "",
    fails: bool = False,
    **variables: str,
) -> dict[str, subprocess.CompletedProcess[str]]:
    """Run A and B in a directory, also on the emulated clock; unrecorded they run by plain python.

    By an ``mpiexec`` each has two ranks. ``head`` is what the configuration begins with. Both come to their end, unless
    it ``fails``.
    """
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "precice-config.xml").write_text(configuration(kind, windows).replace("<log ", f"{head}<log "))
    (directory / "solver.py").write_text(solver)
    if mpiexec:
        launch, arguments = [mpiexec, "-n", "2"], ["2"]
    command = [*launch, sys.executable, *(["-m", "precice_lb", "run"] if recorded else []), "solver.py"]
    settings = environment(PRECICE_LB_BACKEND=backend, **variables)
    settings = emulated_clock(settings) if emulated else settings
    commands = {names[0]: [*command, *names, *arguments] for names in ("AB", "BA")}
    results = finish(start(directory, commands, dict.fromkeys("AB", settings)))
    for name, result in results.items():
        assert fails or (result.returncode == 0 and f"{name} ends with" in result.stdout), result.stderr
    return results
