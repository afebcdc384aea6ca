"""What coupled runs spent their time on, per participant and rank: numbers, without their presentation."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset import CoupledRun, ParticipantRun
from precice_lb.dataset.guesses import Predictor
from precice_lb.dataset.records import CoupledTime, load_imbalance
from precice_lb.dataset.runs import cut_short, missing, unfinished
from precice_lb.dataset.series import mean_of
from precice_lb.layout import Layout
from precice_lb.plain import plain

QUANTITIES = ("solve", "mapping", "partner_wait", "own_rank_wait", "overhead")
"""What a time window of a rank consists of. A rank's wait in ``advance`` is for partners as far as all ranks of its
participant that receive data wait; what it waits longer is for slower ranks of its own participant."""


def summary_dict(run: RunSummary, *, per_rank: bool = False) -> dict[str, Any]:
    """Give a summary as JSON-ready values."""
    values = {
        "run": run.name,
        "warmup_windows": run.warmup_windows,
        "seconds_per": run.time.unit,
        "not_compared": run.not_compared or None,
        "ranks": run.ranks,
        "remarks": dict(run.remarks),
        "imbalance": run.imbalance,
        "core_hours_lost_per_hour": {
            "waiting_for_partners": run.lost_to_partners,
            "waiting_for_own_ranks": run.lost_inside,
        },
        "participants": {each.participant: _participant_dict(run, each, per_rank) for each in run.participants},
    }
    if run.predictors:
        values["first_guess"] = {"mode": run.guess, "predictors": run.predictors}
    found: dict[str, Any] = plain(values)
    return found


def _participant_dict(run: RunSummary, each: ParticipantSummary, per_rank: bool) -> dict[str, Any]:
    values: dict[str, Any] = {
        "ranks": each.ranks,
        "missing_ranks": list(each.missing_ranks),
        "threads": each.threads,
        "windows": each.windows,
        "windows_per_period": run.time.of(each.participant),
        "windows_with_measured_wait": each.measured_windows,
        "backend": each.backend,
        "timing_source": each.timing_source or None,
        "timing_problems": [{"problem": text, "ranks": ranks} for text, ranks in each.timing_problems.items()],
        "window_seconds": each.window_seconds,
        "window_seconds_without_outliers": each.usual_window_seconds,
        "compute_seconds": each.compute_seconds,
        "faster_than_slowest": run.faster_than_slowest(each),
        "wait_seconds": each.wait_seconds,
        "hidden_wait_seconds": each.hidden_seconds,
        "imbalance": each.imbalance,
        "imbalance_without_time_in_mpi": each.mpi_known,
        "core_hours_lost_per_hour": {
            "waiting_for_partners": each.lost_to_partners,
            "waiting_for_own_ranks": each.lost_inside,
        },
        "iterations": {
            "mean": each.iterations_mean,
            "least": each.iterations_least,
            "most": each.iterations_most,
            "each": each.iterations,
        },
        "ranks_waiting_in_the_solver": each.silent_ranks,
        "not_measured": each.not_measured,
        **each.quantities,
        "advance": each.advance,
        "advance_by_event": each.spent,
        "sections": each.sections,
    }
    if per_rank:
        values["per_rank"] = [dict(zip(_RANK_COLUMNS, row, strict=True)) for row in _rank_rows(each)]
        values["sections_per_rank"] = each.section_seconds
        values["counts_per_rank"] = each.counts
    return values


def summary_csv(runs: Sequence[RunSummary]) -> str:
    """Write summaries as CSV: one row per run, participant and quantity, empty where not measured.

    First guesses are of no participant alone: of each predictor, in how many windows and with how many iterations, and
    what guessing took.
    """
    values = [each.name for each in dataclasses.fields(Quantity)]
    rows: list[list[Any]] = [["run", "participant", "ranks", "windows", "iterations", "quantity", *values]]
    for run in runs:
        for each in run.participants:
            head = [run.name, each.participant, each.ranks, each.windows, each.iterations_mean]
            told = each.quantities | ({"advance": each.advance} if "overhead" in each.not_measured else {})
            told |= {f"advance {name}": quantity for name, quantity in each.spent.items()}
            told |= {f"section {name}": quantity for name, quantity in each.sections.items()}
            rows += [[*head, name, *dataclasses.astuple(quantity)] for name, quantity in told.items()]
            for name, seconds in (("compute", each.compute_seconds), ("window", each.window_seconds)):
                share = seconds / each.window_seconds
                rows.append([*head, name, seconds, None, None, None, None, share])
        for p in run.predictors:
            head = [run.name, None, run.ranks, p.windows, p.iterations, f"first guess {p.name}"]
            rows.append([*head, p.cost_seconds, None, None, None, None, p.cost_seconds / p.window_seconds])
    return _text(rows)


def rank_csv(runs: Sequence[RunSummary]) -> str:
    """Write summaries as CSV with one row per run, participant and rank, empty where not measured."""
    features = list(dict.fromkeys(name for run in runs for each in run.participants for name in each.counts))
    counted = [f"count {name}" for name in features]
    rows: list[list[Any]] = [["run", "participant", "ranks", "windows", *_RANK_COLUMNS, *counted]]
    for run in runs:
        for each in run.participants:
            counts = [each.counts[name] if name in each.counts else [None] * each.ranks for name in features]
            for row, *held in zip(_rank_rows(each), *counts, strict=True):
                rows.append([run.name, each.participant, each.ranks, each.windows, *row, *held])
    return _text(rows)


_RANK_COLUMNS = (
    "rank",
    "waits_in_the_solver",
    *(f"{name}_seconds" for name in QUANTITIES),
    *(f"{name}_share" for name in QUANTITIES),
    "hidden_wait_seconds",
    "mpi_seconds",
    "interface_vertices",
)


def _rank_rows(each: ParticipantSummary) -> list[list[Any]]:
    silent = frozenset(each.silent_ranks)
    seconds = [each.rank_seconds[name] for name in QUANTITIES]
    shares = [values / each.window_seconds for values in seconds]
    columns = [values.tolist() for values in (*seconds, *shares, each.rank_hidden, each.rank_mpi, each.rank_vertices)]
    return [[rank, rank in silent, *values] for rank, *values in zip(range(each.ranks), *columns, strict=True)]


def _text(rows: Sequence[Sequence[Any]]) -> str:
    buffer = io.StringIO()
    # What is not known becomes null, and that an empty cell.
    csv.writer(buffer, lineterminator="\n").writerows(plain(rows))
    return buffer.getvalue()


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


@dataclass(frozen=True)
class Iteration:
    """One coupling iteration, by its number in the window: in how many windows, mean own and wait seconds."""

    iteration: int
    windows: int
    compute_seconds: float
    wait_seconds: float


@dataclass(frozen=True, eq=False)
class ParticipantSummary:
    """One participant in one run."""

    # Name, number of ranks, and number of time windows after warm-up.
    participant: str
    ranks: int
    windows: int
    # In how many of these the wait was measured.
    measured_windows: int
    # Mean wall time, compute time and wait for partners per window; NaN where not measured.
    window_seconds: float
    # Mean wall time per window with windows far from their neighbours, per iteration, put back among them: what
    # `recommend` compares predictions with.
    usual_window_seconds: float
    compute_seconds: float
    wait_seconds: float
    # What of the wait preCICE's events show as sending, mean over the ranks and by rank, shape (ranks,): on a core that
    # it shares, who sends is put aside while the partner works.
    hidden_seconds: float
    rank_hidden: NDArray[np.float64]
    # Coupling iterations per window.
    iterations_mean: float
    iterations_least: int
    iterations_most: int
    # Each iteration on its own.
    iterations: tuple[Iteration, ...]
    # By name, as in `QUANTITIES`.
    quantities: dict[str, Quantity]
    # All of ``advance``, and by name, those with the most seconds first, preCICE's own events in it but mapping and
    # waits; none where they are not known.
    advance: Quantity
    spent: dict[str, Quantity]
    # (max - min) / max of the ranks' busy time (solve, mapping and overhead, or solve alone where the others were not
    # measured), over the ranks that receive data, or without time in MPI over all; NaN for one rank or where it cannot
    # be told.
    imbalance: float
    # Ranks that receive nothing although others do: they wait in their solver's next collective, which counts as
    # solve. They are left out of ``quantities``.
    silent_ranks: tuple[int, ...]
    # By name, as in `QUANTITIES`: mean seconds per window of each rank, shape (ranks,).
    rank_seconds: dict[str, NDArray[np.float64]]
    # By name, those with the most seconds first: profiling sections of the solver and its adapter, and the mean
    # seconds per window of each rank, shape (ranks,).
    sections: dict[str, Quantity]
    section_seconds: dict[str, NDArray[np.float64]]
    # By rank, shape (ranks,): mean seconds per window in MPI within solve, vertices of coupling meshes, and what the
    # solver counted, by name; NaN where not known. Whether the first is known of all ranks.
    rank_mpi: NDArray[np.float64]
    rank_vertices: NDArray[np.float64]
    counts: dict[str, NDArray[np.float64]]
    mpi_known: bool
    # Core-hours per hour of run lost to waiting for partners, and for slower ranks of its own (without those that the
    # silent ranks lose).
    lost_to_partners: float
    lost_inside: float
    # The coupling backend that ran.
    backend: str
    # Where mapping and wait come from, if not from the backend itself; else empty.
    timing_source: str
    # Why mapping and wait were not measured and what to set, with the number of ranks.
    timing_problems: dict[str, int]
    # Whether its solver was recorded, in Python.
    recorded: bool
    # Of each rank.
    threads: int = 1
    # Ranks that there are no records of.
    missing_ranks: tuple[int, ...] = ()

    @property
    def layout(self) -> Layout:
        """Ranks and their threads."""
        return Layout(self.ranks, self.threads)

    @property
    def words(self) -> str:
        """Its layout, and of how many ranks there are records where that is not all."""
        known = self.ranks - len(self.missing_ranks)
        return f"{known} of {self.layout.words}" if self.missing_ranks else self.layout.words

    @property
    def not_measured(self) -> tuple[str, ...]:
        """Names of the quantities that were not measured."""
        return tuple(name for name, quantity in self.quantities.items() if not quantity.measured)


@dataclass(frozen=True, eq=False)
class RunSummary:
    """One coupled run."""

    # Its name, the windows left out, and who took part.
    name: str
    warmup_windows: int
    participants: tuple[ParticipantSummary, ...]
    # (max - min) / max of the participants' mean compute seconds, NaN where unknown.
    imbalance: float
    # What has to be said of it: key and text.
    remarks: tuple[tuple[str, str], ...] = ()
    # The first guess that was asked for, and what came of it by predictor; empty where there is none.
    guess: str = ""
    predictors: tuple[Predictor, ...] = ()
    # In which unit participants are compared: what is called a window here is one period of it.
    time: CoupledTime = field(default_factory=CoupledTime)
    # Of which ranks there are no records, and why participants are not compared, in words.
    incomplete: str = ""
    not_compared: str = ""

    @property
    def ranks(self) -> int:
        """Ranks of all participants."""
        return sum(each.ranks for each in self.participants)

    @property
    def cores(self) -> int:
        """Cores of all participants: the core-hours of an hour of run."""
        return sum(each.layout.cores for each in self.participants)

    def faster_than_slowest(self, participant: ParticipantSummary) -> float:
        """1 - compute time / that of the slowest participant; NaN where unknown."""
        if self.not_compared:
            return math.nan
        slowest = float(np.max([each.compute_seconds for each in self.participants]))
        return 1 - participant.compute_seconds / (slowest or math.nan)

    @property
    def lost_to_partners(self) -> float:
        """Core-hours per hour of run that ranks wait for other participants; NaN where unknown."""
        return sum(each.lost_to_partners for each in self.participants)

    @property
    def lost_inside(self) -> float:
        """Core-hours per hour of run that ranks wait for slower ranks of their participant; NaN where unknown."""
        return sum(each.lost_inside for each in self.participants)


def summarise(runs: Sequence[CoupledRun]) -> list[RunSummary]:
    """Sum up coupled runs: means over the windows after warm-up, outliers included, since these are time spent too."""
    return [
        RunSummary(
            run.name,
            run.warmup_windows,
            tuple(
                _participant_summary(part.per_period(run.time.of(name)), run.steady(name))
                for name, part in run.participants.items()
            ),
            run.imbalance,
            tuple(_remarks(run)),
            run.guess,
            run.predictors,
            run.time,
            run.incomplete,
            run.not_compared,
        )
        for run in runs
    ]


def _remarks(run: CoupledRun) -> Iterator[tuple[str, str]]:
    for key, text in (
        ("not finished", unfinished(run)),
        ("uncertain grouping", run.grouping),
        ("missing", "; ".join(filter(None, missing(run)))),
        ("cut short", cut_short(run)),
        ("shared cores", run.crowding),
    ):
        if text:
            yield key, text


def _participant_summary(part: ParticipantRun, steady: NDArray[np.bool_]) -> ParticipantSummary:
    # Of windows without any time nothing has a share.
    window, wait = _mean(part.window_seconds[steady]) or math.nan, _mean(part.wait_seconds[steady])
    recorded = np.isfinite(part.rank_wait) | np.isfinite(part.rank_solve)
    told = part.receiving if part.receiving.any() else recorded
    silent = np.flatnonzero(recorded & ~told)
    # Waits of ranks that receive nothing are no waits for partners, and what they wait for each other is not seen.
    partner_wait = np.where(told, np.fmin(part.rank_wait, wait), part.rank_wait)
    rank_seconds = {
        "solve": part.rank_solve,
        "mapping": part.rank_mapping,
        "partner_wait": partner_wait,
        "own_rank_wait": np.where(told, part.rank_wait - partner_wait, np.nan),
        "overhead": part.rank_overhead,
    }
    # Where a wait is not known, neither is how much of it was for whom.
    if math.isnan(wait):
        rank_seconds["partner_wait"] = rank_seconds["own_rank_wait"] = np.full(part.ranks, np.nan)
    sections = _by_size(part.rank_sections, window)
    busy = part.rank_working + np.nan_to_num(part.rank_mapping) + np.nan_to_num(part.rank_overhead)
    # Without time in MPI, what silent ranks do can be told too.
    busy = busy[recorded if part.mpi_known else told]
    unknown = np.full(part.ranks, np.nan)
    iterations = part.iterations[steady]
    own = part.compute_seconds[steady]
    known = np.isfinite(own).any()
    # The transfer floor is part of the compute time: it is no time lost to waiting.
    idle = part.window_seconds[steady] - own
    return ParticipantSummary(
        participant=part.participant,
        ranks=part.ranks,
        windows=int(steady.sum()),
        measured_windows=int(np.isfinite(part.wait_seconds[steady]).sum()),
        window_seconds=window,
        usual_window_seconds=_usual(part.window_seconds[steady], iterations),
        compute_seconds=_mean(own),
        wait_seconds=wait,
        hidden_seconds=_mean(part.rank_hidden[told]) if told.any() else 0.0,
        rank_hidden=part.rank_hidden,
        iterations_mean=_mean(iterations),
        iterations_least=int(iterations.min(initial=np.inf)) if len(iterations) else 0,
        iterations_most=int(iterations.max(initial=0)),
        iterations=tuple(
            Iteration(number, int(windows), float(compute_seconds), float(wait_seconds))
            for number, (windows, compute_seconds, wait_seconds) in enumerate(
                zip(part.iteration_windows, part.iteration_compute, part.iteration_wait, strict=True), start=1
            )
            # One that only windows of the warm-up had.
            if windows
        ),
        quantities={name: _quantity(np.where(told, each, np.nan), window) for name, each in rank_seconds.items()},
        advance=_quantity(part.rank_advance, window),
        spent=_by_size(part.rank_spent, window),
        imbalance=load_imbalance(busy) if np.isfinite(busy).sum() > 1 else math.nan,
        silent_ranks=tuple(int(rank) for rank in silent),
        rank_seconds=rank_seconds,
        sections=sections,
        section_seconds={name: part.rank_sections[name] for name in sections},
        rank_mpi=part.rank_mpi if len(part.rank_mpi) else unknown,
        rank_vertices=part.rank_vertices if len(part.rank_vertices) else unknown,
        counts=part.rank_counts,
        mpi_known=part.mpi_known,
        lost_to_partners=part.cores * max(_mean(idle), 0.0) / window if known else math.nan,
        lost_inside=float(np.nansum(rank_seconds["own_rank_wait"])) * part.threads / window if known else math.nan,
        backend=str(part.metadata.get("backend", "unknown")),
        timing_source=str(part.metadata.get("timing_source", "")),
        timing_problems=part.timing_problems,
        recorded="python_version" in part.metadata,
        threads=part.threads,
        missing_ranks=part.missing_ranks,
    )


def _by_size(seconds: Mapping[str, NDArray[np.float64]], window: float) -> dict[str, Quantity]:
    found = {name: _quantity(values, window) for name, values in seconds.items()}
    return dict(sorted(found.items(), key=lambda item: -item[1].mean_seconds))


def _quantity(seconds: NDArray[np.float64], window: float) -> Quantity:
    if not np.isfinite(seconds).any():
        return Quantity(math.nan, None, math.nan, None, math.nan, math.nan)
    slowest, fastest = int(np.nanargmax(seconds)), int(np.nanargmin(seconds))
    mean = float(np.nanmean(seconds))
    return Quantity(mean, slowest, float(seconds[slowest]), fastest, float(seconds[fastest]), mean / window)


def _usual(seconds: NDArray[np.float64], iterations: NDArray[np.float64]) -> float:
    known = np.isfinite(seconds)
    counts = np.maximum(iterations[known], 1.0)
    return mean_of(seconds[known] / counts)[0] * _mean(counts)


def _mean(seconds: NDArray[np.float64]) -> float:
    known = seconds[np.isfinite(seconds)]
    return float(np.mean(known)) if len(known) else math.nan
