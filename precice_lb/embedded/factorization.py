"""The least-squares system of quasi-Newton acceleration: its triangular factor, and the columns that filters leave.

preCICE's ``acceleration/impl/QRFactorization.cpp`` updates Q and R as columns come and go, with one sum over the ranks
for each product. Here every iteration factorises anew: each rank its rows, the primary rank what these leave. All that
follows needs R alone and is the same on all ranks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.embedded.intracomm import IntraComm

__all__ = ["independent_columns", "triangle"]

Array = NDArray[np.float64]


def triangle(matrix: Array, intra: IntraComm) -> Array:
    """Return R of the QR factorisation of a matrix whose rows lie on all ranks, on each of them."""
    own = _triangle(matrix)
    if not intra.is_parallel:
        return own
    parts = [part for (part,) in intra.gather([own])]
    return intra.broadcast([_triangle(np.concatenate(parts))] if parts else [])[0]


def independent_columns(factor: Array, filtering: str, limit: float) -> list[int]:
    """Columns of a matrix with factor R of which each brings something new after those before it, which are newer.

    ``QR1`` compares that part with the norm of the matrix, ``QR2`` with that of the column; so does ``QR3``, which only
    saves preCICE work.
    """
    kept = list(range(factor.shape[1]))
    while len(kept) > 1:
        new = _triangle(factor[:, kept])
        norms = np.linalg.norm(new, axis=0)
        parts = np.zeros(len(kept))
        parts[: len(new)] = np.abs(np.diag(new))
        small = np.flatnonzero(parts <= limit * (np.linalg.norm(norms) if filtering == "QR1" else norms))
        if not len(small):
            break
        # Those after it depend on less without it.
        del kept[small[0]]
    return kept


def _triangle(matrix: Array) -> Array:
    factor: Any = np.linalg.qr(matrix, mode="r")
    return np.asarray(factor, dtype=np.float64)
