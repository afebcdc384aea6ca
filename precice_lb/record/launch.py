"""What a rank stores of its launch: metadata, an id that all of its ranks share, and what follows its end.

Rank 0 makes the id, so that readers know who ran together.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import itertools
import json
import os
import platform
import re
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from precice_lb._version import VERSION
from precice_lb.exceptions import StoreError
from precice_lb.record.recorder import note, setting, warn_once
from precice_lb.store.schema import USER_KEYS, case_fingerprint, validate

if TYPE_CHECKING:
    from precice_lb.record.participant import Backend

_BYTES = 32
# To see the last bytes of a broadcast that every rank has begun long before; two seconds at most.
_ATTEMPTS = 4000

Settle = Callable[[], "str | None"]


def launch_id(metadata: Mapping[str, Any], directory: Path, communicator: Any) -> tuple[str | None, Settle]:
    """Begin to share an id; return it where it is known at once, and a call that returns it after ``initialize``.

    When ``initialize`` returns, all ranks have come here. No broadcast is waited for without end: a rank that is not
    recorded takes no part in it. Without a communicator of all ranks rank 0 leaves a file in the store directory,
    named after what only one coupling at a time can have.
    """
    rank, size = metadata["rank"], metadata["size"]
    made = os.urandom(_BYTES // 2).hex() if rank == 0 else None
    if size == 1:
        return made, lambda: made
    shared = common_communicator(communicator, rank, size)
    if shared is not None:
        buffer = bytearray(made.encode() if made else _BYTES)
        request = shared.Ibcast(buffer, root=0)
        return made, lambda: _received(request, buffer)
    what = (metadata["participant"], size, metadata["configuration_hash"], metadata["working_directory"])
    path = directory / f".{hashlib.sha256(repr(what).encode()).hexdigest()[:16]}.launch"
    if made is not None:
        directory.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(made)
        draft.replace(path)
    return made, lambda: made or _read(path)


def common_communicator(wanted: Any, rank: int, size: int) -> Any | None:
    """Find the communicator of all ranks of a participant, in their order; None where mpi4py has none."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None or not mpi.Is_initialized() or mpi.Is_finalized():
        return None
    communicator = mpi.COMM_WORLD if wanted is None else wanted
    try:
        fits = communicator.Get_size() == size and communicator.Get_rank() == rank
    except (AttributeError, mpi.Exception):
        return None
    return communicator if fits else None


def _received(request: Any, buffer: bytearray) -> str | None:
    for attempt in range(_ATTEMPTS):
        if request.Test():
            return buffer.decode()
        # The first ones cost no time: all ranks have begun it.
        time.sleep(0.001 * (attempt >= _ATTEMPTS // 2))
    return None


def _read(path: Path) -> str | None:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        text = path.read_text()
        return text if len(text) == _BYTES else None
    return None


_LONGEST_COMMAND = 4096


def run_metadata(
    participant: str, configuration: str | Path, rank: int, size: int, backend: Backend, guess: str | None = None
) -> tuple[dict[str, Any], str]:
    """Collect the metadata of this process by key of `METADATA`, and the text of its configuration."""
    path = Path(configuration).absolute()
    data = path.read_bytes()
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        # Not loaded for what is UTF-8: it takes a solver a quarter of the time that numpy does.
        from precice_lb.case.elements import text_of

        text = text_of(data)
    clock = time.get_clock_info("perf_counter")
    metadata = {
        "participant": participant,
        "rank": int(rank),
        "size": int(size),
        "hostname": platform.node(),
        "cpu_model": _cpu_model(),
        "cpus": _cpus(),
        "threads": _threads(),
        "backend": backend.name,
        "precice_version": _backend_version(backend),
        "precice_lb_version": VERSION,
        "python_version": platform.python_version(),
        "configuration_path": str(path),
        "configuration_hash": hashlib.sha256(data).hexdigest(),
        "case": case_fingerprint(text),
        "clock": clock.implementation,
        "clock_resolution": clock.resolution,
        "started_clock_ns": time.perf_counter_ns(),
        "started_unix_ns": time.time_ns(),
        "pid": os.getpid(),
        "guess": guess,
        "version": os.environ.get("PRECICE_LB_VERSION") or None,
        "working_directory": os.getcwd(),
        "command": shlex.join(sys.argv)[:_LONGEST_COMMAND],
    }
    # Without what UTF-8 cannot hold, as in file names of another encoding.
    return {
        name: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
        for name, value in {**metadata, **_user_metadata()}.items()
        if value is not None
    }, text


def _user_metadata() -> dict[str, Any]:
    """Take metadata of `USER_KEYS` from ``PRECICE_LB_METADATA``; what is wrong becomes one warning and is left out."""
    try:
        values = json.loads(os.environ.get("PRECICE_LB_METADATA") or "{}")
        if not isinstance(values, dict):
            raise StoreError(f"expected a JSON object, found {str(values)[:80]!r}")
        return validate(values, keys=USER_KEYS)
    # JSON of many levels raises RecursionError.
    except Exception as error:
        warn_once(f"PRECICE_LB_METADATA is ignored: {str(error)[:400] or type(error).__name__}")
        return {}


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _cpus() -> str | None:
    """List the cores that this process may run on, such as ``0-3,8``; None where the system does not say."""
    try:
        cores = sorted(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return None
    runs = [[core for _, core in run] for _, run in itertools.groupby(enumerate(cores), lambda pair: pair[1] - pair[0])]
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _threads() -> int:
    """Threads of a rank, as whoever starts the run says: what else is set of OpenMP's may be of the login shell."""
    text = os.environ.get("PRECICE_LB_THREADS") or "1"
    if re.fullmatch("0*[1-9][0-9]{0,5}", text):
        return int(text)
    warn_once(f"PRECICE_LB_THREADS is ignored: expected a whole number from 1 to 999999, found {text[:80]!r}")
    return 1


def _backend_version(backend: Backend) -> str:
    version = backend.module.get_version_information()
    return version.decode("utf-8", "replace") if isinstance(version, bytes) else str(version)


_FILES = {"recommend": "recommendation.json", "summary": "summary.txt"}
_LAUNCHER_PREFIXES = ("PMI", "OMPI_", "HYD", "MPIR_", "MPI_LOCAL")


def at_end_action(metadata: dict[str, Any], directory: Path) -> Callable[[], None] | None:
    """Choose what ``PRECICE_LB_AT_END`` asks for, once the store is complete; None on all but the primary rank."""
    what = setting("PRECICE_LB_AT_END", "", *_FILES)
    if metadata["rank"] != 0 or not what:
        return None
    # The recorder in one file has no commands.
    if importlib.util.find_spec("precice_lb.report") is None:
        warn_once(f"PRECICE_LB_AT_END is ignored: this recorder has no commands; run precice-lb {what} on its stores")
        return None
    case = Path(metadata["configuration_path"]).parent
    return functools.partial(_start, case, metadata["participant"], directory, what)


def _start(case: Path, participant: str, directory: Path, what: str) -> None:
    import subprocess

    log = directory / f"at-end-{participant.replace(os.sep, '_')}.log"
    # Each with its value in one word: a participant may be named like an option.
    options = [f"--store={directory}", f"--participant={participant}", f"--write={what}"]
    # The process outlives this one and is no rank of its MPI job.
    environment = {
        name: text
        for name, text in os.environ.items()
        if name != "PRECICE_LB_AT_END" and not name.startswith(_LAUNCHER_PREFIXES)
    }
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "precice_lb", "at-end", str(case), *options],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        )
    # It is meant to be running still when this process ends; Popen would warn of that.
    process.returncode = 0
    note(f"when the last participant has finished, {case}/{_FILES[what]} will be written (log: {log})", sys.stdout)
