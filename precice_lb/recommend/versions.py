"""Which version of each participant: one recommendation for each combination of them, and the best of these."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from precice_lb.dataset import Measurements
from precice_lb.exceptions import DataError, InfeasibleError, ModelError
from precice_lb.names import for_versions, key_of
from precice_lb.recommend.plan import FailedSplit, Prefer
from precice_lb.recommend.remarks import outside
from precice_lb.recommend.result import Recommendation, VersionChoice, versions_text
from precice_lb.split import Machine
from precice_lb.split.tradeoff import weight_of_time

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
    choices: list[VersionChoice] = []
    problems: list[Exception] = []
    for versions in measurements.combinations:
        own = {
            key: for_versions(value, versions) if isinstance(value, Mapping) else value for key, value in bounds.items()
        }
        speaking = [each for each in failed if not isinstance(each, FailedSplit) or each.is_of(versions)]
        try:
            found = recommend(measurements.of_versions(versions), machine.of_versions(versions), speaking, **own)
            choices.append(VersionChoice(versions, found))
        except (DataError, InfeasibleError, ModelError) as problem:
            problems.append(problem)
            choices.append(VersionChoice(versions, None, problem=str(problem)))
    able = [choice for choice in choices if choice.recommendation is not None]
    if not able:
        raise problems[0]
    return _decided(sorted(able, key=lambda choice: _price(choice, prefer)), choices, bool(measurements.runs))


def _decided(able: Sequence[VersionChoice], choices: Sequence[VersionChoice], ran: bool) -> Recommendation:
    """Take the first choice, unless it is not sure to be faster than the first one that was measured there."""
    first, doubts = able[0], []
    sure = next((each for each in able if not _extrapolates(each)), first)
    windows = first.found.expected.window(first.found.split)
    if ran and sure is not first and np.mean(windows < sure.found.window_seconds) < SURE:
        doubts.append(
            f"{versions_text(first.versions)} is predicted at {first.found.window_seconds:.4g} s per window, beyond "
            f"the ranks that were measured and not surely less than the {sure.found.window_seconds:.4g} s with "
            f"{versions_text(sure.versions)}, which is recommended. To know more, measure it there."
        )
        first = sure
    best = first.found
    others = [
        dataclasses.replace(
            each,
            gain=1 - best.window_seconds / each.found.window_seconds,
            probability=math.nan if each is first else _faster(best, each.found),
        )
        for each in able
    ]
    others.sort(key=lambda each: each.versions != first.versions)
    doubts += [
        f"{versions_text(each.versions)} is not compared: {each.problem}."
        for each in choices
        if each.recommendation is None
    ]
    return dataclasses.replace(
        best,
        versions=dict(first.versions),
        choices=(*others, *(each for each in choices if each.recommendation is None)),
        warnings=(*best.warnings, *doubts),
    )


def _price(choice: VersionChoice, prefer: Prefer | None) -> float:
    """Give what is to be small: the window's logarithm, weighed against that of the core-hours."""
    found = choice.found
    weight = weight_of_time("time" if prefer is None else prefer)
    cores = found.used.get("cores", sum(found.split.values()))
    return math.log(found.window_seconds) + (1.0 - weight) * math.log(cores)


def _extrapolates(choice: VersionChoice) -> bool:
    found = choice.found
    return any(outside(ranks, found.measurements.samples[name][:, 0]) for name, ranks in found.split.items())


def _faster(best: Recommendation, other: Recommendation) -> float:
    """Probability that the best one is faster, over the same draws; NaN where there are none."""
    own, theirs = (each.expected.window(each.split) for each in (best, other))
    return float(np.mean(own < theirs)) if len(own) == len(theirs) > 1 else math.nan


def without_unmeasured(demands: Machine, measurements: Measurements) -> Machine:
    """Leave out what a study says of versions that were not measured."""
    known = {key_of(name, version) for name, rows in measurements.versions.items() for version in rows}
    changed: dict[str, Any] = {}
    for field in dataclasses.fields(demands):
        value = getattr(demands, field.name)
        if isinstance(value, Mapping):
            changed[field.name] = {key: entry for key, entry in value.items() if ":" not in key or key in known}
    return dataclasses.replace(demands, **changed)
