"""Readings of one participant at one layout that disagree: one that is far from the others decides nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset.records import Measurements
from precice_lb.dataset.series import OUTLIER_DEVIATIONS, Array
from precice_lb.dataset.versions import of_rows, row_layouts
from precice_lb.plural import plural

# Of logarithms: what a reading differs by from the median of several at least, and from a single other one.
_FAR, _FAR_OF_TWO = 0.3, 0.4
# Seconds over ranks: slopes of their logarithms, and what they scatter around a line through others.
_STEEPEST, _FLATTEST, _SCATTER = -1.1, 0.0, 0.15
# So much farther from what other ranks say than the other of two is the one that is off.
_CLEARLY = 0.25


def without_stragglers(measurements: Measurements) -> Measurements:
    """Leave out readings that are far from others at the same layout, and name them.

    Of three or more that is told by their median and by how far others are from it; of two by the other rank counts, if
    these tell it. Two that disagree and of which nothing tells which is off stay, and are named.
    """
    kept = {name: np.ones(len(rows), dtype=np.bool_) for name, rows in measurements.samples.items()}
    remarks: list[str] = []
    for name, rows in measurements.samples.items():
        # What is refused behind here has no logarithm.
        if not (rows[:, 1] > 0).all():
            continue
        cases = _cases(measurements, name)
        logs = np.log(rows[:, 1])
        errors = np.nan_to_num(measurements.errors(name) / rows[:, 1])
        for repeats in _groups(cases):
            if len(repeats) > 2:
                far = _far_of_many(logs[repeats], errors[repeats])
            elif len(repeats) == 2 and abs(np.diff(logs[repeats])[0]) > max(
                _FAR_OF_TWO, 3 * np.hypot(*errors[repeats])
            ):
                case = cases[repeats[0]]
                others = np.array([other[0] != case[0] and other[1:] == case[1:] for other in cases]) & kept[name]
                far = _far_of_two(logs[repeats], rows[repeats[0], 0], rows[others])
            else:
                continue
            where = f"{name} on {row_layouts(measurements, name)[repeats[0]][1].words}"
            left = np.median(rows[repeats[~far], 1])
            for row in repeats[far].tolist():
                remarks.append(
                    f"{measurements.origin(name, row)}: {rows[row, 1]:.4g} s of {where} is left out, far from "
                    f"{plural(int((~far).sum()), 'other reading')} there (median {left:.4g} s); correct it, or measure "
                    "there again."
                )
            if len(repeats) == 2 and not far.any():
                both = " and ".join(
                    f"{rows[row, 1]:.4g} s ({measurements.origin(name, row)})" for row in repeats.tolist()
                )
                remarks.append(
                    f"{where}: readings of {both} disagree, and nothing tells which is off; measure there again."
                )
            kept[name][repeats[far]] = False
    if not remarks:
        return measurements
    gone = {measurements.origin(name, row) for name, mask in kept.items() for row in np.flatnonzero(~mask).tolist()}
    return dataclasses.replace(
        of_rows(measurements, kept),
        runs=tuple(run for run in measurements.runs if f"run {run.name}" not in gone),
        remarks=(*measurements.remarks, *remarks),
    )


def _cases(measurements: Measurements, name: str) -> list[tuple[object, ...]]:
    """Give what tells the rows apart: cores, then version, threads and parameters."""
    columns = [values.astype(str).tolist() for values in measurements.parameters.get(name, {}).values()]
    layouts = row_layouts(measurements, name)
    return [(layout.cores, key, layout.threads, *more) for (key, layout), *more in zip(layouts, *columns, strict=True)]


def _groups(cases: Sequence[Hashable]) -> list[NDArray[np.intp]]:
    groups: dict[Hashable, list[int]] = {}
    for row, case in enumerate(cases):
        groups.setdefault(case, []).append(row)
    return [np.array(rows) for rows in groups.values()]


def _far_of_many(logs: Array, errors: Array) -> NDArray[np.bool_]:
    gaps = np.abs(logs - np.median(logs))
    # Few lie closer to their own median than to the true one, as in `precice_lb.dataset.series.spread_of`.
    deviation = 1.4826 * float(np.median(gaps)) * len(logs) / (len(logs) - 0.8)
    return np.asarray(gaps > np.maximum(max(_FAR, OUTLIER_DEVIATIONS * deviation), 3 * errors))


def _far_of_two(logs: Array, cores: float, others: Array) -> NDArray[np.bool_]:
    """Tell by the readings at other core counts which of two is off; none if they do not tell it."""
    if not len(others):
        return np.zeros(2, dtype=np.bool_)
    counts = np.unique(others[:, 0])
    seconds = np.array([np.log(np.median(others[others[:, 0] == count, 1])) for count in counts])
    # Each of them tells a range; in the middle of all these one that is off itself decides nothing.
    ends = np.sort(seconds - np.log(counts / cores) * np.array([[_STEEPEST], [_FLATTEST]]), axis=0)
    low, high = np.median(ends, axis=1)
    misses = np.maximum(np.maximum(low - _SCATTER - logs, logs - high - _SCATTER), 0.0)
    return np.asarray((misses == misses.max()) & (misses.max() > _CLEARLY) & (misses.min() == 0))
