"""What initialising costs: memory for boxes and meshes, and seconds from a stated model, in one and in two levels.

The model counts what preCICE 3.4 does (``partition/*Partition.cpp``, ``m2n/PointToPointCommunication.cpp``) and
multiplies by the constants of `CostModel`. It is there to compare schemes and partitions, not to predict seconds on a
machine that it was not told about.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

__all__ = ["CostModel", "StartUp", "start_up"]

_REAL = 8
_INDEX = 4


@dataclass(frozen=True)
class CostModel:
    """Constants of the start-up model.

    Attributes
    ----------
    latency : float
        Seconds per message.
    bandwidth : float
        Bytes per second of one connection.
    connection : float
        Seconds to open one connection to another rank.
    compare : float
        Seconds to compare two boxes.
    vertex : float
        Seconds to unpack and filter one vertex.
    vertex_bytes : float
        Bytes of one vertex in memory: three coordinates, two indices and flags, and its place in the search tree.
    box_bytes : float
        Bytes of one box in preCICE's map from rank to box.
    """

    latency: float = 5e-6
    bandwidth: float = 2e9
    connection: float = 2e-4
    compare: float = 5e-8
    vertex: float = 2e-7
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
    provider_ranks: int,
    receiver_ranks: int,
    vertices: int,
    dimensions: int,
    *,
    two_level: bool,
    most_partners: int,
    most_vertices: int,
    kept_vertices: int,
    model: CostModel | None = None,
) -> StartUp:
    """Estimate memory and seconds of initialising one received mesh, of which kept vertices are counted per rank."""
    constants = model or CostModel()
    box = 2 * dimensions * _REAL
    mesh = vertices * (dimensions * _REAL + _INDEX)
    connecting = most_partners * constants.connection
    if two_level:
        boxes = provider_ranks * box
        pieces = most_vertices * (dimensions * _REAL + _INDEX)
        parts = {
            "gather boxes": provider_ranks * constants.latency + boxes / constants.bandwidth,
            "broadcast boxes": _broadcast(boxes, receiver_ranks, constants),
            "compare boxes": provider_ranks * constants.compare,
            "feed back": receiver_ranks * constants.latency,
            "connect": connecting,
            "exchange pieces": most_partners * constants.latency + pieces / constants.bandwidth,
            "filter": most_vertices * constants.vertex,
        }
        held = provider_ranks * constants.box_bytes + most_vertices * constants.vertex_bytes
        return StartUp(sum(parts.values()), held + receiver_ranks * constants.box_bytes, held, parts)
    # Every rank is told who holds which vertex, on both sides.
    distribution = (vertices + kept_vertices) * _INDEX
    parts = {
        "gather the mesh": provider_ranks * constants.latency + mesh / constants.bandwidth,
        "send the mesh": mesh / constants.bandwidth + vertices * constants.vertex,
        "broadcast the mesh": _broadcast(mesh, receiver_ranks, constants),
        "filter": vertices * constants.vertex,
        "gather the feedback": receiver_ranks * constants.latency + kept_vertices * _INDEX / constants.bandwidth,
        "broadcast distributions": _broadcast(distribution, max(provider_ranks, receiver_ranks), constants),
        "find partners": max(provider_ranks, receiver_ranks) * constants.compare,
        "connect": connecting,
    }
    held = vertices * constants.vertex_bytes + distribution
    return StartUp(sum(parts.values()), held, held, parts)


def _broadcast(size: float, ranks: int, constants: CostModel) -> float:
    return math.ceil(math.log2(max(ranks, 2))) * (constants.latency + size / constants.bandwidth)
