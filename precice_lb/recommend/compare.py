"""What is recommended beside other splits, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import InfeasibleError
from precice_lb.plural import plural
from precice_lb.recommend.limits import Limits
from precice_lb.recommend.machine import Room
from precice_lb.recommend.records import Alternative
from precice_lb.recommend.tables import Table, best_ranks
from precice_lb.recommend.task import Task

__all__ = ["Reference", "compared", "rank_intervals", "reference_splits", "window_interval"]

# A split to compare with, and the one that was meant where the bounds do not allow that.
Reference = tuple[dict[str, int], dict[str, int]]


def reference_splits(
    limits: Limits, names: tuple[str, ...], unknowns: Mapping[str, float], present: dict[str, int] | None
) -> tuple[dict[str, Reference], list[str]]:
    """Give the splits that people use: equal, in proportion to unknowns where all are known, the present one."""
    weights = {"equal": dict.fromkeys(names, 1.0)}
    if min(unknowns.get(name, 0.0) for name in names) > 0:
        weights["degrees-of-freedom"] = {name: unknowns[name] for name in names}
    others: dict[str, Reference] = {}
    warnings = []
    for kind, each in weights.items():
        if limits.constraints is not None and limits.constraints.shared:
            warnings.append(f"The {kind} split is not compared: where participants share cores there is no such split.")
            continue
        try:
            meant, possible = limits.in_proportion(each)
        except InfeasibleError as error:
            warnings.append(f"The {kind} split is not compared: {error}.")
            continue
        others[kind] = (possible, meant if meant != possible else {})
    return others | ({"present": (present, {})} if present else {}), warnings


def compared(
    task: Task,
    windows: NDArray[np.float64],
    others: Mapping[str, Reference],
    models: Mapping[str, Any],
    believed: Mapping[str, tuple[int, int]],
) -> tuple[dict[str, Alternative], list[str]]:
    """Compare the recommended split with others, curve by curve."""
    window = float(windows.mean())
    alternatives, warnings = {}, []
    for kind, (other, meant) in others.items():
        doubtful = [
            name
            for name, model in models.items()
            if not getattr(model, "always_valid", False) and not believed[name][0] <= other[name] <= believed[name][1]
        ]
        if doubtful:
            name = doubtful[0]
            low, high = believed[name]
            warnings.append(
                f"The {kind} split is not compared: the model of {name} can be believed from {low} to "
                f"{plural(high, 'rank')}, not at {other[name]}."
            )
            continue
        seconds = task.outlook.window(other)
        # The same split is not faster, whatever rounding says.
        faster = float((windows < seconds * (1 - 1e-12)).mean()) if task.outlook.is_uncertain else float("nan")
        mean = float(seconds.mean())
        alternatives[kind] = Alternative(other, mean, mean / window - 1, faster, meant)
    return alternatives, warnings


def window_interval(
    models: Mapping[str, Any], task: Task, split: Mapping[str, int], windows: NDArray[np.float64], level: float
) -> tuple[float, float]:
    """Give quantiles over drawn curves; else the window times of all low and all high bounds, as it is monotone."""
    outlook = task.outlook
    if outlook.is_uncertain:
        low, high = np.quantile(windows, [(1 - level) / 2, (1 + level) / 2])
    elif all(hasattr(model, "predict_interval") for model in models.values()):
        ranks = {name: np.array([[split[name]]], dtype=np.float64) for name in models}
        bounds = {name: model.predict_interval(ranks[name], level) for name, model in models.items()}
        # The curves of the outlook have it, the models' bounds do not.
        slower = {name: 1.0 if task.constraints is None else 1.0 + task.constraints.overhead(name) for name in models}
        low, high = (
            float(
                outlook.seconds(
                    {name: np.array(max(float(pair[side][0]), 0.0) * slower[name]) for name, pair in bounds.items()}
                )
            )
            for side in (0, 1)
        )
    else:
        return float("nan"), float("nan")
    return float(low), float(high)


def rank_intervals(
    task: Task, tables: Mapping[str, Table | None], split: Mapping[str, int], level: float, limits: Limits
) -> dict[str, tuple[int, int]]:
    """Give quantiles of the ranks that would be best for each set of drawn curves; nothing where none are drawn.

    They keep within the bounds, and are counts that are possible. Whole nodes are left aside: what would be best if
    ranks could be divided freely is rounded to a possible count.
    """
    known = {name: table for name, table in tables.items() if table is not None}
    budget = task.budget
    if task.constraints is not None:
        room = Room(task.constraints, task.budget)
        if room.common_threads is None or task.constraints.shared or task.constraints.fixed:
            return {}
        budget = room.cores // room.common_threads
    if len(known) < len(tables):
        return {}
    spare = max(budget - sum(split.values()), 0)
    best = best_ranks(known, task.outlook.schedule, split, task.first, spare, task.last)
    edges = [(1 - level) / 2, (1 + level) / 2]
    intervals = {}
    for name, ranks in best.items():
        counts = limits.counts(name)
        low, high = np.quantile(_nearest(ranks, counts), edges, method="nearest")
        # The recommended count is the best in the mean, which few curves need be: it never stands outside.
        intervals[name] = (min(int(low), split[name]), max(int(high), split[name]))
    return intervals


def _nearest(ranks: NDArray[np.float64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Round to the nearest of some rising counts."""
    right = np.searchsorted(counts, ranks).clip(0, len(counts) - 1)
    left = np.maximum(right - 1, 0)
    return np.asarray(np.where(ranks - counts[left] < counts[right] - ranks, counts[left], counts[right]))
