"""Which version of each participant: one recommendation for each combination of them, and the best of these."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from precice_lb.dataset import Measurements
from precice_lb.exceptions import DataError, InfeasibleError, ModelError
from precice_lb.recommend.plan import FailedSplit, Prefer
from precice_lb.recommend.remarks import outside, remark
from precice_lb.recommend.result import Recommendation, VersionChoice, versions_text
from precice_lb.split import Machine
from precice_lb.split.optimize import weight_of_time
from precice_lb.text import for_versions, key_of

# Beyond what was measured a combination wins if it is faster with this probability.
SURE = 0.9


def best_version(
    recommend: Callable[..., Recommendation],
    measurements: Measurements,
    machine: Machine,
    failed: Sequence[Mapping[str, int] | FailedSplit],
    bounds: Mapping[str, Any],
    present: Mapping[str, int | str] | None,
    prefer: Prefer | None,
) -> Recommendation:
    """Decide between the combinations of the versions that were measured.

    Each of them gets a recommendation of its own, from the rows of these versions alone and with the same seed: curves
    of a participant that is the same in two combinations are the same draws. The combination with the shortest mean
    window wins (or what ``prefer`` weighs). One whose ranks lie beyond what was measured wins only if it is surely
    faster than the best one that was measured there.
    """
    machine.require_names({name: set(measurements.versions.get(name, ())) for name in measurements.frames})
    for name, count in (present or {}).items():
        if isinstance(count, str) and name in measurements.versions:
            raise DataError(f"present split: expected the cores of {name}, which has versions, found {count}")
    able: list[tuple[dict[str, str], Recommendation]] = []
    unable: list[VersionChoice] = []
    problems: list[Exception] = []
    for versions in measurements.combinations:
        of_these = {
            key: for_versions(value, versions) if isinstance(value, Mapping) else value for key, value in bounds.items()
        }
        failures = [split for split in failed if not isinstance(split, FailedSplit) or split.is_of(versions)]
        try:
            rows, demands = measurements.of_versions(versions), machine.of_versions(versions)
            able.append((versions, recommend(rows, demands, failures, **of_these)))
        except (DataError, InfeasibleError, ModelError) as problem:
            problems.append(problem)
            unable.append(VersionChoice(versions, str(problem)))
    if not able:
        raise problems[0]
    able.sort(key=lambda entry: _price(entry[1], prefer))
    (versions, best), doubts = able[0], []
    measured = next((entry for entry in able if not _extrapolates(entry[1])), able[0])
    windows = best.expected.window(best.split)
    if measurements.runs and measured is not able[0] and np.mean(windows < measured[1].window_seconds) < SURE:
        known = {"seconds": best.window_seconds, "measured": measured[1].window_seconds}
        names = {"versions": versions_text(versions), "instead": versions_text(measured[0])}
        doubts.append(remark("version-unsure", **names, **known))
        versions, best = measured
    doubts += [
        remark("version-not-compared", versions=versions_text(other.versions), why=other.problem) for other in unable
    ]
    able.sort(key=lambda entry: entry[1] is not best)
    choices = [
        VersionChoice(
            of_other,
            split=other.split,
            layouts={name: kind.of(other.split[name]) for name, kind in other.layouts.items()},
            used=other.used,
            window_seconds=other.window_seconds,
            interval=other.interval,
            gain=1 - best.window_seconds / other.window_seconds,
            probability=math.nan if other is best else _faster(best, other),
        )
        for of_other, other in able
    ]
    warnings = (*best.warnings, *doubts)
    return dataclasses.replace(best, versions=dict(versions), choices=(*choices, *unable), warnings=warnings)


def _price(result: Recommendation, prefer: Prefer | None) -> float:
    """Give what is to be small: the window's logarithm, weighed against that of the core-hours."""
    weight = weight_of_time("time" if prefer is None else prefer)
    cores = result.used.get("cores", sum(result.split.values()))
    return math.log(result.window_seconds) + (1.0 - weight) * math.log(cores)


def _extrapolates(result: Recommendation) -> bool:
    return any(outside(ranks, result.measurements.samples[name][:, 0]) for name, ranks in result.split.items())


def _faster(best: Recommendation, other: Recommendation) -> float:
    """Probability that the best one is faster, over the same draws; NaN where there are none."""
    fast, slow = (result.expected.window(result.split) for result in (best, other))
    return float(np.mean(fast < slow)) if len(fast) == len(slow) > 1 else math.nan


def without_unmeasured(demands: Machine, measurements: Measurements) -> Machine:
    """Leave out what a study says of versions that were not measured."""
    known = {key_of(name, version) for name, rows in measurements.versions.items() for version in rows}
    mappings = {key: value for key, value in vars(demands).items() if isinstance(value, Mapping)}
    changed: dict[str, Any] = {
        key: {who: entry for who, entry in value.items() if ":" not in who or who in known}
        for key, value in mappings.items()
    }
    return dataclasses.replace(demands, **changed)
