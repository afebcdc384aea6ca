"""Summaries of runs: tables and sentences for people, JSON-ready values and CSV for programs."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from precice_lb.plain import plain
from precice_lb.plural import plural
from precice_lb.report.blocks import Block, DefinitionList, Paragraph, Table
from precice_lb.report.summary import QUANTITIES, ParticipantSummary, Quantity, RunSummary
from precice_lb.report.text import SecondsUnit, listed, percent, seconds_unit, short_names, visible

__all__ = ["LABELS", "rank_csv", "run_blocks", "summary_blocks", "summary_csv", "summary_dict"]

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
# Outliers that change the mean window by more than this share are told apart.
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
    ranks = [rank_table(run, each, names) for each in run.participants] if per_rank else []
    sections = [section_table(run, each, names) for each in run.participants if each.sections]
    return [*statement(run, names), run_table(run, names), *sections, *ranks, DefinitionList(tuple(notes(run, names)))]


def statement(run: RunSummary, names: Mapping[str, str]) -> Iterator[Paragraph]:
    """Say who waits and how much, and how unequal the participants are: nothing of one, or where waits are unknown."""
    known = [each for each in run.participants if math.isfinite(each.wait_seconds + each.compute_seconds)]
    if len(known) < max(len(run.participants), 2):
        return
    waiting = sorted(known, key=lambda each: each.wait_seconds / each.window_seconds, reverse=True)
    shares = [f"{percent(each.wait_seconds / each.window_seconds)} of {names[each.participant]}" for each in waiting]
    slowest = max(known, key=lambda each: each.compute_seconds)
    faster = [
        f"{names[each.participant]} {percent(run.faster_than_slowest(each))}" for each in known if each is not slowest
    ]
    yield Paragraph(
        f"Run {run.name}: of a time window, waiting for other participants takes {listed(shares)} (means).", "lead"
    )
    yield Paragraph(
        f"Load imbalance between participants, (max - min) / max of their compute times: {percent(run.imbalance)}. "
        f"Slowest is {names[slowest.participant]}; faster than that, 1 - compute time / max: {listed(faster)}."
    )


def run_table(run: RunSummary, names: Mapping[str, str]) -> Table:
    """Lay a run out as a table."""
    unit = _unit(run)
    rows: list[tuple[str, ...]] = []
    for each in run.participants:
        who = f"{names[each.participant]}, {plural(each.ranks, 'rank')}"
        rows.append((who, "window", unit.number(each.window_seconds), "", "", ""))
        rows += [("", LABELS[name], *_cells(unit, quantity, each.ranks)) for name, quantity in each.quantities.items()]
    windows = max(each.windows for each in run.participants)
    over = f"over {plural(windows, 'window')} after a warm-up of {run.warmup_windows}"
    title = f"Run {run.name}: mean time per time window, {over}"
    header = ("participant", "time", f"mean ({unit.symbol})", "share", "slowest rank", "fastest rank")
    return Table(title, header, tuple(rows), (0, 1))


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


def notes(run: RunSummary, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Say what follows from a run."""
    unit = _unit(run)
    if len(run.participants) == 1:
        between = "only one participant was recorded"
    elif math.isnan(run.imbalance):
        between = _NOT_MEASURED
    else:
        own = ", ".join(f"{names[each.participant]} {unit.text(each.compute_seconds)}" for each in run.participants)
        between = f"{percent(run.imbalance)} (mean compute time: {own})"
    yield from run.remarks
    yield "load imbalance between participants", between
    for each in run.participants:
        yield f"load imbalance inside {names[each.participant]}", _inside(each)
    yield "core-hours lost per hour of run", _lost(run, names)
    longest = max(run.participants, key=lambda each: each.window_seconds)
    if abs(longest.usual_window_seconds / longest.window_seconds - 1) > _NOTICEABLE:
        yield "mean window without outliers", unit.text(longest.usual_window_seconds)
    for each in run.participants:
        who = names[each.participant]
        if each.iterations_most > 1:
            yield f"coupling iterations of {who}", _iterations(each)
        if each.timing_source:
            yield f"mapping and wait of {who}", f"from {each.timing_source}"
        missing = each.not_measured
        if missing:
            labels = ", ".join(LABELS[name] for name in missing)
            yield f"{labels} of {who}", f"{_NOT_MEASURED}, {_reason(each, run.warmup_windows)}"
        elif each.measured_windows < each.windows:
            yield f"wait of {who}", f"measured in {each.measured_windows} of {each.windows} time windows"
        if not missing and each.timing_problems:
            yield f"ranks of {who} without measured wait", _problems(each)


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
        f"{_hours(run.lost_to_partners)} of {run.ranks} to waiting for partners ({each}); "
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


def _inside(each: ParticipantSummary) -> str:
    if each.ranks == 1:
        return "one rank only"
    silent = ", ".join(map(str, each.silent_ranks[:_RANKS_NAMED]))
    if len(each.silent_ranks) > _RANKS_NAMED:
        silent += f", … ({len(each.silent_ranks)} in all)"
    who = "rank" if len(each.silent_ranks) == 1 else "ranks"
    note = f"{who} {silent} without received data, whose waiting for partners looks like solve"
    if math.isnan(each.imbalance):
        return f"{_NOT_MEASURED}: {note}" if each.silent_ranks else _NOT_MEASURED
    return percent(each.imbalance) + (f" (left out: {note})" if each.silent_ranks else "")


def summary_dict(run: RunSummary, *, per_rank: bool = False) -> dict[str, Any]:
    """Give a summary as JSON-ready values."""
    values = {
        "run": run.name,
        "warmup_windows": run.warmup_windows,
        "ranks": run.ranks,
        "remarks": dict(run.remarks),
        "imbalance": run.imbalance,
        "core_hours_lost_per_hour": {
            "waiting_for_partners": run.lost_to_partners,
            "waiting_for_own_ranks": run.lost_inside,
        },
        "participants": {each.participant: _participant_dict(run, each, per_rank) for each in run.participants},
    }
    found: dict[str, Any] = plain(values)
    return found


def _participant_dict(run: RunSummary, each: ParticipantSummary, per_rank: bool) -> dict[str, Any]:
    values: dict[str, Any] = {
        "ranks": each.ranks,
        "windows": each.windows,
        "windows_with_measured_wait": each.measured_windows,
        "backend": each.backend,
        "timing_source": each.timing_source or None,
        "timing_problems": [{"problem": text, "ranks": ranks} for text, ranks in each.timing_problems.items()],
        "window_seconds": each.window_seconds,
        "window_seconds_without_outliers": each.usual_window_seconds,
        "compute_seconds": each.compute_seconds,
        "faster_than_slowest": run.faster_than_slowest(each),
        "wait_seconds": each.wait_seconds,
        "imbalance": each.imbalance,
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
        "sections": each.sections,
    }
    if per_rank:
        values["per_rank"] = [dict(zip(_RANK_COLUMNS, row, strict=True)) for row in _rank_rows(each)]
        values["sections_per_rank"] = each.section_seconds
    return values


def summary_csv(runs: Sequence[RunSummary]) -> str:
    """Write summaries as CSV: one row per run, participant and quantity, empty where not measured."""
    values = [each.name for each in dataclasses.fields(Quantity)]
    rows: list[list[Any]] = [["run", "participant", "ranks", "windows", "iterations", "quantity", *values]]
    for run in runs:
        for each in run.participants:
            head = [run.name, each.participant, each.ranks, each.windows, each.iterations_mean]
            told = each.quantities | {f"section {name}": quantity for name, quantity in each.sections.items()}
            rows += [[*head, name, *dataclasses.astuple(quantity)] for name, quantity in told.items()]
            for name, seconds in (("compute", each.compute_seconds), ("window", each.window_seconds)):
                share = seconds / each.window_seconds
                rows.append([*head, name, seconds, None, None, None, None, share])
    return _text(rows)


def rank_csv(runs: Sequence[RunSummary]) -> str:
    """Write summaries as CSV with one row per run, participant and rank, empty where not measured."""
    rows: list[list[Any]] = [["run", "participant", "ranks", "windows", *_RANK_COLUMNS]]
    for run in runs:
        for each in run.participants:
            rows += [[run.name, each.participant, each.ranks, each.windows, *row] for row in _rank_rows(each)]
    return _text(rows)


_RANK_COLUMNS = (
    "rank",
    "waits_in_the_solver",
    *(f"{name}_seconds" for name in QUANTITIES),
    *(f"{name}_share" for name in QUANTITIES),
)


def _rank_rows(each: ParticipantSummary) -> list[list[Any]]:
    silent = frozenset(each.silent_ranks)
    seconds = [each.rank_seconds[name] for name in QUANTITIES]
    columns = [values.tolist() for values in (*seconds, *(values / each.window_seconds for values in seconds))]
    return [[rank, rank in silent, *values] for rank, *values in zip(range(each.ranks), *columns, strict=True)]


def _text(rows: Sequence[Sequence[Any]]) -> str:
    buffer = io.StringIO()
    # What is not known becomes null, and that an empty cell.
    csv.writer(buffer, lineterminator="\n").writerows(plain(rows))
    return buffer.getvalue()
