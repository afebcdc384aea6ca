"""What coupled runs spent their time on, for people: sentences, tables and what else has to be said."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from precice_lb.names import visible
from precice_lb.plural import numbered, plural
from precice_lb.report.blocks import Block, DefinitionList, Paragraph, Table
from precice_lb.report.summary import QUANTITIES, Array, Iterations, ParticipantSummary, Quantity, RunSummary
from precice_lb.report.text import SecondsUnit, listed, percent, seconds_unit, short_names
from precice_lb.rooms import hooks

_NOT_MEASURED = "not measured"
_ITERATIONS_NAMED = 6
# Features or sections side by side.
_COLUMNS = 6
# Outliers that change the mean window by more than this share are told apart, and events that take more of it.
_NOTICEABLE = 0.01


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
    if text := _statement(summary, names):
        yield Paragraph(f"Run {summary.run.name}: {text}.", "lead")
    if summary.remarks:
        yield DefinitionList(tuple(summary.remarks.items()))
    yield _run_table(summary, names)
    yield from (_section_table(each, names[each.participant], unit) for each in summary.participants if each.sections)
    for each in summary.participants if per_rank else ():
        yield from _rank_tables(each, names[each.participant], unit)
    yield DefinitionList(tuple(notes(summary, names)))


def _unit(summary: RunSummary, digits: int) -> SecondsUnit:
    return seconds_unit((each.window_seconds for each in summary.participants), digits)


def _statement(summary: RunSummary, names: Mapping[str, str]) -> str:
    """Say who waits and how much, or why that cannot be said."""
    run, participants = summary.run, summary.participants
    if run.not_compared:
        return f"its participants are not compared: {run.not_compared}"
    if not all(math.isfinite(each.wait_seconds + each.compute_seconds) for each in participants):
        return _without_waits(summary, names)
    unit = _unit(summary, 3)

    def waited(each: ParticipantSummary, of: str = "") -> str:
        share = percent(each.wait_seconds / each.window_seconds)
        return f"{share}{of} ({unit.number(each.wait_seconds)} of {unit.text(each.window_seconds)}"

    who, *others = sorted(participants, key=lambda each: each.wait_seconds / each.window_seconds, reverse=True)
    rest = "".join(f", {names[each.participant]} {waited(each)})" for each in others)
    most = f"{names[who.participant]} waits for other participants {waited(who, ' of the time')} per {run.time.unit})"
    return f"{most}{rest}"


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
        waited = math.nan if rank in silent else seconds["partner_wait"]
        shares = (percent(value / each.window_seconds) for value in (float(each.busy[rank]), waited))
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
        between = f"{percent(run.imbalance)} ((max - min) / max of mean compute times: {own})"
    yield "load imbalance between participants", between
    for each in participants:
        yield f"load imbalance inside {names[each.participant]}", _inside(each, unit)
    yield "core-hours lost per hour of run", _lost(summary, names)
    longest = max(participants, key=lambda each: each.window_seconds)
    if abs(longest.window_seconds_without_outliers / longest.window_seconds - 1) > _NOTICEABLE:
        yield "mean window without outliers", unit.text(longest.window_seconds_without_outliers)
    for run_facts in hooks("run_facts"):
        yield from run_facts(run)
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
    known = {int(one["iteration"]): one["compute_seconds"] for one in found.each}
    known = {number: seconds for number, seconds in known.items() if math.isfinite(seconds)}
    if not known:
        return f"{counts}; mean compute time of each {_NOT_MEASURED}"
    unit = seconds_unit(known.values())
    first = ", ".join(f"#{number} {unit.text(seconds)}" for number, seconds in [*known.items()][:_ITERATIONS_NAMED])
    return f"{counts}; mean compute time: {first}{', …' if len(known) > _ITERATIONS_NAMED else ''}"


def _problems(each: ParticipantSummary, most: int = 3) -> str:
    several = [
        one["problem"] + ("" if one["ranks"] == each.ranks else f" ({one['ranks']} of {each.ranks} ranks)")
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
