"""Which ranks to put on the same node, so that coupling data stays there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from precice_lb.partners.analysis import LinkPartners
from precice_lb.partners.meshes import PartitionedMesh, united
from precice_lb.partners.partition import hilbert_order

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
    links: Sequence[LinkPartners],
    ranks_per_node: int,
) -> Placement:
    """Order ranks along a space-filling curve through all interfaces, where that keeps more data on nodes.

    Ranks without interface follow at the end. Only coupling data count, or pairs where these are not known: a solver's
    own messages between its ranks may weigh more.
    """
    first = dict(zip(ranks, np.cumsum([0, *ranks.values()]).tolist(), strict=False))
    pairs, weight = [np.empty((0, 2), np.int64)], [np.empty(0)]
    for found in links:
        joined = found.level_1 if found.level_2 is None else found.level_2
        pairs.append(joined + np.array([first[found.link.provider], first[found.link.receiver]]))
        weight.append(np.ones(len(joined)) if found.pair_bytes is None else found.pair_bytes)
    plain = np.arange(sum(ranks.values()))
    centres, at_interface = [np.empty((0, 3))], [plain[:0]]
    for name, start in first.items():
        own = [mesh.boxes for mesh in meshes.values() if mesh.participant == name]
        if own:
            # Meshes of two dimensions lie in the plane.
            box = united([np.pad(each, ((0, 0), (0, 3 - each.shape[1]), (0, 0))) for each in own])
            filled = np.flatnonzero(~np.isnan(box[:, 0, 0]))
            centres.append(box[filled].mean(axis=2))
            at_interface.append(filled + start)
    along = np.concatenate(at_interface)[hilbert_order(np.concatenate(centres))]
    order = np.concatenate([along, np.setdiff1d(plain, along)])
    before, after = (
        _share(each, np.concatenate(pairs), np.concatenate(weight), ranks_per_node) for each in (plain, order)
    )
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


def _share(
    order: NDArray[np.int64], pairs: NDArray[np.int64], weight: NDArray[np.float64], ranks_per_node: int
) -> float:
    node = np.empty(len(order), np.int64)
    node[order] = np.arange(len(order)) // ranks_per_node
    total = float(weight.sum())
    return float(weight[node[pairs[:, 0]] == node[pairs[:, 1]]].sum()) / total if total > 0 else 0.0
