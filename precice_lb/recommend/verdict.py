"""Which decision stands beside the measurements: a model's, or the best measured split."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from precice_lb.exceptions import InfeasibleError, ModelError, PreciceLBError
from precice_lb.models import make_learner
from precice_lb.plural import counts_text, plural
from precice_lb.recommend.case import Case, fit_model
from precice_lb.recommend.compare import Reference
from precice_lb.recommend.decide import Decision, Question, decide
from precice_lb.recommend.gate import Comparison, compared_with_measured, fallbacks, points_of_case, trusted_model
from precice_lb.recommend.limits import outside
from precice_lb.recommend.plan import Alternative
from precice_lb.recommend.posterior import ExpectedWindowTime

__all__ = ["measured_alternatives", "trusted_decision"]

# Splits that contradict a model and are named.
_NAMED = 3
# Combinations of measured rank counts that are looked at.
_COMBINATIONS = 4096
# A measured split is called faster than another one beyond so many standard errors of both.
_ERRORS = 2.0


def trusted_decision(question: Question, prototype: Any) -> Decision:
    """Decide by the first models that agree with the measurements, or by the measurements alone."""
    names, case = question.schedule.participants, question.case
    fitted = {name: trusted_model(case, name, fallbacks(case, name, prototype)) for name in names}
    rejections = tuple(rejected for _, rejected in fitted.values() if rejected is not None)
    warnings = [each.text for each in rejections]
    crowded = {run.crowding: counts_text(run.split) for run in case.measurements.runs if run.crowding}
    warnings += [f"{split}: {text}; such times say little of cores of their own." for text, split in crowded.items()]
    tried: list[tuple[Decision, list[Comparison]]] = []
    failure: PreciceLBError | None = None
    agrees = False
    for models in ({name: model for name, (model, _) in fitted.items()}, None):
        try:
            interpolate = make_learner("interpolation")
            decision = decide(question, models or {name: fit_model(case, name, interpolate) for name in names})
        except (InfeasibleError, ModelError) as error:
            if not tried and not rejections:
                # Nothing speaks against what was asked for: its own reason is the better one.
                raise
            failure = failure or error
            continue
        comparisons = compared_with_measured(decision.problem.expected, case.measurements.runs)
        tried.append((decision, comparisons))
        agrees = decision.is_sound and all(each.agrees for each in comparisons)
        if agrees:
            break
    if not tried:
        raise ModelError(
            f"{' '.join(warnings)} Between the measurements there is no split within the bounds: {failure}"
        ) from failure
    decision, comparisons = tried[-1]
    if agrees and len(tried) > 1:
        warnings.append(f"{_why(*tried[0])} The measurements are interpolated instead.")
    best, known = _best_measured(question, decision, comparisons)
    found: dict[str, Any] = {"comparisons": tuple(comparisons), "known": known, "rejections": rejections}
    key = tuple(decision.split[name] for name in names)
    beyond = _beyond_runs(decision, comparisons)
    unproved = best is not None and beyond is not None and decision.interval[1] >= best.measured
    if agrees and not unproved and (best is None or not _measured_faster(best, known.get(key), decision.window)):
        if best is not None and best.split != decision.split and best.measured < decision.window:
            warnings.append(
                f"{counts_text(best.split)} was measured at {best.measured:.4g} s per window, less than the "
                f"{decision.window:.4g} s predicted for the recommended split; noise may explain that: repeat both."
            )
        return dataclasses.replace(decision, warnings=tuple(warnings), **found)
    if best is None:
        raise ModelError(
            f"{_why(decision, comparisons)} No measured split is within the budget and bounds; measure some that are"
        )
    if agrees and unproved:
        low, high = decision.interval
        warnings.append(
            f"{counts_text(decision.split)} would extrapolate: {beyond}. Predicted are {low:.4g} to {high:.4g} s per "
            f"window, which is not surely less than the {best.measured:.4g} s measured with {counts_text(best.split)}: "
            f"recommended is what was measured. To know more, measure {counts_text(decision.split)}."
        )
    elif agrees:
        warnings.append(
            f"{counts_text(decision.split)} is predicted at {decision.window:.4g} s per window, but "
            f"{counts_text(best.split)} was measured at {best.measured:.4g} s: recommended is what was measured."
        )
    else:
        again = f"measure {counts_text(best.split)} again"
        if decision.split != best.split:
            again += f", and {counts_text(decision.split)}, which interpolation would choose"
        warnings.append(
            f"{_why(decision, comparisons)} No model is used: recommended is the best measured split. To know more, "
            f"{again}."
        )
    return dataclasses.replace(
        decision, basis="measured", split=dict(best.split), windows=np.array([best.measured]), gap=math.nan,
        own={name: np.array([seconds]) for name, seconds in best.own.items()}, interval=best.interval(question.level),
        warnings=tuple(warnings), **found,
    )  # fmt: skip


def _beyond_runs(decision: Decision, comparisons: Sequence[Comparison]) -> str | None:
    """Say which participant has ranks beyond those of all recorded runs; None where none has, or nothing ran."""
    for name, ranks in decision.split.items() if comparisons else ():
        if known := outside(ranks, [each.split[name] for each in comparisons]):
            return f"{name} ran on {known[0]} to {plural(known[1], 'rank')}"
    return None


def _why(decision: Decision, comparisons: Sequence[Comparison]) -> str:
    """Say which measured windows contradict a decision, or what else is wrong with it."""
    wrong = [each for each in comparisons if not each.agrees]
    if not wrong:
        low, high = decision.interval
        return (
            f"The predicted window of {counts_text(decision.split)}, {decision.window:.4g} s in the mean, lies outside "
            f"of its own interval ({low:.4g} to {high:.4g} s): a few possible curves decide it."
        )
    worst = sorted(wrong, key=lambda each: each.excess, reverse=True)[:_NAMED]
    text = "; ".join(
        f"{counts_text(each.split)} took {each.measured:.4g} s per window, predicted are {each.predicted:.4g} s"
        for each in worst
    )
    more = f" (and {len(wrong) - len(worst)} more)" if len(wrong) > len(worst) else ""
    text = f"Measured windows contradict the prediction by more than noise: {text}{more}."
    if any(each.predicted > each.measured for each in worst):
        text += (
            " Where work sums to more than a window, participants share cores and waiting looks like work: pin the "
            "ranks of each to cores of their own."
        )
    return text


def _best_measured(
    question: Question, decision: Decision, comparisons: Sequence[Comparison]
) -> tuple[Comparison | None, dict[tuple[int, ...], Comparison]]:
    """Find the measured split with the shortest window within budget and bounds."""
    names = question.schedule.participants
    found = comparisons or _of_points(question.case, decision.problem.expected)
    known = {tuple(each.split[name] for name in names): each for each in found}
    fastest = sorted(found, key=lambda each: each.measured)
    return next((each for each in fastest if _fits(question, decision, each.split)), None), known


def _measured_faster(best: Comparison, chosen: Comparison | None, predicted: float) -> bool:
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


def _of_points(case: Case, expected: ExpectedWindowTime) -> list[Comparison]:
    """Put measured points of the participants together; none where there are too many ways."""
    names = expected.names
    points = {name: points_of_case(case, name) for name in names}
    known = {name: each for name, each in points.items() if each is not None}
    if len(known) < len(names) or math.prod(len(each.ranks) for each in known.values()) > _COMBINATIONS:
        return []
    at = np.array(list(itertools.product(*(range(len(known[name].ranks)) for name in names))))
    own = {name: known[name].seconds[column] for name, column in zip(names, at.T, strict=True)}
    errors = np.max([known[name].errors[column] for name, column in zip(names, at.T, strict=True)], axis=0)
    windows = expected.seconds(own)
    own = expected.mean_own(own)
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
    low, high = question.limits.lowest, question.limits.highest
    within = all(low[name] <= ranks <= high[name] for name, ranks in split.items())
    return within and decision.problem.fits(split, decision.budget)
