"""Which decision stands beside the measurements: a model's, or the best measured split."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import InfeasibleError, ModelError, PreciceLBError
from precice_lb.models import make_learner
from precice_lb.plural import plural
from precice_lb.recommend.bounds import outside
from precice_lb.recommend.case import Case
from precice_lb.recommend.decide import Decision, Question, decide
from precice_lb.recommend.gate import Comparison, Rejection, compared_with_measured, fallbacks, trusted_model
from precice_lb.recommend.learn import fit_model
from precice_lb.recommend.measured import best_measured, compute_seconds_at, measured_faster

__all__ = ["Verdict", "trusted_decision"]

Array = NDArray[np.float64]

# Splits that contradict a model and are named.
_NAMED = 3


@dataclasses.dataclass(frozen=True, eq=False)
class Verdict:
    """A decision that does not contradict what was measured."""

    # Of the models that come nearest to the measurements.
    decision: Decision
    # Whether that decision stands, or the best measured split does in its place.
    basis: str
    # The recommended one.
    split: dict[str, int]
    # Mean compute seconds of each participant there.
    own: dict[str, Array]
    # Seconds per window.
    windows: Array
    # Of the window time.
    interval: tuple[float, float]
    # Measured splits beside what the models say.
    comparisons: tuple[Comparison, ...]
    # Splits whose window time is known without a model.
    known: dict[tuple[int, ...], Comparison]
    # Models that are not used.
    rejections: tuple[Rejection, ...]
    # What was found.
    warnings: tuple[str, ...]


def trusted_decision(question: Question, case: Case, prototype: Any) -> Verdict:
    """Decide by the first models that agree with the measurements, or by the measurements alone."""
    names = question.schedule.participants
    fitted = {name: trusted_model(case, name, fallbacks(case, name, prototype)) for name in names}
    rejections = tuple(rejected for _, rejected in fitted.values() if rejected is not None)
    warnings = [each.text for each in rejections]
    crowded = {run.crowding: _said(run.split) for run in case.measurements.runs if run.crowding}
    warnings += [f"{split}: {text}; such times say little of cores of their own." for text, split in crowded.items()]
    tried: list[tuple[Decision, list[Comparison]]] = []
    failure: PreciceLBError | None = None
    agrees = False
    for models in ({name: model for name, (model, _) in fitted.items()}, None):
        try:
            decision = decide(question, _interpolations(case, names) if models is None else models)
        except (InfeasibleError, ModelError) as error:
            if not tried and not rejections:
                # Nothing speaks against what was asked for: its own reason is the better one.
                raise
            failure = failure or error
            continue
        comparisons = compared_with_measured(decision.task.outlook, case.measurements.runs)
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
    best, known = best_measured(question, case, decision, comparisons)
    key = tuple(decision.split[name] for name in names)
    beyond = _beyond_runs(decision, comparisons)
    unproved = best is not None and beyond is not None and decision.interval[1] >= best.measured
    if agrees and not unproved and (best is None or not measured_faster(best, known.get(key), decision.window)):
        if best is not None and best.split != decision.split and best.measured < decision.window:
            warnings.append(
                f"{_said(best.split)} was measured at {best.measured:.4g} s per window, less than the "
                f"{decision.window:.4g} s predicted for the recommended split; noise may explain that: repeat both."
            )
        shown = (decision.task.outlook.mean_own(decision.own), decision.windows, decision.interval)
        return Verdict(
            decision, "model", decision.split, *shown, tuple(comparisons), known, rejections, tuple(warnings)
        )
    if best is None:
        raise ModelError(
            f"{_why(decision, comparisons)} No measured split is within the budget and bounds; measure some that are"
        )
    if agrees and unproved:
        low, high = decision.interval
        warnings.append(
            f"{_said(decision.split)} would extrapolate: {beyond}. Predicted are {low:.4g} to {high:.4g} s per window, "
            f"which is not surely less than the {best.measured:.4g} s measured with {_said(best.split)}: recommended "
            f"is what was measured. To know more, measure {_said(decision.split)}."
        )
    elif agrees:
        warnings.append(
            f"{_said(decision.split)} is predicted at {decision.window:.4g} s per window, but {_said(best.split)} was "
            f"measured at {best.measured:.4g} s: recommended is what was measured."
        )
    else:
        again = f"measure {_said(best.split)} again"
        if decision.split != best.split:
            again += f", and {_said(decision.split)}, which interpolation would choose"
        warnings.append(
            f"{_why(decision, comparisons)} No model is used: recommended is the best measured split. To know more, "
            f"{again}."
        )
    own, windows = compute_seconds_at(best), np.array([best.measured])
    return Verdict(
        decision, "measured", dict(best.split), own, windows, best.interval(question.level), tuple(comparisons), known,
        rejections, tuple(warnings),
    )  # fmt: skip


def _beyond_runs(decision: Decision, comparisons: Sequence[Comparison]) -> str | None:
    """Say which participant has ranks beyond those of all recorded runs; None where none has, or nothing ran."""
    for name, ranks in decision.split.items() if comparisons else ():
        if known := outside(ranks, [each.split[name] for each in comparisons]):
            return f"{name} ran on {known[0]} to {plural(known[1], 'rank')}"
    return None


def _interpolations(case: Case, names: Sequence[str]) -> dict[str, Any]:
    return {name: fit_model(case, name, make_learner("interpolation")) for name in names}


def _why(decision: Decision, comparisons: Sequence[Comparison]) -> str:
    """Say which measured windows contradict a decision, or what else is wrong with it."""
    wrong = [each for each in comparisons if not each.agrees]
    if not wrong:
        low, high = decision.interval
        return (
            f"The predicted window of {_said(decision.split)}, {decision.window:.4g} s in the mean, lies outside of "
            f"its own interval ({low:.4g} to {high:.4g} s): a few possible curves decide it."
        )
    worst = sorted(wrong, key=lambda each: each.excess, reverse=True)[:_NAMED]
    text = "; ".join(
        f"{_said(each.split)} took {each.measured:.4g} s per window, predicted are {each.predicted:.4g} s"
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


def _said(split: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {ranks}" for name, ranks in split.items())
