"""`recommend` and `recommend_split`: measurements in, recommended split out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset import Measurements, load_imbalance
from precice_lb.exceptions import ModelError
from precice_lb.models import believable_ranks, new_learner
from precice_lb.recommend.bounds import rank_bounds, require_room, whole_number
from precice_lb.recommend.case import case_of
from precice_lb.recommend.caveats import caveats
from precice_lb.recommend.inputs import check_participants, coupling_of, present_split
from precice_lb.recommend.learn import fit_models
from precice_lb.recommend.outlook import Outlook, curves_of
from precice_lb.recommend.result import Alternative, Recommendation
from precice_lb.recommend.sources import load_sources, measurements_from_arrays
from precice_lb.recommend.tables import Table, best_ranks, grid_of_ranks
from precice_lb.schedule import Schedule
from precice_lb.split import equal_split, optimize_split, proportional_split

__all__ = ["recommend", "recommend_split"]


def recommend_split(
    measurements: Mapping[str, Any] | Measurements | str | Path,
    total_ranks: int,
    *,
    coupling: str | Path | Schedule = "parallel",
    minimum_ranks: int | Mapping[str, int] = 1,
    learner: Any = None,
    random_state: int = 0,
    present: Mapping[str, int] | None = None,
    parameters: Mapping[str, float | str | None] | None = None,
) -> Recommendation:
    """Recommend how many ranks each participant should get.

    Parameters
    ----------
    measurements : mapping from participant to array of shape (n, 2), Measurements, or path
        Ranks and seconds per time window (own cost, without waiting); or a CSV file or directory of stores with them.
    total_ranks : int
        Ranks to give out in all.
    coupling : {"parallel", "serial"}, path of a ``precice-config.xml``, or Schedule
        How the participants wait for each other.
    minimum_ranks : int or mapping from participant to int
        Ranks that a participant gets at least.
    learner : str or scikit-learn regressor, optional
        A name out of `precice_lb.models.LEARNERS`, or an estimator.
    random_state : int
        Seed; the same call gives the same result.
    present : mapping from participant to int, optional
        The split in use, to be compared with.
    parameters : mapping from parameter to float, str or None; optional
        The case to recommend for, as of `recommend`.

    Returns
    -------
    Recommendation
        With ``split``, ``window_seconds``, ``interval`` and ``to_dict()``.

    Raises
    ------
    PreciceLBError
        Unusable measurements, too few ranks, or a coupling that cannot be read; the message says what to do.
    """
    table = _measurements(measurements)
    return recommend(
        table,
        total_ranks,
        schedule=coupling_of(coupling, tuple(table.samples)),
        minimum_ranks=minimum_ranks,
        learner=learner,
        random_state=random_state,
        present=present,
        parameters=parameters,
    )


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
) -> Recommendation:
    """Learn a model for each participant and find the split with the shortest expected time window.

    Parameters
    ----------
    measurements : Measurements
        Of all participants of the coupling.
    total_ranks : int
        Ranks to give out in all.
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
    lowest, highest = rank_bounds(names, budget, minimum_ranks, maximum_ranks)
    prototype = new_learner(learner, learner_parameters)
    case = case_of(measurements, names, parameters, prototype)
    samples = check_participants(case.measurements, names)
    models = fit_models(case, names, prototype)
    room = budget - sum(lowest.values())
    curves = {name: curves_of(models[name], [seed, index]) for index, name in enumerate(names)}
    outlook = Outlook(schedule, curves, measurements.recorded, seed)
    tables = {name: _table(models[name], outlook, name, lowest[name] + room) for name in names}
    times = {name: _times(models[name], tables[name], lowest[name] + room) for name in names}
    believed = {name: _believed(name, models[name], times[name], samples[name]) for name in names}
    first = {name: max(lowest[name], believed[name][0]) for name in names}
    last = {name: min(highest[name], believed[name][1]) for name in names}
    require_room(first, last, lowest, budget)
    found = optimize_split(times, budget, schedule=schedule, minimum_ranks=first, maximum_ranks=last)
    split = outlook.improve(found.split, budget, first, last) if outlook.is_searched else found.split

    own = outlook.own(split)
    own_seconds = {name: float(own[name].mean()) for name in names}
    windows = outlook.seconds(own)
    window = float(windows.mean())
    warnings = [*case.warnings, *caveats(samples, split, lowest, highest, believed)]
    others = _alternatives(measurements, names, budget, lowest) | ({"present": present} if present else {})
    alternatives = {}
    for kind, other in others.items():
        doubtful = [n for n in names if not (_everywhere(models[n]) or believed[n][0] <= other[n] <= believed[n][1])]
        if doubtful:
            name = doubtful[0]
            low, high = believed[name]
            warnings.append(
                f"The {kind} split is not compared: the model of {name} can be believed from {low} to {high} ranks, "
                f"not at {other[name]}."
            )
        else:
            seconds = outlook.window(other)
            # The same split is not faster, whatever rounding says.
            faster = float((windows < seconds * (1 - 1e-12)).mean()) if outlook.is_uncertain else float("nan")
            alternatives[kind] = Alternative(other, float(seconds.mean()), float(seconds.mean()) / window - 1, faster)
    return Recommendation(
        split=split,
        window_seconds=window,
        interval=_interval(models, outlook, split, level),
        level=float(level),
        rank_intervals=_rank_intervals(tables, schedule, split, first, budget, level),
        own_seconds=own_seconds,
        waits={name: float(wait.mean()) for name, wait in outlook.waits(own, windows).items()},
        imbalance=load_imbalance(np.array(list(own_seconds.values()))),
        total_ranks=budget,
        schedule=schedule.description,
        learner=_learner_name(models[names[0]]),
        models=models,
        measurements=case.measurements,
        parameters=case.values,
        alternatives=alternatives,
        warnings=tuple(warnings),
    )


def _measurements(given: Mapping[str, Any] | Measurements | str | Path) -> Measurements:
    if isinstance(given, str | Path):
        return load_sources([given])
    return given if isinstance(given, Measurements) else measurements_from_arrays(given)


def _table(model: Any, outlook: Outlook, name: str, highest: int) -> Table | None:
    """Curves of a learner that draws, on a grid: it is too much to draw them at each of 100,000 ranks."""
    if not hasattr(model, "draw"):
        return None
    grid = grid_of_ranks(highest)
    return Table(grid, outlook.curves[name](grid))


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


def _alternatives(
    measurements: Measurements, names: tuple[str, ...], budget: int, lowest: Mapping[str, int]
) -> dict[str, dict[str, int]]:
    others = {"equal": equal_split(names, budget, lowest)}
    unknowns = measurements.degrees_of_freedom
    if all(unknowns.get(name, 0) > 0 for name in names):
        others["degrees-of-freedom"] = proportional_split({name: unknowns[name] for name in names}, budget, lowest)
    return others


def _interval(
    models: Mapping[str, Any], outlook: Outlook, split: Mapping[str, int], level: float
) -> tuple[float, float]:
    """Give quantiles over drawn curves; else the window times of all low and all high bounds, as it is monotone."""
    if outlook.is_uncertain:
        low, high = np.quantile(outlook.window(split), [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)
    if not all(hasattr(model, "predict_interval") for model in models.values()):
        return float("nan"), float("nan")
    bounds = {n: model.predict_interval(np.array([[split[n]]], dtype=np.float64), level) for n, model in models.items()}
    low, high = (
        outlook.seconds({name: np.array(max(float(pair[side][0]), 0.0)) for name, pair in bounds.items()})
        for side in (0, 1)
    )
    return float(low), float(high)


def _rank_intervals(
    tables: Mapping[str, Table | None],
    schedule: Schedule,
    split: Mapping[str, int],
    least: Mapping[str, int],
    budget: int,
    level: float,
) -> dict[str, tuple[int, int]]:
    """Give quantiles of the ranks that would be best for each set of drawn curves; nothing where none are drawn."""
    known = {name: table for name, table in tables.items() if table is not None}
    if len(known) < len(tables):
        return {}
    best = best_ranks(known, schedule, split, least, budget - sum(split.values()))
    edges = [(1 - level) / 2, (1 + level) / 2]
    ends = {name: np.quantile(ranks, edges, method="nearest") for name, ranks in best.items()}
    return {name: (int(low), int(high)) for name, (low, high) in ends.items()}


def _learner_name(model: Any) -> str:
    return str(getattr(model, "learner_name", type(model).__name__))
