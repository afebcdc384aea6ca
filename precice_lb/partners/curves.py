"""Orders of points along space-filling curves: neighbours in the order are near in space."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["hilbert_order", "morton_order"]

_BITS = 20


def morton_order(points: NDArray[np.float64]) -> NDArray[np.int64]:
    """Order points, shape (points, 1 to 3), along the Morton (Z) curve; points of one cell keep their order."""
    return np.argsort(_interleaved(_cells(points)), kind="stable")


def hilbert_order(points: NDArray[np.float64]) -> NDArray[np.int64]:
    """Order points, shape (points, 1 to 3), along the Hilbert curve; points of one cell keep their order.

    Skilling, Programming the Hilbert curve, AIP Conf. Proc. 707 (2004): the coordinates' bits are transformed in place
    from the most to the least significant one; interleaved, they are the position on the curve.
    """
    axes = list(_cells(points).T)
    bit = np.int64(1 << (_BITS - 1))
    while bit > 1:
        below = bit - 1
        for axis in range(len(axes)):
            high = (axes[axis] & bit) != 0
            # Where the bit is set the first axis is inverted below it, elsewhere it is exchanged with this one.
            swapped = np.where(high, 0, (axes[0] ^ axes[axis]) & below)
            if axis == 0:
                axes[0] = np.where(high, axes[0] ^ below, axes[0])
            else:
                axes[0] = np.where(high, axes[0] ^ below, axes[0] ^ swapped)
                axes[axis] = axes[axis] ^ swapped
        bit >>= np.int64(1)
    for axis in range(1, len(axes)):
        axes[axis] = axes[axis] ^ axes[axis - 1]
    turn = np.zeros_like(axes[0])
    bit = np.int64(1 << (_BITS - 1))
    while bit > 1:
        turn ^= np.where((axes[-1] & bit) != 0, bit - 1, 0)
        bit >>= np.int64(1)
    return np.argsort(_interleaved(np.stack([axis ^ turn for axis in axes], axis=1)), kind="stable")


def _cells(points: NDArray[np.float64]) -> NDArray[np.int64]:
    """Cells of a cubic grid over all points, so that long domains are not squeezed."""
    if not len(points):
        return np.empty(points.shape, np.int64)
    low = points.min(axis=0)
    extent = float((points.max(axis=0) - low).max())
    scale = ((1 << _BITS) - 1) / extent if extent > 0 else 0.0
    return (np.minimum((points - low) * scale, (1 << _BITS) - 1) if np.isfinite(scale) else points * 0).astype(np.int64)


def _interleaved(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """Interleave the bits of each row, the first column's the more significant ones."""
    dimensions = cells.shape[1]
    key = np.zeros(len(cells), np.int64)
    for axis in range(dimensions):
        key |= _spread(cells[:, axis], dimensions) << np.int64(dimensions - 1 - axis)
    return key


def _spread(values: NDArray[np.int64], dimensions: int) -> NDArray[np.int64]:
    """Put ``dimensions - 1`` zeros behind each bit."""
    steps = {
        1: (),
        2: ((16, 0x0000FFFF0000FFFF), (8, 0x00FF00FF00FF00FF), (4, 0x0F0F0F0F0F0F0F0F), (2, 0x3333333333333333),
            (1, 0x5555555555555555)),
        3: ((32, 0x1F00000000FFFF), (16, 0x1F0000FF0000FF), (8, 0x100F00F00F00F00F), (4, 0x10C30C30C30C30C3),
            (2, 0x1249249249249249)),
    }[dimensions]  # fmt: skip
    spread = values
    for shift, mask in steps:
        spread = (spread | (spread << np.int64(shift))) & np.int64(mask)
    return spread
