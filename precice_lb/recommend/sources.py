"""Measurements from wherever they are: stores, CSV files, arrays; checked before anything is learned from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.case import parse_configuration
from precice_lb.dataset import Measurements, Samples, load_measurements
from precice_lb.dataset.measurements import joined
from precice_lb.exceptions import ConfigurationError, DataError, ScheduleError
from precice_lb.ingest.csv import read_csv, read_frame
from precice_lb.ingest.profiling import enrich
from precice_lb.schedule import Schedule


def load_sources(sources: Sequence[str | Path], *, warmup: int | None = None) -> Measurements:
    """Read measurements from directories of stores and CSV files, all of one case.

    Parameters
    ----------
    sources : sequence of path
        A file that ends in ``.csv`` has the columns participant, ranks, seconds; everything else holds stores. Runs on
        libprecice are joined with preCICE's profiling files.
    warmup : int, optional
        Time windows to leave out at the beginning of each recorded run.

    Returns
    -------
    Measurements
        The rows of all sources, what several say once (`precice_lb.dataset.measurements.distinct`); configuration and
        degrees of freedom from the stores.

    Raises
    ------
    DataError, StoreError
        No source, or one cannot be read.
    """
    paths = [Path(source) for source in sources]
    if not paths:
        raise DataError("expected at least one directory of stores or CSV file, found none")
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise DataError(f"expected a directory of stores or a CSV file, found nothing at {missing[0]}")
    tables = [path for path in paths if path.is_file() and path.suffix.lower() == ".csv"]
    stores = [path for path in paths if path not in tables]
    parts = [load_measurements(stores, warmup=warmup, complete=enrich)] if stores else []
    # A file that is named twice says nothing anew.
    parts += [read_csv(path) for path in {path.resolve(): path for path in tables}.values()]
    return parts[0] if len(parts) == 1 else joined(parts)


def measured_under(measurements: Measurements, schedule: Schedule) -> Measurements:
    """Leave out the windows of runs whose coupling was another one: they say nothing about windows of this schedule."""
    if measurements.configuration is None or not measurements.runs:
        return measurements
    names = schedule.participants
    # Each participant in turn is the slowest, and none of them.
    costs = {name: np.where(np.arange(len(names) + 1) == index, 3.0, 1.0) for index, name in enumerate(names)}
    try:
        configuration = parse_configuration(measurements.configuration)
        for acceleration in (measurements.overhead, None):
            recorded = Schedule.from_config(configuration, measurements.iterations, acceleration)
            ratio = schedule.window_seconds(costs) / recorded.window_seconds(costs)
            if np.allclose(ratio, ratio[0], rtol=1e-6):
                return measurements
    except (ConfigurationError, ScheduleError):  # nothing to compare with
        return measurements
    remark = "The runs were coupled in another way than is asked for: their windows are not compared with predictions."
    return replace(measurements, runs=(), remarks=(*measurements.remarks, remark))


def measurements_from_arrays(samples: Mapping[str, Any]) -> Measurements:
    """Make measurements of a mapping from participant to an array of shape (n, 2), ranks and seconds."""
    if not isinstance(samples, Mapping):
        raise DataError(
            "expected data as a path, a mapping from participant to an array of ranks and seconds, measurements or a "
            f"DataFrame, found {'none' if samples is None else type(samples).__name__}"
        )
    return Measurements({name: Samples(*rows.T) for name, rows in check_samples(samples).items()})


def measurements_of(data: Any) -> Measurements:
    """Read what `recommend_split` was given."""
    if isinstance(data, str | Path):
        return _with_nodes(load_sources([data]))
    if isinstance(data, Measurements):
        return _with_nodes(data)
    is_frame = hasattr(data, "columns") and hasattr(data, "itertuples")
    return _with_nodes(read_frame(data) if is_frame else measurements_from_arrays(data))


def _with_nodes(measurements: Measurements) -> Measurements:
    """Take a column ``nodes`` for what it says of a full node, where several were in use, and for no parameter."""
    full, frames = dict(measurements.node_ranks), {}
    for name, frame in measurements.frames.items():
        parameters = dict(frame.parameters)
        nodes = parameters.pop("nodes", np.array(""))
        if np.issubdtype(nodes.dtype, np.number) and (several := nodes > 1).any():
            full[name] = float(np.ceil((frame.cores[several] / nodes[several]).max()))
        frames[name] = replace(frame, parameters=parameters)
    return replace(measurements, frames=frames, node_ranks=full)


def alike_names(names: Iterable[str]) -> list[str]:
    """Say which names differ by case alone."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(name.casefold(), []).append(name)
    return [
        f"{' and '.join(group)} differ by case alone and count as {len(group)} participants; write one name if they "
        "are one."
        for group in groups.values()
        if len(group) > 1
    ]


def check_participants(measurements: Measurements, names: tuple[str, ...]) -> dict[str, NDArray[np.float64]]:
    """Give samples in the coupling's order, sorted by ranks so that the order of rows never matters."""
    if not set(names) <= set(measurements.samples):
        missing = ", ".join(name for name in names if name not in measurements.samples)
        remarks = (*measurements.remarks, *alike_names(dict.fromkeys([*names, *measurements.samples])))
        raise DataError(
            f"expected measurements of all participants of the coupling ({', '.join(names)}), found none of {missing}"
            + "".join(f". {remark.rstrip('.')}" for remark in dict.fromkeys(remarks))
        )
    unknown = [name for name in measurements.samples if name not in names]
    if unknown:
        raise DataError(f"expected measurements of {', '.join(names)}, found some of {unknown[0]}, not in the coupling")
    checked = check_samples(measurements.samples)
    return {name: checked[name][np.lexsort(checked[name].T[::-1])] for name in names}


def check_samples(samples: Mapping[str, Any]) -> dict[str, NDArray[np.float64]]:
    """Check samples row by row."""
    if not samples:
        raise DataError("expected measurements of at least one participant, found none")
    checked = {}
    for name, rows in samples.items():
        try:
            values = np.asarray(rows, dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError(f'measurements of "{name}": expected numbers, found something else') from None
        if values.ndim != 2 or values.shape[1] != 2 or not len(values):
            raise DataError(
                f'measurements of "{name}": expected at least one row of ranks and seconds, found shape {values.shape}'
            )
        ranks, seconds = values.T
        for column, good, expected in (
            (ranks, (ranks >= 1) & (ranks == np.floor(ranks)), "a whole number of ranks from 1"),
            (seconds, seconds > 0, "seconds per time window above 0"),
        ):
            if len(bad := np.flatnonzero(~(np.isfinite(column) & good))):
                actual = f"found {column[bad[0]]:g}"
                raise DataError(f'measurements of "{name}", row {bad[0] + 1}: expected {expected}, {actual}')
        checked[str(name)] = values
    return checked
