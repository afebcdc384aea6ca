"""Seconds and memory of preCICE's start-up: a model of few terms, and its constants from measured start-ups.

A term is a number of things, which the code of preCICE 3.4 says (``partition/*Partition.cpp``,
``m2n/PointToPointCommunication.cpp``, ``com/ConnectionInfoPublisher.cpp``), times the seconds of one of them, which the
machine says. Measured start-ups showed which of them matter: ranks that wait in MPI poll, so that on fewer cores than
ranks every step in which one rank waits for another costs a time slice for each further rank on its core.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear

from precice_lb.exceptions import DataError

__all__ = ["FITTED", "ConstantsFit", "CostModel", "StartUp", "StartUpCounts", "fit_constants", "start_up", "terms"]

FITTED = ("latency", "turn", "file", "vertex", "copy")
"""Constants that measured start-ups tell; the others count bytes."""
_INDEX = 4
# Of either scheme: the primary ranks connect, and count, number and distribute the vertices of their meshes.
_STEPS = 4
# Files that are opened or renamed one after the other, besides those that a rank opens for each partner it asks: an
# address is written (opened and renamed) and read (opened) for the primary ranks, twice in one level, and written for
# the partners.
_FILES = {True: 5, False: 8}
_REWEIGHTED = 10


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
        """Whether none of the constants was fitted or given."""
        return all(getattr(self, name) == getattr(CostModel, name) for name in FITTED)

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


@dataclass(frozen=True)
class ConstantsFit:
    """Constants fitted to measured start-ups.

    Attributes
    ----------
    model : CostModel
        With the fitted constants; defaults where no run tells them.
    fitted : tuple of str
        Constants that the runs tell.
    measured, estimated, left_out : ndarray, shape (runs,)
        Seconds as measured, as the fitted model has them, and as constants fitted to all other runs have them.
    """

    model: CostModel
    fitted: tuple[str, ...]
    measured: NDArray[np.float64]
    estimated: NDArray[np.float64]
    left_out: NDArray[np.float64]

    def factors(self, seconds: NDArray[np.float64]) -> NDArray[np.float64]:
        """How far estimates are off, whichever way.

        Parameters
        ----------
        seconds : ndarray, shape (runs,)
            `estimated` or `left_out`.

        Returns
        -------
        ndarray, shape (runs,)
            At least 1.
        """
        off = np.maximum(seconds, 1e-300) / self.measured
        return np.array(np.maximum(off, 1.0 / off), dtype=float)


def _sharing(counts: StartUpCounts, ranks: int) -> float:
    """Ranks per core, where so many want one."""
    return 1.0 if counts.cores is None else max(ranks / counts.cores, 1.0)


def _busiest(counts: StartUpCounts, most: int, total: int) -> float:
    """Return what the busiest core does where one rank has at most ``most`` of the total."""
    return float(most) if counts.cores is None else max(most, total / counts.cores)


def terms(counts: StartUpCounts) -> dict[str, dict[str, float]]:
    """Say what start-up has to do: by part, how many of what each constant is the cost of."""
    provider, receiver = counts.ranks
    whole, own = counts.vertices
    everyone = _sharing(counts, provider + receiver)

    def steps(number: int, sharing: float) -> dict[str, float]:
        return {"latency": number, "turn": number * (sharing - 1.0)}

    parts: dict[str, dict[str, float]] = {
        "connect primary ranks": steps(_STEPS, everyone),
        "set up own vertices": {"vertex": _busiest(counts, counts.most_own, whole + own)},
        # The primary rank hears every rank of the receiver; in two levels neighbours then agree among themselves. The
        # provider waits in a socket meanwhile, without polling.
        "settle owners": steps(receiver, _sharing(counts, receiver)),
        "connect": {"file": counts.partners + _FILES[counts.two_level]},
    }
    if counts.two_level:
        return parts | {"exchange pieces": {"copy": _busiest(counts, counts.most_received, counts.received)}}
    return parts | {
        "gather and send the mesh": {"vertex": 2 * whole},
        "broadcast the mesh": {"copy": whole * _sharing(counts, receiver)},
        # Both sides are told, rank by rank, who holds which vertex.
        "broadcast distributions": {"copy": (whole + counts.kept) * everyone, **steps(provider + receiver, everyone)},
    }


def start_up(counts: StartUpCounts, model: CostModel) -> StartUp:
    """Estimate memory and seconds of initialising one received mesh."""
    parts = {
        part: sum(getattr(model, name) * amount for name, amount in amounts.items())
        for part, amounts in terms(counts).items()
    }
    provider, receiver = counts.ranks
    if counts.two_level:
        held = provider * model.box_bytes + counts.most_received * model.vertex_bytes
        return StartUp(sum(parts.values()), held + receiver * model.box_bytes, held, parts)
    held = counts.vertices[0] * model.vertex_bytes + (counts.vertices[0] + counts.kept) * _INDEX
    return StartUp(sum(parts.values()), held, held, parts)


def fit_constants(runs: Sequence[tuple[Sequence[StartUpCounts], float]]) -> ConstantsFit:
    """Fit the constants to measured start-ups.

    Parameters
    ----------
    runs : sequence of (sequence of StartUpCounts, float)
        Of each run what its received meshes have to do, and the measured seconds.

    Returns
    -------
    ConstantsFit

    Raises
    ------
    DataError
        If there are fewer runs than constants, or seconds are not above 0.

    Notes
    -----
    Non-negative least squares of ``(t - m) / sqrt(t m)`` for estimate t and measurement m, which is about the logarithm
    of their ratio: the estimates in the weights are those of the step before.
    """
    seconds = np.array([measured for _, measured in runs], dtype=float)
    if not (np.isfinite(seconds) & (seconds > 0)).all():
        raise DataError(f"expected start-ups of more than 0 seconds, found {seconds.tolist()}; leave that run out")
    amounts = np.array([_amounts(counts) for counts, _ in runs]).reshape(len(runs), len(FITTED))
    # What polling ranks cost hides the latency, and none polls where every rank has a core.
    turns = amounts[:, FITTED.index("turn")]
    told = [bool((turns == 0).any()), bool((turns > 0).any()), *([True] * (len(FITTED) - 2))]
    fitted = tuple(name for name, is_told in zip(FITTED, told, strict=True) if is_told)
    if len(runs) <= len(fitted):
        raise DataError(
            f"expected at least {len(fitted) + 1} runs to fit {len(fitted)} constants ({', '.join(fitted)}), found "
            f"{len(runs)}; run the case on other numbers of ranks and with both initialisation schemes"
        )
    fixed = np.array([0.0 if is_told else getattr(CostModel, name) for name, is_told in zip(FITTED, told, strict=True)])
    columns = np.flatnonzero(told)

    def solve(rows: NDArray[np.int64]) -> NDArray[np.float64]:
        known, measured = amounts[rows] @ fixed, seconds[rows]
        estimate = measured
        for _ in range(_REWEIGHTED):
            weight = 1.0 / np.sqrt(estimate * measured)
            # Scaled: a vertex costs a millionth of a step.
            scaled = amounts[np.ix_(rows, columns)] * weight[:, None]
            scale = np.maximum(scaled.max(axis=0), 1e-300)
            # nnls of scipy 1.12 to 1.15 may stop before the optimum.
            best = lsq_linear(scaled / scale, (measured - known) * weight, (0, np.inf), method="bvls").x
            found = np.maximum(best, 0.0) / scale
            estimate = np.clip(amounts[np.ix_(rows, columns)] @ found + known, measured / 20, measured * 20)
        values: NDArray[np.float64] = fixed.copy()
        values[columns] = found
        return values

    everything = np.arange(len(runs))
    constants = solve(everything)
    left_out = [float(amounts[run] @ solve(np.delete(everything, run))) for run in everything]
    values = dict(zip(FITTED, constants.tolist(), strict=True))
    return ConstantsFit(CostModel(**values), fitted, seconds, amounts @ constants, np.array(left_out))


def _amounts(links: Sequence[StartUpCounts]) -> list[float]:
    found = [amounts for counts in links for amounts in terms(counts).values()]
    return [float(sum(amounts.get(name, 0.0) for amounts in found)) for name in FITTED]
