"""Effective conductivity of a periodic cell of two phases, by finite volumes on n x n squares."""

import os

import numpy as np
from scipy.sparse import csc_array
from scipy.sparse.linalg import spsolve

MATRIX, GRAIN = 1.0, 0.1
"""Conductivities of the two phases."""

GRID = int(os.environ.get("MICRO_GRID", "16"))
"""Squares along an edge of a cell."""


def cell(temperature, n=GRID):
    """Conductivity of each square of a cell with a round grain in the middle, which grows with temperature."""
    radius = 0.15 + 0.3 * np.clip(temperature, 0.0, 1.0)
    x = (np.arange(n) + 0.5) / n - 0.5
    # A square on the rim belongs to the grain by a share, so that the effective conductivity has no steps.
    share = np.clip(n * (radius - np.hypot(*np.meshgrid(x, x))) + 0.5, 0.0, 1.0)
    return MATRIX + (GRAIN - MATRIX) * share


def effective(conductivity):
    """Mean heat flux along the first axis where the mean temperature gradient is one along it and zero across."""
    number = np.arange(conductivity.size).reshape(conductivity.shape)
    here = number.ravel()
    (along, ahead), (across, beside) = (
        # From the middle of a square to that of the next one, two halves lie in series.
        (2.0 / (1.0 / conductivity + 1.0 / np.roll(conductivity, -1, axis)).ravel(), np.roll(number, -1, axis).ravel())
        for axis in (0, 1)
    )
    flux, begin, end = np.append(along, across), np.append(here, here), np.append(ahead, beside)
    # Fluctuations are known up to a constant: that of the first square becomes 0 by the last entry.
    rows, columns = np.concatenate([begin, end, begin, end, [0]]), np.concatenate([begin, end, end, begin, [0]])
    matrix = csc_array((np.concatenate([flux, flux, -flux, -flux, [1.0]]), (rows, columns)))
    fluctuation = spsolve(matrix, np.bincount(here, along) - np.bincount(ahead, along))
    return np.mean(along * (fluctuation[ahead] - fluctuation[here] + 1.0))
