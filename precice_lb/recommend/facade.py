"""`recommend`: measurements in, recommended split out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset import Measurements, load_imbalance
from precice_lb.exceptions import ModelError
from precice_lb.models import believable_ranks, new_learner
from precice_lb.recommend.bounds import require_room, whole_number
from precice_lb.recommend.case import case_of
from precice_lb.recommend.caveats import caveats
from precice_lb.recommend.compare import compared, rank_intervals, reference_splits, window_interval
from precice_lb.recommend.inputs import check_participants, present_split
from precice_lb.recommend.learn import fit_models
from precice_lb.recommend.limits import Limits
from precice_lb.recommend.machine import bounds_of
from precice_lb.recommend.outlook import Curves, Outlook, curves_of
from precice_lb.recommend.plan import Plan, Prefer, instead_of, near_splits, paid_back, tradeoff_of, with_recommended
from precice_lb.recommend.result import Recommendation
from precice_lb.recommend.tables import Table, grid_of_ranks
from precice_lb.recommend.task import Task
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

    Returns
    -------
    Recommendation
        A learner that draws curves (the default does) is asked for the least *mean* window time over them; one that
        only predicts, for the least predicted one, exactly.

    Raises
    ------
    DataError, ModelError, InfeasibleError, ScheduleError
        Unusable measurements; a model that cannot be fitted or believed; bounds that leave no split.

    Notes
    -----
    A prediction that is negative, zero, not finite, or of a shape that run times do not have is never considered; see
    `precice_lb.models.trust`. Where that bound decides the split, a warning says so.

    Where windows were recorded, noise and changing load count: the window time is that of a replay of the recorded
    windows, resampled in blocks and scaled to the split (`precice_lb.schedule.replay_residuals`). What is learned from
    arrays and tables is taken to cost the same in every window.

    Curves are drawn for each participant independently. Means and the probability of beating another split are over
    them; the interval of a participant's ranks is one of the splits that are best for each set of curves.
    """
    names = schedule.participants
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
    models = fit_models(case, names, prototype)
    curves = {name: curves_of(models[name], [seed, index]) for index, name in enumerate(names)}
    tables = {name: _table(models[name], curves[name], reach[name]) for name in names}
    times = {name: _times(models[name], tables[name], reach[name]) for name in names}
    believed = {name: _believed(name, models[name], times[name], samples[name]) for name in names}
    first = {name: max(lowest[name], believed[name][0]) for name in names}
    last = {name: min(highest[name], believed[name][1]) for name in names}
    require_room(first, last, lowest, budget if constraints is None else sum(first.values()))
    outlook = Outlook(schedule, _slowed(curves, constraints), case.measurements.recorded, seed)
    task = Task(times, budget, curves, outlook, first, last, constraints)
    tradeoff = tradeoff_of(task) if within is not None or prefer is not None else None
    chosen = tradeoff.choose("time" if prefer is None else prefer) if tradeoff else None
    # Preferring time means all of the budget, whatever the few budgets on the curve are.
    target = budget if chosen is None or prefer in (None, "time", 1) else chosen.budget
    found = task.optimum(budget=target, verify=verify)
    split = task.improved(found.split, target)

    own = outlook.own(split)
    own_seconds = {name: float(own[name].mean()) for name in names}
    windows = outlook.seconds(own)
    window = float(windows.mean())
    steady = float(schedule.window_seconds(own).mean())
    limits = Limits(budget, lowest, highest, constraints)
    others, left_out = reference_splits(limits, names, measurements.degrees_of_freedom, present)
    alternatives, doubts = compared(task, windows, others, models, believed)
    plan = None
    if tradeoff is not None and chosen is not None:
        share = 0.05 if within is None else within
        near, step = near_splits(task, target, split, share)
        plan = Plan(near, share, step, *with_recommended(tradeoff, chosen, task, split), prefer or "time")
    used = task.used(split)
    core_hours = measurements.core_hours if spent_core_hours is None else spent_core_hours
    return Recommendation(
        split=split,
        window_seconds=window,
        interval=window_interval(models, task, split, windows, level),
        level=float(level),
        rank_intervals=rank_intervals(task, tables, split, level, limits),
        own_seconds=own_seconds,
        waits={name: float(wait.mean()) for name, wait in outlook.waits(own, windows).items()},
        # Over one period, in which windows of different size end together.
        imbalance=load_imbalance(np.array([schedule.windows[name] * own_seconds[name] for name in names])),
        total_ranks=budget,
        schedule=schedule.description,
        learner=_learner_name(models[names[0]]),
        models=models,
        measurements=case.measurements,
        parameters=case.values,
        alternatives=alternatives,
        warnings=(*case.warnings, *caveats(samples, split, lowest, highest, believed), *left_out, *doubts),
        critical=explain(schedule, own_seconds),
        unit="ranks" if constraints is None else constraints.unit,
        used=used,
        gap=max(steady * (1 + found.gap) / found.window_seconds - 1, 0.0),
        proof=found.bound,
        verified=found.verified,
        plan=plan,
        instead=None if instead is None else instead_of(task, instead, split),
        payback=paid_back(core_hours, task, used, window, alternatives),
        limits=limits,
    )


def _table(model: Any, curves: Curves, highest: int) -> Table | None:
    """Curves of a learner that draws, on a grid: it is too much to draw them at each of 100,000 ranks."""
    if not hasattr(model, "draw"):
        return None
    grid = grid_of_ranks(highest)
    return Table(grid, curves(grid))


def _times(model: Any, table: Table | None, highest: int) -> NDArray[np.float64]:
    if table is not None and _everywhere(model):
        return table.mean(highest)
    ranks = np.arange(1, highest + 1, dtype=np.float64)
    return np.asarray(model.predict(ranks[:, None]), dtype=np.float64).reshape(highest)


def _believed(name: str, model: Any, times: NDArray[np.float64], rows: NDArray[np.float64]) -> tuple[int, int]:
    if _everywhere(model):
        return 1, len(times)
    try:
        return believable_ranks(times, rows[:, 0])
    except ModelError as error:
        raise ModelError(f"model of {name}: {error}") from error


def _everywhere(model: Any) -> bool:
    return bool(getattr(model, "always_believable", False))


def _slowed(curves: Mapping[str, Curves], constraints: Constraints | None) -> dict[str, Curves]:
    """Curves with what sharing cores costs."""
    if constraints is None or not constraints.shared:
        return dict(curves)

    def slower(curve: Curves, factor: float) -> Curves:
        return lambda ranks: curve(ranks) * factor

    return {name: slower(curve, 1.0 + constraints.overhead(name)) for name, curve in curves.items()}


def _learner_name(model: Any) -> str:
    return str(getattr(model, "learner_name", type(model).__name__))
