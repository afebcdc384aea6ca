"""What is written to the working directory: iterations and convergence of implicit schemes, and watch-points.

Text tables in preCICE's form (``io/TXTTableWriter.cpp``, ``precice/impl/WatchPoint.cpp``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from precice_lb.embedded.errors import CouplingError
from precice_lb.embedded.intracomm import IntraComm
from precice_lb.embedded.mapping import nearest_neighbours
from precice_lb.embedded.mesh import Mesh
from precice_lb.precice_xml.elements import Reader
from precice_lb.precice_xml.records import Configuration, Element

__all__ = ["Table", "WatchPoint", "watch_elements", "watched_place"]


class Table:
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


def watch_elements(configuration: Configuration, participant: str) -> list[Element]:
    """List the ``<watch-point>`` elements of a participant."""
    return [
        child
        for owner in configuration.root.children
        if owner.tag == "participant" and owner.attributes.get("name") == participant
        for child in owner.children
        if child.tag == "watch-point"
    ]


def watched_place(configuration: Configuration, element: Element) -> list[float]:
    """Read where a watch-point is; refused unless it has as many coordinates as its mesh has dimensions."""
    reader = Reader(configuration.path)
    text = reader.text(element, "coordinate")
    dimensions = configuration.meshes[reader.known(element, "mesh", "mesh", configuration.meshes)].dimensions
    try:
        place = [float(part) for part in text.split(";")]
    except ValueError:
        place = []
    if len(place) != dimensions or not np.isfinite(place).all():
        reader.fail(element, f'{dimensions} numbers as in "0; 1" as "coordinate"', f'"{text}"', "correct it")
    return place


class WatchPoint:
    """Writes the data at the vertex of a provided mesh that is nearest to a place, a row for each time window."""

    def __init__(self, participant: str, name: str, mesh: Mesh, place: list[float]) -> None:
        self._file = f"precice-{participant}-watchpoint-{name}.log"
        self._mesh = mesh
        self._place = np.array([place])
        self._table: Table | None = None

    def initialize(self, intra: IntraComm) -> None:
        """Find the vertex, once the mesh is known, on the rank that is nearest to the place."""
        distance = np.inf
        if self._mesh.size:
            self._vertex = int(nearest_neighbours(self._place, self._mesh.coordinates)[0])
            distance = float(np.linalg.norm(self._place[0] - self._mesh.coordinates[self._vertex]))
        found = [np.array([float(each) for (each,) in intra.gather([np.array(distance)])])]
        if intra.rank != int(np.argmin(intra.broadcast(found)[0])):
            return
        columns = ["Time", *(f"Coordinate{axis}" for axis in range(self._mesh.dimensions))]
        for field in self._mesh.fields.values():
            several = [f"{field.data}{axis}" for axis in range(field.components)]
            columns += several if field.components > 1 else [field.data]
        self._table = Table(self._file, columns)

    def write(self, time: float) -> None:
        """Write a row for a simulated time."""
        if self._table is None:
            return
        row = [time, *self._mesh.coordinates[self._vertex].tolist()]
        for field in self._mesh.fields.values():
            if len(field.waveform) == 0:
                # preCICE ends here without a message.
                raise CouplingError(
                    f'the watch-point in {self._file} looks at data "{field.data}" on mesh "{field.mesh}", which '
                    "nobody sends there; check <exchange> and <mapping:…> in the configuration"
                )
            row += field.waveform.at(time)[self._vertex].tolist()
        self._table.write(row)
