"""What the runs of a campaign measured, each without its own warm-up."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.check import found_warmup
from precice_lb.dataset import CoupledRun, Measurements, load_runs, measurements_from_runs
from precice_lb.exceptions import PreciceLBError
from precice_lb.ingest.profiling import enrich

__all__ = ["MeasuredRuns", "mean_iterations", "measured_runs", "read_measurements", "read_runs"]


@dataclasses.dataclass(frozen=True)
class MeasuredRuns:
    """Runs that can be learned from.

    Attributes
    ----------
    runs
        One table per coupled run, with a row for each participant.
    problems
        Why the others cannot be learned from.
    """

    runs: tuple[Measurements, ...]
    problems: tuple[str, ...]


def mean_iterations(runs: Sequence[Measurements]) -> dict[str, float]:
    """Mean coupling iterations per window by participant, over runs."""
    names = {name for run in runs for name in run.iterations}
    each = {name: [run.iterations[name] for run in runs if name in run.iterations] for name in sorted(names)}
    return {name: sum(values) / len(values) for name, values in each.items()}


def measured_runs(sources: Sequence[Path]) -> MeasuredRuns:
    """Read runs from directories of stores; one that cannot be read does not keep the others from being used."""
    tables, problems = [], []
    for source in sources:
        try:
            tables += [_with_parameters([run]) for run in read_runs([source])]
        except PreciceLBError as error:
            problems.append(str(error))
    return MeasuredRuns(tuple(tables), tuple(problems))


def read_measurements(sources: Sequence[Path], warmup: int | None = None) -> Measurements:
    """Read all runs of one case from directories of stores, with the parameters of each.

    ``warmup`` is as of `read_runs`.

    Raises
    ------
    StoreError, DataError
        What cannot be read, or must not be mixed.
    """
    return _with_parameters(read_runs(sources, warmup))


def _with_parameters(runs: Sequence[CoupledRun]) -> Measurements:
    """Reduce runs to samples; numbers that all of them state as parameters become columns."""
    table = measurements_from_runs(runs)
    columns: dict[str, dict[str, NDArray[np.float64]]] = {}
    for name, samples in table.samples.items():
        rows = []
        for run in runs:
            if name in run.participants:
                stated = _numbers(run.participants[name].metadata.get("parameters", {}))
                rows += [(float(ranks), float(seconds), stated) for ranks, seconds in _samples(run, name)]
        # In the order of the samples.
        rows.sort(key=lambda row: row[:2])
        if len(rows) == len(samples):
            shared = set.intersection(*(set(row[2]) for row in rows))
            columns[name] = {key: np.array([row[2][key] for row in rows]) for key in sorted(shared)}
    return dataclasses.replace(table, parameters=columns)


def _samples(run: CoupledRun, name: str) -> NDArray[np.float64]:
    """Rows of one run; none where no window is left after its warm-up."""
    if not run.steady(name).any():
        return np.empty((0, 2))
    return measurements_from_runs([run]).samples[name]


def _numbers(parameters: dict[str, Any]) -> dict[str, float]:
    known = {key: value for key, value in parameters.items() if not isinstance(value, bool)}
    return {key: float(value) for key, value in known.items() if isinstance(value, int | float)}


def read_runs(sources: Sequence[Path], warmup: int | None = None) -> list[CoupledRun]:
    """Read runs; of each, leave out what it states as warm-up, or more where more is unlike what follows.

    With a number of windows as ``warmup``, so many are left out in place of that.

    Raises
    ------
    StoreError
        What cannot be read.
    """
    runs = load_runs(sources, warmup=warmup, complete=enrich)
    if warmup is not None:
        return runs
    return [dataclasses.replace(run, warmup_windows=found_warmup([run])) for run in runs]
