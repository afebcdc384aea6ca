"""From coupled runs to samples for performance models."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from precice_lb.dataset.measurements import MeasuredRun, Measurements, Samples, is_number
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
    for run in runs:
        _require_same_case(runs[0], run)
        if run.time.problem:
            raise DataError(f"run {run.name}: expected what can be compared, found {run.time.problem}")
    iterations = {**pooled_iterations(runs), **(iterations or {})}
    # In the order of the columns of `Samples`, with the parameters behind.
    rows: dict[str, list[tuple[Any, ...]]] = {}
    overheads: dict[str, list[float]] = {}
    node_ranks: dict[str, float] = {}
    measured = []
    for run in runs:
        split = {name: part.cores for name, part in run.participants.items()}
        whole = MeasuredRun(run.name, split, {}, {}, {}, {}, run.oversubscription, run.versions)
        for name, part in sorted(run.participants.items()):
            if len(part.places) > 1:
                fullest = max(float(count) for count, _ in part.places.values())
                node_ranks[name] = max(node_ranks.get(name, 0.0), fullest)
            steady = run.steady(name)
            if not steady.any():
                continue
            known = steady & np.isfinite(part.compute_seconds)
            if not known.any():
                raise DataError(f"run {run.name}: {_not_measured(name, part)}")
            count, per_iteration = iterations[name], part.compute_per_iteration[known]
            seconds = float(np.median(per_iteration)) * count
            window, error = mean_of(part.window_seconds[known] / np.maximum(part.iterations[known], 1))
            whole.window_seconds[name], whole.standard_errors[name] = count * window, count * error
            whole.compute_seconds[name] = seconds
            whole.parameters[name] = stated = dict(part.metadata.get("parameters") or {})
            # What even the rank spends in MPI that waits least there.
            in_mpi = part.rank_mpi if len(part.rank_mpi) else np.array([np.nan])
            sent = float(in_mpi.min()) * count / float(np.mean(part.iterations[steady]))
            sent = sent if sent < seconds else math.nan
            error = spread_of(per_iteration).error * seconds
            row = part.ranks, seconds, part.threads, error, sent, part.version, f"run {run.name}", stated
            rows.setdefault(name, []).append(row)
            # Of the rank that receives data and spends most on it.
            spent = part.rank_overhead[part.receiving] if part.receiving.any() else part.rank_overhead
            if np.isfinite(spent).any() and (compute := mean_known(part.compute_seconds[steady])) > 0:
                overheads.setdefault(name, []).append(min(float(np.nanmax(spent) / compute), 0.99))
        if whole.compute_seconds.keys() == split.keys():
            measured.append(whole)
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
    recorded = [(factors, run.versions) for run in runs if (factors := recorded_windows(run))]
    return Measurements(
        frames=frames,
        configuration=runs[0].configuration,
        degrees_of_freedom={name: count for run in runs for name, count in run.degrees_of_freedom.items()},
        iterations={name: iterations[name] for name in frames},
        sources=tuple(dict.fromkeys(run.name for run in runs)),
        recorded=tuple(factors for factors, _ in recorded),
        runs=tuple(measured),
        overhead={name: float(np.median(values)) for name, values in sorted(overheads.items())},
        core_hours=_core_hours(runs),
        remarks=remarks(runs),
        recorded_versions=tuple(versions for _, versions in recorded),
        incomplete="; ".join(f"run {run.name} has {run.incomplete}" for run in runs if run.incomplete),
        node_ranks=node_ranks,
    )


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
        # A participant that costs nothing has nothing that varies.
        middle = float(np.median(seconds)) or math.inf
        varying = without_outliers(seconds) / middle * iterations / iterations.mean()
        factors[name] = varying if middle < math.inf else np.ones(len(seconds))
    return factors


def _columns(cases: Sequence[Mapping[str, Any]]) -> dict[str, Values]:
    """Make a column of each parameter that all runs state; of texts where one is not a number."""
    columns: dict[str, Values] = {}
    for key in set.intersection(*map(set, cases)):
        values = [case[key] for case in cases]
        columns[key] = np.array(values, np.float64 if all(map(is_number, values)) else np.str_)
    return dict(sorted(columns.items()))


def _core_hours(runs: Sequence[CoupledRun]) -> float:
    """Add up cores times wall time; NaN where the end of a run is not known."""
    parts = [part for run in runs for part in run.participants.values()]
    if not all({"started_unix_ns", "ended_unix_ns"} <= part.metadata.keys() for part in parts):
        return math.nan
    return float(sum(p.cores * (p.metadata["ended_unix_ns"] - p.metadata["started_unix_ns"]) for p in parts) / 3.6e12)


def _require_same_case(first: CoupledRun, other: CoupledRun) -> None:
    """Refuse runs that must not be mixed."""
    remedy = "give the runs of one case at a time"
    if first.case != other.case:
        heads = [(run, next(iter(run.participants.values())).metadata) for run in (first, other)]
        one, two = (f"run {r.name} ({head.get('configuration_path', f'case {r.case[:12]}')})" for r, head in heads)
        raise DataError(
            f"expected runs of one case, found two: {one} and {two} have different coupling configurations; {remedy}"
        )
    for name in first.degrees_of_freedom.keys() & other.degrees_of_freedom.keys():
        counts = [run.degrees_of_freedom[name] for run in (first, other)]
        if counts[0] != counts[1]:
            raise DataError(
                f"expected runs of one case, found {name} with {counts[0]:g} degrees of freedom in run {first.name} "
                f"and {counts[1]:g} in run {other.name}; {remedy}"
            )


def _not_measured(name: str, part: ParticipantRun) -> str:
    """Say why the compute time of a participant is unknown, and what to do."""
    # Commands join all runs with preCICE's profiling files, and name a missing file as a timing problem.
    remedy = "load the runs with complete=precice_lb.ingest.profiling.enrich, or give seconds in a CSV file"
    reason = "; ".join(part.timing_problems) or f"found none from backend {part.metadata['backend']}; {remedy}"
    return f"expected waits of participant {name} to be measured, {reason}"


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
        groups: dict[tuple[Hashable, ...], list[int]] = {}
        for row, case in enumerate(frame.cases):
            groups.setdefault(case, []).append(row)
        for case, rows in groups.items():
            readings = frame[rows]
            alike = [n for other, numbers in groups.items() if other[1:] == case[1:] and other != case for n in numbers]
            far = _far_from_others(readings, frame[[row for row in alike if stays[row]]])
            if far is None:
                continue
            words = f"{name} on {readings.layouts[0].words}"
            texts = [
                f"{origin or f'measurements of {name}, row {row + 1}'}: {seconds:.4g} s"
                for row, origin, seconds in zip(rows, readings.origin.tolist(), readings.seconds, strict=True)
            ]
            if not far.any():
                remarks.append(
                    f"{words}: {' and '.join(texts)} disagree, and nothing tells which is off; measure again."
                )
            left = float(np.median(readings.seconds[~far]))
            for place in np.flatnonzero(far).tolist():
                gone.add(readings.origin[place])
                stays[rows[place]] = False
                remarks.append(
                    f"{texts[place]} of {words} is left out, far from {plural(int((~far).sum()), 'other reading')} "
                    f"there (median {left:.4g} s); correct it, or measure there again."
                )
    if not remarks:
        return measurements
    runs = tuple(run for run in measurements.runs if f"run {run.name}" not in gone)
    return replace(measurements.rows(kept), runs=runs, remarks=(*measurements.remarks, *remarks))


def _far_from_others(readings: Samples, others: Samples) -> Mask | None:
    """Tell which of several readings at one layout are off, of two by those at other core counts; None if all agree."""
    logs, errors = np.log(readings.seconds), np.nan_to_num(readings.standard_error / readings.seconds)
    if len(logs) > 2:
        gaps = np.abs(logs - np.median(logs))
        # Few lie closer to their own median than to the true one, as in `precice_lb.dataset.series.spread_of`.
        deviation = 1.4826 * float(np.median(gaps)) * len(logs) / (len(logs) - 0.8)
        far = gaps > np.maximum(max(_FAR, OUTLIER_DEVIATIONS * deviation), 3 * errors)
        return far if far.any() else None
    if len(logs) < 2 or np.ptp(logs) <= max(_FAR_OF_TWO, 3 * np.hypot(*errors)):
        return None
    if not len(others):
        return np.zeros(2, dtype=np.bool_)
    counts = np.unique(others.cores)
    seconds = np.log([np.median(others.seconds[others.cores == count]) for count in counts])
    # Each of them tells a range; in the middle of all these one that is off itself decides nothing.
    ends = np.sort(seconds - np.log(counts / readings.cores[0]) * np.array([[_STEEPEST], [_FLATTEST]]), axis=0)
    low, high = np.median(ends, axis=1)
    misses = np.maximum(np.maximum(low - _SCATTER - logs, logs - high - _SCATTER), 0.0)
    return np.asarray((misses == misses.max()) & (misses.max() > _CLEARLY) & (misses.min() == 0))
