"""Mappings of data between two meshes of a participant; radial basis functions are in `precice_lb.embedded.rbf`.

preCICE's ``mapping/Mapping.cpp``, ``NearestNeighborMapping.cpp`` and ``query/Index.cpp``. Of vertices at the same
distance the one with the lowest index is taken; preCICE takes any, depending on its search tree.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from precice_lb.embedded.clock import TOLERANCE
from precice_lb.embedded.intracomm import IntraComm
from precice_lb.embedded.mesh import Field, Mesh

__all__ = ["MappedField", "Mapping", "NearestNeighbour", "nearest_neighbours"]

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

#: Relative distance within which two neighbours count as equally near.
_TIE = 1e-12

#: So many pairs are compared one by one: importing scipy takes longer, and longer than importing all the rest.
_FEW_PAIRS = 250_000


def nearest_neighbours(origins: Array, candidates: Array) -> Indices:
    """Index of the nearest candidate, shape (m, dimensions), for each origin, shape (n, dimensions)."""
    if len(origins) == 0:
        return np.empty(0, dtype=np.int64)
    if len(origins) * len(candidates) <= _FEW_PAIRS:
        distances = np.sqrt(((origins[:, None] - candidates) ** 2).sum(axis=2))
        first: Indices = (distances <= distances.min(axis=1, keepdims=True) * (1.0 + _TIE)).argmax(axis=1)
        return first
    from scipy.spatial import cKDTree

    tree = cKDTree(candidates)
    distances, indices = tree.query(origins, k=1)
    nearest: Indices = indices.astype(np.int64)
    if len(candidates) > 1:
        second = tree.query(origins, k=2)[0][:, 1]
        for row in np.flatnonzero(second <= distances * (1.0 + _TIE)):
            ball = tree.query_ball_point(origins[row], distances[row] * (1.0 + _TIE))
            nearest[row] = min(ball, default=nearest[row])
    return nearest


class Mapping(ABC):
    """A linear mapping from one mesh to another, one of them provided and the other one received.

    Each vertex of one mesh, an origin, finds vertices of the other one, which is searched: a consistent mapping's
    target finds where its value comes from, a conservative mapping's source where its value goes to.
    """

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
    def needed(self, vertices: Array) -> Indices:
        """Return indices of what this rank needs of (a part of) the searched mesh, where that is a received one."""

    @abstractmethod
    def compute(self, intra: IntraComm) -> None:
        """Prepare, once both meshes are known on this rank; a `CouplingError` on all ranks if it is not possible."""

    @abstractmethod
    def apply(self, values: Array) -> Array:
        """Values at the targets, from values at the sources, shape (vertices, components)."""


class NearestNeighbour(Mapping):
    """Each origin takes from, or adds to, its nearest vertex."""

    def needed(self, vertices: Array) -> Indices:
        """Return the nearest vertices."""
        return nearest_neighbours(self.origins.coordinates, vertices)

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
