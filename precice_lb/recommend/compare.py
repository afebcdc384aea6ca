"""What is recommended beside other splits, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.recommend.machine import Room
from precice_lb.recommend.outlook import Outlook
from precice_lb.recommend.result import Alternative
from precice_lb.recommend.tables import Table, best_ranks
from precice_lb.recommend.task import Task
from precice_lb.split import equal_split, proportional_split

__all__ = ["compared", "rank_intervals", "reference_splits", "window_interval"]


def reference_splits(
    task: Task, unknowns: Mapping[str, float], lowest: Mapping[str, int], present: dict[str, int] | None
) -> dict[str, dict[str, int]]:
    """Give the splits that people use: equal, in proportion to unknowns where all are known, the present one."""
    names = task.outlook.names
    weights = {name: unknowns.get(name, 0.0) for name in names}
    others: dict[str, dict[str, int]] = {}
    if task.constraints is None:
        others["equal"] = equal_split(names, task.budget, lowest)
        if min(weights.values()) > 0:
            others["degrees-of-freedom"] = proportional_split(weights, task.budget, lowest)
    elif not task.constraints.shared and not task.constraints.fixed:
        room = Room(task.constraints, task.budget)
        if room.parts >= len(names):
            others["equal"] = room.split_evenly(names)
            if min(weights.values()) > 0:
                others["degrees-of-freedom"] = room.split_in_proportion(weights)
    return others | ({"present": present} if present else {})


def compared(
    task: Task,
    windows: NDArray[np.float64],
    others: Mapping[str, dict[str, int]],
    models: Mapping[str, Any],
    believed: Mapping[str, tuple[int, int]],
) -> tuple[dict[str, Alternative], list[str]]:
    """Compare the recommended split with others, curve by curve.

    Parameters
    ----------
    task : Task
        What the split was decided by.
    windows : array of shape (curves,)
        Seconds per window of the recommended split.
    others : mapping of str to dict of str to int
        By kind.
    models, believed : mappings from participant to estimator, and to (int, int)
        And the range in which each can be believed.

    Returns
    -------
    alternatives : dict of str to Alternative
    warnings : list of str
        Which were left out, and why.
    """
    window = float(windows.mean())
    alternatives, warnings = {}, []
    for kind, other in others.items():
        doubtful = [
            name
            for name, model in models.items()
            if not getattr(model, "always_believable", False)
            and not believed[name][0] <= other[name] <= believed[name][1]
        ]
        if doubtful:
            name = doubtful[0]
            low, high = believed[name]
            warnings.append(
                f"The {kind} split is not compared: the model of {name} can be believed from {low} to {high} ranks, "
                f"not at {other[name]}."
            )
            continue
        seconds = task.outlook.window(other)
        # The same split is not faster, whatever rounding says.
        faster = float((windows < seconds * (1 - 1e-12)).mean()) if task.outlook.is_uncertain else float("nan")
        alternatives[kind] = Alternative(other, float(seconds.mean()), float(seconds.mean()) / window - 1, faster)
    return alternatives, warnings


def window_interval(
    models: Mapping[str, Any], outlook: Outlook, split: Mapping[str, int], windows: NDArray[np.float64], level: float
) -> tuple[float, float]:
    """Give quantiles over drawn curves; else the window times of all low and all high bounds, as it is monotone."""
    if outlook.is_uncertain:
        low, high = np.quantile(windows, [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)
    if not all(hasattr(model, "predict_interval") for model in models.values()):
        return float("nan"), float("nan")
    bounds = {n: model.predict_interval(np.array([[split[n]]], dtype=np.float64), level) for n, model in models.items()}
    low, high = (
        outlook.seconds({name: np.array(max(float(pair[side][0]), 0.0)) for name, pair in bounds.items()})
        for side in (0, 1)
    )
    return float(low), float(high)


def rank_intervals(
    task: Task, tables: Mapping[str, Table | None], split: Mapping[str, int], level: float
) -> dict[str, tuple[int, int]]:
    """Give quantiles of the ranks that would be best for each set of drawn curves; nothing where none are drawn.

    Whole nodes, multiples and lists of counts are left aside: what would be best if any number were possible.
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
    best = best_ranks(known, task.outlook.schedule, split, task.first, max(budget - sum(split.values()), 0))
    edges = [(1 - level) / 2, (1 + level) / 2]
    ends = {name: np.quantile(ranks, edges, method="nearest") for name, ranks in best.items()}
    return {name: (int(low), int(high)) for name, (low, high) in ends.items()}
