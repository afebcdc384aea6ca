"""What is written to disk, in preCICE's forms: profiling files, tables of implicit schemes, and watch-points.

Profiling has format version 2 (``profiling/EventUtils.cpp``): events of the group ``fundamental`` are written,
uncompressed, also where the mode asks for more. Tables are text (``io/TXTTableWriter.cpp``,
``precice/impl/WatchPoint.cpp``).
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np

from precice_lb.case import Configuration
from precice_lb.embedded.communication import IntraComm
from precice_lb.embedded.mapping import nearest_neighbours
from precice_lb.embedded.mesh import LocalMesh
from precice_lb.embedded.timeline import CouplingError


class Profiler:
    """Events of one rank, kept in memory and written in blocks, as the ``<profiling>`` of the configuration says."""

    def __init__(self, configuration: Configuration, participant: str, rank: int, size: int) -> None:
        self._started = time.perf_counter_ns()
        now = time.time_ns()
        elements = [child.attributes for child in configuration.root.children if child.tag == "profiling"]
        settings = elements[0] if elements else {}
        self._flush_every = int(settings.get("flush-every", "50"))
        self._records: list[str] = []
        self._names: dict[str, int] = {}
        self._file: TextIO | None = None
        self._solver: str | None = None
        if settings.get("mode") == "off":
            return
        path = Path(settings.get("directory", "."), "precice-profiling", f"{participant}-{rank}-{size}.txt")
        seconds, milliseconds = divmod(now // 1_000_000, 1000)
        header = {
            "name": participant,
            "rank": rank,
            "size": size,
            "unix_us": str(now // 1000),
            "tinit": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.localtime(seconds))}.{milliseconds:03d}",
            "mode": "fundamental",
            "compression": False,
            "file_version": 2,
        }
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Each write goes out at once: a forked process would write once more what still waits.
            self._file = path.open("w", buffering=1)
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
        self._records.clear()


class LogFile:
    """A file in the working directory, started anew, whose rows are complete as soon as they are written."""

    def __init__(self, name: str, columns: Sequence[str]) -> None:
        # Absolute: a solver may change its working directory.
        self._path = Path(name).absolute()
        try:
            self._path.write_text("".join(f"  {column}" for column in columns))
        except OSError as error:
            raise CouplingError(f"cannot write {self._path}: {error.strerror}; make the directory writable") from error

    def write(self, row: Sequence[float | int]) -> None:
        """Append a row: whole numbers six, others fifteen characters wide."""
        cells = [f"{cell:6d}" if isinstance(cell, int) else f"{cell:15.8e}" for cell in row]
        # A full disk must not end the simulation: preCICE does not look, either.
        with contextlib.suppress(OSError), self._path.open("a") as file:
            file.write("\n" + "  ".join(cells))


class WatchPoint:
    """Writes the data at the vertex of a provided mesh that is nearest to a place, a row for each time window."""

    def __init__(self, participant: str, name: str, mesh: LocalMesh, place: list[float]) -> None:
        self._file = f"precice-{participant}-watchpoint-{name}.log"
        self._mesh = mesh
        self._place = np.array([place])
        self._table: LogFile | None = None

    def initialize(self, intra: IntraComm) -> None:
        """Find the vertex, once the mesh is known, on the rank that is nearest to the place."""
        distance = np.inf
        if self._mesh.size:
            self._vertex = int(nearest_neighbours(self._place, self._mesh.coordinates)[0])
            distance = float(np.linalg.norm(self._place[0] - self._mesh.coordinates[self._vertex]))
        if intra.rank != int(np.argmin(intra.reduce(np.array(distance), np.stack))):
            return
        columns = ["Time", *(f"Coordinate{axis}" for axis in range(self._mesh.dimensions))]
        for field in self._mesh.fields.values():
            several = [f"{field.data}{axis}" for axis in range(field.components)]
            columns += several if field.components > 1 else [field.data]
        self._table = LogFile(self._file, columns)

    def write(self, time: float) -> None:
        """Write a row for a simulated time."""
        if self._table is None:
            return
        row = [time, *self._mesh.coordinates[self._vertex].tolist()]
        for field in self._mesh.fields.values():
            if len(field.waveform) == 0:
                # preCICE ends here without a message.
                raise CouplingError(
                    f'the watch-point in {self._file} looks at data "{field.data}" on mesh "{field.mesh.name}", which '
                    "nobody sends there; check <exchange> and <mapping:…> in the configuration"
                )
            row += field.waveform.at(time)[self._vertex].tolist()
        self._table.write(row)
