"""Which ranks to put on the same node, so that coupling data stays there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from precice_lb.partners.curves import hilbert_order
from precice_lb.partners.meshes import PartitionedMesh

__all__ = ["Placement", "place_ranks", "rank_order_text"]


@dataclass(frozen=True)
class Placement:
    """An order of all ranks, filled into nodes one after the other.

    Attributes
    ----------
    order : ndarray of int64, shape (ranks,)
        Ranks of the whole launch, where the participants stand one after the other in the order of the configuration.
    ranks_per_node : int
        Ranks that a node takes.
    share_before, share_after : float
        Share of the coupling data (bytes per window) between ranks of one node, for the launch order and for this one.
    """

    order: NDArray[np.int64]
    ranks_per_node: int
    share_before: float
    share_after: float


def place_ranks(
    ranks: Mapping[str, int],
    meshes: Mapping[str, PartitionedMesh],
    traffic: Mapping[tuple[str, str], tuple[NDArray[np.int64], NDArray[np.float64]]],
    ranks_per_node: int,
) -> Placement:
    """Order ranks along a space-filling curve through all interfaces, where that keeps more data on nodes.

    Ranks without interface follow at the end. Only coupling data count: a solver's own messages between its ranks may
    weigh more.
    """
    names = list(ranks)
    first = dict(zip(names, np.cumsum([0, *ranks.values()])[:-1].tolist(), strict=True))
    total = sum(ranks.values())
    pairs, weight = _joined(first, traffic)
    plain = np.arange(total)
    before = _share(plain, pairs, weight, ranks_per_node)
    boxes: dict[str, NDArray[np.float64]] = {}
    for mesh in meshes.values():
        if mesh.participant in ranks:
            known = boxes.get(mesh.participant)
            boxes[mesh.participant] = mesh.boxes if known is None else _union(known, mesh.boxes)
    found, centres = [], []
    for name, box in boxes.items():
        filled = np.flatnonzero(~np.isnan(box[:, 0, 0]))
        found.append(filled + first[name])
        middle = box[filled].mean(axis=2)
        centres.append(np.pad(middle, ((0, 0), (0, 3 - middle.shape[1]))))
    order = plain
    if found:
        at_interface = np.concatenate(found)
        along = at_interface[hilbert_order(np.concatenate(centres))]
        order = np.concatenate([along, np.setdiff1d(plain, along)])
    after = _share(order, pairs, weight, ranks_per_node)
    if after <= before:
        return Placement(plain, ranks_per_node, before, before)
    return Placement(order, ranks_per_node, before, after)


def rank_order_text(placement: Placement) -> str:
    """Write an order of ranks as a ``MPICH_RANK_ORDER`` file: one node per line.

    Parameters
    ----------
    placement : Placement

    Returns
    -------
    str
        Ranks of the whole launch, separated by commas; used with ``MPICH_RANK_REORDER_METHOD=3``.
    """
    nodes = [
        placement.order[begin : begin + placement.ranks_per_node]
        for begin in range(0, len(placement.order), placement.ranks_per_node)
    ]
    return "".join(",".join(map(str, node.tolist())) + "\n" for node in nodes)


def _joined(
    first: Mapping[str, int], traffic: Mapping[tuple[str, str], tuple[NDArray[np.int64], NDArray[np.float64]]]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    pairs = [each + np.array([first[a], first[b]]) for (a, b), (each, _) in traffic.items()]
    if not pairs:
        return np.empty((0, 2), np.int64), np.empty(0)
    return np.concatenate(pairs), np.concatenate([weight for _, weight in traffic.values()])


def _share(
    order: NDArray[np.int64], pairs: NDArray[np.int64], weight: NDArray[np.float64], ranks_per_node: int
) -> float:
    node = np.empty(len(order), np.int64)
    node[order] = np.arange(len(order)) // ranks_per_node
    total = float(weight.sum())
    return float(weight[node[pairs[:, 0]] == node[pairs[:, 1]]].sum()) / total if total > 0 else 0.0


def _union(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack([np.fmin(first[..., 0], second[..., 0]), np.fmax(first[..., 1], second[..., 1])], axis=2)
