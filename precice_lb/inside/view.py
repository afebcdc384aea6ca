"""Balance inside a participant, as tables and sentences, as files, and in a report."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import DataError
from precice_lb.inside.balance import balance_of, imbalance
from precice_lb.inside.loads import loads_of_runs
from precice_lb.inside.mesh import partition_files
from precice_lb.report.blocks import Block, DefinitionList, Paragraph, Table, or_dash, percent, seconds_unit
from precice_lb.report.render import write_files
from precice_lb.text import json_text, plural, visible

if TYPE_CHECKING:
    from precice_lb.inside import Balance
    from precice_lb.report.page import Evidence

Floats = NDArray[np.float64]

_MOST = 5


def inside_blocks(balance: Balance) -> list[Block]:
    """Say what features cost, what ranks spend their time on, and what another partition would change."""
    problem = balance.costs.problem
    warnings = [Paragraph(f"nothing is recommended: {problem}", "warning")] if problem else []
    return [costs_table(balance), DefinitionList(tuple(_facts(balance))), _ranks(balance), *warnings]


def costs_table(balance: Balance) -> Table:
    """Say what one of each feature costs, and what share of all busy time it has."""
    costs = balance.costs
    held = np.sum([costs.of_features(load).sum(axis=0) for load in balance.loads], axis=0)
    constant = sum(len(load.seconds) for load in balance.loads) * costs.constant
    total = float(np.sum(held)) + constant or math.nan
    rows = [
        (visible(name), f"{seconds:.4g}", or_dash(error, ".2g"), percent(share / total))
        for name, seconds, error, share in zip(costs.features, costs.seconds, costs.standard_errors, held, strict=True)
    ]
    if costs.constant:
        rows.append(("each rank, whatever it holds", f"{costs.constant:.4g}", "", percent(constant / total)))
    whose = f" of {visible(balance.participant)}" if balance.participant else ""
    header = ("feature", "seconds", "standard error", "of all busy time")
    return Table(f"What one of each feature costs the ranks{whose} per time window", header, tuple(rows))


def _facts(balance: Balance) -> Iterator[tuple[str, str]]:
    runs = ", ".join(plural(len(load.seconds), "rank") for load in balance.loads[:_MOST])
    runs += ", …" if len(balance.loads) > _MOST else ""
    yield "busy seconds", f"{balance.basis}; {plural(len(balance.loads), 'run')} ({runs})"
    yield "unexplained", f"{percent(balance.costs.unexplained)} of the busy seconds (root mean square)"
    busy = balance.busy(balance.worst)
    yield "imbalance now", f"{percent(imbalance(busy))}, (max - min)/max{_run_text(balance)}"
    if (partition := balance.partition) is None:
        slowest, mean = float(busy.max()), float(busy.mean())
        share = percent(1 - mean / slowest, 0)
        yield "perfect balance", f"{seconds_unit([slowest]).text(mean)} per time window for each rank, {share} less"
    else:
        even, after = partition.equal_seconds, partition.seconds
        unit, before = seconds_unit([*even, *after]), float(even.max())
        yield "partition", f"{plural(len(partition.rank_of), 'cell')} on {plural(len(after), 'rank')}"
        shown = (
            f"{percent(imbalance(after))} by the fitted costs, {percent(imbalance(even))} with as many cells on each"
        )
        yield "imbalance after", shown
        faster = f"{unit.text(float(after.max()))} expected: {before / float(after.max()):.2f} times as fast"
        yield "slowest rank", f"{unit.text(before)} per time window with as many cells on each, {faster}"


def _run_text(balance: Balance) -> str:
    load = balance.worst
    by_costs = "" if np.isfinite(load.seconds).any() else ", by the fitted costs"
    return (f" of run {visible(load.run)}" if load.run else "") + by_costs


def _ranks(balance: Balance) -> Table:
    """Slowest ranks of the most uneven run, and its fastest one: what their time is spent on."""
    load, costs = balance.worst, balance.costs
    seconds = balance.busy(load)
    order = np.argsort(np.nan_to_num(-seconds, nan=math.inf), kind="stable")
    shown = order if len(order) <= 2 * _MOST else np.append(order[:_MOST], order[-_MOST:])
    parts = costs.of_features(load)
    left = load.seconds - costs.predict(load)
    unit = seconds_unit(seconds)
    constant = [unit.number(costs.constant)] if costs.constant else []
    rows = tuple(
        (str(rank), unit.number(seconds[rank]), *map(unit.number, parts[rank]), *constant, unit.number(left[rank]))
        for rank in shown
    )
    features = (*map(visible, costs.features), *["each rank"] * len(constant))
    title = f"What ranks{_run_text(balance)} spend a time window on"
    if len(shown) < len(order):
        title += f", the {_MOST} slowest and {_MOST} fastest of {plural(len(order), 'rank')}"
    return Table(title, ("rank", f"busy, {unit.symbol}", *features, "unexplained"), rows)


def write_inside(balance: Balance, directory: str | Path) -> list[Path]:
    """Write inside.json, and the files of a partition where there is one, into a directory."""
    contents = {"inside.json": json_text(balance.to_dict()).encode()}
    if (partition := balance.partition) is not None:
        contents |= partition_files(partition.cells, partition.weights, partition.rank_of)
    return write_files(directory, contents, "the partition")


def inside_section(evidence: Evidence) -> Iterator[Block]:
    """Show what the time of participants goes to that said what their ranks hold, rank by rank."""
    for name in evidence.names:
        if not any(run.participants[name].rank_counts for run in evidence.runs if name in run.participants):
            continue
        try:
            balance = balance_of(loads_of_runs(evidence.runs, name), name)
        except DataError as error:
            yield Paragraph(str(error), "missing")
            continue
        yield from inside_blocks(balance)
        if not balance.costs.problem:
            yield Paragraph(
                "precice-lb inside with --mesh and -o partitions the mesh by these costs, and writes what the runs "
                "would have measured with that, for precice-lb recommend."
            )


page_section = ("inside", "Imbalance inside participants", inside_section)
