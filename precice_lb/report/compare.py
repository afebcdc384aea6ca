"""What changed between coupled runs, before and after or in the order of their start: numbers, JSON, and in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from precice_lb.dataset import CoupledRun
from precice_lb.dataset.changes import CHANCE, LEAST_RUNS, Change, blocks_for, change_of, step_of
from precice_lb.dataset.records import mean_known
from precice_lb.dataset.runs import remarks
from precice_lb.exceptions import DataError
from precice_lb.report.blocks import Block, Paragraph, Table, listed, or_dash, percent, seconds_unit, short_names
from precice_lb.store.columns import Array
from precice_lb.text import first_of, plural, to_jsonable

_QUANTITIES = ("window_seconds", "compute_seconds", "wait_seconds", "iterations")
# What metadata of a participant say of how it was made.
_MADE = {"preCICE": "precice_version", "Python": "python_version", "backend": "backend", "processor": "cpu_model"}
# Of the seconds that the participant who moved most did: less is no cause.
_NEXT_TO_NOTHING = 0.1
# An interval that tells little, as a share of the window time.
_WIDE = 0.2
_LEVEL = f"{100 * (1 - CHANCE):g} % interval"


@dataclass(frozen=True, eq=False)
class RunComparison:
    """Two groups of coupled runs; of a sequence, what comes before its likeliest step and what after it."""

    # Names of runs.
    before: tuple[str, ...]
    after: tuple[str, ...]
    participants: tuple[str, ...]
    # Whether the runs are one sequence.
    in_order: bool
    # Into how many blocks of windows the only run on either side was cut; 1 where runs are compared.
    blocks: int
    seconds_per: str
    # By participant and quantity: wall, compute and wait seconds, coupling iterations, compute seconds in each.
    # Of the name "": wall seconds of the coupled run, those of its slowest participant, and the geometric mean of all
    # compute seconds, without participants that take less than 1 % of the window.
    changes: dict[tuple[str, str], Change]
    # By what differs, such as ``ranks of A``: what it was and is.
    changed: dict[str, tuple[str, str]]
    remarks: tuple[str, ...]

    @property
    def window(self) -> Change:
        """Of the coupled run."""
        return self.changes["", "window_seconds"]

    @property
    def causes(self) -> list[str]:
        """Participants whose compute time per iteration moved as the window time did.

        First the one whose wait moved least: its compute time moved by as much as the window.
        """
        sign = math.copysign(1.0, self.window.share)
        changes = {who: self.changes[who, "compute_per_iteration"] for who in self.participants if self.window.is_real}
        moved = {who: sign * (change.after - change.before) for who, change in changes.items() if change.is_real}
        least = _NEXT_TO_NOTHING * max(moved.values(), default=0.0)
        waits = {who: self.changes[who, "wait_seconds"] for who, seconds in moved.items() if seconds > max(least, 0.0)}
        return sorted(waits, key=lambda who: abs(waits[who].after - waits[who].before))

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types (seconds; shares of 1)."""
        changes: dict[str, dict[str, Any]] = {}
        for (who, quantity), change in self.changes.items():
            more = {"share": to_jsonable(change.share), "more_than_noise": change.is_real}
            changes.setdefault(who, {})[quantity] = to_jsonable(change) | more
        return {
            "format": "precice-lb-compare",
            "format_version": 1,
            **to_jsonable({key: value for key, value in vars(self).items() if key != "changes"}),
            "level": 1 - CHANCE,
            "changed_from": self.after[0] if self.in_order and self.window.is_real else None,
            "caused_by": self.causes,
            "coupled": changes.pop(""),
            "participants": changes,
        }


def compare_runs(before: Sequence[CoupledRun], after: Sequence[CoupledRun]) -> RunComparison:
    """Compare two groups of runs.

    Independent of each other are runs, or, where each group has one, blocks of its windows (`blocks_for`): what differs
    from run to run is then taken for a change. Intervals are Welch's (`change_of`), of logarithms of means but for
    waits, which may be nothing. Runs without a time window after warm-up are left out, and named in the remarks.

    Parameters
    ----------
    before, after
        Runs of the same participants, as of `precice_lb.dataset.load_runs`.

    Returns
    -------
    RunComparison

    Raises
    ------
    DataError
        If a group has no run with a time window after warm-up, or participants or units of time differ.
    """
    sides = _usable(before, after)
    warnings = remarks([*before, *after])
    if len(sides[0]) + len(sides[1]) > 2:
        return _comparison(sides, warnings)
    windows = min(int(run.steady(who).sum()) for (run,) in sides for who in run.participants)
    return _comparison(sides, warnings, blocks=blocks_for(windows))


def compare_in_order(runs: Sequence[CoupledRun]) -> RunComparison:
    """Find from which run on a sequence differs from what was before.

    That of the window time is one step (`step_of`), of which all else is said.

    Parameters
    ----------
    runs
        As of `compare_runs`; put in the order of their start.

    Returns
    -------
    RunComparison

    Raises
    ------
    DataError
        As in `compare_runs`, or if there are too few runs.
    """
    ordered = sorted(runs, key=lambda run: min(p.metadata["started_unix_ns"] for p in run.participants.values()))
    (usable,) = _usable(ordered)
    if len(usable) < LEAST_RUNS:
        raise DataError(
            f"compare: expected two sources, or at least {LEAST_RUNS} runs, half before and half after a change; found "
            f"{plural(len(usable), 'run')} ({first_of([run.name for run in usable])}); give more, or two of them"
        )
    place, places = step_of(_values(usable, 1)["", "window_seconds"])
    return _comparison([usable[:place], usable[place:]], remarks(ordered), places=places)


def _usable(*sides: Sequence[CoupledRun]) -> list[list[CoupledRun]]:
    """Leave out runs without a window after warm-up, and refuse what cannot be compared."""
    kept = [[run for run in runs if all(run.steady(who).any() for who in run.participants)] for runs in sides]
    for runs, usable in zip(sides, kept, strict=True):
        if not usable:
            raise DataError(
                "compare: expected a run with a time window after warm-up in each source, found none in "
                f"{first_of([run.name for run in runs])}; leave out fewer (--warmup), or record more windows"
            )
    every = [run for runs in kept for run in runs]
    units = [f"{' and '.join(run.participants)} per {run.time.unit}" for run in every]
    for run, unit in zip(every, units, strict=True):
        if run.time.problem or unit != units[0]:
            raise DataError(
                f"compare: expected runs of the same participants and time windows, found {units[0]} in run "
                f"{every[0].name}, and {run.time.problem or unit} in run {run.name}; give runs that are alike in these"
            )
    return kept


def _comparison(
    sides: Sequence[Sequence[CoupledRun]], warnings: tuple[str, ...], *, blocks: int = 1, places: int = 0
) -> RunComparison:
    """Compare two groups of runs, or of blocks of their windows.

    Parameters
    ----------
    sides : sequence of sequences of CoupledRun
        The runs before and after the change.
    warnings : tuple of str
        What speaks against the runs that were given, also against those that are not in ``sides``.
    blocks : int
        Number of blocks into which the windows of each run are cut.
    places : int
        Number of places of a step that were tried in a sequence; 0 where the runs are no sequence.
    """
    runs = [run for side in sides for run in side]
    before, after = (_values(side, blocks, runs) for side in sides)
    old, new = map(_facts, sides)
    tried: dict[str, Any] = {"same_noise": places > 0, "places": max(places, 1)}
    return RunComparison(
        before=tuple(run.name for run in sides[0]),
        after=tuple(run.name for run in sides[1]),
        participants=tuple(runs[0].participants),
        in_order=places > 0,
        blocks=blocks,
        seconds_per=runs[0].time.unit,
        changes={key: change_of(before[key], after[key], is_ratio=key[1] != "wait_seconds", **tried) for key in before},
        changed={what: (first_of(old[what], 3), first_of(new[what], 3)) for what in old if old[what] != new[what]},
        remarks=warnings,
    )


def _values(runs: Sequence[CoupledRun], blocks: int, every: Sequence[CoupledRun] = ()) -> dict[tuple[str, str], Array]:
    """Take means over the windows after warm-up of so many blocks of each run, shape (runs * blocks,)."""
    values: dict[tuple[str, str], Array] = {}
    logs = []
    for who in runs[0].participants:
        parts = [(run.participants[who].per_period(run.time.of(who)), run.steady(who)) for run in runs]
        for name in _QUANTITIES:
            series = [np.array_split(getattr(part, name)[steady], blocks) for part, steady in parts]
            values[who, name] = np.array([mean_known(block) for cut in series for block in cut])
        compute = np.maximum(values[who, "compute_seconds"], 1e-9)
        values[who, "compute_per_iteration"] = compute / np.maximum(values[who, "iterations"], 1.0)
        if not any(run.participants[who].negligible for run in every):
            logs.append(np.log(compute))
    # A participant that waits for nobody may be ahead of the others.
    values["", "window_seconds"] = np.max([values[who, "window_seconds"] for who in runs[0].participants], axis=0)
    values["", "compute_seconds"] = np.exp(np.mean(logs, axis=0)) if logs else np.empty(0)
    return values


def _facts(runs: Sequence[CoupledRun]) -> dict[str, list[str]]:
    """Gather what runs were made with, each value once."""
    facts: dict[str, set[str]] = {}
    for run in runs:
        for who, part in run.participants.items():
            stated = {what: part.metadata.get(key) for what, key in _MADE.items()}
            stated |= {f"ranks of {who}": part.layout, f"version of {who}": part.version}
            stated |= {f"parameters of {who}": part.metadata.get("parameters"), "first guess": run.guess}
            stated["coupling configuration"] = run.case[:8]
            stated |= {"host": " + ".join(sorted(part.places)) or part.metadata.get("hostname")}
            for what, value in stated.items():
                facts.setdefault(what, set()).add(str(value or "not stated"))
    return {what: sorted(values) for what, values in facts.items()}


def comparison_blocks(comparison: RunComparison) -> Iterator[Block]:
    """Say what changed and since when, and lay out the numbers."""
    names = short_names(comparison.participants, 24)
    yield Paragraph(_answer(comparison, names), "lead")
    facts = [f"{what} {old} -> {new}" for what, (old, new) in comparison.changed.items()]
    yield Paragraph("; ".join(facts) or "ranks, versions, hosts and configuration are the same")
    yield _table(comparison, names)
    before, after = len(comparison.before), len(comparison.after)
    text = f"intervals (Welch's) are of {plural(before, 'run')} before and {after} after"
    if comparison.in_order:
        text = f"intervals (Student's) allow for all places of the step that were tried: of {before} and {after} runs"
    elif before + after == 2:
        text += f", {comparison.blocks} blocks of windows each: how runs differ only several a side would tell"
    yield Paragraph(text)
    yield from (Paragraph(text, "warning") for text in comparison.remarks)


def _percent(share: float) -> str:
    return or_dash(100 * share, "+.1f", " %")


def _answer(comparison: RunComparison, names: Mapping[str, str]) -> str:
    """Say it in a few sentences."""
    window, total = comparison.window, len(comparison.before) + len(comparison.after)
    noise = f"{_LEVEL} {' to '.join(map(_percent, window.interval))}"
    if not window.is_real:
        where = f"over {total} runs; its likeliest step is" if comparison.in_order else "from before to after:"
        more = " That tells little: give more runs." if np.ptp(window.interval) > _WIDE else ""
        return f"The window time did not change by more than noise {where} {_percent(window.share)} ({noise}).{more}"
    unit = seconds_unit((window.before, window.after))
    course, length = ("slower", "longer") if window.share > 0 else ("faster", "shorter")
    since = "After the change"
    if comparison.in_order:
        since = f"From run {comparison.after[0]} on (no. {len(comparison.before) + 1} of {total})"
    text = (
        f"{since} the coupled run is {course}: its window takes {percent(abs(window.share))} {length} "
        f"({unit.number(window.before)} -> {unit.text(window.after)} per {comparison.seconds_per}, {noise})."
    )
    iterations = comparison.changes[comparison.participants[0], "iterations"]
    if iterations.is_real:
        text += f" Coupling iterations per window: {iterations.before:.2f} -> {iterations.after:.2f}."
    shares = {who: comparison.changes[who, "compute_per_iteration"].share for who in comparison.causes}
    if shares:
        causes = listed(f"{names[who]} ({_percent(share)})" for who, share in shares.items())
        text += f" The cause is the compute time of {causes}."
    elif any(math.isnan(comparison.changes[who, "compute_seconds"].share) for who in names):
        text += " Which participant did it is not known, since not all waits were measured."
    elif not iterations.is_real:
        text += " No participant's compute time changed with it: look at what they wait for, transfer and network."
    return text


def _table(comparison: RunComparison, names: Mapping[str, str]) -> Table:
    unit, changes = seconds_unit((comparison.window.before, comparison.window.after), 5), comparison.changes

    def row(who: str, words: str, change: Change, form: str = "") -> tuple[str, ...]:
        means = [or_dash(mean, form) if form else unit.number(mean) for mean in (change.before, change.after)]
        if words == "wait":
            # Of next to nothing a share says nothing.
            ends = change.after - change.before, change.low, change.high
            texts = [or_dash(end * unit.per_second, f"+.{unit.decimals}f") for end in ends]
        else:
            texts = list(map(_percent, (change.share, *change.interval)))
        verdict = "changed" if change.is_real else "noise" if math.isfinite(change.low + change.high) else "unknown"
        return who, words, *means, texts[0], " to ".join(texts[1:]), verdict

    rows = [row("coupled run", "window", comparison.window)]
    for who, name in names.items():
        rows.append(row(name, "compute", changes[who, "compute_seconds"]))
        rows.append(row("", "wait", changes[who, "wait_seconds"]))
        iterations = changes[who, "iterations"]
        if not math.isclose(iterations.before, iterations.after, rel_tol=1e-9):
            rows.append(row("", "iterations", iterations, ".2f"))
            rows.append(row("", "per iteration", changes[who, "compute_per_iteration"]))
    rows.append(row("geometric mean", "compute", changes["", "compute_seconds"]))
    head = "", "", f"before ({unit.symbol})", "after", "change", _LEVEL, ""
    return Table(f"Mean per {comparison.seconds_per}", head, tuple(rows), (0, 1, 6))
