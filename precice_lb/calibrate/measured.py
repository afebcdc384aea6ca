"""What the runs of a campaign measured, each without its own warm-up."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from precice_lb.dataset import CoupledRun, Measurements, load_runs, measurements_from_runs
from precice_lb.exceptions import PreciceLBError
from precice_lb.ingest.profiling import enrich

__all__ = ["MeasuredRuns", "mean_iterations", "measured_runs", "measurements_of", "read_runs"]


@dataclasses.dataclass(frozen=True)
class MeasuredRuns:
    """Runs that can be learned from."""

    #: One table per coupled run, with a row for each participant.
    runs: tuple[Measurements, ...]
    #: Why the others cannot be learned from.
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
            tables += [measurements_of([run]) for run in read_runs([source])]
        except PreciceLBError as error:
            problems.append(str(error))
    return MeasuredRuns(tuple(tables), tuple(problems))


def measurements_of(runs: Sequence[CoupledRun]) -> Measurements:
    """Reduce runs to samples; only numbers that all of them state as parameters become columns."""
    table = measurements_from_runs(runs)
    numbers = {
        name: {key: values for key, values in columns.items() if values.dtype.kind == "f"}
        for name, columns in table.parameters.items()
    }
    return dataclasses.replace(table, parameters=numbers)


def read_runs(sources: Sequence[Path], warmup: int | None = None) -> list[CoupledRun]:
    """Read runs, with what was measured beside their stores.

    With a number of windows as ``warmup``, so many are left out of each.
    """
    return load_runs(sources, warmup=warmup, complete=enrich)
