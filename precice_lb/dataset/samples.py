"""From coupled runs to samples for performance models."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from precice_lb.dataset.measurements import MeasuredRun, Measurements, Samples, convergence_remarks
from precice_lb.dataset.records import CoupledRun, ParticipantRun, mean_known
from precice_lb.dataset.runs import load_runs, remarks
from precice_lb.dataset.series import OUTLIER_DEVIATIONS, mean_of, spread_of, without_outliers
from precice_lb.exceptions import DataError
from precice_lb.store.columns import Array, Mask, Values
from precice_lb.store.records import Complete
from precice_lb.text import plural


def load_measurements(
    sources: Sequence[str | Path], *, warmup: int | None = None, complete: Complete | None = None
) -> Measurements:
    """Read samples from the stores of coupled runs of one case.

    Parameters
    ----------
    sources : sequence of path
        Store files or directories of them.
    warmup : int, optional
        As in `load_runs`.
    complete : callable, optional
        As in `load_runs`.

    Returns
    -------
    Measurements

    Raises
    ------
    StoreError
        As in `load_runs`.
    DataError
        As in `measurements_from_runs`.
    """
    return measurements_from_runs(load_runs(sources, warmup=warmup, complete=complete))


def measurements_from_runs(runs: Sequence[CoupledRun], iterations: Mapping[str, float] | None = None) -> Measurements:
    """Reduce runs to one sample per run and participant.

    A sample is the median of the compute seconds per coupling iteration over the windows after warm-up, times the mean
    iterations per window of all runs: how many iterations the recorded windows happened to need is the same for every
    split, and no noise of its cost. Where runs differ in their first guess, iterations are those with the latest run's.

    Parameters
    ----------
    runs : sequence of CoupledRun
        Runs of one case.
    iterations : mapping from participant to float, optional
        Iterations per window; by default the mean over the runs.

    Returns
    -------
    Measurements
        Standard errors are those of the medians (`precice_lb.dataset.series.spread_of`). Parameters are those
        that all runs of a participant state in their metadata.

    Raises
    ------
    DataError
        If there is no run, the runs are of different cases, no time window is left after warm-up, participants are
        not counted alike, or the backend did not tell the waits.
    """
    if not runs:
        raise DataError("measurements: expected at least one coupled run, found none")
    for other in runs[1:]:
        _require_same_case(runs[0], other)
    for run in runs:
        if run.time.problem:
            raise DataError(f"run {run.name}: expected what can be compared, found {run.time.problem}")
    iterations = {**pooled_iterations(runs), **(iterations or {})}
    # In the order of the columns of `Samples`, with the parameters behind.
    rows: dict[str, list[tuple[Any, ...]]] = {}
    measured = []
    for run in runs:
        seconds, windows, stated = {}, {}, {}
        for name, part in run.participants.items():
            steady = run.steady(name)
            if not steady.any():
                continue
            known = steady & np.isfinite(part.compute_seconds)
            if not known.any():
                raise DataError(f"run {run.name}: {_not_measured(name, part)}")
            count, per_iteration = iterations[name], part.compute_per_iteration[known]
            seconds[name] = float(np.median(per_iteration)) * count
            windows[name] = count * np.array(
                mean_of(part.window_seconds[known] / np.maximum(part.iterations[known], 1))
            )
            stated[name] = dict(part.metadata.get("parameters") or {})
            error = spread_of(per_iteration).error * seconds[name]
            sent = _communication(part) * count / float(np.mean(part.iterations[steady]))
            sent = sent if sent < seconds[name] else math.nan
            row = (part.ranks, seconds[name], part.threads, error, sent, part.version, f"run {run.name}", stated[name])
            rows.setdefault(name, []).append(row)
        if seconds.keys() == run.participants.keys():
            split = {name: part.cores for name, part in run.participants.items()}
            means, errors = ({name: float(values[k]) for name, values in windows.items()} for k in (0, 1))
            measured.append(
                MeasuredRun(run.name, split, means, errors, seconds, stated, run.oversubscription, run.versions)
            )
    if not rows:
        raise DataError(
            f"run {runs[0].name}: expected time windows after a warm-up of {runs[0].warmup_windows}, found none; "
            "record more windows or leave out fewer"
        )
    frames = {}
    for name, entries in sorted(rows.items()):
        *columns, parameters = zip(*entries, strict=True)
        frame = Samples(*columns, parameters=_columns(parameters))
        frames[name] = frame[np.lexsort((frame.standard_error, frame.seconds, frame.cores))]
    recorded = [(windows_of_run, run.versions) for run in runs if (windows_of_run := recorded_windows(run))]
    return Measurements(
        frames=frames,
        configuration=runs[0].configuration,
        degrees_of_freedom={name: count for run in runs for name, count in run.degrees_of_freedom.items()},
        iterations={name: iterations[name] for name in frames},
        sources=tuple(dict.fromkeys(run.name for run in runs)),
        recorded=tuple(factors for factors, _ in recorded),
        runs=tuple(measured),
        overhead=_overhead(runs),
        core_hours=_core_hours(runs),
        remarks=(*remarks(runs), *convergence_remarks(_iterations_by_kind(runs))),
        recorded_versions=tuple(versions for _, versions in recorded),
        incomplete="; ".join(f"run {run.name} has {run.incomplete}" for run in runs if run.incomplete),
        node_ranks=_node_ranks(runs),
    )


def _node_ranks(runs: Sequence[CoupledRun]) -> dict[str, float]:
    """Cores of each participant on its fullest host, of those that ran on several."""
    fullest: dict[str, float] = {}
    for name, part in (item for run in runs for item in run.participants.items()):
        if len(part.places) > 1:
            fullest[name] = max(fullest.get(name, 0.0), *(float(count) for count, _ in part.places.values()))
    return fullest


def _communication(part: ParticipantRun) -> float:
    """Seconds per window that even the rank spends in MPI that waits least there; NaN where that is not known."""
    known = len(part.rank_mpi) == part.ranks and np.isfinite(part.rank_mpi).all()
    return float(part.rank_mpi.min()) if known else math.nan


def pooled_iterations(runs: Sequence[CoupledRun]) -> dict[str, float]:
    """Return coupling iterations per window after warm-up, by participant: the mean over the runs of one case.

    A first guess changes them: only runs with that of the latest run count, if the participant has any.
    """
    guesses, means = list[tuple[int, str]](), dict[str, list[tuple[str, float]]]()
    for run in runs:
        for name, part in run.participants.items():
            if (steady := run.steady(name)).any():
                means.setdefault(name, []).append((run.guess, float(np.mean(part.iterations[steady]))))
                guesses.append((part.metadata.get("started_unix_ns", 0), run.guess))
    latest = max(guesses, default=(0, ""))[1]
    pooled = {}
    for name, counted in sorted(means.items()):
        newer = [mean for guess, mean in counted if guess == latest]
        pooled[name] = float(np.mean(newer or [mean for _, mean in counted]))
    return pooled


def _iterations_by_kind(runs: Sequence[CoupledRun]) -> dict[str, float]:
    """Mean iterations by the versions and the first guess that ran, in words."""
    groups: dict[str, list[CoupledRun]] = {}
    for run in runs:
        kind = [
            *(f"{name} {version}" for name, version in run.versions.items()),
            run.guess and f"first guess {run.guess}",
        ]
        groups.setdefault(", ".join(filter(None, kind)), []).append(run)
    return {words: max(pooled_iterations(group).values(), default=0.0) for words, group in groups.items()}


def recorded_windows(run: CoupledRun) -> dict[str, Array]:
    """Give what each window after warm-up cost over the run's sample, by participant, for replays.

    Windows far from their neighbours are put back among them: a prediction is of windows as they usually are. Those of
    all participants are the same, unless schemes have windows of different size; nothing where one was not measured.
    """
    kept = {name: run.steady(name) for name in run.participants}
    windows = [part.windows[kept[name]] for name, part in run.participants.items()]
    if all(np.array_equal(other, windows[0]) for other in windows):
        known = [np.isfinite(part.compute_seconds[kept[name]]) for name, part in run.participants.items()]
        for steady in kept.values():
            steady[steady] = np.all(known, axis=0)
    factors = {}
    for name, part in run.participants.items():
        seconds, iterations = part.compute_per_iteration[kept[name]], part.iterations[kept[name]]
        if not (len(seconds) and np.isfinite(seconds).all()):
            return {}
        middle = float(np.median(seconds))
        # A participant that costs nothing has nothing that varies.
        varying = without_outliers(seconds) / middle * iterations / iterations.mean() if middle > 0 else seconds * 0 + 1
        factors[name] = varying
    return factors


def _columns(cases: Sequence[Mapping[str, Any]]) -> dict[str, Values]:
    """Make a column of each parameter that all runs state; of texts where one is not a number."""
    columns = {}
    for key in cases[0]:
        values = [case[key] for case in cases if key in case]
        if len(values) == len(cases):
            is_number = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
            columns[key] = np.array(values, dtype=np.float64) if is_number else np.array([str(v) for v in values])
    return columns


def _core_hours(runs: Sequence[CoupledRun]) -> float:
    """Add up cores times wall time; NaN where the end of a run is not known."""
    parts = [part for run in runs for part in run.participants.values()]
    if not all({"started_unix_ns", "ended_unix_ns"} <= part.metadata.keys() for part in parts):
        return math.nan
    return float(sum(p.cores * (p.metadata["ended_unix_ns"] - p.metadata["started_unix_ns"]) for p in parts) / 3.6e12)


def _overhead(runs: Sequence[CoupledRun]) -> dict[str, float]:
    """Median over the runs of the rank that receives data and spends most on it."""
    parts: dict[str, list[float]] = {}
    for run in runs:
        for name, part in run.participants.items():
            compute = mean_known(part.compute_seconds[run.steady(name)])
            spent = part.rank_overhead[part.receiving] if part.receiving.any() else part.rank_overhead
            if np.isfinite(spent).any() and compute > 0:
                parts.setdefault(name, []).append(min(float(np.nanmax(spent) / compute), 0.99))
    return {name: float(np.median(values)) for name, values in sorted(parts.items())}


def _require_same_case(first: CoupledRun, other: CoupledRun) -> None:
    """Refuse runs that must not be mixed."""
    remedy = "give the runs of one case at a time"
    if first.case != other.case:
        raise DataError(
            f"expected runs of one case, found two: run {first.name} ({_origin(first)}) and run {other.name} "
            f"({_origin(other)}) have different coupling configurations; {remedy}"
        )
    for name in first.degrees_of_freedom.keys() & other.degrees_of_freedom.keys():
        if first.degrees_of_freedom[name] != other.degrees_of_freedom[name]:
            raise DataError(
                f"expected runs of one case, found {name} with {first.degrees_of_freedom[name]:g} degrees of freedom "
                f"in run {first.name} and {other.degrees_of_freedom[name]:g} in run {other.name}; {remedy}"
            )


def _not_measured(name: str, part: ParticipantRun) -> str:
    """Say why the compute time of a participant is unknown, and what to do."""
    remedy = "; ".join(part.timing_problems) or (
        f"found none from backend {part.metadata['backend']}; record with PRECICE_LB_BACKEND=embedded or give seconds "
        "in a CSV file"
    )
    return f"expected waits of participant {name} to be measured, {remedy}"


def _origin(run: CoupledRun) -> str:
    metadata = next(iter(run.participants.values())).metadata
    return str(metadata.get("configuration_path", f"case {run.case[:12]}"))


# Of logarithms: what a reading differs by from the median of several at least, and from a single other one.
_FAR, _FAR_OF_TWO = 0.3, 0.4
# Seconds over ranks: slopes of their logarithms, and what they scatter around a line through others.
_STEEPEST, _FLATTEST, _SCATTER = -1.1, 0.0, 0.15
# So much farther from what other ranks say than the other of two is the one that is off.
_CLEARLY = 0.25


def without_stragglers(measurements: Measurements) -> Measurements:
    """Leave out readings that are far from others at the same layout, and name them.

    Of three or more that is told by their median and by how far others are from it; of two by the other rank counts, if
    these tell it. Two that disagree and of which nothing tells which is off stay, and are named.
    """
    kept, remarks, gone = {}, [], set()
    for name, frame in measurements.frames.items():
        stays = kept[name] = np.ones(len(frame), dtype=np.bool_)
        # What is refused behind here has no logarithm.
        if not (frame.seconds > 0).all():
            continue
        cases, logs = frame.cases, np.log(frame.seconds)
        errors = np.nan_to_num(frame.standard_error / frame.seconds)
        origins = [text or f"measurements of {name}, row {row}" for row, text in enumerate(frame.origin.tolist(), 1)]
        groups: dict[tuple[Hashable, ...], list[int]] = {}
        for row, case in enumerate(cases):
            groups.setdefault(case, []).append(row)
        for case, rows in groups.items():
            repeats = np.array(rows)
            if len(repeats) > 2:
                far = _far_of_many(logs[repeats], errors[repeats])
            elif len(repeats) == 2 and np.ptp(logs[repeats]) > max(_FAR_OF_TWO, 3 * np.hypot(*errors[repeats])):
                others = np.array([other[0] != case[0] and other[1:] == case[1:] for other in cases]) & stays
                far = _far_of_two(logs[repeats], frame.cores[repeats[0]], frame[others])
            else:
                continue
            where = f"{name} on {frame.layouts[repeats[0]].words}"
            left = np.median(frame.seconds[repeats[~far]])
            for row in repeats[far].tolist():
                gone.add(origins[row])
                remarks.append(
                    f"{origins[row]}: {frame.seconds[row]:.4g} s of {where} is left out, far from "
                    f"{plural(int((~far).sum()), 'other reading')} there (median {left:.4g} s); correct it, or measure "
                    "there again."
                )
            if len(repeats) == 2 and not far.any():
                both = " and ".join(f"{frame.seconds[row]:.4g} s ({origins[row]})" for row in rows)
                remarks.append(
                    f"{where}: readings of {both} disagree, and nothing tells which is off; measure there again."
                )
            stays[repeats[far]] = False
    if not remarks:
        return measurements
    runs = tuple(run for run in measurements.runs if f"run {run.name}" not in gone)
    return replace(measurements.rows(kept), runs=runs, remarks=(*measurements.remarks, *remarks))


def _far_of_many(logs: Array, errors: Array) -> Mask:
    gaps = np.abs(logs - np.median(logs))
    # Few lie closer to their own median than to the true one, as in `precice_lb.dataset.series.spread_of`.
    deviation = 1.4826 * float(np.median(gaps)) * len(logs) / (len(logs) - 0.8)
    return np.asarray(gaps > np.maximum(max(_FAR, OUTLIER_DEVIATIONS * deviation), 3 * errors))


def _far_of_two(logs: Array, cores: float, others: Samples) -> Mask:
    """Tell by the readings at other core counts which of two is off; none if they do not tell it."""
    if not len(others):
        return np.zeros(2, dtype=np.bool_)
    counts = np.unique(others.cores)
    seconds = np.log([np.median(others.seconds[others.cores == count]) for count in counts])
    # Each of them tells a range; in the middle of all these one that is off itself decides nothing.
    ends = np.sort(seconds - np.log(counts / cores) * np.array([[_STEEPEST], [_FLATTEST]]), axis=0)
    low, high = np.median(ends, axis=1)
    misses = np.maximum(np.maximum(low - _SCATTER - logs, logs - high - _SCATTER), 0.0)
    return np.asarray((misses == misses.max()) & (misses.max() > _CLEARLY) & (misses.min() == 0))
