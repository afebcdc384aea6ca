"""Watch-points: data at one place of a provided mesh, a row for each time window (``precice/impl/WatchPoint.cpp``)."""

from __future__ import annotations

import numpy as np

from precice_lb.embedded.errors import CouplingError
from precice_lb.embedded.intracomm import IntraComm
from precice_lb.embedded.mesh import Mesh
from precice_lb.embedded.projection import nearest_cells
from precice_lb.embedded.tables import Table
from precice_lb.precice_xml import Configuration, Element
from precice_lb.precice_xml.fields import Reader

__all__ = ["WatchPoint", "watch_elements", "watched_place"]


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
    """Read where a watch-point is.

    Raises
    ------
    ConfigurationError
        If it has not as many coordinates as its mesh has dimensions.
    """
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
    """One watch-point of this participant.

    Parameters
    ----------
    participant
        Name of the participant.
    name
        Name of the watch-point.
    mesh
        The provided mesh that it looks at.
    place
        Its coordinates; the place that is watched is their projection onto the mesh.
    """

    def __init__(self, participant: str, name: str, mesh: Mesh, place: list[float]) -> None:
        self._file = f"precice-{participant}-watchpoint-{name}.log"
        self._mesh = mesh
        self._place = np.array([place])
        self._table: Table | None = None

    def initialize(self, intra: IntraComm) -> None:
        """Find the place, once the mesh is known, on the rank that is nearest to it."""
        distance = np.inf
        if self._mesh.size:
            found = nearest_cells(self._place, self._mesh.geometry())
            distance = float(found.distances[0])
            self._corners, self._weights = found.corners[0], found.weights[0][:, np.newaxis]
        distances = intra.broadcast(intra.collect(distance))
        if intra.rank != int(np.argmin(distances)):
            return
        columns = ["Time", *(f"Coordinate{axis}" for axis in range(self._mesh.dimensions))]
        for field in self._mesh.fields.values():
            several = [f"{field.data}{axis}" for axis in range(field.components)]
            columns += several if field.components > 1 else [field.data]
        self._table = Table(self._file, columns)

    def write(self, time: float) -> None:
        """Write a row for a simulated time.

        Raises
        ------
        CouplingError
            If a data of the mesh has no values.
        """
        if self._table is None:
            return
        row = [time, *(self._weights * self._mesh.coordinates[self._corners]).sum(axis=0).tolist()]
        for field in self._mesh.fields.values():
            if len(field.waveform) == 0:
                # preCICE ends here without a message.
                raise CouplingError(
                    f'the watch-point in {self._file} looks at data "{field.data}" on mesh "{field.mesh}", which '
                    "nobody sends there; check <exchange> and <mapping:…> in the configuration"
                )
            row += (self._weights * field.waveform.at(time)[self._corners]).sum(axis=0).tolist()
        self._table.write(row)
