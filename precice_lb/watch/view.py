"""A running simulation as blocks: a table of its participants, residuals, and what follows in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from precice_lb.report.blocks import (
    Block,
    Paragraph,
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


def watch_table(snapshot: Snapshot) -> Table:
    """Tabulate the participants: seconds per window, shares of waiting, change of load."""
    names, unit = _names(snapshot), seconds_unit([part.window_seconds for part in snapshot.participants])
    rows = [
        (
            names[part.participant] + ("" if part.state == "running" else f" ({part.state})"),
            str(part.layout) if part.ranks_seen == part.ranks else f"{part.ranks_seen} of {part.layout}",
            unit.number(part.window_seconds),
            unit.number(part.compute_seconds),
            percent(part.wait_share, 0),
            percent(part.wait_share_so_far, 0),
            "–" if math.isnan(part.drift.change) else f"{100 * part.change:+.0f} %" if part.is_drifting else "steady",
        )
        for part in snapshot.participants
    ]
    of = "" if snapshot.windows_left is None else f" of {snapshot.windows + snapshot.windows_left}"
    title = (
        f"Run {visible(snapshot.run)}: window {snapshot.windows}{of}, {unit.text(snapshot.window_seconds)} each, "
        f"{percent(snapshot.waiting, 0)} of all core time waits for partners"
    )
    header = ("participant", "ranks", f"wall ({unit.symbol})", f"compute ({unit.symbol})")
    return Table(title, (*header, "waits", "so far", "load"), tuple(rows))


def watch_blocks(snapshot: Snapshot) -> list[Block]:
    """Say all of a snapshot."""
    names = _names(snapshot)
    blocks: list[Block] = [watch_table(snapshot)]
    blocks += [_residuals(coupling) for coupling in snapshot.convergence if coupling.residuals]
    blocks += [_iterations(coupling, snapshot.latest) for coupling in snapshot.convergence if coupling.windows]
    warnings = [_drift(part, names[part.participant], snapshot.latest) for part in snapshot.participants]
    if (better := snapshot.rebalance) is not None:
        blocks += [Paragraph(lead, "lead") for lead in _better(better, snapshot)]
        blocks.append(Paragraph(f"Judged from {better.basis}."))
        warnings += better.warnings
    for part in snapshot.participants:
        if part.state == "stopped":
            warnings.append(f"{names[part.participant]} stopped before the coupling ended: killed, or failed.")
        warnings += [f"{names[part.participant]}: {problem}" for problem in part.problems]
    return [*blocks, *(Paragraph(text, "warning") for text in (*warnings, *snapshot.notes) if text)]


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
    """Say how the load of a participant has changed; empty where it has not."""
    if not part.is_drifting:
        return ""
    recent = part.change == part.shift.change
    # A trend is relative to the median, of which a load may lose more than all of it.
    where = f"in the latest {plural(latest, 'window')} against those before" if recent else "of its median so far"
    z_score = (part.shift if recent else part.drift).z_score
    return (
        f"The load of {name} has {'grown' if part.change > 0 else 'fallen'} by {percent(abs(part.change), 0)} {where} "
        f"({abs(z_score):.1f} standard deviations)."
    )


def _better(better: Rebalance, snapshot: Snapshot) -> Iterator[str]:
    if better.split == better.present:
        total = plural(sum(better.present.values()), "core" if better.layouts else "rank")
        yield f"The present split is the best one known for {total}."
        return
    unit = seconds_unit([better.present_seconds])
    shorter = percent(1 - better.window_seconds / better.present_seconds, 0)
    sure = "" if math.isnan(better.probability) else f", with a probability of {percent(better.probability, 0)}"
    yield (
        f"{ranks_text(better.split, _names(snapshot), better.layouts)} would take {unit.text(better.window_seconds)} "
        f"per window instead of {unit.text(better.present_seconds)}: {shorter} shorter{sure}."
    )
    if math.isinf(better.windows_to_pay):
        yield f"A restart of {better.restart_seconds:.3g} s never pays."
    elif math.isfinite(better.windows_to_pay):
        left = f"; {snapshot.windows_left} are left" if snapshot.windows_left else ""
        windows = plural(int(better.windows_to_pay), "more window")
        yield f"A restart of {better.restart_seconds:.3g} s pays after {windows}{left}."


def _names(snapshot: Snapshot) -> dict[str, str]:
    return short_names([part.participant for part in snapshot.participants], 24)
