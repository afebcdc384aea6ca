"""A running simulation on a terminal, and as lines for a pipe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from precice_lb.names import visible
from precice_lb.plural import plural
from precice_lb.report.blocks import Block, Paragraph, Table
from precice_lb.report.text import SecondsUnit, listed, percent, ranks_text, seconds_unit, short_names

if TYPE_CHECKING:
    from precice_lb.watch.convergence import Convergence
    from precice_lb.watch.snapshot import ParticipantState, Rebalance, Snapshot

_LEVELS = "▁▂▃▄▅▆▇█"
_ASCII_LEVELS = "_.-=+*#@"
_COURSE = 12


def watch_blocks(snapshot: Snapshot, *, ascii_only: bool = False) -> list[Block]:
    """Say all of a snapshot; ``ascii_only`` where the terminal has no block characters."""
    residuals = [_residuals(coupling) for coupling in snapshot.convergence if coupling.residuals]
    return [watch_table(snapshot, ascii_only=ascii_only), *residuals, *_sentences(snapshot)]


def watch_table(snapshot: Snapshot, *, ascii_only: bool = False) -> Table:
    """Tabulate the participants: seconds per window, shares of waiting, change of load, course of the waiting."""
    names, unit = _names(snapshot), _unit(snapshot)
    rows = [
        (
            names[part.participant] + ("" if part.state == "running" else f" ({part.state})"),
            str(part.layout) if part.ranks_seen == part.ranks else f"{part.ranks_seen} of {part.layout}",
            unit.number(part.window_seconds),
            unit.number(part.compute_seconds),
            percent(part.wait_share, 0),
            percent(part.wait_share_so_far, 0),
            "–" if math.isnan(part.drift.change) else f"{100 * part.change:+.0f} %" if part.is_drifting else "steady",
            _course(part.history_wait_share.tolist(), _ASCII_LEVELS if ascii_only else _LEVELS),
        )
        for part in snapshot.participants
    ]
    of = "" if snapshot.windows_left is None else f" of {snapshot.windows + snapshot.windows_left}"
    title = (
        f"Run {visible(snapshot.run)}: window {snapshot.windows}{of}, {unit.text(snapshot.window_seconds)} each, "
        f"{percent(snapshot.waiting, 0)} of all core time waits for partners"
    )
    header = ("participant", "ranks", f"wall ({unit.symbol})", f"compute ({unit.symbol})")
    return Table(title, (*header, "waits", "so far", "load", "course"), tuple(rows))


def watch_facts(snapshot: Snapshot) -> list[str]:
    """Say in sentences what follows: iterations, drift, what another split would bring, and what is missing."""
    return [visible(sentence.text) for sentence in _sentences(snapshot)]


def watch_line(snapshot: Snapshot) -> str:
    """Write everything that changes in one line, for a pipe or a log."""
    names, unit = _names(snapshot), _unit(snapshot)
    parts = [f"window {snapshot.windows}", unit.text(snapshot.window_seconds)]
    parts.append(f"{percent(snapshot.waiting, 0)} of core time waits")
    for part in snapshot.participants:
        seconds = unit.text(part.compute_seconds)
        text = f"{names[part.participant]} computes {seconds}, waits {percent(part.wait_share, 0)}"
        drift = f", load {100 * part.change:+.0f} %" if part.is_drifting else ""
        parts.append(text + drift + ("" if part.state == "running" else f", {part.state}"))
    for coupling in snapshot.convergence:
        text = ", ".join(_converging(coupling))
        parts.append(text if len(snapshot.convergence) == 1 else f"{_coupled(coupling)}: {text}")
    if snapshot.predictors:
        parts.append("iterations " + ", ".join(f"{visible(p.name)} {p.iterations:.3g}" for p in snapshot.predictors))
    if (better := snapshot.rebalance) is not None:
        split = f"{ranks_text(better.split, names, better.layouts)}: {_shorter(better)}, {_pays(better, snapshot)}"
        parts.append("no better split" if better.split == better.present else split)
    return " | ".join(parts)


def _sentences(snapshot: Snapshot) -> list[Paragraph]:
    """Say what follows from a snapshot."""
    names = _names(snapshot)
    sentences = [_iterations(coupling, snapshot.latest) for coupling in snapshot.convergence if coupling.windows]
    if snapshot.predictors:
        from precice_lb.report.guess import guess_label, guess_text

        label = guess_label(snapshot.guess).capitalize()
        sentences.append(Paragraph(f"{label}: {guess_text(snapshot.predictors)}."))
    drifting = [part for part in snapshot.participants if part.is_drifting]
    sentences += [Paragraph(_drift(part, names[part.participant], snapshot.latest), "warning") for part in drifting]
    if snapshot.rebalance is not None:
        sentences += _better(snapshot.rebalance, snapshot)
    problems = []
    for part in snapshot.participants:
        if part.state == "stopped":
            problems.append(f"{names[part.participant]} stopped before the coupling ended: killed, or failed.")
        problems += [f"{names[part.participant]}: {problem}" for problem in part.problems]
    return [*sentences, *(Paragraph(text, "warning") for text in (*problems, *snapshot.notes))]


def _residuals(coupling: Convergence) -> Table:
    """Tabulate the residuals of the latest iteration beside their limits."""
    most = "" if coupling.max_iterations is None else f" of at most {coupling.max_iterations}"
    rows = [
        (visible(r.data), visible(r.mesh), r.kind, _number(r.residual), f"{r.limit:.3g}") for r in coupling.residuals
    ]
    title = f"Convergence of {_coupled(coupling)}: window {coupling.window}, iteration {coupling.iteration}{most}"
    return Table(title, ("data", "mesh", "measure", "residual", "limit"), tuple(rows), text=(0, 1, 2))


def _iterations(coupling: Convergence, latest: int) -> Paragraph:
    """Say how many iterations windows take, and whether they converge."""
    most = "" if coupling.max_iterations is None else f", {coupling.max_iterations} at most"
    text = (
        f"{_coupled(coupling)}: {plural(coupling.iterations_latest, 'iteration', 'g')} per time window (median of the "
        f"latest {latest}; {coupling.iterations:g} over the run{most})"
    )
    if coupling.not_converged:
        text += f"; {coupling.not_converged} of {plural(coupling.windows, 'window')} did not converge"
    elif coupling.not_converged is not None:
        text += "; all windows converged"
    columns = ", ".join(f"{visible(name)} {count}" for name, count in coupling.acceleration.items())
    return Paragraph(f"{text}.{columns and f' {columns}.'}", "warning" if coupling.not_converged else "plain")


def _converging(coupling: Convergence) -> list[str]:
    """Say the same in a line for a pipe."""
    parts = [f"{plural(coupling.iterations_latest, 'iteration', 'g')} per window"] if coupling.windows else []
    if coupling.not_converged:
        parts.append(f"{coupling.not_converged} of {coupling.windows} not converged")
    if coupling.residuals:
        residuals = ", ".join(f"{visible(r.data)} {_number(r.residual)}" for r in coupling.residuals)
        parts.append(f"window {coupling.window} iteration {coupling.iteration}: {residuals}")
    return parts


def _number(residual: float | None) -> str:
    """Write a residual, also one that is no number any more."""
    return "–" if residual is None else f"{residual:.2e}"


def _coupled(coupling: Convergence) -> str:
    return listed(short_names(coupling.participants, 24).values())


def _drift(part: ParticipantState, name: str, latest: int) -> str:
    recent = part.change == part.shift.change
    # A trend is relative to the median, of which a load may lose more than all of it.
    where = f"in the latest {plural(latest, 'window')} against those before" if recent else "of its median so far"
    z_score = (part.shift if recent else part.drift).z_score
    return (
        f"The load of {name} has {'grown' if part.change > 0 else 'fallen'} by {percent(abs(part.change), 0)} {where} "
        f"({abs(z_score):.1f} standard deviations)."
    )


def _better(better: Rebalance, snapshot: Snapshot) -> list[Paragraph]:
    unit = seconds_unit([better.present_seconds])
    if better.split == better.present:
        total = plural(sum(better.present.values()), "core" if better.layouts else "rank")
        leads = [f"The present split is the best one known for {total}."]
    else:
        sure = "" if math.isnan(better.probability) else f", with a probability of {percent(better.probability, 0)}"
        leads = [
            f"{ranks_text(better.split, _names(snapshot), better.layouts)} would take "
            f"{unit.text(better.window_seconds)} per window instead of {unit.text(better.present_seconds)}: "
            f"{_shorter(better)}{sure}.",
            f"A restart {_pays(better, snapshot)}.",
        ]
    basis = Paragraph(f"Judged from {better.basis}.")
    warnings = [Paragraph(warning, "warning") for warning in better.warnings]
    return [*(Paragraph(lead, "lead") for lead in leads), basis, *warnings]


def _shorter(better: Rebalance) -> str:
    return f"{percent(1 - better.window_seconds / better.present_seconds, 0)} shorter"


def _pays(better: Rebalance, snapshot: Snapshot) -> str:
    """Say when a restart has paid for itself, and whether the run lasts so long."""
    if math.isnan(better.windows_to_pay):
        return "costs nobody knows what (say --restart-cost)"
    cost = f"at {better.restart_seconds:.3g} s{', its start-up alone' if better.restart_measured else ''}"
    if math.isinf(better.windows_to_pay):
        return f"never pays ({cost})"
    windows, left = int(better.windows_to_pay), snapshot.windows_left
    text = f"pays after {plural(windows, 'more window')} ({cost})"
    if left is None or not snapshot.is_running:
        return text
    return f"{text}, {left} are left" + ("" if windows < left else ": it does not")


def _course(shares: Sequence[float], levels: str) -> str:
    """Draw shares of one as a line of blocks."""
    step = max(len(shares) / _COURSE, 1.0)
    picked = [shares[int(place * step)] for place in range(min(len(shares), _COURSE))]
    return "".join(" " if math.isnan(s) else levels[min(int(s * len(levels)), len(levels) - 1)] for s in picked)


def _names(snapshot: Snapshot) -> dict[str, str]:
    return short_names([part.participant for part in snapshot.participants], 24)


def _unit(snapshot: Snapshot) -> SecondsUnit:
    return seconds_unit([part.window_seconds for part in snapshot.participants])
