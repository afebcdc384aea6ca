"""The processes of one run: started together, watched, and stopped to the last rank.

An MPI launcher's ranks may live in sessions of their own (Hydra's do) and outlive it. So every process of a run carries
a token in its environment, by which it is found whatever became of its parents; so are those of the same sessions,
whose environment may have been cleared.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import psutil

from precice_lb.campaign.plan import Task
from precice_lb.exceptions import CalibrationError

TOKEN_VARIABLE = "PRECICE_LB_CALIBRATION_TOKEN"

_POLL_SECONDS = 0.03
# A participant whose partner failed may end, and say so in its log, by itself before it is stopped.
_GRACE_SECONDS = 2.0
_TERM_SECONDS = 3.0
_KILL_SECONDS = 10.0
# Of srun; in a log with nothing else, or at its end.
_NEVER_STARTED = re.compile(
    r"^srun: (?:error: )?(tasks? \S+ launch failed.*|Unable to (?:create step|confirm allocation) for job .*"
    r"|Job \S+ step creation .*disabled.*(?=\s*\Z))$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Outcome:
    """How a run ended: ``seconds`` of wall time; ``error`` is None for a good end.

    ``participants`` are those to blame: that failed first, or that still ran at the time limit. ``code`` is the first
    one's exit code as a shell tells it; None where there is none. A run that is ``lost`` has ended by no fault of its
    own, and says nothing of its split. One that was stopped at a good moment has ``enough``, why that was one.
    """

    seconds: float
    error: str | None = None
    participants: tuple[str, ...] = ()
    timed_out: bool = False
    code: int | None = None
    lost: bool = False
    enough: str = ""


@contextlib.contextmanager
def signals_interrupt() -> Iterator[None]:
    """Let termination and hang-up do what an interrupt does, unless they are ignored, as hang-up is under nohup."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {n: signal.signal(n, interrupt) for n in numbers if signal.getsignal(n) is not signal.SIG_IGN}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_processes(
    tasks: Sequence[Task],
    environment: Mapping[str, str],
    token: str,
    limit: float,
    enough: Callable[[], str] = str,
) -> Outcome:
    """Run the commands of all tasks until each has ended well, one fails, ``limit`` seconds are over, or it is enough.

    However it ends, by an exception such as `KeyboardInterrupt` too, no process that carries ``token`` is left, nor any
    of the same sessions.
    """
    began = time.monotonic()
    logs = {task.participant: task.log for task in tasks}
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for task in tasks:
            name = task.participant
            try:
                processes[name] = start_process(task.command, task.directory, environment, task.log, token)
            except OSError as error:
                return Outcome(time.monotonic() - began, f"{name} could not be started: {error}", (name,))
        while True:
            codes = {name: _code(process) for name, process in processes.items()}
            codes |= {name: 1 for name, code in codes.items() if code == 0 and never_started(logs[name])}
            seconds = time.monotonic() - began
            running = [name for name, code in codes.items() if code is None]
            if failed := {name: code for name, code in codes.items() if code}:
                _wait([processes[name] for name in running], min(_GRACE_SECONDS, max(0.0, limit - seconds)))
                return failure(seconds, failed, logs)
            if not running:
                return Outcome(seconds)
            if seconds > limit:
                return overrun(seconds, running, f"time limit of {limit:g} s", logs)
            # Only while all of them run: who has ended left whole files, as the others are about to.
            if len(running) == len(processes) and (why := enough()):
                return Outcome(time.monotonic() - began, enough=why)
            time.sleep(_POLL_SECONDS)
    finally:
        stop_processes([*processes.values()], token)


def failure(seconds: float, codes: Mapping[str, int], logs: Mapping[str, Path]) -> Outcome:
    """Say how participants failed, by their exit codes, below 0 for a signal, and by their launchers' words."""
    texts, lost = [], False
    for name, code in codes.items():
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        if why := never_started(logs[name]):
            how, lost = f"never started: {why}", True
        texts.append(f"{name} {how}")
    first = next(iter(codes.values()))
    return Outcome(seconds, ", ".join(texts), tuple(codes), code=128 - first if first < 0 else first, lost=lost)


def overrun(seconds: float, names: Sequence[str], limit: str, logs: Mapping[str, Path]) -> Outcome:
    """Say which participants still ran at a limit; where one waited to be started, that says nothing of the split."""
    lost = any(never_started(log) for log in logs.values())
    return Outcome(seconds, f"{' and '.join(names)} still ran at the {limit}", tuple(names), timed_out=True, lost=lost)


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


def _code(process: subprocess.Popen[bytes]) -> int | None:
    """Exit code, below 0 for a signal; the number stays that of the process and of its session until both are gone."""
    if process.returncode is None:
        with contextlib.suppress(ChildProcessError):
            ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            return ended and (ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status)
    return process.poll()


def never_started(log: Path) -> str | None:
    """Return why ranks were never started, as their launcher says it in their log, perhaps with exit code 0."""
    match = _NEVER_STARTED.search(end_of_log(log))
    return match and match[1]


def _wait(processes: Sequence[subprocess.Popen[bytes]], seconds: float) -> None:
    """Wait until all have ended or the time is over."""
    end = time.monotonic() + seconds
    while any(_code(process) is None for process in processes) and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)


def stop_processes(processes: Sequence[subprocess.Popen[bytes]], token: str) -> None:
    """Ask the launchers to end, since they clean up after themselves, then kill whatever is left."""
    # Before they end: who is left of a session says no more whose it was.
    sessions = {process.pid for process in processes if process.returncode is None}
    _of_run(token, sessions)
    alive = [process for process in processes if _code(process) is None]
    for process in alive:
        _signal(process.pid, signal.SIGTERM)
    _wait(alive, _TERM_SECONDS)
    try:
        stop_token(token, sessions)
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            process.wait()


def stop_token(token: str, sessions: Collection[int] = ()) -> None:
    """Kill every process that carries ``token`` in its environment, or is of a session of such a process.

    Only processes whose environment this user may read are found, which is so for all that a campaign starts.
    """
    end, known = time.monotonic() + _KILL_SECONDS, set(sessions)
    while left := _of_run(token, known):
        if time.monotonic() > end:
            numbers = ", ".join(map(str, left))
            raise CalibrationError(f"processes {numbers} of the last run cannot be stopped: end them first")
        for pid in left:
            _signal(pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _of_run(token: str, sessions: set[int]) -> list[int]:
    """Find the processes of a run, and add their sessions to those that are known."""
    session_of: dict[int, int] = {}
    marked = set()
    for process in psutil.process_iter(["environ", "status"]):
        with contextlib.suppress(OSError):
            if process.info["status"] != psutil.STATUS_ZOMBIE:
                session_of[process.pid] = os.getsid(process.pid)
                # No environment where it may not be read.
                if (process.info["environ"] or {}).get(TOKEN_VARIABLE) == token:
                    marked.add(process.pid)
    # A session whose leader lives without the token is not the run's.
    sessions |= {session_of[pid] for pid in marked} - (session_of.keys() - marked)
    return sorted(marked.union(pid for pid, session in session_of.items() if session in sessions) - {os.getpid()})


def end_of_log(path: Path, limit: int = 65_536) -> str:
    """Return what the last ``limit`` bytes of a log say; nothing where it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - limit))
            return file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""


def log_tail(path: Path, lines: int = 20) -> list[str]:
    """Return the last non-empty lines of a log file."""
    return [line.rstrip() for line in end_of_log(path).splitlines() if line.strip()][-lines:]
