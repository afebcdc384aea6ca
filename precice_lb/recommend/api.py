"""`recommend_split`: measurements in, recommended split out."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from precice_lb.case import AcceptedRanks
from precice_lb.case.case import Case
from precice_lb.case.machine import whole_number
from precice_lb.dataset import Measurements
from precice_lb.dataset.records import load_imbalance
from precice_lb.dataset.samples import without_stragglers
from precice_lb.exceptions import DataError, InfeasibleError, ModelError
from precice_lb.layout import Layouts, layout_from
from precice_lb.models.base import new_learner
from precice_lb.recommend.limits import known_bounds, with_accepted, with_measured
from precice_lb.recommend.plan import (
    FailedSplit,
    Prefer,
    compared,
    in_turns,
    plan_of,
    rank_intervals,
    reference_splits,
    tradeoff_of,
)
from precice_lb.recommend.posterior import geometric_mean, problem_of
from precice_lb.recommend.remarks import remark, remarks
from precice_lb.recommend.result import Recommendation, VersionChoice, versions_text
from precice_lb.recommend.sources import (
    check_participants,
    learner_name,
    measured_under,
    measurements_of,
    selected,
)
from precice_lb.schedule import Schedule
from precice_lb.schedule.schedule import schedule_of
from precice_lb.split import Constraints, Machine, optimize_split
from precice_lb.split.admissible import limits_of
from precice_lb.split.optimize import weight_of_time
from precice_lb.text import key_of

# Where the work needs so many windows, some of it is none.
_HIDDEN = 1.1
# Beyond what was measured a combination of versions wins if it is faster with this probability.
SURE = 0.9


def recommend_split(
    data: Any,
    budget: int | None = None,
    *,
    coupling: str | Path | Schedule = "parallel",
    case: Case | None = None,
    machine: Machine | None = None,
    learner: Any = None,
    seed: int = 0,
    level: float = 0.8,
    present: Mapping[str, int | str] | None = None,
    parameter: Mapping[str, float | str | None] | None = None,
    prefer: Prefer | None = None,
    within: float | None = None,
    failed: Sequence[Mapping[str, int] | FailedSplit] = (),
    accept_missing_ranks: bool = False,
    **words: Any,
) -> Recommendation:
    """Learn a model for each participant and recommend the split with the shortest expected time window.

    Parameters
    ----------
    data : path, mapping from participant to array of shape (n, 2), Measurements, or pandas DataFrame
        A CSV file or directory of stores; ranks and seconds per time window (compute time, without waiting) by
        participant; or a long table with the columns participant, ranks, seconds, perhaps threads, and one for each
        further parameter. A participant that was measured with several threads is split by cores, in the layouts that
        were measured, unless the machine's ``layouts`` say others.
    budget : int
        Ranks to give out in all; or the machine has ``cores`` or ``nodes`` for that; or its ``unit`` counts others.
    coupling : {"parallel", "serial"}, path of a ``precice-config.xml``, or Schedule
        How the participants wait for each other.
    case : Case, optional
        What a study's tables say of machine, bounds, parameters, learner and degrees of freedom, such as
        ``case_from({"machine": {"nodes": 4, "cores_per_node": 48}})`` of `precice_lb.case.case`, in place of
        ``machine``.
    machine : Machine, optional
        What the machine has and demands. The fields of `Machine` may also be given directly, as words of their own.
    learner : str, mapping or scikit-learn regressor; optional
        A name out of `precice_lb.models.LEARNERS`, with parameters ``{"name": "pmnf", "folds": 3}``, or an estimator.
    seed : int
        The same call with the same seed gives the same result.
    level : float
        Of the intervals, between 0 and 1.
    present : mapping from participant to int or str, optional
        The split in use, to be compared with; ranks x threads, such as 1x8, may stand in place of cores.
    parameter : mapping from parameter to float, str or None; optional
        The case to recommend for, where the measurements are of several: a value of each parameter that varies, such
        as the size of the mesh. A learner of several parameters (the default is one) learns from all rows; one of
        ranks alone from those of that value, as all do for values that are texts. None: it makes no difference.
    prefer : {"time", "cost"} or float, optional
        How much time counts against core-hours, as of `precice_lb.split.TradeoffCurve.choose`; by default time alone,
        so that the whole budget is used where it helps.
    within : float, optional
        List splits whose window is at most this share longer than the best one's, such as 0.05. This or ``prefer``
        adds the plan: that list, and window time against core-hours over all budgets.
    failed : sequence of mapping from participant to int, or of FailedSplit
        Splits that must not be chosen; with some participants alone, all in which these have so many ranks. A
        participant that failed beside any others gets no ranks beyond those with which it did, either.
    accept_missing_ranks : bool
        Whether to learn also from runs of which ranks are missing, perhaps the slowest.
    **words
        Fields of `Machine`, such as ``nodes=12, cores_per_node=48, minimum=2, maximum={"Solid": 8}``.

    Returns
    -------
    Recommendation
        With ``split``, ``window_seconds``, ``interval`` and ``to_dict()``. A learner that draws curves (the default
        does) is asked for the least expected loss over them; one that only predicts, for the least predicted window,
        exactly.

    Raises
    ------
    DataError, ModelError, InfeasibleError, ScheduleError
        Unusable measurements; a model that cannot be fitted; bounds that leave no split, or a word that is none of
        the machine's; a coupling that cannot be read. The message says what to do.

    Notes
    -----
    The split is the one with the least expected loss: the mean, over drawn curves, of the logarithm of its window time
    over that of the best split. Windows of measured splits are data too: they update what these splits, and to a lesser
    part their neighbours, are thought to take. Nothing is replaced: where
    measurements contradict each other, that is their noise, which ``precice-lb check`` shows.

    A learner that is no posterior predicts what it likes beyond its readings; a warning says where the split is beyond
    them. What is not positive or not finite is never chosen.

    Where windows were recorded, noise and changing load count: the window time is that of a replay of the recorded
    windows, resampled in blocks and scaled to the split (`precice_lb.schedule.replay_residuals`). What is learned from
    arrays and tables is taken to cost the same in every window.

    Where measurements name versions of a participant (a column ``version``), each combination of them is decided apart
    and the best one recommended, with all of them in ``choices``.

    Curves are drawn for each participant independently. Means and the probability of beating another split are over
    them; the interval of a participant's ranks is one of the splits that are best for each set of curves.
    """
    ways = {"a case": case, "machine": machine} | ({", ".join(words): words} if words else {})
    if len(several := [name for name, value in ways.items() if value is not None]) > 1:
        raise InfeasibleError(f"expected the machine as a whole or in words, found {' and '.join(several)}; name one")
    measurements = measurements_of(data)
    machine = machine or Machine(**words)
    if case is not None:
        runs, known = case.runs, measurements.degrees_of_freedom | case.degrees_of_freedom
        measurements = dataclasses.replace(measurements, degrees_of_freedom=known)
        machine = _without_unmeasured(case.demands(), measurements)
        stated = {key: None if value == "any" else value for key, value in case.case.parameter.items()}
        parameter, within = stated or parameter, runs.within if within is None else within
        accept_missing_ranks |= bool(runs.accept_missing_ranks)
        learner = learner if runs.learner is None else runs.learner
    # Either of them asks for the plan.
    within = 0.05 if within is None and prefer is not None else within
    prefer = "time" if prefer is None else prefer
    measurements = without_stragglers(measurements)
    if measurements.incomplete and not accept_missing_ranks:
        raise DataError(
            f"expected records of all ranks, found that {measurements.incomplete}: the slowest may be missing; "
            "give the files of all, or say that what is there is enough (--set runs.accept_missing_ranks=true)"
        )
    if not 0 < level < 1:
        raise ModelError(f"expected an interval's level between 0 and 1, found {level!r}")
    one = partial(
        _recommended, budget=budget, coupling=coupling,
        prototype=new_learner(learner), seed=whole_number(seed, "seed", 0),
        level=float(level), present=present, parameter=parameter, prefer=prefer, within=within,
    )  # fmt: skip
    # With more threads, many small matrices take longer, on busy cores several times as long.
    with threadpool_limits(1):
        if measurements.versions:
            return _best_version(one, measurements, machine, failed, present, prefer)
        return one(measurements, machine, failed)


def _best_version(
    recommend: Callable[..., Recommendation],
    measurements: Measurements,
    machine: Machine,
    failed: Sequence[Mapping[str, int] | FailedSplit],
    present: Mapping[str, int | str] | None,
    prefer: Prefer,
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
    able: list[Recommendation] = []
    unable: list[VersionChoice] = []
    problems: list[Exception] = []
    for versions in measurements.combinations:
        failures = [split for split in failed if not isinstance(split, FailedSplit) or split.is_of(versions)]
        try:
            rows, demands = measurements.of_versions(versions), machine.of_versions(versions)
            able.append(dataclasses.replace(recommend(rows, demands, failures), versions=versions))
        except (DataError, InfeasibleError, ModelError) as problem:
            problems.append(problem)
            unable.append(VersionChoice(versions, str(problem)))
    if not able:
        raise problems[0]
    weight = weight_of_time(prefer)

    def price(one: Recommendation) -> float:
        """Logarithm of the window, weighed against that of the core-hours."""
        cores = one.used.get("cores", sum(one.split.values()))
        return math.log(one.window_seconds) + (1.0 - weight) * math.log(cores)

    def is_measured(one: Recommendation) -> bool:
        ranks = {name: rows[:, 0] for name, rows in one.measurements.samples.items()}
        return all(known.min() <= one.split[name] <= known.max() for name, known in ranks.items())

    able.sort(key=price)
    best, doubts = able[0], []
    measured = next(filter(is_measured, able), best)
    windows = best.expected.window(best.split)
    if measurements.runs and measured is not best and np.mean(windows < measured.window_seconds) < SURE:
        known = {"seconds": best.window_seconds, "measured": measured.window_seconds}
        texts = {"versions": versions_text(best.versions), "instead": versions_text(measured.versions)}
        doubts.append(remark("version-unsure", **texts, **known))
        best, windows = measured, measured.expected.window(measured.split)
    doubts += [
        remark("version-not-compared", versions=versions_text(other.versions), why=other.problem) for other in unable
    ]
    able.sort(key=lambda one: one is not best)
    choices = []
    for one in able:
        others = one.expected.window(one.split)
        is_known = one is not best and len(windows) == len(others) > 1
        choices.append(
            VersionChoice(
                one.versions,
                split=one.split,
                layouts={name: kind.of(one.split[name]) for name, kind in one.layouts.items()},
                used=one.used,
                window_seconds=one.window_seconds,
                interval=one.interval,
                gain=1 - best.window_seconds / one.window_seconds,
                probability=float(np.mean(windows < others)) if is_known else math.nan,
            )
        )
    return dataclasses.replace(best, choices=(*choices, *unable), warnings=(*best.warnings, *doubts))


def _without_unmeasured(demands: Machine, measurements: Measurements) -> Machine:
    """Leave out what a study says of versions that were not measured."""
    known = {key_of(name, version) for name, rows in measurements.versions.items() for version in rows}
    mappings = {key: value for key, value in vars(demands).items() if isinstance(value, Mapping)}
    changed: dict[str, Any] = {
        key: {who: entry for who, entry in value.items() if ":" not in who or who in known}
        for key, value in mappings.items()
    }
    return dataclasses.replace(demands, **changed)


def _recommended(
    measurements: Measurements, machine: Machine, failed: Sequence[Mapping[str, int] | FailedSplit],
    *, budget: int | None, coupling: str | Path | Schedule, prototype: Any, seed: int, level: float,
    present: Mapping[str, int | str] | None, parameter: Mapping[str, float | str | None] | None, prefer: Prefer,
    within: float | None,
) -> Recommendation:  # fmt: skip
    """Recommend a split for one version of each participant."""
    total, constraints = machine.constraints(budget)
    schedule = schedule_of(coupling, tuple(measurements.samples))
    if isinstance(coupling, (str, Path)):
        measurements = measured_under(measurements, schedule)
    names = schedule.participants
    failures = tuple(split for split in failed if isinstance(split, FailedSplit))
    excluded = [split.ranks if isinstance(split, FailedSplit) else split for split in failed]
    if excluded:
        constraints = dataclasses.replace(constraints, excluded=(*constraints.excluded, *excluded))
    constraints = with_measured(constraints, measurements.layouts, check_participants(measurements, names))
    constraints = with_accepted(constraints, schedule, measurements.configuration)
    in_use = _present(present, names, constraints)
    limits = limits_of(names, total, constraints)
    rows = selected(measurements, names, parameter, prototype)
    limits = known_bounds(excluded, check_participants(rows.measurements, names), limits)
    problem = problem_of(schedule, rows, limits, prototype, seed)
    curve = None if within is None else tradeoff_of(problem)
    chosen = None if curve is None else curve.choose(prefer)
    # Preferring time means all of the budget, whatever the few budgets on the curve are.
    sought = limits.budget if chosen is None or weight_of_time(prefer) == 1 else chosen.budget
    optimum = optimize_split(problem.times, sought, **problem.words)
    split = problem.improved(optimum.split, sought)
    expected = problem.expected
    windows = expected.window(split)
    window = geometric_mean(windows)
    # The logarithm of a window is convex in those of the times: the optimum for their means is below every split's.
    steady = geometric_mean(schedule.window_seconds(expected.compute_seconds(split)))
    compute_seconds = expected.mean_seconds(split)
    # What windows were measured to take leaves no room for more work than that.
    excess = float(schedule.window_seconds(compute_seconds)) / window
    compute_seconds = {name: seconds / max(excess, 1.0) for name, seconds in compute_seconds.items()}
    others, doubts = reference_splits(limits, measurements.degrees_of_freedom, in_use, failures)
    if excess > _HIDDEN:
        doubts.append(remark("shared-cores", percent=100 * (excess - 1)))
    others |= {kind: other for kind, other in in_turns(problem).items() if other[0] != split}
    plan = None
    if curve is not None and chosen is not None and within is not None:
        plan = plan_of(problem, curve, chosen, sought, split, window, within, prefer)
    result = Recommendation(
        split=split,
        window_seconds=window,
        interval=_interval(windows, level),
        level=level,
        rank_intervals=rank_intervals(problem, split, level),
        compute_seconds=compute_seconds,
        waits={name: float(share.mean()) * window for name, share in expected.waits(split).items()},
        # Over one period, in which windows of different size end together.
        imbalance=load_imbalance(np.array([schedule.windows[name] * compute_seconds[name] for name in names])),
        total_ranks=total,
        schedule=schedule.description,
        learner=learner_name(problem.models[names[0]]),
        models=problem.models,
        measurements=rows.measurements,
        expected=expected,
        parameters=rows.values,
        modelled=rows.columns,
        alternatives=compared(problem, windows, others),
        warnings=(),
        critical=schedule.critical_cycle(compute_seconds),
        unit=constraints.unit,
        used=problem.used(split),
        gap=max(steady * (1 + optimum.gap) / optimum.window_seconds - 1, 0.0),
        proof=optimum.proof,
        plan=plan,
        limits=limits,
        comparisons=expected.comparisons,
        failed_splits=failures,
    )
    before = (*(remark("data", text=text) for text in measurements.remarks), *rows.warnings)
    return dataclasses.replace(result, warnings=(*before, *remarks(result, doubts)))


def _interval(windows: NDArray[np.float64], level: float) -> tuple[float, float]:
    """Quantiles over drawn curves, with the mean, which a few curves may take out of them; NaN of a single one."""
    if len(windows) == 1:
        return math.nan, math.nan
    low, high = np.quantile(windows, [(1 - level) / 2, (1 + level) / 2]).tolist()
    return min(low, geometric_mean(windows)), max(high, geometric_mean(windows))


def _present(
    split: Mapping[str, int | str] | None, names: tuple[str, ...], constraints: Constraints
) -> dict[str, int] | None:
    """Check the split in use."""
    if split is None:
        return None
    if set(split) != set(names):
        raise InfeasibleError(
            f"expected the present split of {', '.join(names)}, found one of {', '.join(split) or 'none'}"
        )
    counts = {}
    for name in names:
        count, known = split[name], constraints.layouts.get(name, Layouts())
        if isinstance(count, str):
            wanted = layout_from(count)
            count = wanted.cores
            if not known.allowed(count, count) or known.of(count) != wanted:
                raise InfeasibleError(
                    f"present split: expected {name} on {known.text(count)}, as it is split, found {wanted.words}; say "
                    "that, or its layouts"
                )
        counts[name] = count = whole_number(count, f"present ranks of {name}", 1)
        accepted = constraints.accepted_ranks.get(name, AcceptedRanks())
        if known.allowed(count, count) and (problem := accepted.problem(name, known.of(count).ranks)):
            raise InfeasibleError(f"present split: {problem}")
    return counts
