"""Mappings of data between two meshes of a participant.

preCICE's ``mapping/Mapping.cpp``, ``NearestNeighborMapping.cpp``, ``NearestProjectionMapping.cpp`` and
``BarycentricBaseMapping.cpp``. Radial basis functions are in `precice_lb.embedded.rbf`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from precice_lb.embedded.clock import TOLERANCE
from precice_lb.embedded.geometry import Geometry, Indices
from precice_lb.embedded.intracomm import IntraComm
from precice_lb.embedded.mesh import Field, Mesh
from precice_lb.embedded.neighbours import nearest_neighbours
from precice_lb.embedded.projection import Projections, nearest_projections

__all__ = ["MappedField", "Mapping", "NearestNeighbour", "NearestProjection"]

Array = NDArray[np.float64]


class Mapping(ABC):
    """A linear mapping from one mesh to another, one of them provided and the other one received.

    Each vertex of one mesh, an origin, finds vertices of the other one, which is searched: a consistent mapping's
    target finds where its value comes from, a conservative mapping's source where its value goes to.

    Parameters
    ----------
    source, target
        The meshes.
    conservative
        Whether sums are kept (``constraint="conservative"``), or values.
    """

    #: Whether it needs the edges and triangles of the mesh that is searched.
    needs_connectivity = False
    #: Whether the geometric filter of a received mesh counts with it.
    filters = True

    def __init__(self, source: Mesh, target: Mesh, *, conservative: bool) -> None:
        self.source = source
        self.target = target
        self.conservative = conservative

    @property
    def origins(self) -> Mesh:
        """The mesh whose vertices look for others."""
        return self.source if self.conservative else self.target

    @property
    def searched(self) -> Mesh:
        """The mesh in which they look."""
        return self.target if self.conservative else self.source

    @abstractmethod
    def needed(self, geometry: Geometry) -> Indices:
        """Return indices of what this rank needs of (a part of) the searched mesh, where that is a received one."""

    @abstractmethod
    def compute(self, intra: IntraComm) -> None:
        """Prepare, once both meshes are known on this rank.

        Raises
        ------
        CouplingError
            On all ranks, if the mapping is not possible.
        """

    @abstractmethod
    def apply(self, values: Array) -> Array:
        """Values at the targets, from values at the sources, shape (vertices, components)."""


class NearestNeighbour(Mapping):
    """Each origin takes from, or adds to, its nearest vertex."""

    def needed(self, geometry: Geometry) -> Indices:
        """Return the nearest vertices."""
        return nearest_neighbours(self.origins.coordinates, geometry.vertices)

    def compute(self, intra: IntraComm) -> None:
        """Find the neighbours."""
        self._nearest = nearest_neighbours(self.origins.coordinates, self.searched.coordinates)

    def apply(self, values: Array) -> Array:
        """Pick, or add up."""
        if not self.conservative:
            return values[self._nearest]
        result = np.zeros((self.target.size, values.shape[1]))
        np.add.at(result, self._nearest, values)
        return result


class NearestProjection(Mapping):
    """Each origin interpolates linearly on, or distributes to, the corners of the element that it projects to."""

    needs_connectivity = True

    def needed(self, geometry: Geometry) -> Indices:
        """Return the corners that count."""
        found = nearest_projections(self.origins.coordinates, geometry)
        return found.corners[_counts(found)]

    def compute(self, intra: IntraComm) -> None:
        """Find the projections."""
        # scipy costs a tenth of a second and more: only participants that map pay for it.
        from scipy.sparse import csr_matrix

        found = nearest_projections(self.origins.coordinates, self.searched.geometry())
        counts = _counts(found)
        rows = np.nonzero(counts)[0]
        shape = (self.origins.size, self.searched.size)
        matrix = csr_matrix((found.weights[counts], (rows, found.corners[counts])), shape=shape)
        self._matrix = matrix.T.tocsr() if self.conservative else matrix

    def apply(self, values: Array) -> Array:
        """Interpolate, or distribute."""
        result: Array = self._matrix @ values
        return result


def _counts(found: Projections) -> NDArray[np.bool_]:
    result: NDArray[np.bool_] = np.abs(found.weights) > TOLERANCE
    return result


class MappedField:
    """One data that a mapping carries from one mesh to another (``precice/impl/DataContext.cpp``)."""

    def __init__(self, mapping: Mapping, source: Field, target: Field) -> None:
        self.mapping = mapping
        self.source = source
        self.target = target

    def run(self, after: float | None = None) -> None:
        """Map all samples that the target does not have yet, and only those after a time if one is given."""
        target = self.target.waveform.copy()
        for time, sample in self.source.waveform.samples():
            if (after is None or time - after > TOLERANCE) and not target.has(time):
                self.target.waveform.put(time, self.mapping.apply(sample))
