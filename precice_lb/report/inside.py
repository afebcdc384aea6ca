"""Balance inside a participant, as tables and sentences and as files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from precice_lb.inside.balance import imbalance
from precice_lb.inside.cost import residuals, seconds_by_feature
from precice_lb.inside.mesh import partition_files
from precice_lb.names import visible
from precice_lb.plural import plural
from precice_lb.report.blocks import Block, DefinitionList, Paragraph, Table
from precice_lb.report.documents import json_text, write_files
from precice_lb.report.text import percent, seconds_unit

if TYPE_CHECKING:
    from precice_lb.inside import Balance

INSIDE_NAME = "inside.json"
_MOST = 5


def inside_blocks(balance: Balance) -> list[Block]:
    """Say what features cost, what ranks spend their time on, and what another partition would change."""
    told: list[Block] = [costs_table(balance), DefinitionList(tuple(_facts(balance))), _ranks(balance)]
    if balance.costs.problem:
        told.append(Paragraph(f"nothing is recommended: {balance.costs.problem}", "warning"))
    if balance.partition is not None:
        told.append(_partition(balance))
    return told


def costs_table(balance: Balance) -> Table:
    """Say what one of each feature costs, and what share of all busy time it has."""
    costs = balance.costs
    held = [seconds_by_feature(costs, load).sum(axis=0) for load in balance.loads]
    constant = sum(len(load.seconds) for load in balance.loads) * costs.constant
    total = float(np.sum(held)) + constant or math.nan
    rows = [
        (visible(name), f"{seconds:.4g}", f"{error:.2g}" if math.isfinite(error) else "–", percent(share / total))
        for name, seconds, error, share in zip(
            costs.features, costs.seconds, costs.standard_errors, np.sum(held, axis=0), strict=True
        )
    ]
    if costs.constant:
        rows.append(("each rank, whatever it holds", f"{costs.constant:.4g}", "", percent(constant / total)))
    whose = f" of {visible(balance.participant)}" if balance.participant else ""
    header = ("feature", "seconds", "standard error", "of all busy time")
    return Table(f"What one of each feature costs the ranks{whose} per time window", header, tuple(rows))


def _facts(balance: Balance) -> list[tuple[str, str]]:
    runs = ", ".join(plural(len(load.seconds), "rank") for load in balance.loads[:_MOST])
    runs += ", …" if len(balance.loads) > _MOST else ""
    facts = [
        ("busy seconds", f"{balance.basis}; {plural(len(balance.loads), 'run')} ({runs})"),
        ("unexplained", f"{percent(balance.costs.unexplained)} of the busy seconds (root mean square)"),
        ("imbalance now", f"{percent(imbalance(balance.busy(balance.worst)))}, (max - min)/max{_run_text(balance)}"),
    ]
    if (partition := balance.partition) is not None:
        now, what = balance.now
        unit = seconds_unit([*now, *partition.seconds])
        gain = now.max() / partition.seconds.max()
        facts += [
            ("imbalance after", f"{percent(imbalance(partition.seconds))}, by the fitted costs"),
            (
                "slowest rank",
                f"{unit.text(float(now.max()))} per time window ({what}), {unit.text(float(partition.seconds.max()))} "
                f"expected: {gain:.2f} times as fast",
            ),
        ]
    return facts


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
    parts = seconds_by_feature(costs, load)
    left = residuals(costs, load)
    unit = seconds_unit(seconds)
    constant = [unit.number(costs.constant)] if costs.constant else []
    rows = [
        (str(rank), unit.number(seconds[rank]), *map(unit.number, parts[rank]), *constant, unit.number(left[rank]))
        for rank in shown
    ]
    header = (
        "rank",
        f"busy, {unit.symbol}",
        *map(visible, costs.features),
        *["each rank"] * bool(constant),
        "unexplained",
    )
    which = (
        "" if len(shown) == len(order) else f", the {_MOST} slowest and {_MOST} fastest of {plural(len(order), 'rank')}"
    )
    return Table(f"What ranks{_run_text(balance)} spend a time window on{which}", header, tuple(rows))


def _partition(balance: Balance) -> Table:
    partition = balance.partition
    assert partition is not None
    unit = seconds_unit([*partition.seconds, *partition.equal_seconds])
    rows = tuple(
        (
            name,
            *(unit.number(float(value)) for value in (each.max(), each.mean(), each.min())),
            percent(imbalance(each)),
        )
        for name, each in (("as many cells", partition.equal_seconds), ("equal cost", partition.seconds))
    )
    title = (
        f"{plural(len(partition.rank_of), 'cell')} on {plural(len(partition.seconds), 'rank')} by "
        f"{partition.partitioner}, seconds per time window by the fitted costs"
    )
    return Table(title, ("each rank has", f"slowest, {unit.symbol}", "mean", "fastest", "imbalance"), rows)


def write_inside(balance: Balance, directory: str | Path) -> list[Path]:
    """Write inside.json, and the files of a partition where there is one, into a directory."""
    contents = {INSIDE_NAME: json_text(balance.to_dict()).encode()}
    if (partition := balance.partition) is not None:
        contents |= partition_files(partition.cells, partition.weights, partition.rank_of)
    return write_files(directory, contents, "the partition")
