"""The automatic predictor of Kim, Larson and Chiu, learned from recorded runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from precice_lb.case import Configuration, parse_configuration
from precice_lb.dataset import CoupledRun
from precice_lb.dataset.runs import missing
from precice_lb.dataset.samples import measurements_from_runs
from precice_lb.dataset.series import mean_of
from precice_lb.exceptions import DataError
from precice_lb.schedule import AutomaticPredictor, Schedule, cycle_windows, recorded_traces, schedule_of_traces
from precice_lb.text import plural

Floats = NDArray[np.float64]
# For those who asked for more than stores tell.
_REMEDY = "or take the coupling from the configuration, by leaving out --coupling traces"


def predictor_of_runs(runs: Sequence[CoupledRun]) -> AutomaticPredictor:
    """Learn from recorded runs what each participant computes between its meetings with others.

    A cycle is the shortest simulated time at whose end the windows of all coupling schemes end together. With whom and
    in which order participants meet in it, the exchanges of ``precice-config.xml`` say; the fractions of equations 8
    and 9 are means over the runs, each over its whole cycles after warm-up; alpha (equation 10) is the median over the
    runs of their measured cycle over the modelled one.

    Parameters
    ----------
    runs : sequence of CoupledRun
        Runs of one case, at any splits.

    Returns
    -------
    AutomaticPredictor
        Of seconds per cycle. Nobody waits for all others at the end of one, as nobody does in preCICE.

    Raises
    ------
    DataError
        If no run has all participants, their waits and a whole cycle, or coupling iterations differ from window to
        window; and as of `precice_lb.dataset.measurements_from_runs`.
    ConfigurationError, ScheduleError
        If the configuration cannot be read, or has no schedule.
    """
    return _learned(runs)[0]


def traced_schedule(runs: Sequence[CoupledRun]) -> Schedule:
    """Make a schedule of `predictor_of_runs`, for the search for a split.

    Parameters
    ----------
    runs : sequence of CoupledRun
        Runs of one case.

    Returns
    -------
    Schedule
        Its costs are seconds per time window. It leaves alpha out, which makes all splits longer alike, and which the
        replay of recorded windows takes the place of; its description says it.

    Raises
    ------
    DataError, ConfigurationError, ScheduleError
        As of `predictor_of_runs`.
    """
    predictor, windows, count = _learned(runs)
    schedule = schedule_of_traces(predictor.traces, windows=windows)
    schedule.description = (
        f"as traced in {plural(count, 'run')}: {', '.join(predictor.traces)} "
        f"(measured cycles {predictor.alpha:.3g} times the modelled ones)"
    )
    return schedule


@dataclass(frozen=True)
class _Cycle:
    """The mean cycle of a run: by participant, computed seconds by window and iteration, and what all of it took."""

    run: str
    computed: dict[str, Floats]
    seconds: float


def _learned(runs: Sequence[CoupledRun]) -> tuple[AutomaticPredictor, dict[str, int], int]:
    """Return the predictor, time windows of each participant in a cycle, and how many runs it was learned from."""
    measurements = measurements_from_runs(runs)
    configuration = parse_configuration(measurements.configuration or "")
    windows = cycle_windows(configuration)
    cycles, problems = [], []
    for run in runs:
        try:
            cycles.append(_cycle(run, windows, configuration))
        except DataError as problem:
            problems.append(problem)
    if not cycles:
        raise problems[0]
    pooled = {name: _pooled(name, cycles) for name in windows}
    traces = recorded_traces(configuration, pooled, measurements.overhead)
    predictor = AutomaticPredictor(traces, synchronized=False)
    totals = [{name: float(table.sum()) for name, table in cycle.computed.items()} for cycle in cycles]
    alphas = [predictor.calibrated(cycle.seconds, compute).alpha for cycle, compute in zip(cycles, totals, strict=True)]
    return AutomaticPredictor(traces, alpha=float(np.median(alphas)), synchronized=False), windows, len(cycles)


def _cycle(run: CoupledRun, windows: Mapping[str, int], configuration: Configuration) -> _Cycle:
    absent, remedy = missing(run)
    if absent:
        raise DataError(f"run {run.name}: expected records of all participants, found that {absent}; {remedy}")
    implicit = {name for scheme in configuration.coupling_schemes if scheme.is_implicit for name in scheme.participants}
    computed, seconds = {}, []
    for name, length in windows.items():
        part = run.participants[name]
        if name in implicit and "recording_problem" in part.metadata:
            raise DataError(
                f"run {run.name}: expected the iterations of each time window of {name}, found: "
                f"{part.metadata['recording_problem']}; import it anew with that log, {_REMEDY}"
            )
        whole = _whole_cycles(run, name, length)
        if not len(whole):
            raise DataError(
                f"run {run.name}: expected a whole cycle of the coupling ({plural(length, 'time window')} of {name}, "
                f"from the first on) with its waits after a warm-up of {plural(run.warmup_windows, 'window')}, found "
                f"{plural(len(part.windows), 'window')}; record longer, {_REMEDY}"
            )
        counts = np.unique(part.iterations[whole])
        if len(counts) > 1:
            raise DataError(
                f"run {run.name}: expected the same number of coupling iterations in every time window of {name}, "
                f"found {counts[0]:g} to {counts[-1]:g}, which no trace describes; record with a fixed number "
                f"(max-iterations without convergence measures), {_REMEDY}"
            )
        shape = part.iteration_compute[: int(counts[0])]
        computed[name] = _means(part.compute_seconds[whole])[:, None] * (
            shape / shape.sum() if shape.sum() > 0 else 1.0
        )
        seconds.append(float(_means(part.window_seconds[whole]).sum()))
    # Who does not wait for others runs ahead.
    return _Cycle(run.name, computed, max(seconds))


def _whole_cycles(run: CoupledRun, name: str, length: int) -> NDArray[np.intp]:
    """Find the windows of whole cycles after warm-up, shape (cycles, windows of a cycle).

    Without the last one, unless it is alone: preCICE does not receive for a window that will not come.
    """
    part = run.participants[name]
    known = np.flatnonzero(run.steady(name) & np.isfinite(part.compute_seconds))
    cycles, counts = np.unique((part.windows[known] - 1) // length, return_counts=True)
    kept = known[np.isin((part.windows[known] - 1) // length, cycles[counts == length])]
    whole = kept.reshape(-1, length)
    return whole[:-1] if len(whole) > 1 else whole


def _means(seconds: Floats) -> Floats:
    """Mean over the cycles of each window of one, shape (windows,), without outliers."""
    return np.array([mean_of(column)[0] for column in seconds.T])


def _pooled(name: str, cycles: Sequence[_Cycle]) -> Floats:
    """Mean of the fractions over the runs, times the mean of what they are fractions of."""
    tables = [cycle.computed[name] for cycle in cycles]
    for other, table in zip(cycles, tables, strict=True):
        if table.shape != tables[0].shape:
            raise DataError(
                f"expected the same number of coupling iterations of {name} in all runs, found {tables[0].shape[1]} in "
                f"run {cycles[0].run} and {table.shape[1]} in run {other.run}; give runs that agree, {_REMEDY}"
            )
    totals = np.array([table.sum() for table in tables])
    fractions = [table / total if total > 0 else table for table, total in zip(tables, totals, strict=True)]
    return np.asarray(np.mean(fractions, axis=0) * totals.mean())
