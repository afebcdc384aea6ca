"""Rows of foreign measurements, and the table they make."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset import Measurements
from precice_lb.dataset.layouts import measured_layouts
from precice_lb.dataset.samples import distinct
from precice_lb.dataset.versions import convergence_remarks
from precice_lb.exceptions import DataError
from precice_lb.layout import Layout
from precice_lb.names import key_of

COLUMNS = ("participant", "ranks", "seconds")
"""Columns that every table of measurements has."""

OPTIONAL_COLUMNS = ("standard_error", "iterations", "threads", "version")
"""Columns with a meaning of their own: standard error of the seconds, coupling iterations per time window, threads of
each rank, and which version of the participant ran."""


@dataclass(frozen=True)
class Sample:
    """One participant in one run.

    Attributes
    ----------
    participant : str
        Its name.
    ranks : int
        Ranks it ran on.
    seconds : float
        Compute seconds per time window.
    source : str
        The file it was read from.
    error : float
        Standard error of the seconds; NaN where unknown.
    iterations : float
        Coupling iterations per time window; NaN where unknown.
    parameters : mapping of str to float or str
        What else is known of the run; an empty text where a table has an empty cell.
    threads : int or None
        Threads of each rank; None where unknown, which counts as one.
    version : str
        Which version of the participant ran; empty where there is one only.
    """

    participant: str
    ranks: int
    seconds: float
    source: str
    error: float = math.nan
    iterations: float = math.nan
    parameters: Mapping[str, float | str] = field(default_factory=dict)
    threads: int | None = None
    version: str = ""

    @property
    def layout(self) -> Layout:
        """Ranks and their threads."""
        return Layout(self.ranks, self.threads or 1)


def join(samples: Iterable[Sample]) -> Measurements:
    """Make one table of the rows, sorted by cores; what is given twice counts once (`distinct`)."""
    rows: dict[str, list[Sample]] = {}
    sources: dict[str, None] = {}
    for sample in samples:
        rows.setdefault(sample.participant, []).append(sample)
        sources.setdefault(sample.source)
    if not rows:
        raise DataError("expected at least one measurement, found none")
    tables, spread, parameters, iterations, versions = {}, {}, {}, {}, {}
    remarks: list[str] = []
    for name, entries in rows.items():
        _check_parameters(name, entries)
        entries.sort(key=lambda entry: (entry.layout.cores, entry.seconds))
        entries = [entries[at] for at in distinct([(_measured(entry), entry.error) for entry in entries])]
        tables[name] = np.array([(entry.layout.cores, entry.seconds) for entry in entries], dtype=np.float64)
        spread[name] = np.array([entry.error for entry in entries], dtype=np.float64)
        if any(entry.version for entry in entries):
            versions[name] = np.array([entry.version for entry in entries])
        columns = {key: _column([entry.parameters[key] for entry in entries]) for key in entries[0].parameters}
        parameters[name] = {key: values for key, values in columns.items() if values is not None}
        known = [entry.iterations for entry in entries if not math.isnan(entry.iterations)]
        if known:
            iterations[name] = float(np.mean(known))
        by_version = {
            f"{name} {version}": [
                e.iterations for e in entries if e.version == version and not math.isnan(e.iterations)
            ]
            for version in sorted({entry.version for entry in entries})
        }
        remarks += convergence_remarks({words: float(np.mean(each)) for words, each in by_version.items() if each})
    layouts: dict[str, list[Layout]] = {}
    for name, entries in rows.items():
        if any(entry.threads is not None for entry in entries):
            for entry in entries:
                layouts.setdefault(key_of(name, entry.version), []).append(entry.layout)
    return Measurements(
        tables, spread, None, {}, iterations, tuple(sources), parameters,
        versions=versions, remarks=tuple(remarks), layouts=measured_layouts(layouts),
    )  # fmt: skip


def _check_parameters(name: str, entries: Sequence[Sample]) -> None:
    first = entries[0]
    reserved = [key for key in first.parameters if key.lower() in (*COLUMNS, *OPTIONAL_COLUMNS)]
    if reserved:
        raise DataError(
            f"{first.source}: expected parameters with names of their own, found {reserved[0]!r}, which is the name of "
            "another column; rename it"
        )
    for entry in entries:
        if entry.parameters.keys() != first.parameters.keys():
            raise DataError(
                f"expected runs of one case, found {name} with the parameters {_listed(first)} in {first.source} and "
                f"{_listed(entry)} in {entry.source}; give the same parameters for every run, or one case at a time"
            )


def _measured(sample: Sample) -> Hashable:
    iterations = None if math.isnan(sample.iterations) else sample.iterations
    cases = tuple(map(str, sample.parameters.values()))
    return sample.layout, sample.seconds, sample.version, iterations, cases


def _listed(sample: Sample) -> str:
    return ", ".join(sample.parameters) or "none"


def _column(values: Sequence[float | str]) -> NDArray[Any] | None:
    """Turn the cells into numbers if they are; None if all are empty."""
    if all(value == "" for value in values):
        return None
    try:
        return np.array([math.nan if value == "" else float(value) for value in values])
    except ValueError:
        return np.array([str(value) for value in values])
