"""Vertices with the edges and triangles between them, as meshes travel and are searched.

preCICE's ``mesh/Mesh.cpp`` and ``mesh/Filter.hpp``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Geometry"]

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Geometry:
    """A mesh without names: ``vertices`` (n, dimensions), ``edges`` (m, 2) and ``triangles`` (k, 3) of indices."""

    vertices: NDArray[np.float64]
    edges: Indices
    triangles: Indices

    def restricted(self, kept: Indices) -> Geometry:
        """Return the part that some vertices, rising indices, shape (n,), form: elements lose no corner."""
        new = np.full(len(self.vertices), -1, dtype=np.int64)
        new[kept] = np.arange(len(kept))
        edges, triangles = new[self.edges], new[self.triangles]
        return Geometry(self.vertices[kept], edges[(edges >= 0).all(axis=1)], triangles[(triangles >= 0).all(axis=1)])

    def completed(self) -> Geometry:
        """Return it with every element once, and with the edges of all triangles (``Mesh::preprocess``)."""
        triangles = _unique(self.triangles)
        sides = [triangles[:, pair] for pair in ([0, 1], [0, 2], [1, 2])]
        return Geometry(self.vertices, _unique(np.concatenate([self.edges, *sides])), triangles)


def _unique(elements: Indices) -> Indices:
    if len(elements) == 0:
        return elements
    result: Indices = np.unique(np.sort(elements, axis=1), axis=0)
    return result
