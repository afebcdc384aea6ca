"""Level 1 of two-level initialisation: which ranks' bounding boxes overlap, as in preCICE 3.4, without all pairs.

The rule stands in preCICE's ``partition/ReceivedPartition.cpp`` and ``mesh/BoundingBox.cpp``: the receiver's box is
moved out on every side by the safety factor times its longest edge, and two boxes overlap when their closed intervals
do in every dimension. An empty rank's box is inside out, and so overlaps another empty rank's box and nothing else.

Pairs are found by descending two trees at once (one per side), many pairs of nodes at a time. The pairs of nodes are
kept on a stack in blocks, so that memory does not depend on how many are visited.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

from precice_lb.exceptions import DataError

_FANOUT = 4
_BLOCK = 2**18
# How bounds grow: of lower and of upper ones.
_OUTWARDS = (np.minimum, np.maximum)


def connected_ranks(
    provider_boxes: ArrayLike, receiver_boxes: ArrayLike, *, safety_factor: float = 0.5
) -> NDArray[np.int64]:
    """Pairs of ranks that preCICE connects in two-level initialisation (level 1).

    Parameters
    ----------
    provider_boxes : array_like, shape (provider ranks, dimensions, 2)
        Smallest and largest coordinate of the provider's vertices per rank and dimension; NaN for a rank without any.
    receiver_boxes : array_like, shape (receiver ranks, dimensions, 2)
        The same for the receiver's mesh that is mapped from or to the received one.
    safety_factor : float
        ``safety-factor`` of ``<receive-mesh>``. With 0 the receiver's boxes are taken as they stand, as for an access
        region.

    Returns
    -------
    ndarray of int64, shape (pairs, 2)
        Provider rank and receiver rank, sorted.

    Raises
    ------
    DataError
        If the boxes do not have these shapes or the same dimensions, are NaN only in part, infinite or inside out, or
        the safety factor is negative or not finite.

    Notes
    -----
    preCICE 3.4, ``ReceivedPartition::compareBoundingBoxes`` and ``prepareBoundingBox``.
    """
    provider = check_boxes(provider_boxes, "provider_boxes")
    receiver = check_boxes(receiver_boxes, "receiver_boxes")
    if provider.shape[1] != receiver.shape[1]:
        raise DataError(
            f"expected boxes of the same dimensions, found {provider.shape[1]} of the provider and "
            f"{receiver.shape[1]} of the receiver; give meshes of one case"
        )
    return overlapping_pairs(provider, scaled_boxes(receiver, safety_factor))


def check_boxes(boxes: ArrayLike, name: str) -> NDArray[np.float64]:
    """Check bounding boxes, shape (ranks, dimensions, 2), NaN for an empty rank; the name is for messages."""
    try:
        values = np.asarray(boxes, dtype=float)
    except (TypeError, ValueError):
        raise DataError(
            f"{name}: expected numbers, found something else; give an array (ranks, dimensions, 2)"
        ) from None
    if values.ndim != 3 or values.shape[1] not in (1, 2, 3) or values.shape[2] != 2:
        raise DataError(f"{name}: expected an array of shape (ranks, 2 or 3, 2), found shape {values.shape}")
    missing = np.isnan(values)
    wrong = missing.any(axis=(1, 2)) & ~missing.all(axis=(1, 2)) | np.isinf(values).any(axis=(1, 2))
    wrong |= (values[:, :, 0] > values[:, :, 1]).any(axis=1)
    if wrong.any():
        rank = int(np.argmax(wrong))
        raise DataError(
            f"{name}: expected finite bounds with lower <= upper, or NaN alone for an empty rank, found "
            f"{values[rank].tolist()} for rank {rank}; check that rank's coordinates"
        )
    checked: NDArray[np.float64] = values
    return checked


def scaled_boxes(boxes: NDArray[np.float64], safety_factor: float) -> NDArray[np.float64]:
    """Move every side of each box out by the factor times the box's longest edge (``BoundingBox::scaleBy``)."""
    if not (np.isfinite(safety_factor) and safety_factor >= 0):
        raise DataError(f"safety_factor: expected a number of at least 0, found {safety_factor!r}")
    margin = safety_factor * (boxes[:, :, 1] - boxes[:, :, 0]).max(axis=1, keepdims=True)
    moved: NDArray[np.float64] = np.stack([boxes[:, :, 0] - margin, boxes[:, :, 1] + margin], axis=2)
    return moved


def overlapping_pairs(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.int64]:
    """Sorted pairs of boxes, shape (ranks, dimensions, 2), that overlap as in preCICE: closed, and empty with empty."""
    empty = [np.isnan(boxes[:, 0, 0]) for boxes in (first, second)]
    nothing = [np.flatnonzero(each) for each in empty]
    keys = [np.add.outer(nothing[0] * len(second), nothing[1]).ravel()]
    if not (empty[0].all() or empty[1].all()):
        trees = [_Tree(boxes, np.flatnonzero(~each)) for boxes, each in zip((first, second), empty, strict=True)]
        keys += [a * len(second) + b for a, b in _overlaps(*trees)]
    joined = np.concatenate(keys)
    joined.sort()
    pairs = np.empty((len(joined), 2), np.int64)
    np.divmod(joined, max(len(second), 1), out=(pairs[:, 0], pairs[:, 1]))
    return pairs


class _Tree:
    """Boxes that are neighbours in space, and above them levels of bounds of ``_FANOUT`` each; the root is last."""

    def __init__(self, boxes: NDArray[np.float64], ranks: NDArray[np.int64]) -> None:
        # The leaves of a tree of centres, from one end to the other, are neighbours.
        centres = cKDTree(np.nan_to_num(boxes[ranks].mean(axis=2)), leafsize=_FANOUT, balanced_tree=False)
        self.ranks = ranks[centres.indices]
        # Contiguous per bound: one gather per comparison.
        bounds = np.ascontiguousarray(boxes[self.ranks].transpose(2, 1, 0))
        self.levels = [bounds]
        while bounds.shape[2] > 1:
            starts = np.arange(0, bounds.shape[2], _FANOUT)
            bounds = np.stack([f.reduceat(side, starts, axis=1) for f, side in zip(_OUTWARDS, bounds, strict=True)])
            self.levels.append(bounds)


def _overlaps(first: _Tree, second: _Tree) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Ranks of overlapping boxes, a block at a time."""
    stack = [(len(first.levels) - 1, len(second.levels) - 1, np.zeros(1, np.int64), np.zeros(1, np.int64))]
    while stack:
        level_a, level_b, a, b = stack.pop()
        if len(a) > _BLOCK:
            middle = len(a) // 2
            stack += [(level_a, level_b, a[:middle], b[:middle]), (level_a, level_b, a[middle:], b[middle:])]
            continue
        hit = np.ones(len(a), bool)
        for low_a, high_a, low_b, high_b in zip(*first.levels[level_a], *second.levels[level_b], strict=True):
            hit &= (low_a[a] <= high_b[b]) & (low_b[b] <= high_a[a])
        a, b = a[hit], b[hit]
        if level_a == level_b == 0:
            yield first.ranks[a], second.ranks[b]
        elif not len(a):
            continue
        elif level_a >= level_b:
            a, b = _children(a, b, first.levels[level_a - 1].shape[2])
            stack.append((level_a - 1, level_b, a, b))
        else:
            b, a = _children(b, a, second.levels[level_b - 1].shape[2])
            stack.append((level_a, level_b - 1, a, b))


def _children(
    nodes: NDArray[np.int64], others: NDArray[np.int64], count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    below = np.add.outer(nodes * _FANOUT, np.arange(_FANOUT)).ravel()
    there = below < count
    return below[there], np.repeat(others, _FANOUT)[there]
