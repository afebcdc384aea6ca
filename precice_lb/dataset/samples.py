"""From coupled runs to samples for performance models."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset.records import CoupledRun, Measurements, ParticipantRun
from precice_lb.dataset.runs import Complete, load_runs
from precice_lb.exceptions import DataError

__all__ = ["load_measurements", "measurements_from_runs", "recorded_windows"]


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


def measurements_from_runs(runs: Sequence[CoupledRun]) -> Measurements:
    """Reduce runs to one sample per run and participant: the median own seconds per window after warm-up.

    Parameters
    ----------
    runs : sequence of CoupledRun
        Runs of one case.

    Returns
    -------
    Measurements
        The spread is the standard error of a median, 1.2533 times that of the mean (exact for Gaussian noise).
        Parameters are those that all runs of a participant state in their metadata.

    Raises
    ------
    DataError
        If there is no run, the runs are of different cases, no time window is left after warm-up, or the backend did
        not tell the waits.
    """
    if not runs:
        raise DataError("measurements: expected at least one coupled run, found none")
    for other in runs[1:]:
        _require_same_case(runs[0], other)
    rows: dict[str, list[tuple[float, float, float, Mapping[str, Any]]]] = {}
    iterations: dict[str, list[float]] = {}
    for run in runs:
        for name, part in run.participants.items():
            steady = run.steady(name)
            if not steady.any():
                continue
            own = part.own_seconds[steady]
            own = own[np.isfinite(own)]
            if not len(own):
                raise DataError(f"run {run.name}: {_not_measured(name, part)}")
            error = 1.2533 * float(np.std(own, ddof=1)) / math.sqrt(len(own)) if len(own) > 1 else math.nan
            case = part.metadata.get("parameters") or {}
            rows.setdefault(name, []).append((float(part.ranks), float(np.median(own)), error, case))
            iterations.setdefault(name, []).append(float(np.mean(part.iterations[steady])))
    if not rows:
        raise DataError(
            f"run {runs[0].name}: expected time windows after a warm-up of {runs[0].warmup_windows}, found none; "
            "record more windows or leave out fewer"
        )
    rows = {name: sorted(entries, key=lambda entry: entry[:3]) for name, entries in sorted(rows.items())}
    table = {name: np.array([entry[:3] for entry in entries]) for name, entries in rows.items()}
    degrees: dict[str, float] = {}
    for run in runs:
        degrees.update(run.degrees_of_freedom)
    return Measurements(
        samples={name: data[:, :2] for name, data in table.items()},
        spread={name: data[:, 2] for name, data in table.items()},
        configuration=runs[0].configuration,
        degrees_of_freedom=degrees,
        iterations={name: float(np.mean(values)) for name, values in sorted(iterations.items())},
        sources=tuple(dict.fromkeys(run.name for run in runs)),
        parameters={name: _columns([entry[3] for entry in entries]) for name, entries in rows.items()},
        recorded=tuple(windows for run in runs if (windows := recorded_windows(run))),
        overhead=_overhead(runs),
        core_hours=_core_hours(runs),
    )


def recorded_windows(run: CoupledRun) -> dict[str, NDArray[np.float64]]:
    """Own seconds of all participants in the windows after warm-up, for replays.

    Parameters
    ----------
    run : CoupledRun
        A coupled run.

    Returns
    -------
    dict of str to ndarray of shape (W,)
        Where all participants count the same windows, those that were measured at all of them. Where they do not
        (coupling schemes with windows of different size), all windows of each; empty if one of them was not measured.
    """
    parts = {name: (part, run.steady(name)) for name, part in run.participants.items()}
    indices = [part.windows[steady] for part, steady in parts.values()]
    own = {name: part.own_seconds[steady] for name, (part, steady) in parts.items()}
    if all(np.array_equal(other, indices[0]) for other in indices):
        known = np.isfinite(np.stack(list(own.values()))).all(axis=0)
        own = {name: seconds[known] for name, seconds in own.items()}
    return own if all(len(seconds) and np.isfinite(seconds).all() for seconds in own.values()) else {}


def _columns(cases: Sequence[Mapping[str, Any]]) -> dict[str, NDArray[Any]]:
    """Make a column of each parameter that all runs state; of texts where one is not a number."""
    columns = {}
    for key in cases[0]:
        values = [case[key] for case in cases if key in case]
        if len(values) == len(cases):
            is_number = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
            columns[key] = np.array(values, dtype=np.float64) if is_number else np.array([str(v) for v in values])
    return columns


def _core_hours(runs: Sequence[CoupledRun]) -> float:
    """Add up ranks times wall time; NaN where the end of a run is not known."""
    parts = [part for run in runs for part in run.participants.values()]
    if not all({"started_unix_ns", "ended_unix_ns"} <= part.metadata.keys() for part in parts):
        return math.nan
    return float(sum(p.ranks * (p.metadata["ended_unix_ns"] - p.metadata["started_unix_ns"]) for p in parts) / 3.6e12)


def _overhead(runs: Sequence[CoupledRun]) -> dict[str, float]:
    """Median over the runs of the rank that receives data and spends most on it."""
    parts: dict[str, list[float]] = {}
    for run in runs:
        for name, part in run.participants.items():
            own = part.own_seconds[run.steady(name)]
            spent = part.rank_overhead[part.receiving] if part.receiving.any() else part.rank_overhead
            if np.isfinite(spent).any() and np.isfinite(own).any() and np.nanmean(own) > 0:
                parts.setdefault(name, []).append(min(float(np.nanmax(spent) / np.nanmean(own)), 0.99))
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
    """Say why the own cost of a participant is unknown, and what to do."""
    remedy = "; ".join(part.timing_problems) or (
        f"found none from backend {part.metadata['backend']}; record with PRECICE_LB_BACKEND=embedded or give seconds "
        "in a CSV file"
    )
    return f"expected waits of participant {name} to be measured, {remedy}"


def _origin(run: CoupledRun) -> str:
    metadata = next(iter(run.participants.values())).metadata
    return str(metadata.get("configuration_path", f"case {run.case[:12]}"))
