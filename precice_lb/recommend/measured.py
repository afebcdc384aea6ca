"""Measured splits as candidates: what they took, and which of them is best."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset import MeasuredRun
from precice_lb.recommend.case import Case
from precice_lb.recommend.compare import Reference
from precice_lb.recommend.decide import Decision, Question
from precice_lb.recommend.gate import Comparison, points_of_case
from precice_lb.recommend.outlook import Outlook
from precice_lb.recommend.records import Alternative

__all__ = ["best_measured", "compute_seconds_at", "measured_alternatives", "measured_faster"]

Array = NDArray[np.float64]

# Combinations of measured rank counts that are looked at.
_COMBINATIONS = 4096
# A measured split is called faster than another one beyond so many standard errors of both.
_ERRORS = 2.0


def best_measured(
    question: Question, case: Case, decision: Decision, comparisons: Sequence[Comparison]
) -> tuple[Comparison | None, dict[tuple[int, ...], Comparison]]:
    """Find the measured split with the shortest window within budget and bounds."""
    names = question.schedule.participants
    found = _of_runs(question, case, comparisons) if comparisons else _of_points(question, case, decision.task.outlook)
    known = {tuple(each.split[name] for name in names): each for each in found}
    fastest = sorted(found, key=lambda each: each.measured)
    return next((each for each in fastest if _fits(question, decision, each.split)), None), known


def measured_faster(best: Comparison, chosen: Comparison | None, predicted: float) -> bool:
    """Whether the best measured split is faster than the chosen one, beyond noise."""
    seconds, error = (predicted, 0.0) if chosen is None else (chosen.measured, chosen.standard_error)
    return math.log(seconds / best.measured) > _ERRORS * math.hypot(error, best.standard_error)


def measured_alternatives(
    known: Mapping[tuple[int, ...], Comparison], others: Mapping[str, Reference], window: float
) -> tuple[dict[str, Alternative], list[str]]:
    """Compare with other splits that were measured; of the others nothing is known."""
    alternatives, warnings = {}, []
    for kind, (other, meant) in others.items():
        measured = known.get(tuple(other.values()))
        if measured is None:
            warnings.append(f"The {kind} split is not compared: it was not measured, and no model is used.")
        else:
            seconds = measured.measured
            alternatives[kind] = Alternative(other, seconds, seconds / window - 1, meant=meant)
    return alternatives, warnings


def compute_seconds_at(measured: Comparison) -> dict[str, Array]:
    """Compute seconds as curves of one."""
    return {name: np.array([seconds]) for name, seconds in measured.own.items()}


def _of_runs(question: Question, case: Case, comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Measured windows, with compute seconds that do not sum to more than they leave room for."""
    found = []
    for each in comparisons:
        group = [run for run in case.measurements.runs if _same(run, each.split)]
        own = {name: float(np.median([run.compute_seconds[name] for run in group])) for name in each.split}
        steady = float(question.schedule.window_seconds(own))
        scale = min(1.0, each.measured / steady) if steady > 0 else 1.0
        found.append(dataclasses.replace(each, own={name: seconds * scale for name, seconds in own.items()}))
    return found


def _same(run: MeasuredRun, split: Mapping[str, int]) -> bool:
    return all(run.split.get(name) == ranks for name, ranks in split.items())


def _of_points(question: Question, case: Case, outlook: Outlook) -> list[Comparison]:
    """Put measured points of the participants together; none where there are too many ways."""
    names = question.schedule.participants
    points = {name: points_of_case(case, name) for name in names}
    known = {name: each for name, each in points.items() if each is not None}
    if len(known) < len(names) or math.prod(len(each.ranks) for each in known.values()) > _COMBINATIONS:
        return []
    at = np.array(list(itertools.product(*(range(len(known[name].ranks)) for name in names))))
    own = {name: known[name].seconds[column] for name, column in zip(names, at.T, strict=True)}
    errors = np.max([known[name].errors[column] for name, column in zip(names, at.T, strict=True)], axis=0)
    windows = outlook.seconds(own)
    own = outlook.mean_own(own)
    ranks = {name: known[name].ranks[column].astype(int) for name, column in zip(names, at.T, strict=True)}
    return [
        Comparison(
            {name: int(ranks[name][row]) for name in names},
            float(windows[row]),
            float(errors[row]),
            math.nan,
            (),
            {name: float(own[name][row]) for name in names},
        )
        for row in range(len(at))
    ]


def _fits(question: Question, decision: Decision, split: Mapping[str, int]) -> bool:
    bounds = ((question.lowest[name], ranks, question.highest[name]) for name, ranks in split.items())
    return all(low <= ranks <= high for low, ranks, high in bounds) and decision.task.fits(split, decision.target)
