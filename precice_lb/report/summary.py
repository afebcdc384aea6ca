"""What coupled runs spent their time on, per participant and rank: numbers, and these as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset import CoupledRun, ParticipantRun
from precice_lb.dataset.records import load_balance, load_imbalance, mean_known
from precice_lb.dataset.runs import flaws
from precice_lb.layout import Layout
from precice_lb.report.efficiency import Efficiencies, efficiencies_of
from precice_lb.rooms import hooks
from precice_lb.text import to_jsonable

Array = NDArray[np.float64]

LOST = ("waiting_for_partners", "waiting_for_own_ranks")
QUANTITIES = {
    "solve": "solve",
    "mapping": "mapping",
    "partner_wait": "partner wait",
    "own_rank_wait": "own-rank wait",
    "overhead": "overhead",
}
"""What a time window of a rank consists of, and how people read it. A rank's wait in ``advance`` is for partners as far
as all ranks of its participant that receive data wait; what it waits longer is for slower ranks of its own."""


@dataclass(frozen=True)
class Quantity:
    """Mean seconds per time window of one quantity over the ranks of a participant; NaN where not measured."""

    # Mean over the ranks that can tell.
    mean_seconds: float
    # The rank with the most seconds, and these.
    slowest_rank: int | None
    slowest_seconds: float
    # The rank with the fewest seconds, and these.
    fastest_rank: int | None
    fastest_seconds: float
    # The mean over the participant's mean window time; that of all quantities is 1.
    share: float

    @property
    def measured(self) -> bool:
        """Whether some rank measured it."""
        return not math.isnan(self.mean_seconds)


@dataclass(frozen=True, eq=False)
class ParticipantSummary:
    """One participant in one run: what JSON has of it, by these names, and at last what that comes from."""

    ranks: int
    # Ranks that there are no records of.
    missing_ranks: tuple[int, ...]
    # Of each rank.
    threads: int
    # Time windows after warm-up, how many are compared with those of others, and in how many the wait was measured.
    windows: int
    windows_per_period: int
    windows_with_measured_wait: int
    # The coupling backend that ran, and where mapping and wait come from, if not from the backend itself.
    backend: str
    timing_source: str | None
    # Why mapping and wait were not measured and what to set, and of how many ranks.
    timing_problems: list[dict[str, Any]]
    # Mean wall time, compute time and wait for partners per window; NaN where not measured.
    window_seconds: float
    compute_seconds: float
    # 1 - compute time / that of the slowest participant; NaN where unknown.
    faster_than_slowest: float
    wait_seconds: float
    # What of the wait preCICE's events show as sending: on a core that it shares, who sends is put aside while the
    # partner works.
    hidden_wait_seconds: float
    # (max - min) / max of the ranks' busy time (solve, mapping and overhead, or solve alone where the others were not
    # measured), over the ranks that receive data, or without time in MPI over all; NaN for one rank or where it cannot
    # be receiving.
    imbalance: float
    # Mean over maximum of the same.
    load_balance: float
    imbalance_without_time_in_mpi: bool
    # To ``waiting_for_partners`` and ``waiting_for_own_ranks``, without what ranks lose that wait in the solver; NaN
    # where unknown.
    core_hours_lost_per_hour: dict[str, float]
    # Coupling iterations per window: ``mean``, ``least``, ``most``, and ``each`` by its number: in how many windows,
    # mean own and wait seconds.
    iterations: dict[str, Any]
    # Ranks that receive nothing although others do: they wait in their solver's next collective, which counts as
    # solve. They are left out of ``quantities``.
    ranks_waiting_in_the_solver: tuple[int, ...]
    # By name, as in `QUANTITIES`, those that were not measured, and all.
    not_measured: tuple[str, ...]
    quantities: dict[str, Quantity]
    # All of ``advance``, and by name, those with the most seconds first, preCICE's own events in it but mapping and
    # waits, none where they are not known; profiling sections of the solver and its adapter.
    advance: Quantity
    advance_by_event: dict[str, Quantity]
    sections: dict[str, Quantity]
    # Seconds of what is compared.
    part: ParticipantRun
    # By name, as in `QUANTITIES`: mean seconds per window of each rank, shape (ranks,).
    rank_seconds: dict[str, Array]
    # Of each rank: solve without time in MPI, mapping and overhead, as far as they were measured; NaN where it waits in
    # the solver for nobody knows how long, shape (ranks,).
    busy: Array
    # The first of these alone.
    working: Array

    @property
    def participant(self) -> str:
        """Its name."""
        return self.part.participant

    @property
    def layout(self) -> Layout:
        """Ranks and their threads."""
        return self.part.layout

    @property
    def words(self) -> str:
        """Its layout, and of how many ranks there are records where that is not all."""
        known = self.ranks - len(self.missing_ranks)
        return f"{known} of {self.layout.words}" if self.missing_ranks else self.layout.words

    @property
    def rank_mpi(self) -> Array:
        """Mean seconds per window of each rank in MPI within solve, shape (ranks,); NaN where not known."""
        return self.part.rank_mpi if len(self.part.rank_mpi) else np.full(self.ranks, np.nan)


@dataclass(frozen=True, eq=False)
class RunSummary:
    """One coupled run."""

    run: CoupledRun
    participants: tuple[ParticipantSummary, ...]

    @property
    def lost(self) -> dict[str, float]:
        """What all participants lose."""
        return {key: sum(part.core_hours_lost_per_hour[key] for part in self.participants) for key in LOST}

    @cached_property
    def efficiencies(self) -> Efficiencies:
        """Factors of its parallel efficiency."""
        return efficiencies_of(self.run, self.participants)

    @property
    def remarks(self) -> dict[str, str]:
        """What has to be said of it."""
        # Missing ranks are why participants are not compared.
        return {
            kind: f"{text}; {remedy}" for kind, (text, remedy) in flaws(self.run).items() if kind != "missing ranks"
        }


def summarise(runs: Sequence[CoupledRun]) -> list[RunSummary]:
    """Sum up coupled runs: means over the windows after warm-up, outliers included, since these are time spent too."""
    return [_summary(run) for run in runs]


def _summary(run: CoupledRun) -> RunSummary:
    parts = [(part.per_period(run.time.of(name)), run.steady(name)) for name, part in run.participants.items()]
    slowest = float(np.max([mean_known(part.compute_seconds[steady]) for part, steady in parts])) or math.nan
    if run.not_compared:
        slowest = math.nan
    return RunSummary(run, tuple(_participant(run, part, steady, slowest) for part, steady in parts))


def _participant(
    run: CoupledRun, part: ParticipantRun, steady: NDArray[np.bool_], slowest: float
) -> ParticipantSummary:
    # Of windows without any time nothing has a share.
    window, wait = mean_known(part.window_seconds[steady]) or math.nan, mean_known(part.wait_seconds[steady])
    recorded = np.isfinite(part.rank_wait) | np.isfinite(part.rank_solve)
    receiving = part.receiving if part.receiving.any() else recorded
    # Waits of ranks that receive nothing are no waits for partners, and what they wait for each other is not seen.
    partner_wait = np.where(receiving, np.fmin(part.rank_wait, wait), part.rank_wait)
    rank_seconds = {
        "solve": part.rank_solve,
        "mapping": part.rank_mapping,
        "partner_wait": partner_wait,
        "own_rank_wait": np.where(receiving, part.rank_wait - partner_wait, np.nan),
        "overhead": part.rank_overhead,
    }
    # Where a wait is not known, neither is how much of it was for whom.
    if math.isnan(wait):
        rank_seconds["partner_wait"] = rank_seconds["own_rank_wait"] = np.full(part.ranks, np.nan)
    # Without time in MPI, what silent ranks do can be receiving too.
    working = np.where(recorded if part.mpi_known else receiving, part.rank_working, np.nan)
    busy = working + np.nan_to_num(part.rank_mapping) + np.nan_to_num(part.rank_overhead)
    iterations, compute = part.iterations[steady], part.compute_seconds[steady]
    lost = dict.fromkeys(LOST, math.nan)
    if np.isfinite(compute).any():
        # The transfer floor is part of the compute time: it is no time lost to waiting.
        idle = part.cores * max(mean_known(part.window_seconds[steady] - compute), 0.0)
        waited = float(np.nansum(rank_seconds["own_rank_wait"])) * part.threads
        lost = dict(zip(LOST, (idle / window, waited / window), strict=True))
    quantities = {
        name: _quantity(np.where(receiving, seconds, np.nan), window) for name, seconds in rank_seconds.items()
    }
    by_iteration = zip(part.iteration_windows, part.iteration_compute, part.iteration_wait, strict=True)
    return ParticipantSummary(
        ranks=part.ranks,
        missing_ranks=part.missing_ranks,
        threads=part.threads,
        windows=int(steady.sum()),
        windows_per_period=run.time.of(part.participant),
        windows_with_measured_wait=int(np.isfinite(part.wait_seconds[steady]).sum()),
        backend=str(part.metadata.get("backend", "unknown")),
        timing_source=str(part.metadata.get("timing_source", "")) or None,
        timing_problems=[{"problem": text, "ranks": ranks} for text, ranks in part.timing_problems.items()],
        window_seconds=window,
        compute_seconds=mean_known(compute),
        faster_than_slowest=1 - mean_known(compute) / slowest,
        wait_seconds=wait,
        hidden_wait_seconds=mean_known(part.rank_hidden[receiving]) if receiving.any() else 0.0,
        imbalance=load_imbalance(busy) if np.isfinite(busy).sum() > 1 else math.nan,
        load_balance=load_balance(busy),
        imbalance_without_time_in_mpi=part.mpi_known,
        core_hours_lost_per_hour=lost,
        iterations={
            "mean": mean_known(iterations),
            "least": int(iterations.min(initial=np.inf)) if len(iterations) else 0,
            "most": int(iterations.max(initial=0)),
            # But for those that only windows of the warm-up had.
            "each": [
                {"iteration": number, "windows": windows, "compute_seconds": seconds, "wait_seconds": waited}
                for number, (windows, seconds, waited) in enumerate(by_iteration, start=1)
                if windows
            ],
        },
        ranks_waiting_in_the_solver=tuple(np.flatnonzero(recorded & ~receiving).tolist()),
        not_measured=tuple(name for name, quantity in quantities.items() if not quantity.measured),
        quantities=quantities,
        advance=_quantity(part.rank_advance, window),
        advance_by_event=_by_size(part.rank_spent, window),
        sections=_by_size(part.rank_sections, window),
        part=part,
        rank_seconds=rank_seconds,
        busy=busy,
        working=working,
    )


def _by_size(seconds: Mapping[str, Array], window: float) -> dict[str, Quantity]:
    quantities = {name: _quantity(values, window) for name, values in seconds.items()}
    return dict(sorted(quantities.items(), key=lambda item: -item[1].mean_seconds))


def _quantity(seconds: Array, window: float) -> Quantity:
    if not np.isfinite(seconds).any():
        return Quantity(math.nan, None, math.nan, None, math.nan, math.nan)
    slowest, fastest = int(np.nanargmax(seconds)), int(np.nanargmin(seconds))
    mean = float(np.nanmean(seconds))
    return Quantity(mean, slowest, float(seconds[slowest]), fastest, float(seconds[fastest]), mean / window)


def summary_dict(summary: RunSummary, answer: object = None, *, per_rank: bool = False) -> dict[str, Any]:
    """Give a summary as JSON-ready values, and what that run speaks for, where it is a single one."""
    run = summary.run
    values: dict[str, Any] = {
        "run": run.name,
        "warmup_windows": run.warmup_windows,
        "seconds_per": run.time.unit,
        "not_compared": run.not_compared or None,
        "ranks": sum(part.ranks for part in summary.participants),
        "remarks": summary.remarks,
        "imbalance": run.imbalance,
        "efficiencies": summary.efficiencies,
        "core_hours_lost_per_hour": summary.lost,
        "participants": {part.participant: _participant_dict(part, per_rank) for part in summary.participants},
    }
    if facts := dict(fact for run_facts in hooks("run_facts") for fact in run_facts(run.recorded)):
        values["facts"] = facts
    if answer is not None:
        values["answer"] = answer
    return dict(to_jsonable(values))


def _participant_dict(part: ParticipantSummary, per_rank: bool) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in fields(part)[:-4]:
        value = getattr(part, field.name)
        values |= value if field.name == "quantities" else {field.name: value}
    if per_rank:
        sections = {name: part.part.rank_sections[name] for name in part.sections}
        values |= {"per_rank": [*_rank_rows(part)], "sections_per_rank": sections}
        values["counts_per_rank"] = part.part.rank_counts
    return values


def _rank_rows(part: ParticipantSummary) -> Iterator[dict[str, Any]]:
    """Give what is known of each rank."""
    vertices = part.part.rank_vertices if len(part.part.rank_vertices) else np.full(part.ranks, np.nan)
    columns = {f"{name}_seconds": values for name, values in part.rank_seconds.items()}
    columns |= {f"{name}_share": values / part.window_seconds for name, values in part.rank_seconds.items()}
    columns |= {"hidden_wait_seconds": part.part.rank_hidden, "mpi_seconds": part.rank_mpi}
    columns["interface_vertices"] = vertices
    for rank in range(part.ranks):
        values = {name: float(column[rank]) for name, column in columns.items()}
        yield {"rank": rank, "waits_in_the_solver": rank in part.ranks_waiting_in_the_solver, **values}
