"""preCICE's profiling files, format version 2 (``profiling/EventUtils.cpp``): what this backend did when.

Events of the groups ``fundamental`` and ``api`` are written, uncompressed; ``mode="all"`` records the same as ``api``.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from precice_lb.embedded.errors import CouplingError
from precice_lb.precice_xml import Configuration

__all__ = ["Profiler"]

_FOLDER = "precice-profiling"


class Profiler:
    """Events of one rank, kept in memory and written in blocks, as the ``<profiling>`` of the configuration says."""

    def __init__(self, configuration: Configuration, participant: str, rank: int, size: int) -> None:
        self._started = time.perf_counter_ns()
        now = time.time_ns()
        elements = [child.attributes for child in configuration.root.children if child.tag == "profiling"]
        said = elements[0] if elements else {}
        mode = said.get("mode", "fundamental")
        self._flush_every = int(said.get("flush-every", "50"))
        self._records: list[str] = []
        self._names: dict[str, int] = {}
        self._file: TextIO | None = None
        self._solver: str | None = None
        self.records_api = mode in ("api", "all")
        if mode == "off":
            return
        path = Path(said.get("directory", "."), _FOLDER, f"{participant}-{rank}-{size}.txt")
        seconds, milliseconds = divmod(now // 1_000_000, 1000)
        header = {
            "name": participant,
            "rank": rank,
            "size": size,
            "unix_us": str(now // 1000),
            "tinit": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.localtime(seconds))}.{milliseconds:03d}",
            "mode": "api" if self.records_api else mode,
            "compression": False,
            "file_version": 2,
        }
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("w")
            self._file.write(json.dumps(header, separators=(",", ":")) + "\n")
        except OSError as error:
            raise CouplingError(
                f"cannot write the profiling file {path}: {error.strerror}; make its directory writable or set "
                '<profiling mode="off" />'
            ) from error
        self.begin("_GLOBAL")

    def _stamp(self, kind: str, name: str) -> str:
        return f"{kind}{self._number(name)}:{(time.perf_counter_ns() - self._started) // 1000}"

    def _number(self, name: str) -> int:
        if (number := self._names.get(name)) is None:
            number = self._names[name] = len(self._names)
            self._records.append(f"N{number}:{name}")
        return number

    def begin(self, name: str) -> None:
        """Begin an event."""
        if self._file is not None:
            self._records.append(self._stamp("B", name))
            if self._flush_every == 1:
                self._flush()

    def end(self, name: str) -> None:
        """End an event."""
        if self._file is not None:
            self._records.append(self._stamp("E", name))
            if 0 < self._flush_every < len(self._records):
                self._flush()

    def add_data(self, event: str, name: str, value: int) -> None:
        """Attach a number to an event that has begun."""
        if self._file is not None:
            number = self._number(name)
            self._records.append(f"{self._stamp('D', event)}:{number}:{value}")

    @contextlib.contextmanager
    def event(self, name: str) -> Iterator[None]:
        """Begin an event, and end it with the block."""
        self.begin(name)
        try:
            yield
        finally:
            self.end(name)

    def api_event(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Record an event of the group ``api``, if the mode asks for it."""
        return self.event(name) if self.records_api else contextlib.nullcontext()

    def enter_solver(self, name: str) -> None:
        """Begin the solver's time, which `leave_solver` ends."""
        self._solver = name
        self.begin(name)

    def leave_solver(self) -> None:
        """End the solver's time, if it is running."""
        if self._solver is not None:
            self.end(self._solver)
            self._solver = None

    def close(self) -> None:
        """End the record and write what is left of it."""
        if self._file is not None:
            self.end("_GLOBAL")
            self._flush()
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None

    def _flush(self) -> None:
        # A full disk must not end the simulation.
        with contextlib.suppress(OSError):
            if self._file is not None:
                self._file.write("".join(f"{record}\n" for record in self._records))
                self._file.flush()
        self._records.clear()
