"""Versions of a participant, such as one on CPUs and one on GPUs: which were measured, and what of one of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset.records import Measurements
from precice_lb.exceptions import DataError, InfeasibleError
from precice_lb.layout import Layout, Layouts, layouts_of
from precice_lb.names import key_of

# Means of coupling iterations that differ by less than this share are the same.
_ALIKE = 0.05


def version_names(measurements: Measurements) -> list[str]:
    """Name the participants, then each version of those that have several: what options may speak of."""
    names = list(measurements.samples)
    return [*names, *(key_of(n, v) for n in names for v in _versions(measurements).get(n, ()) if v)]


def _versions(measurements: Measurements) -> dict[str, list[str]]:
    """Give the versions that were measured of each participant that said which, sorted."""
    return {name: sorted(set(rows.tolist())) for name, rows in measurements.versions.items()}


def combinations_of(measurements: Measurements) -> list[dict[str, str]]:
    """List what may run beside what: one version of each participant that has any."""
    known = _versions(measurements)
    return [dict(zip(known, each, strict=True)) for each in product(*known.values())]


def of_versions(measurements: Measurements, versions: Mapping[str, str]) -> Measurements:
    """Give what was measured of one version of each participant, as measurements that know no versions.

    Parameters
    ----------
    measurements : Measurements
    versions : mapping from participant to str
        Of those that have any.

    Returns
    -------
    Measurements
        A participant's rows count whatever versions ran beside it; of runs as a whole those of just these versions.
    """
    names = list(measurements.samples)
    kept = {
        name: rows == versions[name] if name in versions else np.ones(len(rows), dtype=np.bool_)
        for name, rows in (
            (n, measurements.versions.get(n, np.array([""] * len(measurements.samples[n])))) for n in names
        )
    }
    fits = [is_of(run.versions, versions) for run in measurements.runs]
    pairs = zip(measurements.recorded, measurements.recorded_versions or [{}] * len(measurements.recorded), strict=True)
    recorded = [windows for windows, ran in pairs if is_of(ran, versions)]
    return dataclasses.replace(
        of_rows(measurements, kept),
        recorded=tuple(recorded),
        runs=tuple(run for run, fit in zip(measurements.runs, fits, strict=True) if fit),
        versions={},
        recorded_versions=(),
        layouts={
            name: measurements.layouts[key]
            for name in names
            if (key := key_of(name, versions.get(name, ""))) in measurements.layouts
        },
    )


def of_rows(measurements: Measurements, kept: Mapping[str, NDArray[Any]]) -> Measurements:
    """Give some of each participant's rows, by a mask or in an order; runs as a whole stay."""
    return dataclasses.replace(
        measurements,
        samples={name: rows[kept[name]] for name, rows in measurements.samples.items()},
        standard_errors={name: measurements.errors(name)[kept[name]] for name in measurements.samples},
        parameters={
            name: {key: values[kept[name]] for key, values in columns.items()}
            for name, columns in measurements.parameters.items()
        },
        communication={name: values[kept[name]] for name, values in measurements.communication.items()},
        versions={name: values[kept[name]] for name, values in measurements.versions.items()},
        origins={name: values[kept[name]] for name, values in measurements.origins.items()},
    )


def convergence_remarks(iterations: Mapping[str, float]) -> Iterator[str]:
    """Say where versions, in words, need different coupling iterations per window: their mean is taken for each."""
    known = {words: mean for words, mean in iterations.items() if mean > 0}
    if known and max(known.values()) > (1 + _ALIKE) * min(known.values()):
        told = ", ".join(f"{mean:.3g} with {words or 'others'}" for words, mean in known.items())
        yield f"Coupling iterations per time window: {told}; versions are taken to converge alike, with their mean."


def is_of(ran: Mapping[str, str], versions: Mapping[str, str]) -> bool:
    """Whether the versions that ran are these."""
    return all(ran.get(name, "") == version for name, version in versions.items())


def measured_layouts(measured: Mapping[str, Iterable[Layout]]) -> dict[str, Layouts]:
    """Tell the layouts by key (`key_of`); refuse one core in two ways."""
    found = {}
    for name, each in measured.items():
        try:
            found[name] = layouts_of(each)
        except InfeasibleError as error:
            raise DataError(f"measurements of {name}: {error}; learn from those with one way alone") from None
    return found


def row_layouts(measurements: Measurements, name: str) -> list[tuple[str, Layout]]:
    """Give the key and the layout of each row of a participant's samples; one thread where nothing was said."""
    cores = measurements.samples[name][:, 0]
    keys = [key_of(name, str(ran)) for ran in measurements.versions.get(name, [""] * len(cores))]
    return [(key, measurements.layouts.get(key, Layouts()).of(int(n))) for key, n in zip(keys, cores, strict=True)]
