"""A running simulation on a terminal, and as lines for a pipe."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from precice_lb.names import visible
from precice_lb.plural import plural
from precice_lb.report.blocks import Block, Paragraph, Table
from precice_lb.report.text import SecondsUnit, listed, percent, ranks_text, seconds_unit, short_names
from precice_lb.rooms import hooks

if TYPE_CHECKING:
    from precice_lb.watch.convergence import Convergence
    from precice_lb.watch.snapshot import ParticipantState, Rebalance, Snapshot

_LEVELS = "▁▂▃▄▅▆▇█"
_ASCII_LEVELS = "_.-=+*#@"
_COURSE = 12


def watch_blocks(snapshot: Snapshot, *, ascii_only: bool = False) -> list[Block]:
    """Say all of a snapshot; ``ascii_only`` where the terminal has no block characters."""
    table = watch_table(snapshot, ascii_only=ascii_only)
    residuals = [_residuals(each) for each in snapshot.convergence if each.residuals]
    return [table, *residuals, *_iterations(snapshot), *_guess(snapshot), *_facts(snapshot)]


def watch_table(snapshot: Snapshot, *, ascii_only: bool = False) -> Table:
    """Tabulate the participants: seconds per window, shares of waiting, change of load, course of the waiting."""
    names = _names(snapshot)
    unit = _unit(snapshot)
    rows = [
        (
            names[each.participant] + ("" if each.state == "running" else f" ({each.state})"),
            str(each.layout) if each.ranks_seen == each.ranks else f"{each.ranks_seen} of {each.layout}",
            unit.number(each.window_seconds),
            unit.number(each.compute_seconds),
            percent(each.wait_share, 0),
            percent(each.wait_share_so_far, 0),
            f"{100 * each.change:+.0f} %" if each.is_drifting else "steady",
            _course(each.history_wait_share.tolist(), _ASCII_LEVELS if ascii_only else _LEVELS),
        )
        for each in snapshot.participants
    ]
    of = "" if snapshot.windows_left is None else f" of {snapshot.windows + snapshot.windows_left}"
    title = (
        f"Run {visible(snapshot.run)}: window {snapshot.windows}{of}, {unit.text(snapshot.window_seconds)} each, "
        f"{percent(snapshot.waiting, 0)} of all core time waits for partners"
    )
    header = ("participant", "ranks", f"wall ({unit.symbol})", f"compute ({unit.symbol})")
    return Table(title, (*header, "waits", "so far", "load", "course"), tuple(rows))


def watch_facts(snapshot: Snapshot) -> list[str]:
    """Say in sentences what follows: drift, what another split would bring, and what is missing."""
    return [visible(fact.text) for fact in (*_facts(snapshot), *_iterations(snapshot), *_guess(snapshot))]


def watch_line(snapshot: Snapshot) -> str:
    """Write everything that changes in one line, for a pipe or a log."""
    names = _names(snapshot)
    unit = _unit(snapshot)
    parts = [f"window {snapshot.windows}", f"{unit.text(snapshot.window_seconds)}"]
    parts.append(f"{percent(snapshot.waiting, 0)} of core time waits")
    for each in snapshot.participants:
        text = (
            f"{names[each.participant]} computes {unit.text(each.compute_seconds)}, waits {percent(each.wait_share, 0)}"
        )
        drift = f", load {100 * each.change:+.0f} %" if each.is_drifting else ""
        parts.append(text + drift + ("" if each.state == "running" else f", {each.state}"))
    parts += [_converging(each, alone=len(snapshot.convergence) == 1) for each in snapshot.convergence]
    if snapshot.predictors:
        parts.append("iterations " + ", ".join(f"{visible(p.name)} {p.iterations:.3g}" for p in snapshot.predictors))
    if snapshot.rebalance is not None:
        better = snapshot.rebalance
        split = ranks_text(better.split, names, better.layouts)
        same = better.split == better.present
        parts.append("no better split" if same else f"{split}: {_shorter(better)}, {_pays(better, snapshot)}")
    return " | ".join(parts)


def _facts(snapshot: Snapshot) -> list[Paragraph]:
    """Say what follows from a snapshot."""
    names = _names(snapshot)
    found = [
        Paragraph(_drift(each, names, snapshot.latest), "warning") for each in snapshot.participants if each.is_drifting
    ]
    if snapshot.rebalance is not None:
        found += _better(snapshot.rebalance, snapshot, names)
    for each in snapshot.participants:
        if each.state == "stopped":
            text = f"{names[each.participant]} stopped before the coupling ended: killed, or failed."
            found.append(Paragraph(text, "warning"))
        found += [Paragraph(f"{names[each.participant]}: {problem}", "warning") for problem in each.problems]
    return [*found, *(Paragraph(note, "warning") for note in snapshot.notes)]


def _residuals(each: Convergence) -> Table:
    """Tabulate the residuals of the latest iteration beside their limits."""
    most = "" if each.max_iterations is None else f" of at most {each.max_iterations}"
    rows = [(visible(r.data), visible(r.mesh), r.kind, _number(r.residual), f"{r.limit:.3g}") for r in each.residuals]
    title = f"Convergence of {_coupled(each)}: window {each.window}, iteration {each.iteration}{most}"
    return Table(title, ("data", "mesh", "measure", "residual", "limit"), tuple(rows), text=(0, 1, 2))


def _iterations(snapshot: Snapshot) -> list[Paragraph]:
    """Say how many iterations windows take, and whether they converge."""
    found = []
    for each in snapshot.convergence:
        if not each.windows:
            continue
        most = "" if each.max_iterations is None else f", {each.max_iterations} at most"
        text = (
            f"{_coupled(each)}: {plural(each.iterations_latest, 'iteration', 'g')} per time window (median of the "
            f"latest {snapshot.latest}; {each.iterations:g} over the run{most})"
        )
        if each.not_converged:
            text += f"; {each.not_converged} of {plural(each.windows, 'window')} did not converge"
        elif each.not_converged is not None:
            text += f"; {'all windows' if each.windows > 1 else 'the window'} converged"
        columns = ", ".join(f"{visible(name)} {count}" for name, count in each.acceleration.items())
        found.append(Paragraph(f"{text}.{columns and f' {columns}.'}", "warning" if each.not_converged else "plain"))
    return found


def _guess(snapshot: Snapshot) -> list[Paragraph]:
    """Say what came of first guesses."""
    facts = (fact for run_facts in hooks("run_facts") for fact in run_facts(snapshot))
    return [Paragraph(f"{key.capitalize()}: {text}.") for key, text in facts]


def _converging(each: Convergence, *, alone: bool) -> str:
    """Say the same in a line for a pipe."""
    who = "" if alone else f"{_coupled(each)}: "
    parts = [f"{who}{plural(each.iterations_latest, 'iteration', 'g')} per window"] if each.windows else []
    if each.not_converged:
        parts.append(f"{each.not_converged} of {each.windows} not converged")
    if each.residuals:
        residuals = ", ".join(f"{visible(r.data)} {_number(r.residual)}" for r in each.residuals)
        parts.append(f"window {each.window} iteration {each.iteration}: {residuals}")
    return ", ".join(parts)


def _number(residual: float | None) -> str:
    """Write a residual, also one that is no number any more."""
    return "–" if residual is None else f"{residual:.2e}"


def _coupled(each: Convergence) -> str:
    return listed(short_names(each.participants, 24).values())


def _drift(each: ParticipantState, names: Mapping[str, str], latest: int) -> str:
    word = "grown" if each.change > 0 else "fallen"
    recent = each.change == each.shift.change
    # A trend is relative to the median, of which a load may lose more than all of it.
    where = f"in the latest {plural(latest, 'window')} against those before" if recent else "of its median so far"
    z_score = each.shift.z_score if recent else each.drift.z_score
    return (
        f"The load of {names[each.participant]} has {word} by {percent(abs(each.change), 0)} {where} "
        f"({abs(z_score):.1f} standard deviations)."
    )


def _better(better: Rebalance, snapshot: Snapshot, names: Mapping[str, str]) -> list[Paragraph]:
    unit = seconds_unit([better.present_seconds])
    split = ranks_text(better.split, names, better.layouts)
    basis = f"Judged from {better.basis}."
    warnings = [Paragraph(warning, "warning") for warning in better.warnings]
    if better.split == better.present:
        total = plural(sum(better.present.values()), "core" if better.layouts else "rank")
        first = f"The present split is the best one known for {total}."
        return [Paragraph(first, "lead"), Paragraph(basis), *warnings]
    sure = "" if math.isnan(better.probability) else f", with a probability of {percent(better.probability, 0)}"
    first = (
        f"{split} would take {unit.text(better.window_seconds)} per window instead of "
        f"{unit.text(better.present_seconds)}: {_shorter(better)}{sure}."
    )
    second = f"A restart {_pays(better, snapshot)}."
    return [Paragraph(first, "lead"), Paragraph(second, "lead"), Paragraph(basis), *warnings]


def _shorter(better: Rebalance) -> str:
    return f"{percent(1 - better.window_seconds / better.present_seconds, 0)} shorter"


def _pays(better: Rebalance, snapshot: Snapshot) -> str:
    """Say when a restart has paid for itself, and whether the run lasts so long."""
    if math.isnan(better.windows_to_pay):
        return "costs nobody knows what (say --restart-cost)"
    least = ", its start-up alone" if better.restart_measured else ""
    cost = f"at {better.restart_seconds:.3g} s{least}"
    if math.isinf(better.windows_to_pay):
        return f"never pays ({cost})"
    windows = int(better.windows_to_pay)
    text = f"pays after {plural(windows, 'more window')} ({cost})"
    left = snapshot.windows_left
    if left is None or not snapshot.is_running:
        return text
    return f"{text}, {left} are left" + ("" if windows < left else ": it does not")


def _course(shares: Sequence[float], levels: str) -> str:
    """Draw shares of one as a line of blocks."""
    step = max(len(shares) / _COURSE, 1.0)
    picked = [shares[int(at * step)] for at in range(min(len(shares), _COURSE))]
    return "".join(" " if math.isnan(s) else levels[min(int(s * len(levels)), len(levels) - 1)] for s in picked)


def _names(snapshot: Snapshot) -> dict[str, str]:
    return short_names([each.participant for each in snapshot.participants], 24)


def _unit(snapshot: Snapshot) -> SecondsUnit:
    return seconds_unit([each.window_seconds for each in snapshot.participants])
