"""Nearest projections onto vertices, edges and triangles.

preCICE's ``query/Index.cpp`` (``findNearestProjection``, ``findCellOrProjection``) and ``math/barycenter.cpp``.
Where more elements than preCICE's search tree returns are equally near, all of them are looked at here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from precice_lb.embedded.clock import TOLERANCE
from precice_lb.embedded.geometry import Geometry, Indices
from precice_lb.embedded.neighbours import nearest_neighbours

__all__ = ["Projections", "nearest_cells", "nearest_projections"]

Array = NDArray[np.float64]

#: As many of the nearest elements as preCICE looks at.
_CANDIDATES = 4
#: Entries of a distance matrix at a time.
_CHUNK = 2_000_000


@dataclass(frozen=True)
class Projections:
    """Where origins project to: ``corners`` (n, 3) of vertex indices, ``weights`` (n, 3), zero where there is none."""

    corners: Indices
    weights: Array
    distances: Array


def nearest_projections(origins: Array, geometry: Geometry) -> Projections:
    """Project origins, shape (n, dimensions): onto edges in 2-D, onto triangles, else edges, in 3-D, or onto vertices.

    Parameters
    ----------
    origins
        Shape (n, dimensions).
    geometry
        What is searched; it has vertices unless there are no origins.

    Returns
    -------
    Projections
        An element counts if the foot of the perpendicular lies in it, and if no vertex is nearer.
    """
    result = _onto_vertices(origins, geometry)
    if len(origins) == 0:
        return result
    vertex_distances = result.distances.copy()
    _improve(result, origins, geometry, geometry.edges, vertex_distances)
    if origins.shape[1] == 3:
        _improve(result, origins, geometry, geometry.triangles, vertex_distances)
    return result


def nearest_cells(origins: Array, geometry: Geometry) -> Projections:
    """Return what `nearest_projections` returns, but in 2-D the triangle that an origin lies in, if there is one."""
    result = nearest_projections(origins, geometry)
    if len(origins) and origins.shape[1] == 2:
        _improve(result, origins, geometry, geometry.triangles, np.full(len(origins), np.inf))
    return result


def _onto_vertices(origins: Array, geometry: Geometry) -> Projections:
    corners = np.zeros((len(origins), 3), dtype=np.int64)
    weights = np.zeros((len(origins), 3))
    corners[:, 0] = nearest_neighbours(origins, geometry.vertices)
    weights[:, 0] = 1.0
    distances = np.linalg.norm(origins - geometry.vertices[corners[:, 0]], axis=1) if len(origins) else np.zeros(0)
    return Projections(corners, weights, distances)


def _improve(result: Projections, origins: Array, geometry: Geometry, elements: Indices, limits: Array) -> None:
    """Replace projections by those onto elements, where there is one no farther than `limits`."""
    if len(elements) == 0:
        return
    step = max(1, _CHUNK // len(elements))
    for start in range(0, len(origins), step):
        rows = np.arange(start, min(start + step, len(origins)))
        near = _near(origins[rows], geometry.vertices, elements)
        # Pairs of an origin and a near element.
        which, element = np.nonzero(near)
        points, corners = origins[rows[which]], geometry.vertices[elements[element]]
        weights = _barycentric(points, corners)
        distances = np.linalg.norm(points - np.einsum("pc,pcd->pd", weights, corners), axis=1)
        inside = (weights >= -TOLERANCE).all(axis=1)
        which, element, weights, distances = which[inside], element[inside], weights[inside], distances[inside]
        # The nearest of each origin comes first.
        order = np.lexsort((element, distances, which))
        _, first = np.unique(which[order], return_index=True)
        for pair in order[first]:
            row = rows[which[pair]]
            if distances[pair] <= limits[row]:
                count = elements.shape[1]
                result.corners[row, :count], result.weights[row] = elements[element[pair]], 0.0
                result.weights[row, :count] = weights[pair]
                result.distances[row] = distances[pair]


def _near(points: Array, vertices: Array, elements: Indices) -> NDArray[np.bool_]:
    """Which elements are among the nearest of each point: by distance for edges, by bounding box for triangles."""
    corners = vertices[elements]
    if elements.shape[1] == 2:
        begin, along = corners[:, 0], corners[:, 1] - corners[:, 0]
        lengths = np.maximum((along**2).sum(axis=1), np.finfo(float).tiny)
        offset = points[:, None, :] - begin[None, :, :]
        part = np.clip(np.einsum("ped,ed->pe", offset, along) / lengths, 0.0, 1.0)
        squares = ((offset - part[:, :, None] * along) ** 2).sum(axis=2)
    else:
        low, high = corners.min(axis=1), corners.max(axis=1)
        outside = np.maximum(low - points[:, None, :], 0.0) + np.maximum(points[:, None, :] - high, 0.0)
        squares = (outside**2).sum(axis=2)
    if len(elements) <= _CANDIDATES:
        return np.ones(squares.shape, dtype=bool)
    last = np.partition(squares, _CANDIDATES - 1, axis=1)[:, _CANDIDATES - 1]
    result: NDArray[np.bool_] = squares <= last[:, None] * (1.0 + 1e-12)
    return result


def _barycentric(points: Array, corners: Array) -> Array:
    """Barycentric coordinates of the feet of perpendiculars, shape (n, corners)."""
    first = corners[:, 1] - corners[:, 0]
    offset = points - corners[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        if corners.shape[1] == 2:
            second = (offset * first).sum(axis=1) / (first**2).sum(axis=1)
            return np.stack([1.0 - second, second], axis=1)
        other = corners[:, 2] - corners[:, 0]
        if points.shape[1] == 2:
            area = _cross2(first, other)
            b, c = _cross2(offset, other) / area, _cross2(first, offset) / area
            return np.stack([1.0 - b - c, b, c], axis=1)
        normal = np.cross(first, other)
        area = (normal**2).sum(axis=1)
        c = (normal * np.cross(first, offset)).sum(axis=1) / area
        b = (normal * np.cross(offset, other)).sum(axis=1) / area
    return np.stack([1.0 - b - c, b, c], axis=1)


def _cross2(a: Array, b: Array) -> Array:
    result: Array = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
    return result
