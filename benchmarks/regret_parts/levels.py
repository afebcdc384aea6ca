"""Measurements over ranks and mesh levels, planted like those of Schröder 2019, section 5.2.

There a solver of the Euler equations on octree meshes of 8^l elements ran at l = 3 … 8 and 28, 42, …, 560 ranks: 220
runs, because a mesh cannot have fewer elements than ranks and the finest crashed on few of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["planted_levels"]

Array = NDArray[np.float64]

# Seconds per element, per element of a rank's surface, per level of a collective's tree, and per window.
ELEMENT, SURFACE, COLLECTIVE, ALWAYS = 1.2e-4, 4e-4, 3e-4, 2e-3


def planted_levels(noise: float = 0.03, seed: int = 0) -> tuple[Array, Array, Array]:
    """Give 220 measurements over ranks and level.

    A window takes the time of the elements of the fullest rank, of their surface, of a collective and of what is always
    done.

    Parameters
    ----------
    noise
        Standard deviation of the logarithm of a measurement.
    seed
        Of the noise.

    Returns
    -------
    X : array of shape (220, 2)
        Ranks, level.
    y : array of shape (220,)
        Seconds per time window as measured.
    truth : array of shape (220,)
        The same without noise.
    """
    rows = [
        (ranks, level)
        for level in range(3, 9)
        for ranks in range(28, 561, 14)
        if ranks <= 8**level and not (level == 8 and ranks < 168)
    ]
    X = np.array(rows, dtype=np.float64)
    ranks, elements = X[:, 0], 8.0 ** X[:, 1]
    fullest = np.ceil(elements / ranks)
    truth = ELEMENT * fullest + SURFACE * fullest ** (2 / 3) + COLLECTIVE * np.log2(ranks) + ALWAYS
    return X, truth * np.exp(noise * np.random.default_rng(seed).standard_normal(len(X))), truth
