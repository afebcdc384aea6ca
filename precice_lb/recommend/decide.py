"""From fitted models to a decision that stands beside the measurements: a model's split, or the best measured one."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import InfeasibleError, ModelError, PreciceLBError
from precice_lb.models import make_learner, valid_range
from precice_lb.recommend.case import Case, fit_model
from precice_lb.recommend.compare import Reference, Table, grid_of_ranks, window_interval
from precice_lb.recommend.gate import (
    Comparison,
    Rejection,
    compared_points,
    compared_with_measured,
    trusted_model,
    with_fallback,
)
from precice_lb.recommend.limits import Limits, outside
from precice_lb.recommend.plan import Alternative, Prefer, Tradeoff, tradeoff_of
from precice_lb.recommend.posterior import Curves, ExpectedWindowTime, SplitProblem, curves_of
from precice_lb.schedule import Schedule
from precice_lb.split import SplitResult

Array = NDArray[np.float64]

# Splits that contradict a model and are named.
NAMED = 3
# A measured split is called faster than another one beyond so many standard errors of both.
ERRORS = 2.0
# Beyond the ranks of all runs a split is recommended where an interval of this level lies below the best measured one.
SURE = 0.95


@dataclasses.dataclass(frozen=True, eq=False)
class Question:
    """What is to be decided, apart from the models."""

    schedule: Schedule
    case: Case
    # Ranks and seconds of this case by participant, shape (n, 2).
    samples: dict[str, Array]
    limits: Limits
    # Up to which ranks a curve has to be known.
    reach: dict[str, int]
    # Of all that is drawn.
    seed: int
    level: float
    # As of `precice_lb.recommend.recommend_split`.
    prefer: Prefer | None
    within: float | None


@dataclasses.dataclass(frozen=True, eq=False)
class Decision:
    """What models say, and how it stands beside the measurements."""

    models: dict[str, Any]
    problem: SplitProblem
    # Drawn curves.
    tables: dict[str, Table | None]
    # Range of ranks in which each model is valid.
    valid: dict[str, tuple[int, int]]
    # The best split, and the budget that it was sought for.
    split: dict[str, int]
    budget: int
    # Optimum for the mean curves, with its proof, and by what share the split may be above the best one.
    found: SplitResult
    gap: float
    # Where asked for, with the chosen point.
    tradeoff: Tradeoff | None
    # Mean compute seconds of each participant and seconds per window, shape (curves,).
    own: dict[str, Array]
    windows: Array
    # Of the window time; NaN where unknown.
    interval: tuple[float, float]
    # Whether the split is the models' best one ("model"), or the best measured one in its place ("measured").
    basis: str = "model"
    # Whether models are used: none is where all contradict the measured windows, or their own interval.
    models_trusted: bool = True
    # Measured splits beside what the models say; those whose window time is known without a model.
    comparisons: tuple[Comparison, ...] = ()
    known: Mapping[tuple[int, ...], Comparison] = dataclasses.field(default_factory=dict)
    # Models that are not used, and what was found.
    rejections: tuple[Rejection, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def window(self) -> float:
        """Mean seconds per window."""
        return float(self.windows.mean())

    @property
    def is_sound(self) -> bool:
        """Whether the mean lies within its own interval; a few wild curves may take it out."""
        low, high = self.interval
        return not (self.window < low * (1 - 1e-9) or self.window > high * (1 + 1e-9))


def decide(question: Question, models: dict[str, Any]) -> Decision:
    """Find the split with the least expected window time."""
    schedule, limits, reach, prefer = question.schedule, question.limits, question.reach, question.prefer
    curves = {name: curves_of(models[name], [question.seed, at]) for at, name in enumerate(schedule.participants)}
    tables = {name: _table(models[name], curves[name], reach[name]) for name in curves}
    times = {name: _times(models[name], tables[name], reach[name]) for name in curves}
    valid = {name: _valid(name, models[name], times[name], question.samples[name]) for name in curves}
    recorded = question.case.measurements.recorded
    slowed = {name: _slowed(curve, 1.0 + limits.constraints.overhead(name)) for name, curve in curves.items()}
    expected = ExpectedWindowTime(schedule, slowed, recorded, question.seed)
    problem = SplitProblem(times, curves, expected, limits.within(valid))
    tradeoff = tradeoff_of(problem) if question.within is not None or prefer is not None else None
    chosen = None if tradeoff is None else tradeoff.choose("time" if prefer is None else prefer)
    # Preferring time means all of the budget, whatever the few budgets on the curve are.
    budget = limits.budget if chosen is None or prefer in (None, "time", 1) else chosen.budget
    found = problem.optimum(budget)
    split = problem.improved(found.split, budget)
    typical = expected.own(split)
    windows = expected.seconds(typical)
    interval = window_interval(models, problem, split, windows, question.level)
    steady = float(schedule.window_seconds(typical).mean())
    gap = max(steady * (1 + found.gap) / found.window_seconds - 1, 0.0)
    priced = None if tradeoff is None or chosen is None else (tradeoff, chosen)
    own = expected.mean_own(typical)
    return Decision(models, problem, tables, valid, split, budget, found, gap, priced, own, windows, interval)


def _table(model: Any, curves: Curves, highest: int) -> Table | None:
    """Curves of a learner that draws, on a grid: it is too much to draw them at each of 100,000 ranks."""
    if not hasattr(model, "draw"):
        return None
    grid = grid_of_ranks(highest)
    return Table(grid, curves(grid))


def _times(model: Any, table: Table | None, highest: int) -> Array:
    if table is not None and _everywhere(model):
        return table.mean(highest)
    ranks = np.arange(1, highest + 1, dtype=np.float64)
    return np.asarray(model.predict(ranks[:, None]), dtype=np.float64).reshape(highest)


def _valid(name: str, model: Any, times: Array, rows: Array) -> tuple[int, int]:
    if getattr(model, "measured_only", False):
        return int(rows[:, 0].min()), int(rows[:, 0].max())
    if _everywhere(model):
        return 1, len(times)
    try:
        return valid_range(times, rows[:, 0])
    except ModelError as error:
        raise ModelError(f"model of {name}: {error}") from error


def _everywhere(model: Any) -> bool:
    return bool(getattr(model, "always_valid", False))


def _slowed(curve: Curves, factor: float) -> Curves:
    """Give a curve with what sharing cores costs."""
    return lambda ranks: curve(ranks) * factor


def trusted_decision(question: Question, prototype: Any) -> Decision:
    """Decide by the first models that agree with the measurements, or by the measurements alone."""
    names, case, text = question.schedule.participants, question.case, question.limits.text
    fitted = {name: trusted_model(case, name, with_fallback(prototype)) for name in names}
    rejections = tuple(rejected for _, rejected in fitted.values() if rejected is not None)
    warnings = [each.text(question.limits.plural(each.participant, each.ranks)) for each in rejections]
    crowded = {run.crowding: text(run.split) for run in case.measurements.runs if run.crowding}
    warnings += [f"{split}: {how}; such times say little of cores of their own." for how, split in crowded.items()]
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
    unproved = False
    if best is not None and beyond is not None:
        level = max(question.level, SURE)
        low, high = window_interval(decision.models, decision.problem, decision.split, decision.windows, level)
        unproved = high >= best.measured
    if agrees and not unproved and (best is None or not _measured_faster(best, known.get(key), decision.window)):
        if best is not None and best.split != decision.split and best.measured < decision.window:
            warnings.append(
                f"{text(best.split)} was measured at {best.measured:.4g} s per window, less than the "
                f"{decision.window:.4g} s predicted for the recommended split; noise may explain that: repeat both."
            )
        return dataclasses.replace(decision, warnings=tuple(warnings), **found)
    if best is None:
        raise ModelError(
            f"{_why(decision, comparisons)} No measured split is within the budget and bounds; measure some that are"
        )
    if agrees and unproved:
        warnings.append(
            f"{text(decision.split)} would extrapolate: {beyond}. Predicted are {low:.4g} to {high:.4g} s per "
            f"window, which is not surely less than the {best.measured:.4g} s measured with {text(best.split)}: "
            f"recommended is what was measured. To know more, measure {text(decision.split)}."
        )
    elif agrees:
        warnings.append(
            f"{text(decision.split)} is predicted at {decision.window:.4g} s per window, but "
            f"{text(best.split)} was measured at {best.measured:.4g} s: recommended is what was measured."
        )
    else:
        again = f"measure {text(best.split)} again"
        if decision.split != best.split:
            again += f", and {text(decision.split)}, which interpolation would choose"
        warnings.append(
            f"{_why(decision, comparisons)} No model is used: recommended is the best measured split. To know more, "
            f"{again}."
        )
    return dataclasses.replace(
        decision, basis="measured", models_trusted=agrees, split=dict(best.split), gap=math.nan,
        windows=np.array([best.measured]), interval=best.interval(question.level),
        own={name: np.array([seconds]) for name, seconds in best.own.items()}, warnings=tuple(warnings), **found,
    )  # fmt: skip


def _beyond_runs(decision: Decision, comparisons: Sequence[Comparison]) -> str | None:
    """Say which participant has ranks beyond those of all recorded runs; None where none has, or nothing ran."""
    for name, ranks in decision.split.items() if comparisons else ():
        if known := outside(ranks, [each.split[name] for each in comparisons]):
            return f"{name} ran on {decision.problem.limits.span(name, *known)}"
    return None


def _why(decision: Decision, comparisons: Sequence[Comparison]) -> str:
    """Say which measured windows contradict a decision, or what else is wrong with it."""
    wrong, limits = [each for each in comparisons if not each.agrees], decision.problem.limits
    if not wrong:
        low, high = decision.interval
        return (
            f"The predicted window of {limits.text(decision.split)}, {decision.window:.4g} s in the mean, lies outside "
            f"of its own interval ({low:.4g} to {high:.4g} s): a few possible curves decide it."
        )
    worst = sorted(wrong, key=lambda each: each.excess, reverse=True)[:NAMED]
    text = "; ".join(
        f"{limits.text(each.split)} took {each.measured:.4g} s per window, predicted are {each.predicted:.4g} s"
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
    found = comparisons or compared_points(question.case, decision.problem.expected)
    known = {tuple(each.split[name] for name in names): each for each in found}
    limits = question.limits
    for each in sorted(found, key=lambda each: each.measured):
        within = all(limits.lowest[name] <= ranks <= limits.highest[name] for name, ranks in each.split.items())
        if within and decision.problem.fits(each.split, decision.budget):
            return each, known
    return None, known


def _measured_faster(best: Comparison, chosen: Comparison | None, predicted: float) -> bool:
    """Whether the best measured split is faster than the chosen one, beyond noise."""
    seconds, error = (predicted, 0.0) if chosen is None else (chosen.measured, chosen.standard_error)
    return math.log(seconds / best.measured) > ERRORS * math.hypot(error, best.standard_error)


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
