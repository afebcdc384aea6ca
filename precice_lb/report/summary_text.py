"""Summaries of runs for people: tables and sentences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from precice_lb.names import visible
from precice_lb.plural import plural
from precice_lb.report.blocks import Block, DefinitionList, Paragraph, Table
from precice_lb.report.guess import guess_label, guess_text
from precice_lb.report.summary import ParticipantSummary, Quantity, RunSummary
from precice_lb.report.text import SecondsUnit, listed, percent, seconds_unit, short_names

LABELS = {
    "solve": "solve",
    "mapping": "mapping",
    "partner_wait": "partner wait",
    "own_rank_wait": "own-rank wait",
    "overhead": "overhead",
}
_NAME_WIDTH = 24
_NOT_MEASURED = "not measured"
_RANKS_NAMED = 8
_ITERATIONS_NAMED = 6
# Features or sections side by side.
_COLUMNS = 6
# Outliers that change the mean window by more than this share are told apart, and events that take more of it.
_NOTICEABLE = 0.01


def summary_blocks(runs: Sequence[RunSummary], *, per_rank: bool = False) -> list[Block]:
    """Say of each run what its time went to, also rank by rank, and what follows from it."""
    blocks: list[Block] = []
    for run in runs:
        names = short_names([each.participant for each in run.participants], _NAME_WIDTH)
        blocks += run_blocks(run, names, per_rank=per_rank)
    return blocks


def run_blocks(run: RunSummary, names: Mapping[str, str], *, per_rank: bool = False) -> list[Block]:
    """Say the same of one run."""
    ranks = [table for each in run.participants for table in rank_tables(run, each, names)] if per_rank else []
    sections = [section_table(run, each, names) for each in run.participants if each.sections]
    remarks: list[Block] = [DefinitionList(run.remarks)] if run.remarks else []
    told = [*statement(run, names), *remarks, run_table(run, names), *sections, *ranks]
    return [*told, DefinitionList(tuple(notes(run, names)))]


def statement(run: RunSummary, names: Mapping[str, str]) -> Iterator[Paragraph]:
    """Say who waits and how much, and how unequal the participants are, or why that cannot be said."""
    if run.not_compared:
        yield Paragraph(f"Run {run.name}: its participants are not compared: {run.not_compared}.", "lead")
        return
    if not all(math.isfinite(each.wait_seconds + each.compute_seconds) for each in run.participants):
        if text := _without_waits(run, names):
            yield Paragraph(f"Run {run.name}: {text}.", "lead")
        return
    unit = seconds_unit((each.window_seconds for each in run.participants), digits=3)
    who, *others = sorted(run.participants, key=lambda each: each.wait_seconds / each.window_seconds, reverse=True)
    rest = "".join(f", {names[each.participant]} {_waited(each, unit)})" for each in others)
    yield Paragraph(
        f"Run {run.name}: {names[who.participant]} waits for other participants {_waited(who, unit, ' of the time')} "
        f"per {run.time.unit}){rest}.",
        "lead",
    )
    slowest = max(run.participants, key=lambda each: each.compute_seconds)
    faster = [
        f"{names[each.participant]} is {percent(run.faster_than_slowest(each))} faster"
        for each in run.participants
        if each is not slowest
    ]
    if faster:
        yield Paragraph(
            f"Load imbalance between participants: {percent(run.imbalance)} ((max - min) / max of their compute times)."
            f" Slowest is {names[slowest.participant]}; {listed(faster)} (1 - compute time / that of the slowest)."
        )


def _without_waits(run: RunSummary, names: Mapping[str, str]) -> str:
    """Say why waits are not known, of windows that are there, and what is known nevertheless."""
    known = [each for each in run.participants if each.windows and each.not_measured and each.timing_problems]
    if not known:
        return ""
    unit = seconds_unit((each.window_seconds for each in run.participants), digits=3)
    parts = listed(
        f"{names[each.participant]} {unit.text(each.quantities['solve'].mean_seconds)} in its solver and "
        f"{unit.text(each.advance.mean_seconds)} in advance"
        for each in run.participants
        if each.windows
    )
    return f"who waits is not known, since {_problems(known[0])}. Per {run.time.unit}: {parts}"


def _waited(each: ParticipantSummary, unit: SecondsUnit, of: str = "") -> str:
    """Give the share that waits have and their seconds, up to the closing bracket."""
    share = percent(each.wait_seconds / each.window_seconds)
    return f"{share}{of} ({unit.number(each.wait_seconds)} of {unit.text(each.window_seconds)}"


def run_table(run: RunSummary, names: Mapping[str, str]) -> Table:
    """Lay a run out as a table."""
    unit = _unit(run)
    rows: list[tuple[str, ...]] = []
    for each in run.participants:
        who = f"{names[each.participant]}, {each.words}"
        rows.append((who, "window", unit.number(each.window_seconds), "", "", ""))
        quantities = {LABELS[name]: quantity for name, quantity in each.quantities.items()}
        if not quantities[LABELS["overhead"]].measured:
            quantities["advance"] = each.advance
        rows += [("", label, *_cells(unit, quantity, each.ranks)) for label, quantity in quantities.items()]
    per = f"mean time per {run.time.unit}" if not run.time.problem else "mean time per window of its own"
    title = f"Run {run.name}: {per}, over {_windows(run, names)} after a warm-up of {run.warmup_windows}"
    if run.time.windows:
        inside = listed(f"{plural(count, 'window')} of {names[who]}" for who, count in run.time.windows.items())
        title += f" ({inside} in each)"
    header = ("participant", "time", f"mean ({unit.symbol})", "share", "slowest rank", "fastest rank")
    return Table(title, header, tuple(rows), (0, 1))


def _windows(run: RunSummary, names: Mapping[str, str]) -> str:
    """Say over how many windows means are: of each participant where one did not come to the end."""
    counts = {names[each.participant]: plural(each.windows, "window") for each in run.participants}
    if len(set(counts.values())) == 1:
        return next(iter(counts.values()))
    return listed(f"{count} of {name}" for name, count in counts.items())


def section_table(run: RunSummary, each: ParticipantSummary, names: Mapping[str, str]) -> Table:
    """Lay out what the profiling sections of a participant's solver and adapter took."""
    unit = _unit(run)
    rows = []
    for name, quantity in each.sections.items():
        mean, share, slowest, _ = _cells(unit, quantity, each.ranks)
        rows.append((visible(name), mean, unit.number(quantity.mean_seconds / each.iterations_mean), share, slowest))
    title = f"{names[each.participant]}: profiling sections of the solver and its adapter, with all inside them"
    symbol = unit.symbol
    header = ("section", f"window ({symbol})", f"iteration ({symbol})", "share", "slowest rank")
    return Table(title, header, tuple(rows), (0,))


def rank_table(run: RunSummary, each: ParticipantSummary, names: Mapping[str, str]) -> Table:
    """Lay the ranks of a participant out as a table."""
    unit = _unit(run)
    rows = []
    silent = frozenset(each.silent_ranks)
    for rank in range(each.ranks):
        seconds = {name: float(values[rank]) for name, values in each.rank_seconds.items()}
        # How much of a silent rank's solve is waiting is not known.
        busy = math.nan if rank in silent else seconds["solve"] + seconds["mapping"] + seconds["overhead"]
        if each.mpi_known:
            busy = float(np.nansum([seconds[name] for name in ("solve", "mapping", "overhead")]) - each.rank_mpi[rank])
        waited = math.nan if rank in silent else seconds["partner_wait"]
        rows.append(
            (
                f"{rank}{'*' if rank in silent else ''}",
                *(unit.number(value) for value in seconds.values()),
                percent(busy / each.window_seconds),
                percent(waited / each.window_seconds),
            )
        )
    symbol = unit.symbol
    header = ("rank", f"solve ({symbol})", "mapping", "partners", "own ranks", "overhead", "busy", "partners")
    star = "; *: receives no data, its waiting looks like solve" if each.silent_ranks else ""
    title = f"{names[each.participant]}: mean time per time window and rank, waits for partners and for own ranks{star}"
    return Table(title, header, tuple(rows), ())


def rank_tables(run: RunSummary, each: ParticipantSummary, names: Mapping[str, str]) -> Iterator[Table]:
    """Lay out times of ranks, what they hold, and their profiling sections."""
    yield rank_table(run, each, names)
    unit, who = _unit(run), names[each.participant]
    held = {"interface vertices": each.rank_vertices, **each.counts}
    inside = {"in MPI": each.rank_mpi, **each.section_seconds}
    for title, values, cell in (
        ("what each rank holds", held, _count),
        (
            f"time in MPI within solve and in profiling sections, per time window and rank ({unit.symbol})",
            inside,
            unit.number,
        ),
    ):
        known = [(name, column.tolist()) for name, column in values.items() if np.isfinite(column).any()][:_COLUMNS]
        if known:
            columns = [map(cell, column) for _, column in known]
            rows = tuple(zip(map(str, range(each.ranks)), *columns, strict=True))
            yield Table(f"{who}: {title}", ("rank", *(visible(name) for name, _ in known)), rows, ())


def _count(number: float) -> str:
    return "" if math.isnan(number) else f"{number:.15g}"


def notes(run: RunSummary, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Say what follows from a run."""
    unit = _unit(run)
    if len(run.participants) == 1:
        between = "only one participant was recorded"
    elif math.isnan(run.imbalance):
        between = "not compared" if run.not_compared else _NOT_MEASURED
    else:
        own = ", ".join(f"{names[each.participant]} {unit.text(each.compute_seconds)}" for each in run.participants)
        between = f"{percent(run.imbalance)} (mean compute time: {own})"
    yield "load imbalance between participants", between
    for each in run.participants:
        yield f"load imbalance inside {names[each.participant]}", _inside(each, unit)
    yield "core-hours lost per hour of run", _lost(run, names)
    longest = max(run.participants, key=lambda each: each.window_seconds)
    if abs(longest.usual_window_seconds / longest.window_seconds - 1) > _NOTICEABLE:
        yield "mean window without outliers", unit.text(longest.usual_window_seconds)
    if run.predictors:
        yield guess_label(run.guess), guess_text(run.predictors)
    for each in run.participants:
        who = names[each.participant]
        if spent := _spent(each, unit):
            yield f"advance of {who}", f"beside mapping and waits, by preCICE's own events: {spent}"
        if each.iterations_most > 1:
            yield f"coupling iterations of {who}", _iterations(each)
        if each.hidden_seconds > 0:
            shown = f"{unit.text(each.hidden_seconds)} of it per window"
            yield (
                f"wait of {who}",
                f"{shown} in waitAndSendData: on a shared core, who sends is put aside while others work",
            )
        if each.timing_source and not each.not_measured:
            yield f"mapping and wait of {who}", f"from {each.timing_source}"
        missing = each.not_measured
        if missing:
            labels = ", ".join(LABELS[name] for name in missing)
            yield f"{labels} of {who}", f"{_NOT_MEASURED}, {_reason(each, run.warmup_windows)}"
        elif each.measured_windows < each.windows:
            yield f"wait of {who}", f"measured in {each.measured_windows} of {each.windows} time windows"
        if not missing and each.timing_problems:
            yield f"ranks of {who} without measured wait", _problems(each)


def _spent(each: ParticipantSummary, unit: SecondsUnit) -> str:
    """List what ``advance`` spends that is worth a word."""
    told = {name: quantity for name, quantity in each.spent.items() if quantity.share > _NOTICEABLE}
    return ", ".join(f"{visible(name)} {unit.text(q.mean_seconds)} ({percent(q.share)})" for name, q in told.items())


def _unit(run: RunSummary) -> SecondsUnit:
    return seconds_unit((each.window_seconds for each in run.participants), digits=5)


def _cells(unit: SecondsUnit, quantity: Quantity, ranks: int) -> tuple[str, ...]:
    if not quantity.measured:
        return _NOT_MEASURED, "", "", ""
    cells = unit.number(quantity.mean_seconds), percent(quantity.share)
    if ranks == 1:
        return *cells, "", ""
    slowest = f"{unit.number(quantity.slowest_seconds)} (#{quantity.slowest_rank})"
    return *cells, slowest, f"{unit.number(quantity.fastest_seconds)} (#{quantity.fastest_rank})"


def _lost(run: RunSummary, names: Mapping[str, str]) -> str:
    if math.isnan(run.lost_to_partners):
        return _NOT_MEASURED
    each = listed(f"{names[part.participant]} {_hours(part.lost_to_partners)}" for part in run.participants)
    inside = listed(f"{names[part.participant]} {_hours(part.lost_inside)}" for part in run.participants)
    least = "at least " * any(part.silent_ranks for part in run.participants)
    return (
        f"{_hours(run.lost_to_partners)} of {run.cores} to waiting for partners ({each}); "
        f"{least}{_hours(run.lost_inside)} to waiting for slower ranks of the same participant ({inside})"
    )


def _hours(hours: float) -> str:
    return f"{hours:.2f}" if hours < 100 else f"{hours:.0f}"


def _iterations(each: ParticipantSummary) -> str:
    least, most = each.iterations_least, each.iterations_most
    counts = (
        f"mean {each.iterations_mean:.2f} per window ({least} to {most})" if least < most else f"{most} in each window"
    )
    unit = seconds_unit(own for one in each.iterations if math.isfinite(own := one.compute_seconds))
    told = [one for one in each.iterations if math.isfinite(one.compute_seconds)]
    if not told:
        return f"{counts}; mean compute time of each {_NOT_MEASURED}"
    first = ", ".join(f"#{one.iteration} {unit.text(one.compute_seconds)}" for one in told[:_ITERATIONS_NAMED])
    return f"{counts}; mean compute time: {first}{', …' if len(told) > _ITERATIONS_NAMED else ''}"


def _reason(each: ParticipantSummary, warmup: int) -> str:
    if not each.windows:
        return f"since no time window is left after a warm-up of {warmup}; record more or leave out fewer with --warmup"
    if each.timing_problems:
        return _problems(each)
    return "since the stores were not joined with preCICE's profiling files"


def _problems(each: ParticipantSummary) -> str:
    def told(text: str, ranks: int) -> str:
        return text if ranks == each.ranks else f"{text} ({ranks} of {each.ranks} ranks)"

    return _cut([told(text, ranks) for text, ranks in each.timing_problems.items()])


def _cut(texts: Iterable[str], most: int = 3) -> str:
    several = list(texts)
    return "; ".join(several[:most]) + (f"; and {len(several) - most} more reasons" if len(several) > most else "")


def _inside(each: ParticipantSummary, unit: SecondsUnit) -> str:
    if each.ranks == 1:
        return "one rank only"
    if each.mpi_known and not math.isnan(each.imbalance):
        waits = f"ranks wait for each other inside solve: {unit.text(float(np.nanmean(each.rank_mpi)))} in the mean"
        return f"{percent(each.imbalance)} without time in MPI ({waits})"
    silent = ", ".join(map(str, each.silent_ranks[:_RANKS_NAMED]))
    if len(each.silent_ranks) > _RANKS_NAMED:
        silent += f", … ({len(each.silent_ranks)} in all)"
    who = "rank" if len(each.silent_ranks) == 1 else "ranks"
    note = f"{who} {silent} without received data, whose waiting for partners looks like solve"
    if math.isnan(each.imbalance):
        return f"{_NOT_MEASURED}: {note}" if each.silent_ranks else _NOT_MEASURED
    told = percent(each.imbalance) + (f" (left out: {note})" if each.silent_ranks else "")
    way = "record with PRECICE_LB_MPI_TIME=1" if each.recorded else "see a PMPI library's report"
    return f"{told}, if no rank waits for others inside solve; to find out, {way}"
