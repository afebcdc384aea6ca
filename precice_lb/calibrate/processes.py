"""The processes of one run: started together, watched, and stopped to the last rank.

An MPI launcher's ranks may live in sessions of their own (Hydra's do) and outlive it. So every process of a run carries
a token in its environment, by which it is found whatever became of its parents.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import psutil

from precice_lb.calibrate.plan import Task
from precice_lb.exceptions import CalibrationError

TOKEN_VARIABLE = "PRECICE_LB_CALIBRATION_TOKEN"

_POLL_SECONDS = 0.03
# A participant whose partner failed may end, and say so in its log, by itself before it is stopped.
_GRACE_SECONDS = 2.0
_TERM_SECONDS = 3.0
_KILL_SECONDS = 10.0
#: Cores of other load from which on a run may have measured it too.
NOTICEABLE = 0.25
# Of srun; in a log with nothing else, or at its end.
_NEVER_STARTED = re.compile(
    r"^srun: (?:error: )?(tasks? \S+ launch failed.*|Unable to (?:create step|confirm allocation) for job .*"
    r"|Job \S+ step creation .*disabled.*(?=\s*\Z))$",
    re.MULTILINE,
)
_LAUNCHER_BYTES = 65_536
# Below, the kernel's ticks are too coarse.
_SHORTEST_SECONDS = 0.5


@dataclass(frozen=True)
class Outcome:
    """How a run ended: ``seconds`` of wall time; ``error`` is None for a good end.

    ``participants`` are those to blame: that failed first, or that still ran at the time limit. ``code`` is the first
    one's exit code as a shell tells it; None where there is none. A run that is ``lost`` has ended by no fault of its
    own, and says nothing of its split.
    """

    seconds: float
    error: str | None = None
    participants: tuple[str, ...] = ()
    timed_out: bool = False
    code: int | None = None
    lost: bool = False


@contextlib.contextmanager
def signals_interrupt() -> Iterator[None]:
    """Let termination and hang-up do what an interrupt does, unless they are ignored, as hang-up is under nohup."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heeded = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_processes(tasks: Sequence[Task], environment: Mapping[str, str], token: str, time_limit: float) -> Outcome:
    """Run the commands of all tasks until each has ended well, one fails, or ``time_limit`` seconds are over.

    However it ends, by an exception such as `KeyboardInterrupt` too, no process that carries ``token`` is left.
    """
    started = time.monotonic()
    logs = {task.participant: task.log for task in tasks}
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for task in tasks:
            name = task.participant
            try:
                running[name] = start_process(task.command, task.directory, environment, task.log, token)
            except OSError as error:
                return Outcome(time.monotonic() - started, f"{name} could not be started: {error}", (name,))
        return _watch(running, logs, started, time_limit)
    finally:
        stop_processes(list(running.values()), token)


def start_process(
    tokens: Sequence[str], directory: Path, environment: Mapping[str, str], log: Path, token: str
) -> subprocess.Popen[bytes]:
    """Start a process, and all that it starts, with ``token`` in the environment."""
    with log.open("ab") as output:
        return subprocess.Popen(
            tokens,
            cwd=directory,
            env={**environment, TOKEN_VARIABLE: token},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # An interrupt typed at the terminal goes to the campaign alone, which then stops its run in order.
            start_new_session=True,
        )


def _watch(
    processes: Mapping[str, subprocess.Popen[bytes]], logs: Mapping[str, Path], started: float, time_limit: float
) -> Outcome:
    running = dict(processes)
    while True:
        codes = {name: process.poll() for name, process in running.items()}
        codes |= {name: 1 for name, code in codes.items() if code == 0 and never_started(logs[name])}
        seconds = time.monotonic() - started
        running = {name: process for name, process in running.items() if codes[name] is None}
        if failed := {name: code for name, code in codes.items() if code}:
            _wait(list(running.values()), min(_GRACE_SECONDS, max(0.0, time_limit - seconds)))
            error = ", ".join(f"{name} {ending(code, logs[name])}" for name, code in failed.items())
            code = next(iter(failed.values()))
            lost = any(never_started(logs[name]) for name in failed)
            return Outcome(seconds, error, tuple(failed), code=128 - code if code < 0 else code, lost=lost)
        if not running:
            return Outcome(seconds)
        if seconds > time_limit:
            error = f"{' and '.join(running)} still ran at the time limit of {time_limit:g} s"
            lost = any(never_started(logs[name]) for name in running)
            return Outcome(seconds, error, tuple(running), timed_out=True, lost=lost)
        time.sleep(_POLL_SECONDS)


def never_started(log: Path) -> str | None:
    """Return why ranks were never started, as their launcher says it in their log, perhaps with exit code 0."""
    said = _NEVER_STARTED.search(end_of_log(log, _LAUNCHER_BYTES))
    return None if said is None else said[1]


def ending(code: int, log: Path | None = None) -> str:
    """Say in words how a process ended: exit codes below 0 are signals."""
    if log is not None and (why := never_started(log)) is not None:
        return f"never started: {why}"
    if code < 0:
        return f"was ended by signal {-code}"
    return f"ended with exit code {code}"


def _wait(processes: Sequence[subprocess.Popen[bytes]], seconds: float) -> None:
    """Wait until all have ended or the time is over."""
    end = time.monotonic() + seconds
    while any(process.poll() is None for process in processes) and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)


def stop_processes(processes: Sequence[subprocess.Popen[bytes]], token: str) -> None:
    """Ask the launchers to end, since they clean up after themselves, then kill whatever is left."""
    alive = [process for process in processes if process.poll() is None]
    for process in alive:
        _signal(process.pid, signal.SIGTERM)
    _wait(alive, _TERM_SECONDS)
    left = stop_token(token)
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait()
    if left:
        raise CalibrationError(
            f"processes {', '.join(map(str, left))} of the last run cannot be stopped: end them first"
        )


def stop_token(token: str) -> list[int]:
    """Kill every process that carries ``token`` in its environment; return those that could not be ended.

    Only processes whose environment this user may read are found, which is so for all that a campaign starts.
    """
    end = time.monotonic() + _KILL_SECONDS
    while (found := _with_token(token)) and time.monotonic() < end:
        for pid in found:
            _signal(pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
    return found


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _with_token(token: str) -> list[int]:
    # None where the environment may not be read.
    every = [(process.pid, process.info["environ"] or {}) for process in psutil.process_iter(["environ"])]
    return [pid for pid, own in every if own.get(TOKEN_VARIABLE) == token and pid != os.getpid()]


def end_of_log(path: Path, limit: int) -> str:
    """Return what the last ``limit`` bytes of a log say; nothing where it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - limit))
            return file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""


def log_tail(path: Path, lines: int = 20, limit: int = 16_384) -> list[str]:
    """Return the last non-empty lines of a log file, without reading more than its last ``limit`` bytes."""
    return [line.rstrip() for line in end_of_log(path, limit).splitlines() if line.strip()][-lines:]


class OtherLoad:
    """Measures from its creation on: the cores' busy time less that of this process and what it waited for.

    Time that a virtual machine's host gave to others counts as other load.
    """

    def __init__(self) -> None:
        self._began, self._busy, self._own = time.monotonic(), _busy_seconds(), _own_seconds()

    def cores(self) -> float | None:
        """Tell how many cores others kept busy in the mean, once every process started here has ended.

        None where it is not known: it cannot be read, or in less than half a second.
        """
        elapsed, busy = time.monotonic() - self._began, _busy_seconds()
        if busy is None or self._busy is None or elapsed < _SHORTEST_SECONDS:
            return None
        own = _own_seconds() - self._own
        return max(busy - self._busy - own, 0.0) / elapsed


def _busy_seconds() -> float | None:
    """Busy time of all cores since the start of the machine; None where it cannot be read."""
    try:
        times = psutil.cpu_times()
    except (OSError, ValueError):
        return None
    # Not all systems have all of them; guests are in what users took.
    return sum(getattr(times, name, 0.0) for name in ("user", "nice", "system", "irq", "softirq", "steal"))


def _own_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
