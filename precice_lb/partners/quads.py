"""Quads as the triangles that preCICE makes of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["split_quads"]


def split_quads(points: NDArray[np.float64], quads: NDArray[np.int64]) -> NDArray[np.int64]:
    """Split convex quads along their shorter diagonal.

    Notes
    -----
    preCICE 3.4: ``ParticipantImpl::setMeshQuads`` and ``math::geometry::isConvexQuad``. Of equally long diagonals the
    one through the vertex that its search for the convex hull begins with is taken.
    """
    corners = points[quads]
    # The diagonals of a convex quad are longer together than any two opposite sides.
    pairs = np.array([[[0, 2], [1, 3]], [[0, 1], [2, 3]], [[0, 3], [1, 2]]])
    lengths = np.linalg.norm(corners[:, pairs[:, :, 0]] - corners[:, pairs[:, :, 1]], axis=3)
    chosen = np.argmax(lengths.sum(axis=2), axis=1)
    row = np.arange(len(quads))
    along = np.einsum("nk,nik->ni", corners[:, 1] - corners[:, 0], corners - corners[:, :1])
    first = np.argmin(along, axis=1)
    diagonals, lengths = pairs[chosen], lengths[row, chosen]
    mine = np.argmax((diagonals == first[:, None, None]).any(axis=2), axis=1)
    short = np.where(lengths[row, mine] <= lengths[row, 1 - mine], mine, 1 - mine)
    cut, rest = quads[row[:, None], diagonals[row, short]], quads[row[:, None], diagonals[row, 1 - short]]
    return np.stack([np.column_stack([cut, rest[:, side]]) for side in (0, 1)], axis=1).reshape(-1, 3)
