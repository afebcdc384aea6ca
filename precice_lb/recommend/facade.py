"""`recommend`: measurements in, recommended split out."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from precice_lb.dataset import Measurements, load_imbalance
from precice_lb.exceptions import ModelError
from precice_lb.models import new_learner
from precice_lb.recommend.bounds import whole_number
from precice_lb.recommend.case import case_of
from precice_lb.recommend.caveats import caveats
from precice_lb.recommend.compare import compared, rank_intervals, reference_splits
from precice_lb.recommend.decide import Question
from precice_lb.recommend.failed import known_bounds
from precice_lb.recommend.gate import learner_name
from precice_lb.recommend.inputs import check_participants, present_split
from precice_lb.recommend.limits import Limits
from precice_lb.recommend.machine import bounds_of
from precice_lb.recommend.measured import measured_alternatives
from precice_lb.recommend.plan import instead_of, near_splits, paid_back, with_recommended
from precice_lb.recommend.records import Plan, Prefer
from precice_lb.recommend.result import Recommendation
from precice_lb.recommend.sound import require_sound
from precice_lb.recommend.verdict import trusted_decision
from precice_lb.schedule import Schedule, explain
from precice_lb.split import Constraints

__all__ = ["recommend"]


def recommend(
    measurements: Measurements,
    total_ranks: int,
    *,
    schedule: Schedule,
    minimum_ranks: int | Mapping[str, int] = 1,
    maximum_ranks: Mapping[str, int] | None = None,
    learner: Any = None,
    learner_parameters: Mapping[str, Any] | None = None,
    random_state: int = 0,
    level: float = 0.8,
    present: Mapping[str, int] | None = None,
    parameters: Mapping[str, float | str | None] | None = None,
    constraints: Constraints | None = None,
    prefer: Prefer | None = None,
    within: float | None = None,
    verify: bool = False,
    instead: Schedule | None = None,
    spent_core_hours: float | None = None,
    failed: Sequence[Mapping[str, int]] = (),
) -> Recommendation:
    """Learn a model for each participant and find the split with the shortest expected time window.

    Parameters
    ----------
    measurements : Measurements
        Of all participants of the coupling.
    total_ranks : int
        Ranks to give out in all; cores or nodes where the constraints count those.
    schedule : Schedule
        The coupling.
    minimum_ranks, maximum_ranks : int or mapping from participant to int; mapping
        Bounds.
    learner, learner_parameters : str or scikit-learn regressor, mapping; optional
        Who learns, and its parameters where it is given by name.
    random_state : int
        Seed of the drawn curves.
    level : float
        Of the intervals, between 0 and 1.
    present : mapping from participant to int, optional
        The split in use, to be compared with.
    parameters : mapping from parameter to float, str or None; optional
        The case to recommend for, where the measurements are of several: a value of each parameter that varies, such
        as the size of the mesh. A learner of several parameters (the default is one) learns from all rows; one of
        ranks alone from those of that value, as all do for values that are texts. None: it makes no difference.
    constraints : Constraints, optional
        What the machine demands: nodes, threads, multiples, …
    prefer : {"time", "cost"} or float, optional
        How much time counts against core-hours, as of `precice_lb.split.TradeoffCurve.choose`; by default time alone,
        so that the whole budget is used where it helps.
    within : float, optional
        List splits whose window is at most this share longer than the best one's, such as 0.05. This or ``prefer``
        adds the plan: that list, and window time against core-hours over all budgets.
    verify : bool
        Compare the optimum for the mean curves with all splits, where they are at most a few millions.
    instead : Schedule, optional
        Another coupling of the same participants, to say what it would give.
    spent_core_hours : float, optional
        What measuring took; by default what recorded runs say.
    failed : sequence of mapping from participant to int
        Splits that must not be chosen; with some participants alone, all in which these have so many ranks. A
        participant that failed beside any others gets no ranks beyond those with which it did, either.

    Returns
    -------
    Recommendation
        A learner that draws curves (the default does) is asked for the least *mean* window time over them; one that
        only predicts, for the least predicted one, exactly.

    Raises
    ------
    DataError, ModelError, InfeasibleError, ScheduleError
        Unusable measurements; a model that cannot be fitted, or neither believed nor replaced; bounds that leave no
        split.
    InternalError
        A result that cannot be, with a file of the case.

    Notes
    -----
    Nothing is recommended against what was measured (`precice_lb.recommend.gate`). A model that is off by more than
    noise explains, at a measured number of ranks or for the window of a measured split, is replaced by the next one:
    ``shape``, then the interpolation of the measurements themselves. Where that contradicts the measured windows too,
    or a measured split was faster than what is predicted for the best one, or that one has ranks beyond those of all
    recorded runs and an interval that reaches the best measured window, the best *measured* split is recommended
    (``basis`` is ``"measured"``).

    A prediction that is negative, zero, not finite, or of a shape that run times do not have is never considered; see
    `precice_lb.models.validity`. Where that bound decides the split, a warning says so.

    Where windows were recorded, noise and changing load count: the window time is that of a replay of the recorded
    windows, resampled in blocks and scaled to the split (`precice_lb.schedule.replay_residuals`). What is learned from
    arrays and tables is taken to cost the same in every window.

    Curves are drawn for each participant independently. Means and the probability of beating another split are over
    them; the interval of a participant's ranks is one of the splits that are best for each set of curves.
    """
    names = schedule.participants
    if failed:
        constraints = dataclasses.replace(constraints or Constraints(), excluded=tuple(failed))
    check_participants(measurements, names)
    present = present_split(present, names)
    budget = whole_number(total_ranks, "total_ranks", 1)
    seed = whole_number(random_state, "random_state", 0)
    if not 0 < level < 1:
        raise ModelError(f"expected an interval's level between 0 and 1, found {level!r}")
    lowest, highest, reach = bounds_of(names, budget, minimum_ranks, maximum_ranks, constraints)
    prototype = new_learner(learner, learner_parameters)
    case = case_of(measurements, names, parameters, prototype)
    samples = check_participants(case.measurements, names)
    lowest, highest = known_bounds(failed, samples, lowest, highest)
    question = Question(
        schedule, samples, case.measurements.recorded, budget, constraints, lowest, highest, reach, seed, level,
        prefer, within, verify,
    )  # fmt: skip
    verdict = trusted_decision(question, case, prototype)
    decision, task, split = verdict.decision, verdict.decision.task, verdict.split
    own, windows, window = verdict.own, verdict.windows, float(verdict.windows.mean())
    steady = float(schedule.window_seconds(decision.own).mean())
    compute_seconds = {name: float(own[name].mean()) for name in names}
    limits = Limits(budget, lowest, highest, constraints)
    others, left_out = reference_splits(limits, names, measurements.degrees_of_freedom, present)
    is_model = verdict.basis == "model"
    if is_model:
        alternatives, doubts = compared(task, windows, others, decision.models, decision.believed)
        doubts = [*caveats(samples, split, lowest, highest, decision.believed), *left_out, *doubts]
    else:
        alternatives, doubts = measured_alternatives(verdict.known, others, window)
    plan = None
    if decision.tradeoff is not None and is_model:
        share = 0.05 if within is None else within
        near, step = near_splits(task, decision.target, split, share)
        plan = Plan(near, share, step, *with_recommended(*decision.tradeoff, task, split), prefer or "time")
    used = task.used(split)
    core_hours = measurements.core_hours if spent_core_hours is None else spent_core_hours
    recommendation = Recommendation(
        split=split,
        window_seconds=window,
        interval=verdict.interval,
        level=float(level),
        rank_intervals=rank_intervals(task, decision.tables, split, level, limits) if is_model else {},
        compute_seconds=compute_seconds,
        waits={name: float(wait.mean()) for name, wait in task.outlook.waits(own, windows).items()},
        # Over one period, in which windows of different size end together.
        imbalance=load_imbalance(np.array([schedule.windows[name] * compute_seconds[name] for name in names])),
        total_ranks=budget,
        schedule=schedule.description,
        learner=learner_name(decision.models[names[0]]),
        models=decision.models,
        measurements=case.measurements,
        outlook=task.outlook,
        parameters=case.values,
        alternatives=alternatives,
        warnings=(*measurements.remarks, *case.warnings, *verdict.warnings, *doubts),
        critical=explain(schedule, compute_seconds),
        unit="ranks" if constraints is None else constraints.unit,
        used=used,
        gap=max(steady * (1 + decision.found.gap) / decision.found.window_seconds - 1, 0.0) if is_model else math.nan,
        proof=decision.found.bound if is_model else "",
        verified=decision.found.verified if is_model else "",
        plan=plan,
        instead=None if instead is None or not is_model else instead_of(task, instead, split),
        payback=paid_back(core_hours, task, used, window, alternatives),
        limits=limits,
        basis=verdict.basis,
        comparisons=verdict.comparisons,
        rejections=verdict.rejections,
    )
    require_sound(recommendation, schedule)
    return recommendation
