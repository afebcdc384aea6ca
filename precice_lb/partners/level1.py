"""Level 1 of two-level initialisation: which ranks' bounding boxes overlap, as in preCICE 3.4, without all pairs.

The rule stands in preCICE's ``partition/ReceivedPartition.cpp`` and ``mesh/BoundingBox.cpp``: the receiver's box is
moved out on every side by the safety factor times its longest edge, and two boxes overlap when their closed intervals
do in every dimension. An empty rank's box is inside out, and so overlaps another empty rank's box and nothing else.

Pairs are found by descending two trees at once (one per side, boxes in Morton order), many pairs of nodes at a time.
The pairs of nodes are kept on a stack in blocks, so that memory does not depend on how many are visited.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.exceptions import DataError
from precice_lb.partners.curves import morton_order

__all__ = ["check_boxes", "connected_ranks", "overlapping_pairs", "scaled_boxes"]

_FANOUT = 4
_BLOCK = 2**18


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
    filled = [~np.isnan(boxes[:, 0, 0]) for boxes in (first, second)]
    keys: list[NDArray[np.int64]] = []
    inside = [np.flatnonzero(each) for each in filled]
    if len(inside[0]) and len(inside[1]):
        trees = [_Tree(boxes[chosen], chosen) for boxes, chosen in zip((first, second), inside, strict=True)]
        _join(trees[0], trees[1], lambda a, b: keys.append(a * len(second) + b))
    empty = [np.flatnonzero(~each) for each in filled]
    if len(empty[0]) and len(empty[1]):
        keys.append((empty[0][:, None] * len(second) + empty[1][None, :]).ravel())
    return _decode(keys, max(len(second), 1))


def _decode(keys: list[NDArray[np.int64]], columns: int) -> NDArray[np.int64]:
    joined = np.concatenate(keys) if keys else np.empty(0, np.int64)
    keys.clear()
    joined.sort()
    pairs = np.empty((len(joined), 2), np.int64)
    np.floor_divide(joined, columns, out=pairs[:, 0])
    np.remainder(joined, columns, out=pairs[:, 1])
    return pairs


@dataclass(init=False)
class _Tree:
    """Boxes in Morton order, and above them levels of bounds of ``_FANOUT`` neighbours each; the root is last."""

    ranks: NDArray[np.int64]
    levels: list[NDArray[np.float64]]

    def __init__(self, boxes: NDArray[np.float64], ranks: NDArray[np.int64]) -> None:
        order = morton_order((boxes[:, :, 0] + boxes[:, :, 1]) / 2)
        self.ranks = ranks[order]
        # Contiguous per bound: one gather per comparison.
        bounds = np.ascontiguousarray(boxes[order].transpose(2, 1, 0))
        self.levels = [bounds]
        while bounds.shape[2] > 1:
            starts = np.arange(0, bounds.shape[2], _FANOUT)
            bounds = np.stack(
                [np.minimum.reduceat(bounds[0], starts, axis=1), np.maximum.reduceat(bounds[1], starts, axis=1)]
            )
            self.levels.append(bounds)


def _join(first: _Tree, second: _Tree, found: Callable[[NDArray[np.int64], NDArray[np.int64]], None]) -> None:
    """Call ``found`` with the ranks of overlapping boxes, a block at a time."""
    stack = [(len(first.levels) - 1, len(second.levels) - 1, np.zeros(1, np.int64), np.zeros(1, np.int64))]
    while stack:
        level_a, level_b, a, b = stack.pop()
        if len(a) > _BLOCK:
            middle = len(a) // 2
            stack += [(level_a, level_b, a[:middle], b[:middle]), (level_a, level_b, a[middle:], b[middle:])]
            continue
        hit = _overlap(first.levels[level_a], second.levels[level_b], a, b)
        a, b = a[hit], b[hit]
        if not len(a):
            continue
        if level_a == 0 and level_b == 0:
            found(first.ranks[a], second.ranks[b])
        elif level_a >= level_b:
            a, b = _children(a, b, first.levels[level_a - 1].shape[2])
            stack.append((level_a - 1, level_b, a, b))
        else:
            b, a = _children(b, a, second.levels[level_b - 1].shape[2])
            stack.append((level_a, level_b - 1, a, b))


def _children(
    nodes: NDArray[np.int64], others: NDArray[np.int64], count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    below = (nodes[:, None] * _FANOUT + np.arange(_FANOUT)).ravel()
    beside = np.repeat(others, _FANOUT)
    there = below < count
    return below[there], beside[there]


def _overlap(
    first: NDArray[np.float64], second: NDArray[np.float64], a: NDArray[np.int64], b: NDArray[np.int64]
) -> NDArray[np.bool_]:
    hit = np.ones(len(a), bool)
    for dimension in range(first.shape[1]):
        hit &= first[0, dimension][a] <= second[1, dimension][b]
        hit &= second[0, dimension][b] <= first[1, dimension][a]
    return hit
