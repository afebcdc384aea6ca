"""What the runs of a campaign measured, each without its own warm-up."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from precice_lb.check import found_warmup
from precice_lb.dataset import CoupledRun, Measurements, load_runs, measurements_from_runs
from precice_lb.exceptions import PreciceLBError
from precice_lb.ingest.profiling import enrich

__all__ = ["MeasuredRuns", "mean_iterations", "measured_runs", "read_measurements"]


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
            tables += [measurements_from_runs([run]) for run in _runs([source])]
        except PreciceLBError as error:
            problems.append(str(error))
    return MeasuredRuns(tuple(tables), tuple(problems))


def read_measurements(sources: Sequence[Path]) -> Measurements:
    """Read all runs of one case from directories of stores.

    Raises
    ------
    StoreError, DataError
        What cannot be read, or must not be mixed.
    """
    return measurements_from_runs(_runs(sources))


def _runs(sources: Sequence[Path]) -> list[CoupledRun]:
    """Read runs; of each, leave out what it states as warm-up, or more where more is unlike what follows."""
    return [dataclasses.replace(run, warmup_windows=found_warmup([run])) for run in load_runs(sources, complete=enrich)]
