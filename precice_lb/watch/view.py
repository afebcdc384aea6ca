"""A running simulation on a terminal, and as lines for a pipe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from precice_lb.report.blocks import (
    Block,
    Paragraph,
    SecondsUnit,
    Table,
    listed,
    percent,
    ranks_text,
    seconds_unit,
    short_names,
)
from precice_lb.text import plural, visible

if TYPE_CHECKING:
    from precice_lb.watch.convergence import Convergence
    from precice_lb.watch.snapshot import ParticipantState, Rebalance, Snapshot

_LEVELS = "▁▂▃▄▅▆▇█"
_COURSE = 12


def watch_blocks(snapshot: Snapshot) -> list[Block]:
    """Say all of a snapshot."""
    residuals = [_residuals(coupling) for coupling in snapshot.convergence if coupling.residuals]
    return [watch_table(snapshot), *residuals, *_sentences(snapshot)]


def watch_table(snapshot: Snapshot) -> Table:
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
            _course(part.history_wait_share.tolist()),
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
    """Write what changes in one line, for a pipe or a log."""
    names, unit = _names(snapshot), _unit(snapshot)
    parts = [f"window {snapshot.windows}", unit.text(snapshot.window_seconds)]
    parts.append(f"{percent(snapshot.waiting, 0)} of core time waits")
    for part in snapshot.participants:
        seconds, state = unit.text(part.compute_seconds), "" if part.state == "running" else f", {part.state}"
        parts.append(f"{names[part.participant]} computes {seconds}, waits {percent(part.wait_share, 0)}{state}")
    return " | ".join([*parts, *(visible(sentence.text) for sentence in _changing(snapshot))])


def _changing(snapshot: Snapshot) -> list[Paragraph]:
    """Say what follows from a snapshot and may be otherwise in the next one."""
    names = _names(snapshot)
    sentences = [_iterations(coupling, snapshot.latest) for coupling in snapshot.convergence if coupling.windows]
    sentences += [Paragraph(f"{key.capitalize()}: {text}.") for key, text in snapshot.facts.items()]
    drifting = [part for part in snapshot.participants if part.is_drifting]
    sentences += [Paragraph(_drift(part, names[part.participant], snapshot.latest), "warning") for part in drifting]
    if (better := snapshot.rebalance) is not None:
        sentences += [Paragraph(lead, "lead") for lead in _better(better, snapshot)]
    return sentences


def _sentences(snapshot: Snapshot) -> list[Paragraph]:
    """Say all that follows from a snapshot."""
    names, problems = _names(snapshot), []
    for part in snapshot.participants:
        if part.state == "stopped":
            problems.append(f"{names[part.participant]} stopped before the coupling ended: killed, or failed.")
        problems += [f"{names[part.participant]}: {problem}" for problem in part.problems]
    better = snapshot.rebalance
    basis = [] if better is None else [Paragraph(f"Judged from {better.basis}.")]
    warnings = [*(better.warnings if better else ()), *problems, *snapshot.notes]
    return [*_changing(snapshot), *basis, *(Paragraph(text, "warning") for text in warnings)]


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


def _better(better: Rebalance, snapshot: Snapshot) -> list[str]:
    if better.split == better.present:
        total = plural(sum(better.present.values()), "core" if better.layouts else "rank")
        return [f"The present split is the best one known for {total}."]
    unit = seconds_unit([better.present_seconds])
    shorter = percent(1 - better.window_seconds / better.present_seconds, 0)
    sure = "" if math.isnan(better.probability) else f", with a probability of {percent(better.probability, 0)}"
    return [
        f"{ranks_text(better.split, _names(snapshot), better.layouts)} would take {unit.text(better.window_seconds)} "
        f"per window instead of {unit.text(better.present_seconds)}: {shorter} shorter{sure}.",
        f"A restart {_pays(better, snapshot)}.",
    ]


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


def _course(shares: Sequence[float]) -> str:
    """Draw shares of one as a line of blocks."""
    picked = shares[:: -(-len(shares) // _COURSE) or 1]
    return "".join(" " if math.isnan(share) else _LEVELS[min(int(share * 8), 7)] for share in picked)


def _names(snapshot: Snapshot) -> dict[str, str]:
    return short_names([part.participant for part in snapshot.participants], 24)


def _unit(snapshot: Snapshot) -> SecondsUnit:
    return seconds_unit([part.window_seconds for part in snapshot.participants])
