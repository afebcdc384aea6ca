"""What coupled runs spent their time on, per participant and rank: numbers, and these as JSON, CSV and for people."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset import CoupledRun, ParticipantRun
from precice_lb.dataset.records import load_imbalance
from precice_lb.dataset.runs import cut_short, missing, unfinished
from precice_lb.dataset.series import mean_of
from precice_lb.layout import Layout
from precice_lb.names import visible
from precice_lb.plain import plain
from precice_lb.plural import numbered, plural
from precice_lb.report.blocks import Block, DefinitionList, Paragraph, Table
from precice_lb.report.guess import guess_label, guess_text
from precice_lb.report.text import SecondsUnit, listed, percent, seconds_unit, short_names

Array = NDArray[np.float64]

QUANTITIES = {
    "solve": "solve",
    "mapping": "mapping",
    "partner_wait": "partner wait",
    "own_rank_wait": "own-rank wait",
    "overhead": "overhead",
}
"""What a time window of a rank consists of, and how people read it. A rank's wait in ``advance`` is for partners as far
as all ranks of its participant that receive data wait; what it waits longer is for slower ranks of its own."""
_NOT_MEASURED = "not measured"
_ITERATIONS_NAMED = 6
# Features or sections side by side.
_COLUMNS = 6
# Outliers that change the mean window by more than this share are told apart, and events that take more of it.
_NOTICEABLE = 0.01


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


@dataclass(frozen=True)
class Iterations:
    """Coupling iterations per window, and each on its own."""

    mean: float
    least: int
    most: int
    each: tuple[Iteration, ...]


@dataclass(frozen=True)
class Problem:
    """Why mapping and wait were not measured and what to set, and of how many ranks."""

    problem: str
    ranks: int


@dataclass(frozen=True)
class Lost:
    """Core-hours per hour of run (without what ranks lose that wait in the solver); NaN where unknown."""

    waiting_for_partners: float
    waiting_for_own_ranks: float


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
    timing_problems: tuple[Problem, ...]
    # Mean wall time, compute time and wait for partners per window; NaN where not measured. Without outliers: windows
    # far from their neighbours, per iteration, put back among them, which `recommend` compares predictions with.
    window_seconds: float
    window_seconds_without_outliers: float
    compute_seconds: float
    # 1 - compute time / that of the slowest participant; NaN where unknown.
    faster_than_slowest: float
    wait_seconds: float
    # What of the wait preCICE's events show as sending: on a core that it shares, who sends is put aside while the
    # partner works.
    hidden_wait_seconds: float
    # (max - min) / max of the ranks' busy time (solve, mapping and overhead, or solve alone where the others were not
    # measured), over the ranks that receive data, or without time in MPI over all; NaN for one rank or where it cannot
    # be told.
    imbalance: float
    imbalance_without_time_in_mpi: bool
    core_hours_lost_per_hour: Lost
    iterations: Iterations
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

    @property
    def section_seconds(self) -> dict[str, Array]:
        """Mean seconds per window of each rank in each profiling section, shape (ranks,)."""
        return {name: self.part.rank_sections[name] for name in self.sections}


@dataclass(frozen=True, eq=False)
class RunSummary:
    """One coupled run."""

    run: CoupledRun
    participants: tuple[ParticipantSummary, ...]

    @property
    def ranks(self) -> int:
        """Ranks of all participants."""
        return sum(each.ranks for each in self.participants)

    @property
    def lost(self) -> Lost:
        """What all participants lose."""
        lost = [each.core_hours_lost_per_hour for each in self.participants]
        return Lost(sum(each.waiting_for_partners for each in lost), sum(each.waiting_for_own_ranks for each in lost))

    @property
    def remarks(self) -> dict[str, str]:
        """What has to be said of it."""
        texts = {
            "not finished": unfinished(self.run),
            "uncertain grouping": self.run.grouping,
            "missing": "; ".join(filter(None, missing(self.run))),
            "cut short": cut_short(self.run),
            "shared cores": self.run.crowding,
        }
        return {key: text for key, text in texts.items() if text}


def summarise(runs: Sequence[CoupledRun]) -> list[RunSummary]:
    """Sum up coupled runs: means over the windows after warm-up, outliers included, since these are time spent too."""
    return [_summary(run) for run in runs]


def _summary(run: CoupledRun) -> RunSummary:
    parts = [(part.per_period(run.time.of(name)), run.steady(name)) for name, part in run.participants.items()]
    slowest = float(np.max([_mean(part.compute_seconds[steady]) for part, steady in parts])) or math.nan
    if run.not_compared:
        slowest = math.nan
    return RunSummary(run, tuple(_participant(run, part, steady, slowest) for part, steady in parts))


def _participant(
    run: CoupledRun, part: ParticipantRun, steady: NDArray[np.bool_], slowest: float
) -> ParticipantSummary:
    # Of windows without any time nothing has a share.
    window, wait = _mean(part.window_seconds[steady]) or math.nan, _mean(part.wait_seconds[steady])
    recorded = np.isfinite(part.rank_wait) | np.isfinite(part.rank_solve)
    told = part.receiving if part.receiving.any() else recorded
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
    busy = part.rank_working + np.nan_to_num(part.rank_mapping) + np.nan_to_num(part.rank_overhead)
    # Without time in MPI, what silent ranks do can be told too.
    busy = busy[recorded if part.mpi_known else told]
    iterations, own = part.iterations[steady], part.compute_seconds[steady]
    lost = Lost(math.nan, math.nan)
    if np.isfinite(own).any():
        # The transfer floor is part of the compute time: it is no time lost to waiting.
        idle = part.cores * max(_mean(part.window_seconds[steady] - own), 0.0)
        lost = Lost(idle / window, float(np.nansum(rank_seconds["own_rank_wait"])) * part.threads / window)
    quantities = {name: _quantity(np.where(told, each, np.nan), window) for name, each in rank_seconds.items()}
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
        timing_problems=tuple(Problem(text, ranks) for text, ranks in part.timing_problems.items()),
        window_seconds=window,
        window_seconds_without_outliers=_usual(part.window_seconds[steady], iterations),
        compute_seconds=_mean(own),
        faster_than_slowest=1 - _mean(own) / slowest,
        wait_seconds=wait,
        hidden_wait_seconds=_mean(part.rank_hidden[told]) if told.any() else 0.0,
        imbalance=load_imbalance(busy) if np.isfinite(busy).sum() > 1 else math.nan,
        imbalance_without_time_in_mpi=part.mpi_known,
        core_hours_lost_per_hour=lost,
        iterations=Iterations(
            mean=_mean(iterations),
            least=int(iterations.min(initial=np.inf)) if len(iterations) else 0,
            most=int(iterations.max(initial=0)),
            each=tuple(
                Iteration(number, int(windows), float(compute_seconds), float(wait_seconds))
                for number, (windows, compute_seconds, wait_seconds) in enumerate(by_iteration, start=1)
                # One that only windows of the warm-up had.
                if windows
            ),
        ),
        ranks_waiting_in_the_solver=tuple(np.flatnonzero(recorded & ~told).tolist()),
        not_measured=tuple(name for name, quantity in quantities.items() if not quantity.measured),
        quantities=quantities,
        advance=_quantity(part.rank_advance, window),
        advance_by_event=_by_size(part.rank_spent, window),
        sections=_by_size(part.rank_sections, window),
        part=part,
        rank_seconds=rank_seconds,
    )


def _by_size(seconds: Mapping[str, Array], window: float) -> dict[str, Quantity]:
    found = {name: _quantity(values, window) for name, values in seconds.items()}
    return dict(sorted(found.items(), key=lambda item: -item[1].mean_seconds))


def _quantity(seconds: Array, window: float) -> Quantity:
    if not np.isfinite(seconds).any():
        return Quantity(math.nan, None, math.nan, None, math.nan, math.nan)
    slowest, fastest = int(np.nanargmax(seconds)), int(np.nanargmin(seconds))
    mean = float(np.nanmean(seconds))
    return Quantity(mean, slowest, float(seconds[slowest]), fastest, float(seconds[fastest]), mean / window)


def _usual(seconds: Array, iterations: Array) -> float:
    known = np.isfinite(seconds)
    counts = np.maximum(iterations[known], 1.0)
    return mean_of(seconds[known] / counts)[0] * _mean(counts)


def _mean(seconds: Array) -> float:
    known = seconds[np.isfinite(seconds)]
    return float(np.mean(known)) if len(known) else math.nan


def summary_dict(summary: RunSummary, *, per_rank: bool = False) -> dict[str, Any]:
    """Give a summary as JSON-ready values."""
    run = summary.run
    values = {
        "run": run.name,
        "warmup_windows": run.warmup_windows,
        "seconds_per": run.time.unit,
        "not_compared": run.not_compared or None,
        "ranks": summary.ranks,
        "remarks": summary.remarks,
        "imbalance": run.imbalance,
        "core_hours_lost_per_hour": summary.lost,
        "participants": {each.participant: _participant_dict(each, per_rank) for each in summary.participants},
    }
    if run.predictors:
        values["first_guess"] = {"mode": run.guess, "predictors": run.predictors}
    found: dict[str, Any] = plain(values)
    return found


def _participant_dict(each: ParticipantSummary, per_rank: bool) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in fields(each)[:-2]:
        value = getattr(each, field.name)
        values |= value if field.name == "quantities" else {field.name: value}
    if per_rank:
        values |= {"per_rank": [*_rank_rows(each)], "sections_per_rank": each.section_seconds}
        values["counts_per_rank"] = each.part.rank_counts
    return values


def _rank_rows(each: ParticipantSummary) -> Iterator[dict[str, Any]]:
    """Give what is known of each rank."""
    part, silent = each.part, frozenset(each.ranks_waiting_in_the_solver)
    vertices = part.rank_vertices if len(part.rank_vertices) else np.full(each.ranks, np.nan)
    columns = {f"{name}_seconds": values for name, values in each.rank_seconds.items()}
    columns |= {f"{name}_share": values / each.window_seconds for name, values in each.rank_seconds.items()}
    columns |= {"hidden_wait_seconds": part.rank_hidden, "mpi_seconds": each.rank_mpi, "interface_vertices": vertices}
    for rank in range(each.ranks):
        values = {name: float(column[rank]) for name, column in columns.items()}
        yield {"rank": rank, "waits_in_the_solver": rank in silent, **values}


def summary_csv(runs: Sequence[RunSummary]) -> str:
    """Write summaries as CSV: one row per run, participant and quantity, empty where not measured.

    First guesses are of no participant alone: of each predictor, in how many windows and with how many iterations, and
    what guessing took.
    """
    rows: list[dict[str, Any]] = []
    for summary in runs:
        for each in summary.participants:
            head = _head(summary, each) | {"iterations": each.iterations.mean}
            told = each.quantities | ({"advance": each.advance} if "overhead" in each.not_measured else {})
            told |= {f"advance {name}": quantity for name, quantity in each.advance_by_event.items()}
            told |= {f"section {name}": quantity for name, quantity in each.sections.items()}
            rows += [{**head, "quantity": name, **asdict(quantity)} for name, quantity in told.items()]
            for name, seconds in (("compute", each.compute_seconds), ("window", each.window_seconds)):
                rows.append({**head, "quantity": name, "mean_seconds": seconds, "share": seconds / each.window_seconds})
        for p in summary.run.predictors:
            rows.append(
                {
                    "run": summary.run.name,
                    "ranks": summary.ranks,
                    "windows": p.windows,
                    "iterations": p.iterations,
                    "quantity": f"first guess {p.name}",
                    "mean_seconds": p.cost_seconds,
                    "share": p.cost_seconds / p.window_seconds,
                }
            )
    return _text(rows)


def rank_csv(runs: Sequence[RunSummary]) -> str:
    """Write summaries as CSV with one row per run, participant and rank, empty where not measured."""
    return _text(
        [
            _head(run, each)
            | row
            | {f"count {name}": counts[row["rank"]] for name, counts in each.part.rank_counts.items()}
            for run in runs
            for each in run.participants
            for row in _rank_rows(each)
        ]
    )


def _head(summary: RunSummary, each: ParticipantSummary) -> dict[str, Any]:
    return {"run": summary.run.name, "participant": each.participant, "ranks": each.ranks, "windows": each.windows}


def _text(rows: Sequence[Mapping[str, Any]]) -> str:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(dict.fromkeys(key for row in rows for key in row)), lineterminator="\n")
    writer.writeheader()
    # What is not known becomes null, and that an empty cell.
    writer.writerows(plain(rows))
    return buffer.getvalue()


def summary_blocks(runs: Sequence[RunSummary], *, per_rank: bool = False) -> list[Block]:
    """Say of each run what its time went to, also rank by rank, and what follows from it."""
    return [
        block
        for run in runs
        for block in run_blocks(
            run, short_names([each.participant for each in run.participants], 24), per_rank=per_rank
        )
    ]


def run_blocks(summary: RunSummary, names: Mapping[str, str], *, per_rank: bool = False) -> Iterator[Block]:
    """Say the same of one run."""
    unit = _unit(summary, 5)
    yield from _statement(summary, names)
    if summary.remarks:
        yield DefinitionList(tuple(summary.remarks.items()))
    yield _run_table(summary, names)
    yield from (_section_table(each, names[each.participant], unit) for each in summary.participants if each.sections)
    for each in summary.participants if per_rank else ():
        yield from _rank_tables(each, names[each.participant], unit)
    yield DefinitionList(tuple(notes(summary, names)))


def _unit(summary: RunSummary, digits: int) -> SecondsUnit:
    return seconds_unit((each.window_seconds for each in summary.participants), digits)


def _statement(summary: RunSummary, names: Mapping[str, str]) -> Iterator[Paragraph]:
    """Say who waits and how much, and how unequal the participants are, or why that cannot be said."""
    run, participants = summary.run, summary.participants
    if run.not_compared:
        yield Paragraph(f"Run {run.name}: its participants are not compared: {run.not_compared}.", "lead")
        return
    if not all(math.isfinite(each.wait_seconds + each.compute_seconds) for each in participants):
        if text := _without_waits(summary, names):
            yield Paragraph(f"Run {run.name}: {text}.", "lead")
        return
    unit = _unit(summary, 3)

    def waited(each: ParticipantSummary, of: str = "") -> str:
        share = percent(each.wait_seconds / each.window_seconds)
        return f"{share}{of} ({unit.number(each.wait_seconds)} of {unit.text(each.window_seconds)}"

    who, *others = sorted(participants, key=lambda each: each.wait_seconds / each.window_seconds, reverse=True)
    rest = "".join(f", {names[each.participant]} {waited(each)})" for each in others)
    yield Paragraph(
        f"Run {run.name}: {names[who.participant]} waits for other participants {waited(who, ' of the time')} "
        f"per {run.time.unit}){rest}.",
        "lead",
    )
    slowest = max(participants, key=lambda each: each.compute_seconds)
    faster = listed(
        f"{names[each.participant]} is {percent(each.faster_than_slowest)} faster"
        for each in participants
        if each is not slowest
    )
    if faster:
        yield Paragraph(
            f"Load imbalance between participants: {percent(run.imbalance)} ((max - min) / max of their compute times)."
            f" Slowest is {names[slowest.participant]}; {faster} (1 - compute time / that of the slowest)."
        )


def _without_waits(summary: RunSummary, names: Mapping[str, str]) -> str:
    """Say why waits are not known, of windows that are there, and what is known nevertheless."""
    known = [each for each in summary.participants if each.windows and each.not_measured and each.timing_problems]
    if not known:
        return ""
    unit = _unit(summary, 3)
    parts = listed(
        f"{names[each.participant]} {unit.text(each.quantities['solve'].mean_seconds)} in its solver and "
        f"{unit.text(each.advance.mean_seconds)} in advance"
        for each in summary.participants
        if each.windows
    )
    return f"who waits is not known, since {_problems(known[0])}. Per {summary.run.time.unit}: {parts}"


def _run_table(summary: RunSummary, names: Mapping[str, str]) -> Table:
    """Lay a run out as a table."""
    unit, time = _unit(summary, 5), summary.run.time
    rows: list[tuple[str, ...]] = []
    for each in summary.participants:
        rows.append(
            (f"{names[each.participant]}, {each.words}", "window", unit.number(each.window_seconds), "", "", "")
        )
        told = {label: each.quantities[name] for name, label in QUANTITIES.items()}
        told |= {} if each.quantities["overhead"].measured else {"advance": each.advance}
        rows += [("", label, *_cells(unit, quantity, each.ranks)) for label, quantity in told.items()]
    # Of each participant where one did not come to the end.
    counts = {names[each.participant]: plural(each.windows, "window") for each in summary.participants}
    windows = listed(f"{count} of {name}" for name, count in counts.items())
    if len(set(counts.values())) == 1:
        windows = next(iter(counts.values()))
    per = "mean time per window of its own" if time.problem else f"mean time per {time.unit}"
    title = f"Run {summary.run.name}: {per}, over {windows} after a warm-up of {summary.run.warmup_windows}"
    if time.windows:
        inside = listed(f"{plural(count, 'window')} of {names[who]}" for who, count in time.windows.items())
        title += f" ({inside} in each)"
    header = ("participant", "time", f"mean ({unit.symbol})", "share", "slowest rank", "fastest rank")
    return Table(title, header, tuple(rows), (0, 1))


def _cells(unit: SecondsUnit, quantity: Quantity, ranks: int) -> tuple[str, ...]:
    if not quantity.measured:
        return _NOT_MEASURED, "", "", ""
    slowest = f"{unit.number(quantity.slowest_seconds)} (#{quantity.slowest_rank})"
    fastest = f"{unit.number(quantity.fastest_seconds)} (#{quantity.fastest_rank})"
    return (
        unit.number(quantity.mean_seconds),
        percent(quantity.share),
        *(("", "") if ranks == 1 else (slowest, fastest)),
    )


def _section_table(each: ParticipantSummary, who: str, unit: SecondsUnit) -> Table:
    """Lay out what the profiling sections of a participant's solver and adapter took."""
    rows = []
    for name, quantity in each.sections.items():
        mean, share, slowest, _ = _cells(unit, quantity, each.ranks)
        per_iteration = unit.number(quantity.mean_seconds / each.iterations.mean)
        rows.append((visible(name), mean, per_iteration, share, slowest))
    header = ("section", f"window ({unit.symbol})", f"iteration ({unit.symbol})", "share", "slowest rank")
    title = f"{who}: profiling sections of the solver and its adapter, with all inside them"
    return Table(title, header, tuple(rows))


def _rank_tables(each: ParticipantSummary, who: str, unit: SecondsUnit) -> Iterator[Table]:
    """Lay out times of ranks, what they hold, and their profiling sections."""
    rows, silent = [], frozenset(each.ranks_waiting_in_the_solver)
    for rank in range(each.ranks):
        seconds = {name: float(values[rank]) for name, values in each.rank_seconds.items()}
        # How much of a silent rank's solve is waiting is not known.
        busy = math.nan if rank in silent else seconds["solve"] + seconds["mapping"] + seconds["overhead"]
        if each.imbalance_without_time_in_mpi:
            busy = float(np.nansum([seconds[name] for name in ("solve", "mapping", "overhead")]) - each.rank_mpi[rank])
        waited = math.nan if rank in silent else seconds["partner_wait"]
        shares = (percent(value / each.window_seconds) for value in (busy, waited))
        rows.append((f"{rank}{'*' if rank in silent else ''}", *map(unit.number, seconds.values()), *shares))
    header = ("rank", f"solve ({unit.symbol})", "mapping", "partners", "own ranks", "overhead", "busy", "partners")
    star = "; *: receives no data, its waiting looks like solve" if silent else ""
    title = f"{who}: mean time per time window and rank, waits for partners and for own ranks{star}"
    yield Table(title, header, tuple(rows), ())
    inside = f"time in MPI within solve and in profiling sections, per time window and rank ({unit.symbol})"
    held = {"interface vertices": each.part.rank_vertices, **each.part.rank_counts}
    yield from _columns(f"{who}: what each rank holds", held, lambda n: "" if math.isnan(n) else f"{n:.15g}")
    yield from _columns(f"{who}: {inside}", {"in MPI": each.rank_mpi, **each.section_seconds}, unit.number)


def _columns(title: str, values: Mapping[str, Array], cell: Callable[[float], str]) -> Iterator[Table]:
    known = {visible(name): column.tolist() for name, column in values.items() if np.isfinite(column).any()}
    if shown := dict(list(known.items())[:_COLUMNS]):
        rows = zip(*(map(cell, column) for column in shown.values()), strict=True)
        yield Table(title, ("rank", *shown), tuple((str(rank), *row) for rank, row in enumerate(rows)), ())


def notes(summary: RunSummary, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Say what follows from a run."""
    run, participants, unit = summary.run, summary.participants, _unit(summary, 5)
    if len(participants) == 1:
        between = "only one participant was recorded"
    elif math.isnan(run.imbalance):
        between = "not compared" if run.not_compared else _NOT_MEASURED
    else:
        own = ", ".join(f"{names[each.participant]} {unit.text(each.compute_seconds)}" for each in participants)
        between = f"{percent(run.imbalance)} (mean compute time: {own})"
    yield "load imbalance between participants", between
    for each in participants:
        yield f"load imbalance inside {names[each.participant]}", _inside(each, unit)
    yield "core-hours lost per hour of run", _lost(summary, names)
    longest = max(participants, key=lambda each: each.window_seconds)
    if abs(longest.window_seconds_without_outliers / longest.window_seconds - 1) > _NOTICEABLE:
        yield "mean window without outliers", unit.text(longest.window_seconds_without_outliers)
    if run.predictors:
        yield guess_label(run.guess), guess_text(run.predictors)
    for each in participants:
        yield from _participant_notes(each, names[each.participant], unit, run.warmup_windows)


def _participant_notes(each: ParticipantSummary, who: str, unit: SecondsUnit, warmup: int) -> Iterator[tuple[str, str]]:
    spent = {name: quantity for name, quantity in each.advance_by_event.items() if quantity.share > _NOTICEABLE}
    if spent:
        told = (f"{visible(name)} {unit.text(q.mean_seconds)} ({percent(q.share)})" for name, q in spent.items())
        yield f"advance of {who}", f"beside mapping and waits, by preCICE's own events: {', '.join(told)}"
    if each.iterations.most > 1:
        yield f"coupling iterations of {who}", _iterations(each.iterations)
    if each.hidden_wait_seconds > 0:
        shown = f"{unit.text(each.hidden_wait_seconds)} of it per window"
        why = "on a shared core, who sends is put aside while others work"
        yield f"wait of {who}", f"{shown} in waitAndSendData: {why}"
    missing = each.not_measured
    if each.timing_source and not missing:
        yield f"mapping and wait of {who}", f"from {each.timing_source}"
    if missing:
        reason = "since the stores were not joined with preCICE's profiling files"
        if not each.windows:
            reason = f"since no time window is left after a warm-up of {warmup}"
            reason += "; record more or leave out fewer with --warmup"
        elif each.timing_problems:
            reason = _problems(each)
        yield f"{', '.join(QUANTITIES[name] for name in missing)} of {who}", f"{_NOT_MEASURED}, {reason}"
    elif each.windows_with_measured_wait < each.windows:
        yield f"wait of {who}", f"measured in {each.windows_with_measured_wait} of {each.windows} time windows"
    if not missing and each.timing_problems:
        yield f"ranks of {who} without measured wait", _problems(each)


def _lost(summary: RunSummary, names: Mapping[str, str]) -> str:
    if math.isnan(summary.lost.waiting_for_partners):
        return _NOT_MEASURED

    def hours(value: float) -> str:
        return f"{value:.2f}" if value < 100 else f"{value:.0f}"

    lost = {names[each.participant]: each.core_hours_lost_per_hour for each in summary.participants}
    partners = listed(f"{who} {hours(each.waiting_for_partners)}" for who, each in lost.items())
    inside = listed(f"{who} {hours(each.waiting_for_own_ranks)}" for who, each in lost.items())
    least = "at least " * any(each.ranks_waiting_in_the_solver for each in summary.participants)
    cores = sum(each.layout.cores for each in summary.participants)
    return (
        f"{hours(summary.lost.waiting_for_partners)} of {cores} to waiting for partners ({partners}); {least}"
        f"{hours(summary.lost.waiting_for_own_ranks)} to waiting for slower ranks of the same participant ({inside})"
    )


def _iterations(found: Iterations) -> str:
    counts = f"{found.most} in each window"
    if found.least < found.most:
        counts = f"mean {found.mean:.2f} per window ({found.least} to {found.most})"
    told = [one for one in found.each if math.isfinite(one.compute_seconds)]
    if not told:
        return f"{counts}; mean compute time of each {_NOT_MEASURED}"
    unit = seconds_unit(one.compute_seconds for one in told)
    first = ", ".join(f"#{one.iteration} {unit.text(one.compute_seconds)}" for one in told[:_ITERATIONS_NAMED])
    return f"{counts}; mean compute time: {first}{', …' if len(told) > _ITERATIONS_NAMED else ''}"


def _problems(each: ParticipantSummary, most: int = 3) -> str:
    several = [
        one.problem if one.ranks == each.ranks else f"{one.problem} ({one.ranks} of {each.ranks} ranks)"
        for one in each.timing_problems
    ]
    return "; ".join(several[:most]) + (f"; and {len(several) - most} more reasons" if len(several) > most else "")


def _inside(each: ParticipantSummary, unit: SecondsUnit) -> str:
    if each.ranks == 1:
        return "one rank only"
    known, silent = not math.isnan(each.imbalance), each.ranks_waiting_in_the_solver
    if each.imbalance_without_time_in_mpi and known:
        waits = f"ranks wait for each other inside solve: {unit.text(float(np.nanmean(each.rank_mpi)))} in the mean"
        return f"{percent(each.imbalance)} without time in MPI ({waits})"
    named = numbered(silent) + (f" ({len(silent)} in all)" if len(silent) > 8 else "")
    note = f"{named} without received data, whose waiting for partners looks like solve"
    if not known:
        return f"{_NOT_MEASURED}: {note}" if silent else _NOT_MEASURED
    told = percent(each.imbalance) + (f" (left out: {note})" if silent else "")
    way = (
        "record with PRECICE_LB_MPI_TIME=1" if "python_version" in each.part.metadata else "see a PMPI library's report"
    )
    return f"{told}, if no rank waits for others inside solve; to find out, {way}"
