"""What a store says about the run it belongs to."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from precice_lb._version import VERSION
from precice_lb.exceptions import StoreError
from precice_lb.record.participant import Backend
from precice_lb.record.tables import warn_once
from precice_lb.store.schema import USER_KEYS, case_fingerprint, validate

_LONGEST_COMMAND = 4096


def run_metadata(
    participant: str, configuration: str | Path, rank: int, size: int, backend: Backend, guess: str | None = None
) -> tuple[dict[str, Any], str]:
    """Collect the metadata of this process by key of `METADATA`, and the text of its configuration."""
    path = Path(configuration).absolute()
    data = path.read_bytes()
    text = _text(data)
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
    return {name: _clean(value) for name, value in metadata.items() if value is not None}, text


def user_metadata(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Take metadata of `USER_KEYS` from ``PRECICE_LB_METADATA`` and, before those, from the solver.

    What is wrong becomes one warning and is left out.
    """
    result: dict[str, Any] = {}
    text = os.environ.get("PRECICE_LB_METADATA") or "{}"
    for source, read in (
        ("PRECICE_LB_METADATA is", lambda: json.loads(text)),
        ("the metadata given to Participant are", lambda: {} if given is None else given),
    ):
        try:
            values = read()
            if not isinstance(values, Mapping):
                raise StoreError(f"expected a JSON object or a mapping, found {str(values)[:80]!r}")
            result.update(validate(values, keys=USER_KEYS))
        # JSON of many levels raises RecursionError, and a solver's own mapping what it likes.
        except Exception as error:
            warn_once(f"{source} ignored: {str(error)[:400] or type(error).__name__}")
    return result


def _text(configuration: bytes) -> str:
    try:
        text = configuration.decode()
        if "\0" not in text:
            return text
    except UnicodeDecodeError:
        pass
    # Not loaded for what is UTF-8: it takes a solver a quarter of the time that numpy does.
    from precice_lb.precice_xml.elements import text_of

    return text_of(configuration)


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
    ranges: list[list[int]] = []
    for core in cores:
        if ranges and core == ranges[-1][1] + 1:
            ranges[-1][1] = core
        else:
            ranges.append([core, core])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


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


def _clean(value: Any) -> Any:
    """Replace what UTF-8 cannot hold, as in file names of another encoding."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
