"""What coupled runs spent their time on, for people: sentences, tables and what else has to be said."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from precice_lb.report.blocks import (
    Block,
    DefinitionList,
    Paragraph,
    SecondsUnit,
    Table,
    listed,
    percent,
    seconds_unit,
    short_names,
)
from precice_lb.report.render import attempted
from precice_lb.report.summary import LOST, QUANTITIES, ParticipantSummary, Quantity, RunSummary
from precice_lb.rooms import hooks
from precice_lb.text import numbered, plural, visible

if TYPE_CHECKING:
    from precice_lb.report.answer import Answer

_NOT_MEASURED = "not measured"
# Reasons why waits were not measured.
_REASONS = 3
# By factor, its branch in the tree, and what would raise it.
_TREE = {
    "parallel_efficiency": ("", ""),
    "compute_in_window": ("├ ", ""),
    "load_balance_of_participants": ("│ ├ ", "another split"),
    "longest_participant_in_window": ("│ └ ", "a parallel scheme"),
    "serialisation_efficiency": ("│ ├ ", "a parallel scheme"),
    "coupling_efficiency": ("│ └ ", "steadier windows"),
    "communication_of_ranks": ("├ ", "fewer ranks"),
    "load_balance_of_ranks": ("├ ", "another partition"),
    "solve_in_busy_time": ("└ ", "cheaper mapping"),
}
# Events that take more of the window are named.
_NOTICEABLE = 0.01


def answered(runs: Sequence[RunSummary]) -> Answer | None:
    """Say what a single run speaks for, at the worst nothing; of several runs nothing."""

    def make() -> Answer:
        # Of which loading takes a while.
        from precice_lb.report.answer import answer_of

        return answer_of(runs[0].run)

    return attempted("what this run says of its split", make) if len(runs) == 1 else None


def summary_blocks(runs: Sequence[RunSummary], answer: Answer | None = None, *, per_rank: bool = False) -> list[Block]:
    """Say of each run what its time went to, also rank by rank, and what follows from it."""
    blocks: list[Block] = []
    for run in runs:
        blocks += run_blocks(run, short_names([part.participant for part in run.participants], 24), per_rank=per_rank)
    return blocks if answer is None else [*blocks, Paragraph(""), Paragraph(answer.text, "lead")]


def run_blocks(summary: RunSummary, names: Mapping[str, str], *, per_rank: bool = False) -> Iterator[Block]:
    """Say the same of one run."""
    unit = _unit(summary, 5)
    if text := _statement(summary, names):
        yield Paragraph(f"Run {summary.run.name}: {text}.", "lead")
    if summary.remarks:
        yield DefinitionList(tuple(summary.remarks.items()))
    yield _run_table(summary, names)
    yield from (_section_table(part, names[part.participant], unit) for part in summary.participants if part.sections)
    if per_rank:
        yield from (_rank_table(part, names[part.participant], unit) for part in summary.participants)
    if summary.efficiencies.run:
        yield _efficiency_table(summary, names)
    yield DefinitionList(tuple(notes(summary, names)))


def _unit(summary: RunSummary, digits: int) -> SecondsUnit:
    return seconds_unit((part.window_seconds for part in summary.participants), digits)


def _statement(summary: RunSummary, names: Mapping[str, str]) -> str:
    """Say who waits and how much, or why that cannot be said."""
    run, participants, unit = summary.run, summary.participants, _unit(summary, 3)
    if run.not_compared:
        return f"its participants are not compared: {run.not_compared}"
    if not all(math.isfinite(part.wait_seconds + part.compute_seconds) for part in participants):
        known = [part for part in participants if part.windows and part.not_measured and part.timing_problems]
        parts = listed(
            f"{names[part.participant]} {unit.text(part.quantities['solve'].mean_seconds)} in its solver and "
            f"{unit.text(part.advance.mean_seconds)} in advance"
            for part in participants
            if part.windows
        )
        return f"who waits is not known, since {_problems(known[0])}. Per {run.time.unit}: {parts}" if known else ""
    (who, share, seconds), *others = [
        (
            names[part.participant],
            percent(part.wait_seconds / part.window_seconds),
            f"{unit.number(part.wait_seconds)} of {unit.text(part.window_seconds)}",
        )
        for part in sorted(participants, key=lambda part: -part.wait_seconds / part.window_seconds)
    ]
    most = f"{who} waits for other participants {share} of the time ({seconds} per {run.time.unit})"
    return most + "".join(f", {who} {share} ({seconds})" for who, share, seconds in others)


def _run_table(summary: RunSummary, names: Mapping[str, str]) -> Table:
    """Lay a run out as a table."""
    unit, time = _unit(summary, 5), summary.run.time
    rows: list[tuple[str, ...]] = []
    for part in summary.participants:
        rows.append(
            (f"{names[part.participant]}, {part.words}", "window", unit.number(part.window_seconds), "", "", "")
        )
        quantities = {label: part.quantities[name] for name, label in QUANTITIES.items()}
        quantities |= {} if part.quantities["overhead"].measured else {"advance": part.advance}
        rows += [("", label, *_cells(unit, quantity, part.ranks)) for label, quantity in quantities.items()]
    # Of each participant where one did not come to the end.
    counts = {names[part.participant]: plural(part.windows, "window") for part in summary.participants}
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
    extremes = ("", "") if ranks == 1 else (slowest, fastest)
    return unit.number(quantity.mean_seconds), percent(quantity.share), *extremes


def _efficiency_table(summary: RunSummary, names: Mapping[str, str]) -> Table:
    """Lay out the factors of the parallel efficiency as a tree, with what would raise each."""
    known = summary.efficiencies
    rows = [
        {
            "factor": f"{branch}{key.replace('_', ' ')}",
            "run": percent(known.run[key]),
            **{
                names[who]: percent(factors[key]) if key in factors else ""
                for who, factors in known.participants.items()
            },
            "raised by": remedy,
        }
        for key, (branch, remedy) in _TREE.items()
        if key in known.run
    ]
    return Table.of("Parallel efficiency: its branches multiply up to it", rows, (0, len(rows[0]) - 1))


def _chain(summary: RunSummary, names: Mapping[str, str], unit: SecondsUnit) -> Iterator[tuple[str, str]]:
    """Say what is the longest chain of compute in a window, or why efficiencies are not known."""
    known, parts = summary.efficiencies, summary.participants
    if known.run:
        compute = listed(f"{names[part.participant]} {unit.text(part.compute_seconds)}" for part in parts)
        text = f"{compute}, in a window of {unit.text(max(part.window_seconds for part in parts))}"
        if (most := max(part.iterations["mean"] for part in parts)) > 1:
            text += f" and {most:.2f} iterations; fewer by another acceleration or a first guess (precice-lb guess)"
        yield "compute time", text
    if known.chain:
        chain = " → ".join(names[who] for who in known.chain)
        yield "longest chain of compute", f"{unit.text(known.chain_seconds)} ({chain})"
    elif known.problem != summary.run.not_compared:
        yield "longest chain of compute" if known.run else "efficiencies", f"not known: {known.problem}"


def _section_table(part: ParticipantSummary, who: str, unit: SecondsUnit) -> Table:
    """Lay out what the profiling sections of a participant's solver and adapter took."""
    rows = []
    for name, quantity in part.sections.items():
        mean, share, slowest, _ = _cells(unit, quantity, part.ranks)
        per_iteration = unit.number(quantity.mean_seconds / part.iterations["mean"])
        rows.append((visible(name), mean, per_iteration, share, slowest))
    header = ("section", f"window ({unit.symbol})", f"iteration ({unit.symbol})", "share", "slowest rank")
    title = f"{who}: profiling sections of the solver and its adapter, with all inside them"
    return Table(title, header, tuple(rows))


def _rank_table(part: ParticipantSummary, who: str, unit: SecondsUnit) -> Table:
    """Lay out times of ranks; what these hold, and their sections, are in JSON and CSV."""
    rows, silent = [], part.ranks_waiting_in_the_solver
    for rank in range(part.ranks):
        seconds = {name: float(values[rank]) for name, values in part.rank_seconds.items()}
        waited = math.nan if rank in silent else seconds["partner_wait"]
        shares = (percent(value / part.window_seconds) for value in (float(part.busy[rank]), waited))
        rows.append((f"{rank}{'*' if rank in silent else ''}", *map(unit.number, seconds.values()), *shares))
    header = ("rank", f"solve ({unit.symbol})", "mapping", "partners", "own ranks", "overhead", "busy", "partners")
    star = "; *: receives no data, its waiting looks like solve" if silent else ""
    title = f"{who}: mean time per time window and rank, waits for partners and for own ranks{star}"
    return Table(title, header, tuple(rows), ())


def notes(summary: RunSummary, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Say what follows from a run."""
    run, participants, unit = summary.run, summary.participants, _unit(summary, 5)
    yield from _chain(summary, names, unit)
    for part in participants:
        yield f"load balance inside {names[part.participant]}", _inside(part, unit)
    yield "core-hours lost per hour of run", _lost(summary)
    for run_facts in hooks("run_facts"):
        yield from run_facts(run.recorded)
    for part in participants:
        yield from _participant_notes(part, names[part.participant], unit, run.warmup_windows)


def _participant_notes(part: ParticipantSummary, who: str, unit: SecondsUnit, warmup: int) -> Iterator[tuple[str, str]]:
    spent = [
        f"{visible(name)} {unit.text(quantity.mean_seconds)} ({percent(quantity.share)})"
        for name, quantity in part.advance_by_event.items()
        if quantity.share > _NOTICEABLE
    ]
    if spent:
        yield f"advance of {who}", f"beside mapping and waits, by preCICE's own events: {', '.join(spent)}"
    if (most := part.iterations["most"]) > 1:
        counts = f"mean {part.iterations['mean']:.2f} per window ({part.iterations['least']} to {most})"
        yield f"coupling iterations of {who}", counts if part.iterations["least"] < most else f"{most} in each window"
    if part.not_measured:
        reason = "the stores were not joined with preCICE's profiling files"
        if not part.windows:
            reason = f"no time window is left after a warm-up of {warmup}; record more, or leave out fewer (--warmup)"
        elif part.timing_problems:
            reason = _problems(part)
        missing = ", ".join(QUANTITIES[name] for name in part.not_measured)
        yield f"{missing} of {who}", f"{_NOT_MEASURED}, since {reason}"
        return
    if part.windows_with_measured_wait < part.windows:
        yield f"wait of {who}", f"measured in {part.windows_with_measured_wait} of {part.windows} time windows"
    if part.timing_problems:
        yield f"ranks of {who} without measured wait", _problems(part)


def _lost(summary: RunSummary) -> str:
    if math.isnan(summary.lost[LOST[0]]):
        return _NOT_MEASURED
    cores = sum(part.layout.cores for part in summary.participants)
    partners, own_ranks = summary.lost.values()
    return f"{partners:.2f} of {cores} to waiting for partners, {own_ranks:.2f} to waiting for slower own ranks"


def _problems(part: ParticipantSummary) -> str:
    problems = [
        one["problem"] + ("" if one["ranks"] == part.ranks else f" ({one['ranks']} of {part.ranks} ranks)")
        for one in part.timing_problems
    ]
    more = f"; and {len(problems) - _REASONS} more reasons" if len(problems) > _REASONS else ""
    return "; ".join(problems[:_REASONS]) + more


def _inside(part: ParticipantSummary, unit: SecondsUnit) -> str:
    if part.ranks == 1:
        return "one rank only"
    share, silent = percent(part.load_balance), part.ranks_waiting_in_the_solver
    if math.isnan(part.load_balance):
        share = _NOT_MEASURED
    if part.imbalance_without_time_in_mpi:
        waits = unit.text(float(np.nanmean(part.rank_mpi)))
        return f"{share} without time in MPI (ranks wait for each other inside solve: {waits} in the mean)"
    if silent:
        why = "without received data, whose waiting for partners looks like solve"
        return f"{share} (left out: {numbered(silent)} {why})"
    return f"{share}, if no rank waits for others inside solve; to find out, record with PRECICE_LB_MPI_TIME=1"
