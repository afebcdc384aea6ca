"""Nearest vertices, and the bounding boxes of the geometric filter.

preCICE's ``query/Index.cpp`` and ``mesh/BoundingBox.cpp``. Of vertices at the same distance the one with the lowest
index is taken; preCICE takes any, depending on its search tree.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["expanded_box", "inside", "nearest_neighbours"]

#: Relative distance within which two neighbours count as equally near.
_TIE = 1e-12


def nearest_neighbours(origins: NDArray[np.float64], candidates: NDArray[np.float64]) -> NDArray[np.int64]:
    """Index of the nearest candidate for each origin.

    Parameters
    ----------
    origins
        Shape (n, dimensions).
    candidates
        Shape (m, dimensions), m > 0 unless n = 0.

    Returns
    -------
    array
        Shape (n,), indices into `candidates`.
    """
    if len(origins) == 0:
        return np.empty(0, dtype=np.int64)
    # scipy costs a tenth of a second and more: only participants that map pay for it.
    from scipy.spatial import cKDTree

    tree = cKDTree(candidates)
    distances, indices = tree.query(origins, k=1)
    nearest: NDArray[np.int64] = indices.astype(np.int64)
    if len(candidates) > 1:
        second = tree.query(origins, k=2)[0][:, 1]
        for row in np.flatnonzero(second <= distances * (1.0 + _TIE)):
            ball = tree.query_ball_point(origins[row], distances[row] * (1.0 + _TIE))
            nearest[row] = min(ball, default=nearest[row])
    return nearest


def expanded_box(coordinates: NDArray[np.float64], safety_factor: float) -> NDArray[np.float64] | None:
    """Bounding box of a rank's vertices, every side moved out by the safety factor times its longest edge.

    Parameters
    ----------
    coordinates
        Shape (n, dimensions).
    safety_factor
        ``safety-factor`` of the ``<receive-mesh>``.

    Returns
    -------
    array or None
        Shape (2, dimensions), lower and upper corner; None for a rank without vertices, which contains nothing.
    """
    if len(coordinates) == 0:
        return None
    box = np.stack([coordinates.min(axis=0), coordinates.max(axis=0)])
    margin = safety_factor * float((box[1] - box[0]).max())
    box[0] -= margin
    box[1] += margin
    return box


def inside(coordinates: NDArray[np.float64], box: NDArray[np.float64] | None) -> NDArray[np.bool_]:
    """Which vertices, shape (n, dimensions), lie in a closed box; None contains nothing."""
    if box is None:
        return np.zeros(len(coordinates), dtype=bool)
    result: NDArray[np.bool_] = ((coordinates >= box[0]) & (coordinates <= box[1])).all(axis=1)
    return result
