"""All received meshes of a case: partners, traffic, memory and start-up, on the measured or a forecast partition.

What start-up costs is counted here for both schemes; `precice_lb.partners.start_up` has the model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from precice_lb.partners.level1 import overlapping_pairs
from precice_lb.partners.level2 import needed_vertices
from precice_lb.partners.links import Link, receiver_boxes
from precice_lb.partners.meshes import PartitionedMesh
from precice_lb.partners.start_up import CostModel, StartUp, StartUpCounts, start_up

__all__ = ["LinkPartners", "analyse_link"]

_REAL = 8
# Vertices times ranks of the receiver, beyond which unfiltered meshes are not followed through one level, where every
# rank gets the whole mesh.
_MOST_WORK = 5e8


@dataclass(frozen=True)
class LinkPartners:
    """Who talks to whom over one received mesh.

    Attributes
    ----------
    link : Link
        The received mesh.
    provider_boxes, receiver_boxes : ndarray, shape (ranks, dimensions, 2)
        Boxes that are compared; NaN for an empty rank.
    level_1 : ndarray of int64, shape (pairs, 2)
        Pairs of provider and receiver rank that two-level initialisation connects, sorted.
    level_2 : ndarray of int64, shape (pairs, 2), or None
        Pairs that exchange data; None where coordinates are not known.
    vertices : ndarray of int64, shape (pairs,), or None
        How many vertices each of those pairs exchanges.
    one_level : ndarray of int64, shape (pairs, 2), or None
        Pairs that one-level initialisation connects; None also where an unfiltered mesh is too large to follow.
    values : float
        Values per vertex and time window, over all exchanges.
    messages : float
        Exchanges per time window.
    counts : dict of bool to StartUpCounts
        What initialisation in one level (False) and two (True) has to do.
    cost : dict of bool to StartUp
        What that costs.
    mesh_vertices : int
        Vertices of the received mesh.
    needed_factor : float
        Smallest safety factor with which every rank keeps what it keeps now; NaN where not known.
    open_choices : int
        Vertices for which geometry does not decide between vertices or cells of the provider.
    approximated : tuple of str
        Mappings whose projections were replaced by nearest vertices.
    """

    link: Link
    provider_boxes: NDArray[np.float64]
    receiver_boxes: NDArray[np.float64]
    level_1: NDArray[np.int64]
    level_2: NDArray[np.int64] | None
    vertices: NDArray[np.int64] | None
    one_level: NDArray[np.int64] | None
    values: float
    messages: float
    counts: dict[bool, StartUpCounts]
    cost: dict[bool, StartUp]
    mesh_vertices: int
    needed_factor: float
    open_choices: int
    approximated: tuple[str, ...]

    @property
    def ranks(self) -> tuple[int, int]:
        """Ranks of provider and receiver."""
        return len(self.provider_boxes), len(self.receiver_boxes)

    @property
    def parallel(self) -> bool:
        """Whether preCICE can initialise this mesh in two levels: both participants parallel, no gather-scatter."""
        return min(self.ranks) > 1 and not self.link.gathered

    @property
    def connected(self) -> NDArray[np.int64]:
        """Pairs that are connected as configured; level 1 where one level is configured and coordinates are missing."""
        if self.link.two_level or self.one_level is None:
            return self.level_1
        return self.one_level

    @property
    def empty_pairs(self) -> int | None:
        """Connected pairs of level 1 that exchange no data."""
        return None if self.level_2 is None else len(self.level_1) - len(self.level_2)

    def partners(self, side: int, pairs: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Partners of each rank.

        Parameters
        ----------
        side : int
            0 for the provider, 1 for the receiver.
        pairs : ndarray of int64, shape (pairs, 2), optional
            By default those of level 1.

        Returns
        -------
        ndarray of int64, shape (ranks,)
        """
        chosen = self.level_1 if pairs is None else pairs
        return np.bincount(chosen[:, side], minlength=self.ranks[side])

    @property
    def pair_bytes(self) -> NDArray[np.float64] | None:
        """Bytes per time window of each pair of level 2, shape (pairs,)."""
        return None if self.vertices is None else self.vertices * np.float64(self.values * _REAL)

    @property
    def messages_per_window(self) -> float:
        """Messages per time window of all ranks: preCICE also sends the empty ones of connected pairs."""
        return self.messages * len(self.connected)


def analyse_link(
    link: Link,
    meshes: Mapping[str, PartitionedMesh],
    region: NDArray[np.float64] | None,
    *,
    steps: int,
    iterations: float,
    model: CostModel,
    cores: int | None,
) -> LinkPartners:
    """Find the partners over one received mesh, and what they cost.

    Steps of a solver per time window count for exchanges with ``substeps``: these send the data at all of them and at
    the window's start. The region has shape (receiver ranks, dimensions, 2). Without cores every rank has its own.
    """
    provider = meshes[link.mesh]
    names = [mapping.local for mapping in link.mappings if mapping.local is not None]
    local = {name: meshes[name] for name in names if name in meshes}
    boxes = receiver_boxes(link, local, region)
    level_1 = overlapping_pairs(provider.boxes, boxes)
    two, one, factor = None, None, math.nan
    if all(mesh.coordinates is not None for mesh in (provider, *local.values())):
        two = needed_vertices(link, provider, local, region, two_level=True)
        if len(local) == 1 and not link.api_access:
            factor = two.factor(provider, *local.values())
        if link.filtered:
            # Boxes filter in one level as in two.
            one = two
        elif provider.vertices * len(boxes) <= _MOST_WORK:
            one = needed_vertices(link, provider, local, region, two_level=False)
    level_2, vertices = (None, None) if two is None else two.pairs(provider)
    one_level = None if one is None else one.pairs(provider)[0]
    received = np.bincount(level_1[:, 1], weights=provider.counts[level_1[:, 0]], minlength=len(boxes))
    kept = one or two
    counts = {}
    for two_level in (False, True):
        pairs = level_1 if two_level or one_level is None else one_level
        counts[two_level] = StartUpCounts(
            two_level=two_level,
            ranks=(provider.ranks, len(boxes)),
            vertices=(provider.vertices, sum(mesh.vertices for mesh in local.values())),
            most_own=max(int(mesh.counts.max(initial=0)) for mesh in (provider, *local.values())),
            partners=int(np.bincount(pairs[:, 0 if link.provider_asks else 1]).max(initial=0)),
            received=int(received.sum()),
            most_received=int(received.max(initial=0)),
            # At least: ghosts of a kernel are not known where one level was not followed.
            kept=provider.vertices if kept is None else len(kept.vertices),
            cores=cores,
        )
    exchanged = [(size, (steps + 1) if exchange.substeps else 1) for exchange, size in link.exchanges]
    return LinkPartners(
        link=link,
        provider_boxes=provider.boxes,
        receiver_boxes=boxes,
        level_1=level_1,
        level_2=level_2,
        vertices=vertices,
        one_level=one_level,
        values=iterations * sum(size * samples for size, samples in exchanged),
        messages=iterations * len(exchanged),
        counts=counts,
        cost={two_level: start_up(each, model) for two_level, each in counts.items()},
        mesh_vertices=provider.vertices,
        needed_factor=factor,
        open_choices=0 if two is None else two.open_choices,
        approximated=() if two is None else two.approximated,
    )
