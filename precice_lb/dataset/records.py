"""The records of coupled runs: participants, and runs as a whole."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from precice_lb.layout import Layout
from precice_lb.store.columns import Array, Integers, Mask
from precice_lb.store.records import RankFile
from precice_lb.text import numbered, plural

RecordedWindows: TypeAlias = tuple[Sequence[RankFile], Integers, Array, Array]
"""Of a participant: its ranks, whose rows are not read, and of windows number, coupling iterations, wall seconds."""

Places: TypeAlias = Mapping[str, tuple[int, frozenset[int]]]
"""By host, how many threads of ranks were there, and the cores that any of them could run on."""

# A participant whose compute time is less than this share of its windows sets nothing.
_NEGLIGIBLE = 0.01

WINDOW = "time window"


@dataclass(frozen=True)
class CoupledTime:
    """In which unit participants are compared: per period of coupled time, not window by window.

    A period is the shortest coupled (simulated) time at whose end the windows of all schemes end together: one window
    where all are equally long.
    """

    # Windows of each participant in it; 1 of those that are not named.
    windows: Mapping[str, int] = field(default_factory=dict)
    # In words, after "per".
    unit: str = WINDOW
    # Why participants cannot be compared, and the remedy; empty where they can.
    problem: str = ""

    def of(self, participant: str) -> int:
        """Time windows of a participant in one period."""
        return self.windows.get(participant, 1)

    def periods(self, participant: str, windows: int) -> int:
        """Periods that so many of its first windows lie in."""
        return -(-windows // self.of(participant))


@dataclass(frozen=True, eq=False)
class ParticipantRun:
    """One participant in one coupled run.

    Attributes
    ----------
    participant : str
        Its name.
    ranks : int
        Ranks it ran on.
    windows : ndarray of int64, shape (W,)
        Completed time windows that every rank recorded, rising.
    window_seconds : ndarray, shape (W,)
        Wall seconds of each window.
    compute_seconds : ndarray, shape (W,)
        Wall seconds without waiting for partners, all coupling iterations and substeps together; NaN where waits were
        not measured.
    wait_seconds : ndarray, shape (W,)
        Seconds the participant waited for partners, counted in the window that the data is for; NaN where not
        measured.
    iterations : ndarray, shape (W,)
        Coupling iterations of each window.
    rank_solve, rank_mapping, rank_wait, rank_overhead : ndarray, shape (ranks,)
        Mean seconds per window after warm-up; NaN for what was not measured and for ranks without a store.
    rank_hidden : ndarray, shape (ranks,)
        What of `rank_wait` preCICE's events show as sending: see `hidden_wait`.
    metadata : dict
        Metadata of the lowest recorded rank.
    receiving : ndarray of bool, shape (ranks,)
        Ranks that receive data: only their waits are waits for partners. Where none is known to, all False.
    iteration_windows : ndarray of int64, shape (I,)
        Windows after warm-up that had a first, second, … coupling iteration.
    iteration_compute, iteration_wait : ndarray, shape (I,)
        Mean compute seconds and wait of that iteration; NaN where not measured.
    timing_problems : dict of str to int
        Why mapping and wait were not measured and what to set, with the number of ranks that say so.
    hidden_wait : float
        Seconds per iteration (median) that ranks spent in ``advance`` while the partner worked on their core; counted
        as waiting.
    places : Places
        Hosts of its ranks and the cores they could run on; empty where unknown.
    rank_sections : dict of str to ndarray, shape (ranks,)
        Mean seconds per window after warm-up of each profiling section of the solver, with all inside it; NaN for
        ranks that never began one.
    rank_spent : dict of str to ndarray, shape (ranks,)
        The same of preCICE's own events in ``advance``, but mapping and waits, where its profiling files tell them.
    rank_advance : ndarray, shape (ranks,)
        Mean seconds in ``advance`` per window after warm-up: mapping, wait and overhead, also where these are not told
        apart; NaN for ranks without a store.
    rank_counts : dict of str to ndarray, shape (ranks,)
        What each rank held in the end of each feature that the solver counted (``participant.count``); NaN for ranks
        without a store, 0 for those that said nothing of it.
    rank_vertices : ndarray, shape (ranks,)
        Vertices of the coupling meshes that each rank has; NaN for ranks without a store, or where none was recorded.
    rank_mpi : ndarray, shape (ranks,)
        Mean seconds per window after warm-up in MPI within the solve time; NaN where not recorded.
    rank_cpu : ndarray, shape (ranks,)
        Mean CPU seconds per window after warm-up within the solve time, of all threads; NaN where not recorded.
    rank_calls : dict of int to int
        Calls of ``advance`` that were recorded, by rank that there are records of, rising.
    threads : int
        Threads that each rank was told to use.
    stores : sequence of RankFile
        The ranks' files, whose rows are read when asked for.
    """

    participant: str
    ranks: int
    windows: Integers
    window_seconds: Array
    compute_seconds: Array
    wait_seconds: Array
    iterations: Array
    rank_solve: Array
    rank_mapping: Array
    rank_wait: Array
    rank_overhead: Array
    rank_hidden: Array
    metadata: dict[str, Any]
    receiving: Mask
    iteration_windows: Integers
    iteration_compute: Array
    iteration_wait: Array
    timing_problems: dict[str, int]
    hidden_wait: float = 0.0
    places: Places = field(default_factory=dict)
    rank_sections: dict[str, Array] = field(default_factory=dict)
    rank_spent: dict[str, Array] = field(default_factory=dict)
    rank_advance: Array = field(default_factory=lambda: np.empty(0))
    rank_counts: dict[str, Array] = field(default_factory=dict)
    rank_vertices: Array = field(default_factory=lambda: np.empty(0))
    rank_mpi: Array = field(default_factory=lambda: np.empty(0))
    rank_cpu: Array = field(default_factory=lambda: np.empty(0))
    rank_calls: dict[int, int] = field(default_factory=dict)
    threads: int = 1
    stores: Sequence[RankFile] = ()

    def per_period(self, windows: int) -> ParticipantRun:
        """Give its seconds per period of coupled time instead of per window.

        Parameters
        ----------
        windows : int
            Windows in one period.

        Returns
        -------
        ParticipantRun
        """
        if windows == 1:
            return self
        names = ("window_seconds", "compute_seconds", "wait_seconds")
        ranks = ("solve", "advance", "mapping", "wait", "overhead", "hidden", "mpi", "cpu")
        values: dict[str, Any] = {name: windows * getattr(self, name) for name in names}
        values |= {f"rank_{name}": windows * getattr(self, f"rank_{name}") for name in ranks}
        for name in ("rank_sections", "rank_spent"):
            values[name] = {key: windows * seconds for key, seconds in getattr(self, name).items()}
        return replace(self, **values)

    @property
    def layout(self) -> Layout:
        """Its ranks and their threads."""
        return Layout(self.ranks, self.threads)

    @property
    def missing_ranks(self) -> tuple[int, ...]:
        """Its ranks that there are no records of, rising."""
        return tuple(sorted(set(range(self.ranks)).difference(self.rank_calls))) if self.rank_calls else ()

    @property
    def cores(self) -> int:
        """Cores for its ranks and their threads."""
        return self.layout.cores

    @property
    def rank_busy_cores(self) -> Array:
        """Cores that each rank kept busy while it solved, shape (ranks,), by its CPU time; NaN where unknown."""
        busy = np.full(self.ranks, np.nan)
        if len(self.rank_cpu):
            np.divide(self.rank_cpu, self.rank_solve, out=busy, where=self.rank_solve > 0)
        return busy

    @property
    def version(self) -> str:
        """Which version of the participant ran; empty where that was not said."""
        return str(self.metadata.get("version", ""))

    @property
    def compute_per_iteration(self) -> Array:
        """Compute seconds of each window per coupling iteration, shape (W,)."""
        return self.compute_seconds / np.maximum(self.iterations, 1.0)

    @property
    def negligible(self) -> bool:
        """Whether its compute time is less than 1 % of its windows (medians): whatever it does decides nothing."""
        known = np.isfinite(self.compute_seconds) & np.isfinite(self.window_seconds)
        if not known.any():
            return False
        return bool(np.median(self.compute_seconds[known]) < _NEGLIGIBLE * np.median(self.window_seconds[known]))

    @property
    def compute_measured(self) -> bool:
        """Whether waits were measured in some window, so that a compute time is known."""
        return bool(np.isfinite(self.compute_seconds).any())

    @property
    def mpi_known(self) -> bool:
        """Whether time in MPI was recorded on all ranks that have a store."""
        recorded = np.isfinite(self.rank_solve)
        return bool(len(self.rank_mpi) and recorded.any() and np.isfinite(self.rank_mpi[recorded]).all())

    @property
    def rank_working(self) -> Array:
        """Solve seconds of each rank, shape (ranks,), without time in MPI where that is known."""
        return self.rank_solve - self.rank_mpi if self.mpi_known else self.rank_solve


@dataclass(frozen=True, eq=False)
class CoupledRun:
    """One coupled run.

    Attributes
    ----------
    name : str
        Its name: the metadata ``run``, or one made from participants and ranks. Of runs that were loaded together no
        two have the same.
    participants : dict of str to ParticipantRun
        By name, sorted.
    configuration : str
        Text of ``precice-config.xml``.
    case : str
        Fingerprint of the case.
    degrees_of_freedom : dict of str to float
        Unknowns by participant, where given.
    warmup_windows : int
        Windows up to this index are warm-up and left out; where windows of participants differ, periods of `time`.
    warmup_stated : int
        What was asked for or the run says; more are left out where more are unlike those that follow.
    directory : Path or None
        The innermost directory that holds all its stores, absolute; None where unknown.
    grouping : str
        Why it is uncertain which launches belong to it; empty where it is not.
    time : CoupledTime
        In which unit its participants are compared.
    """

    name: str
    participants: dict[str, ParticipantRun]
    configuration: str
    case: str
    degrees_of_freedom: dict[str, float]
    warmup_windows: int
    warmup_stated: int
    directory: Path | None = None
    grouping: str = ""
    time: CoupledTime = field(default_factory=CoupledTime)

    @property
    def incomplete(self) -> str:
        """Of which ranks there are no records, in words; empty where there are of all."""
        return ", ".join(
            f"{part.ranks - len(part.missing_ranks)} of {plural(part.ranks, 'rank')} of {name} "
            f"(without {numbered(part.missing_ranks)})"
            for name, part in self.participants.items()
            if part.missing_ranks
        )

    @property
    def not_compared(self) -> str:
        """Why its participants cannot be compared; empty where they can."""
        if self.incomplete:
            return f"there are {self.incomplete}, and the slowest may be missing; give the files of all ranks"
        return self.time.problem

    def warmup_of(self, participant: str) -> int:
        """Count the windows of a participant that are left out.

        Parameters
        ----------
        participant : str
            Its name.

        Returns
        -------
        int
        """
        return self.warmup_windows * self.time.of(participant)

    def steady(self, participant: str) -> Mask:
        """Which windows of a participant come after the warm-up.

        Parameters
        ----------
        participant : str
            Its name.

        Returns
        -------
        ndarray of bool, shape (W,)
        """
        return self.participants[participant].windows > self.warmup_of(participant)

    @property
    def versions(self) -> dict[str, str]:
        """Versions that ran, by participant; of those that said which."""
        return {name: part.version for name, part in self.participants.items() if part.version}

    @property
    def guess(self) -> str:
        """The first guess that was asked for, such as ``auto``; empty where none was."""
        metadata = (part.metadata for part in self.participants.values())
        return " + ".join(dict.fromkeys(data["guess"] for data in metadata if "guess" in data))

    @property
    def recorded(self) -> list[RecordedWindows]:
        """What is known of each participant's windows after the warm-up, for the hook ``run_facts`` of rooms."""
        parts = [(part, self.steady(name)) for name, part in self.participants.items()]
        return [(part.stores, part.windows[s], part.iterations[s], part.window_seconds[s]) for part, s in parts]

    @property
    def oversubscription(self) -> str:
        """Where more ranks ran than there were cores for them, in words; empty where that is not known."""
        places = {name: part.places for name, part in self.participants.items()}
        texts = []
        for host in sorted({host for hosts in places.values() for host in hosts}) if all(places.values()) else ():
            there = {name: hosts[host] for name, hosts in places.items() if host in hosts}
            threads = sum(count for count, _ in there.values())
            cores = set().union(*(cpus for _, cpus in there.values()))
            if threads > len(cores):
                words = f"{threads} ranks or threads of {' and '.join(there)}"
                texts.append(f"{words} shared {plural(len(cores), 'core')} of {host}")
        return "; ".join(texts)

    @property
    def imbalance(self) -> float:
        """Load imbalance (max - min) / max between the participants' mean compute seconds; NaN if unknown."""
        costs = [
            self.time.of(name) * mean_known(part.compute_seconds[self.steady(name)])
            for name, part in self.participants.items()
        ]
        return load_imbalance(np.array(costs)) if np.isfinite(costs).all() and not self.not_compared else math.nan


def load_imbalance(costs: Array) -> float:
    """Return (max - min) / max of seconds, shape (n,), where they are known; NaN if nothing is."""
    known = costs[np.isfinite(costs)]
    if not len(known) or known.max() <= 0:
        return math.nan
    return float((known.max() - known.min()) / known.max())


def load_balance(costs: Array) -> float:
    """Return mean over maximum of seconds, shape (n,), where they are known; NaN if nothing is."""
    known = costs[np.isfinite(costs)]
    return float(known.mean() / known.max()) if len(known) and known.max() > 0 else math.nan


def mean_known(values: Array) -> float:
    """Mean of what is known, shape (n,); NaN if nothing is."""
    known = values[np.isfinite(values)]
    return float(np.mean(known)) if len(known) else math.nan


def places_of(group: Sequence[RankFile]) -> Places:
    """Count a participant's threads by host; nothing where a rank does not say its cores, or emulates its load."""
    places: dict[str, tuple[int, frozenset[int]]] = {}
    for data in (store.metadata for store in group):
        if "cpus" not in data or "hostname" not in data or data.get("emulated_load"):
            return {}
        count, cores = places.get(data["hostname"], (0, frozenset()))
        places[data["hostname"]] = count + int(data.get("threads", 1)), cores | _cores(data["cpus"])
    return places


@functools.lru_cache(maxsize=64)
def _cores(text: str) -> frozenset[int]:
    """Read a list such as ``0-3,8``."""
    ends = [[int(number) for number in part.split("-")] for part in text.split(",")]
    return frozenset(core for first, *last in ends for core in range(first, max([first, *last]) + 1))
