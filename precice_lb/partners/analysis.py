"""All received meshes of a case: partners, traffic, memory and start-up, on the measured or a forecast partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from precice_lb.partners.boxes import receiver_boxes
from precice_lb.partners.cost import CostModel, StartUp, start_up
from precice_lb.partners.level1 import overlapping_pairs
from precice_lb.partners.level2 import Needs, needed_vertices
from precice_lb.partners.links import Link
from precice_lb.partners.meshes import PartitionedMesh
from precice_lb.partners.spread import Spread

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
    cost : dict of bool to StartUp
        Initialisation in one level (False) and two (True).
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
    region: NDArray[np.float64] | None = None,
    *,
    steps: int = 1,
    iterations: float = 1.0,
    model: CostModel | None = None,
    spread: Spread | None = None,
) -> LinkPartners:
    """Find the partners over one received mesh, and what they cost.

    Steps of a solver per time window count for exchanges with ``substeps``: these send the data at all of them and
    at the window's start. The region has shape (receiver ranks, dimensions, 2).
    """
    provider = meshes[link.mesh]
    names = [mapping.local for mapping in link.mappings if mapping.local is not None]
    local = {name: meshes[name] for name in names if name in meshes}
    boxes = receiver_boxes(link, local, region)
    spread = spread or Spread()
    level_1 = _level_1(provider.boxes, boxes, spread)
    known = all(mesh.coordinates is not None for mesh in (provider, *local.values()))
    needs = _both_schemes(link, provider, local, region, spread) if known else None
    level_2, vertices, one_level = None, None, None
    open_choices, factor = 0, float("nan")
    approximated: tuple[str, ...] = ()
    if needs is not None:
        two, one = needs
        level_2, vertices = two.pairs(provider)
        one_level = None if one is None else one.pairs(provider)[0]
        open_choices, approximated = two.open_choices, two.approximated
        factor = _needed_factor(link, provider, local, two)
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
        cost=_costs(link, provider, len(boxes), level_1, one_level, needs, model),
        mesh_vertices=provider.vertices,
        needed_factor=factor,
        open_choices=open_choices,
        approximated=approximated,
    )


def _level_1(provider: NDArray[np.float64], receiver: NDArray[np.float64], spread: Spread) -> NDArray[np.int64]:
    block = spread.block(len(receiver))
    pairs = overlapping_pairs(provider, receiver[block.start : block.stop])
    keys = spread.join([pairs[:, 0] * len(receiver) + pairs[:, 1] + block.start])
    if spread.size > 1:
        keys.sort()
    return np.stack(np.divmod(keys, max(len(receiver), 1)), axis=1)


def _both_schemes(
    link: Link,
    provider: PartitionedMesh,
    local: Mapping[str, PartitionedMesh],
    region: NDArray[np.float64] | None,
    spread: Spread,
) -> tuple[Needs, Needs | None]:
    """Vertices that ranks keep in two levels and in one: the same where boxes filter."""
    two = needed_vertices(link, provider, local, region, two_level=True, spread=spread)
    if link.filtered:
        return two, two
    if provider.vertices * len(receiver_boxes(link, local, region)) > _MOST_WORK:
        return two, None
    return two, needed_vertices(link, provider, local, region, two_level=False, spread=spread)


def _needed_factor(link: Link, provider: PartitionedMesh, local: Mapping[str, PartitionedMesh], needs: Needs) -> float:
    """How far kept vertices lie beyond the local box, over that box's longest edge, at most."""
    if len(local) != 1 or link.api_access or not len(needs.vertices):
        return float("nan")
    (mesh,) = local.values()
    box = mesh.boxes[needs.ranks]
    points = provider.points("to find the safety factor")[needs.vertices]
    beyond = np.maximum(np.maximum(box[:, :, 0] - points, points - box[:, :, 1]), 0.0).max(axis=1)
    edge = (box[:, :, 1] - box[:, :, 0]).max(axis=1)
    return float(np.max(beyond / np.where(edge > 0, edge, np.inf), initial=0.0))


def _costs(
    link: Link,
    provider: PartitionedMesh,
    receiver_ranks: int,
    level_1: NDArray[np.int64],
    one_level: NDArray[np.int64] | None,
    needs: tuple[Needs, Needs | None] | None,
    model: CostModel | None,
) -> dict[bool, StartUp]:
    received = np.bincount(level_1[:, 1], weights=provider.counts[level_1[:, 0]], minlength=receiver_ranks)
    costs = {}
    for two_level in (False, True):
        pairs = level_1 if two_level or one_level is None else one_level
        most = max((int(np.bincount(pairs[:, side]).max()) for side in (0, 1)), default=0) if len(pairs) else 0
        costs[two_level] = start_up(
            provider.ranks,
            receiver_ranks,
            provider.vertices,
            link.dimensions,
            two_level=two_level,
            most_partners=most,
            most_vertices=int(received.max(initial=0)),
            # At least: ghosts of a kernel are not known where one level was not followed.
            kept_vertices=provider.vertices if needs is None else len((needs[1] or needs[0]).vertices),
            model=model,
        )
    return costs
