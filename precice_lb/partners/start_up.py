"""Seconds and memory of preCICE's start-up: a model of few terms with stated constants.

A term is a number of things, which the code of preCICE 3.4 says (``partition/*Partition.cpp``,
``m2n/PointToPointCommunication.cpp``, ``com/ConnectionInfoPublisher.cpp``), times the seconds of one of them, which the
machine says. Measured start-ups showed which of them matter: ranks that wait in MPI poll, so that on fewer cores than
ranks every step in which one rank waits for another costs a time slice for each further rank on its core.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

__all__ = ["CostModel", "StartUp", "StartUpCounts", "start_up"]

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
        Seconds per step in which a rank waits for another one, where every rank has a core.
    turn : float
        Seconds that such a step takes longer for each further rank on a core: time slices of ranks that poll.
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
    turn: float = 4.1e-3
    file: float = 1e-3
    vertex: float = 2.9e-6
    copy: float = 5e-8
    vertex_bytes: float = 72.0
    box_bytes: float = 160.0

    @property
    def is_default(self) -> bool:
        """Whether all constants of seconds are the stated ones."""
        return replace(self, vertex_bytes=CostModel.vertex_bytes, box_bytes=CostModel.box_bytes) == CostModel()

    def to_dict(self) -> dict[str, float]:
        """Return the constants by name, in seconds and bytes."""
        return asdict(self)


@dataclass(frozen=True)
class StartUpCounts:
    """What initialising one received mesh has to do.

    Attributes
    ----------
    two_level : bool
        The scheme.
    ranks : tuple of int
        Ranks of provider and receiver.
    vertices : tuple of int
        Vertices of the received mesh, and of the receiver's own ones.
    most_own : int
        The most vertices that one rank has of these.
    partners : int
        The most ranks that one rank asks for a connection.
    received : int
        Vertices that all ranks of the receiver receive in two levels.
    most_received : int
        The most vertices that one of them receives then.
    kept : int
        Vertices that all ranks of the receiver keep.
    cores : int or None
        Cores that all ranks share; None where every rank has one.
    """

    two_level: bool
    ranks: tuple[int, int]
    vertices: tuple[int, int]
    most_own: int
    partners: int
    received: int
    most_received: int
    kept: int
    cores: int | None = None


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


def _sharing(counts: StartUpCounts, ranks: int) -> float:
    """Ranks per core, where so many want one."""
    return 1.0 if counts.cores is None else max(ranks / counts.cores, 1.0)


def _busiest(counts: StartUpCounts, most: int, total: int) -> float:
    """Return what the busiest core does where one rank has at most ``most`` of the total."""
    return float(most) if counts.cores is None else max(most, total / counts.cores)


def start_up(counts: StartUpCounts, model: CostModel) -> StartUp:
    """Estimate memory and seconds of initialising one received mesh."""
    provider, receiver = counts.ranks
    whole, own = counts.vertices
    everyone = _sharing(counts, provider + receiver)

    def steps(number: int, sharing: float) -> float:
        return number * (model.latency + model.turn * (sharing - 1.0))

    parts = {
        "connect primary ranks": steps(_STEPS, everyone),
        "set up own vertices": model.vertex * _busiest(counts, counts.most_own, whole + own),
        # The primary rank hears every rank of the receiver; in two levels neighbours then agree among themselves. The
        # provider waits in a socket meanwhile, without polling.
        "settle owners": steps(receiver, _sharing(counts, receiver)),
        "connect": model.file * (counts.partners + _FILES[counts.two_level]),
    }
    if counts.two_level:
        parts["exchange pieces"] = model.copy * _busiest(counts, counts.most_received, counts.received)
        held = provider * model.box_bytes + counts.most_received * model.vertex_bytes
        return StartUp(sum(parts.values()), held + receiver * model.box_bytes, held, parts)
    parts |= {
        "gather and send the mesh": model.vertex * 2 * whole,
        "broadcast the mesh": model.copy * whole * _sharing(counts, receiver),
        # Both sides are told, rank by rank, who holds which vertex.
        "broadcast distributions": (
            model.copy * (whole + counts.kept) * everyone + steps(provider + receiver, everyone)
        ),
    }
    held = whole * model.vertex_bytes + (whole + counts.kept) * _INDEX
    return StartUp(sum(parts.values()), held, held, parts)
