"""All received meshes of a case: partners, traffic, memory and start-up, on the measured or a forecast partition.

Start-up is a model of few terms with stated constants, where every rank has a core of its own. A term is a number of
things, which the code of preCICE 3.4 says (``partition/*Partition.cpp``, ``m2n/PointToPointCommunication.cpp``,
``com/ConnectionInfoPublisher.cpp``), times the seconds of one of them, which the machine says.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import numpy as np

from precice_lb.partners.level2 import needed_vertices
from precice_lb.partners.links import Link, receiver_boxes
from precice_lb.partners.meshes import Floats, Integers, Meshes, overlapping_pairs

_INDEX = 4
# Of either scheme: the primary ranks connect, and count, number and distribute the vertices of their meshes.
_STEPS = 4
# Files that are opened or renamed one after the other, besides those that a rank opens for each partner it asks: an
# address is written (opened and renamed) and read (opened) for the primary ranks, twice in one level, and written for
# the partners.
_FILES = {True: 5, False: 8}


@dataclass(frozen=True)
class CostModel:
    """Constants of the start-up model.

    Attributes
    ----------
    latency : float
        Seconds per step in which a rank waits for another one.
    file : float
        Seconds until a file with a rank's address is opened, or renamed, in the exchange directory, and the connection
        is made: what the file system costs.
    vertex : float
        Seconds per vertex of its own mesh, or of the whole mesh that a primary rank gathers.
    copy : float
        Seconds per vertex that a rank receives and filters, or is told the place of.
    vertex_bytes : float
        Bytes of one vertex in memory: three coordinates, two indices and flags, and its place in the search tree.
    box_bytes : float
        Bytes of one box in preCICE's map from rank to box.
    """

    latency: float = 5e-6
    file: float = 1e-3
    vertex: float = 2.9e-6
    copy: float = 5e-8
    vertex_bytes: float = 72.0
    box_bytes: float = 160.0

    def to_dict(self) -> dict[str, float]:
        """Return the constants by name, in seconds and bytes."""
        return asdict(self)


@dataclass(frozen=True)
class StartUp:
    """Cost of initialising one received mesh.

    Attributes
    ----------
    seconds : float
        Estimated seconds of the slowest rank.
    primary_bytes, rank_bytes : float
        Memory for boxes and the received mesh on the receiver's primary rank and on its other ranks, at their peak.
    parts : dict of str to float
        The seconds by what they go to.
    """

    seconds: float
    primary_bytes: float
    rank_bytes: float
    parts: dict[str, float]


def start_up(
    model: CostModel,
    *,
    two_level: bool,
    ranks: tuple[int, int],
    vertices: int,
    most_own: int,
    partners: int,
    most_received: int,
    kept: int,
) -> StartUp:
    """Estimate memory and seconds of initialising one received mesh.

    ``ranks`` are those of provider and receiver, ``vertices`` those of the mesh; one rank has at most ``most_own`` of
    its own. One rank asks at most ``partners`` others for a connection. In two levels a rank of the receiver receives
    at most ``most_received`` vertices; in all they keep ``kept``.
    """
    provider, receiver = ranks
    parts = {
        "connect primary ranks": model.latency * _STEPS,
        "set up own vertices": model.vertex * most_own,
        # The primary rank hears every rank of the receiver; in two levels neighbours then agree among themselves.
        "settle owners": model.latency * receiver,
        "connect": model.file * (partners + _FILES[two_level]),
    }
    if two_level:
        parts["exchange pieces"] = model.copy * most_received
        held = provider * model.box_bytes + most_received * model.vertex_bytes
        return StartUp(sum(parts.values()), held + receiver * model.box_bytes, held, parts)
    parts |= {
        "gather and send the mesh": model.vertex * 2 * vertices,
        "broadcast the mesh": model.copy * vertices,
        # Both sides are told, rank by rank, who holds which vertex.
        "broadcast distributions": model.copy * (vertices + kept) + model.latency * (provider + receiver),
    }
    held = vertices * model.vertex_bytes + (vertices + kept) * _INDEX
    return StartUp(sum(parts.values()), held, held, parts)


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
        Pairs that exchange data, with all vertices among which preCICE may choose; None without coordinates.
    vertices : ndarray of int64, shape (pairs,), or None
        How many vertices each of those pairs exchanges.
    one_level : ndarray of int64, shape (pairs, 2), or None
        Pairs that one-level initialisation connects; None also where an unfiltered mesh is too large to follow.
    values : float
        Values per vertex and time window, over all exchanges.
    messages : float
        Exchanges per time window.
    cost : dict of bool to StartUp
        What initialisation in one level (False) and two (True) costs.
    mesh_vertices : int
        Vertices of the received mesh.
    needed_factor : float
        Smallest safety factor with which every rank keeps what it keeps now; NaN where not known.
    approximated : tuple of str
        Mappings whose projections were replaced by nearest vertices.
    """

    link: Link
    provider_boxes: Floats
    receiver_boxes: Floats
    level_1: Integers
    level_2: Integers | None
    vertices: Integers | None
    one_level: Integers | None
    values: float
    messages: float
    cost: dict[bool, StartUp]
    mesh_vertices: int
    needed_factor: float
    approximated: tuple[str, ...]

    @property
    def ranks(self) -> tuple[int, int]:
        """Ranks of provider and receiver."""
        return len(self.provider_boxes), len(self.receiver_boxes)

    @property
    def configured(self) -> Integers | None:
        """Pairs that are connected as configured; None where one level is, and coordinates are missing."""
        return self.level_1 if self.link.two_level else self.one_level

    @property
    def connected(self) -> Integers:
        """The same, or those of level 1 where they are not known."""
        return self.level_1 if self.configured is None else self.configured

    @property
    def empty_pairs(self) -> int | None:
        """Connected pairs of level 1 that exchange no data."""
        return None if self.level_2 is None else len(self.level_1) - len(self.level_2)

    def partners(self, side: int, pairs: Integers | None = None) -> Integers:
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
    def pair_bytes(self) -> Floats | None:
        """Bytes per time window of each pair of level 2, shape (pairs,)."""
        return None if self.vertices is None else self.vertices * np.float64(self.values * _REAL)

    @property
    def messages_per_window(self) -> float:
        """Messages per time window of all ranks: preCICE also sends the empty ones of connected pairs."""
        return self.messages * len(self.connected)


def analyse_link(
    link: Link, meshes: Meshes, region: Floats | None, *, iterations: float, model: CostModel
) -> LinkPartners:
    """Find the partners over one received mesh, and what they cost.

    An exchange with ``substeps`` sends the data at the begin and at the end of a window at least. The region has shape
    (receiver ranks, dimensions, 2).
    """
    provider = meshes[link.mesh]
    boxes = receiver_boxes(link, meshes, region)
    local = {name: meshes[name] for name in link.locals}
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
    cost = {}
    for two_level in (False, True):
        pairs = level_1 if two_level or one_level is None else one_level
        cost[two_level] = start_up(
            model,
            two_level=two_level,
            ranks=(provider.ranks, len(boxes)),
            vertices=provider.vertices,
            most_own=max(int(mesh.counts.max(initial=0)) for mesh in (provider, *local.values())),
            partners=int(np.bincount(pairs[:, 0 if link.provider_asks else 1]).max(initial=0)),
            most_received=int(received.max(initial=0)),
            # At least: ghosts of a kernel are not known where one level was not followed.
            kept=provider.vertices if kept is None else len(kept.vertices),
        )
    projections = [m.kind for m in link.mappings if m.local and not (m.is_kernel or m.kind.startswith("nearest-neigh"))]
    return LinkPartners(
        link=link,
        provider_boxes=provider.boxes,
        receiver_boxes=boxes,
        level_1=level_1,
        level_2=level_2,
        vertices=vertices,
        one_level=one_level,
        values=iterations * sum(size * (1 + exchange.substeps) for exchange, size in link.exchanges),
        messages=iterations * len(link.exchanges),
        cost=cost,
        mesh_vertices=provider.vertices,
        needed_factor=factor,
        approximated=() if two is None or provider.cells or len(boxes) == 1 else tuple(dict.fromkeys(projections)),
    )
