"""Measurements from wherever they are, checked; for which case; and one fitted model per participant."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.case import parse_configuration
from precice_lb.dataset import Measurements, Samples, load_measurements
from precice_lb.dataset.measurements import joined
from precice_lb.exceptions import ConfigurationError, DataError, ModelError, PreciceLBError, ScheduleError
from precice_lb.ingest.csv import read_csv, read_frame
from precice_lb.ingest.profiling import enrich
from precice_lb.models.base import new_learner, widened_errors
from precice_lb.recommend.remarks import Remark, remark
from precice_lb.schedule import Schedule
from precice_lb.text import checked_list


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
        The rows of all sources, what several say once; configuration and
        degrees of freedom from the stores.

    Raises
    ------
    DataError, StoreError
        No source, or one cannot be read.
    """
    paths = [Path(source) for source in checked_list(sources, "sources", "paths", DataError)]
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
    text = "The runs were coupled in another way than is asked for: their windows are not compared with predictions."
    return replace(measurements, runs=(), remarks=(*measurements.remarks, text))


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
        measurements = load_sources([data])
    elif isinstance(data, Measurements):
        measurements = data
    else:
        is_frame = hasattr(data, "columns") and hasattr(data, "itertuples")
        measurements = read_frame(data) if is_frame else measurements_from_arrays(data)
    # A column ``nodes`` counts for what it says of a full node, where several were in use, and as no parameter.
    full, frames = dict(measurements.node_ranks), {}
    for name, frame in measurements.frames.items():
        parameters = dict(frame.parameters)
        nodes = parameters.pop("nodes", np.array(""))
        if np.issubdtype(nodes.dtype, np.number) and (several := nodes > 1).any():
            full[name] = float(np.ceil((frame.cores[several] / nodes[several]).max()))
        frames[name] = replace(frame, parameters=parameters)
    return replace(measurements, frames=frames, node_ranks=full)


def check_participants(measurements: Measurements, names: tuple[str, ...]) -> dict[str, NDArray[np.float64]]:
    """Give samples in the coupling's order, sorted by ranks so that the order of rows never matters."""
    missing = [name for name in names if name not in measurements.samples]
    if missing:
        raise DataError(
            f"expected measurements of all participants of the coupling ({', '.join(names)}), found none of "
            f"{', '.join(missing)}, but of {', '.join(measurements.samples)}"
            + "".join(f". {text.rstrip('.')}" for text in dict.fromkeys(measurements.remarks))
        )
    if unknown := [name for name in measurements.samples if name not in names]:
        raise DataError(f"expected measurements of {', '.join(names)}, found some of {unknown[0]}, not in the coupling")
    samples = measurements.samples
    return {name: samples[name][np.lexsort(samples[name].T[::-1])] for name in names}


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
            raise DataError(f'measurements of "{name}": expected rows of ranks and seconds, found shape {values.shape}')
        ranks, seconds = values.T
        good = (ranks >= 1) & (ranks == np.floor(ranks)) & (seconds > 0) & np.isfinite(values).all(axis=1)
        if not good.all():
            row = int(np.argmin(good))
            raise DataError(
                f'measurements of "{name}", row {row + 1}: expected a whole number of ranks from 1 and seconds per '
                f"time window above 0, found {ranks[row]:g} and {seconds[row]:g}"
            )
        checked[str(name)] = values
    return checked


Values = Mapping[str, float | str | None]
Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class Selection:
    """Measurements to learn from, and where their parameters are to be evaluated."""

    # The rows that count.
    measurements: Measurements
    # By participant, the parameters that its model gets beside the ranks, with their values in this case.
    columns: dict[str, dict[str, float]]
    # The case in words: every parameter that was named, those aside that make no difference.
    values: dict[str, float | str]
    # What speaks against trusting predictions for it.
    warnings: tuple[Remark, ...]


def learner_name(model: Any) -> str:
    """Name of a learner or fitted model."""
    return str(getattr(model, "learner_name", type(model).__name__))


def selected(measurements: Measurements, names: tuple[str, ...], wanted: Values | None, learner: Any) -> Selection:
    """Choose rows and columns for a case."""
    asked = dict(wanted or {})
    frames = measurements.frames
    known = {column for name in names for column in frames[name].parameters}
    if unknown := [column for column in asked if column not in known]:
        raise DataError(f"expected parameters out of {', '.join(sorted(known)) or 'none'}, found {unknown[0]!r}")
    stated = {column: value for column, value in asked.items() if value is not None}
    columns: dict[str, dict[str, float]] = {name: {} for name in names}
    kept = {name: np.ones(len(frame), dtype=np.bool_) for name, frame in frames.items()}
    warnings: list[Remark] = []
    for name in names:
        for column, values in frames[name].parameters.items():
            varies, value, is_number = len(np.unique(values)) > 1, stated.get(column), values.dtype.kind in "fiu"
            if value is not None and is_number:
                value = _number(name, column, value)
            if column not in asked and varies:
                example = f"{values.max():g}" if is_number else str(values[-1])
                raise DataError(
                    f"{name}: expected a value of {column} to recommend for, as it varies between measurements "
                    f"({_range(values)}), found none; say --set case.parameter.{column}={example} (in Python "
                    f"parameter={{{column!r}: ...}}), or {column}=any (None) where it makes no difference"
                )
            if value is None:
                if varies:
                    different = _range(values)
                    warnings.append(remark("cases-pooled", participant=name, parameter=column, values=different))
            elif (
                varies and is_number and isinstance(value, float) and np.isfinite(values).all()
                and getattr(learner, "several_parameters", True)
            ):  # fmt: skip
                columns[name][column] = value
                low, high = float(values.min()), float(values.max())
                if not low <= value <= high:
                    place = {"parameter": column, "value": value, "low": low, "high": high}
                    warnings.append(remark("parameter-outside", participant=name, **place))
            else:
                same = values == (value if is_number else f"{value:g}" if isinstance(value, float) else str(value))
                if not same.any():
                    raise DataError(
                        f"{name}: expected measurements with {column}={stated[column]}, found {_range(values)}; "
                        "measure there, name a measured value, or use the default learner, which learns from all"
                    )
                kept[name] &= same
        if not kept[name].any():
            texts = ", ".join(f"{column}={value}" for column, value in stated.items())
            raise DataError(f"expected measurements of {name} with all of {texts} at once, found none")
    runs = tuple(
        run for run in measurements.runs
        if all(of.get(column, value) == value for of in run.parameters.values() for column, value in stated.items())
    )  # fmt: skip
    return Selection(dataclasses.replace(measurements.rows(kept), runs=runs), columns, stated, tuple(warnings))


def _number(name: str, column: str, value: Any) -> float:
    if not isinstance(value, str | bool):
        with contextlib.suppress(TypeError, ValueError):
            if math.isfinite(number := float(value)):
                return number
    raise DataError(f"{name}: expected a number for the parameter {column}, found {value!r}")


def _range(values: NDArray[Any]) -> str:
    """Write the different values, at most four of them, or the ends of many numbers."""
    is_number, different = values.dtype.kind in "fiu", np.unique(values)
    texts = [f"{value:g}" if is_number else str(value) for value in different]
    if len(texts) <= 4:
        return ", ".join(texts)
    return f"{texts[0]} to {texts[-1]}" if is_number else ", ".join([*texts[:4], "…"])


def rows_at(ranks: ArrayLike, columns: Mapping[str, float]) -> Array:
    """Ranks, shape (n,), with the parameters of a case beside them, as learners take them, shape (n, 1 + k)."""
    values = np.asarray(ranks, dtype=np.float64).reshape(-1, 1)
    return np.hstack([values, np.tile(list(columns.values()), (len(values), 1))])


def fit_model(selection: Selection, name: str, learner: Any, cores: float | None = None) -> Any:
    """Fit a model for a participant, of ranks and the parameters of the case; a full node may have so many ranks."""
    columns, frame = selection.columns[name], selection.measurements.frames[name]
    # Sorted, so that the order of rows never matters.
    frame = frame[np.lexsort((frame.seconds, frame.cores))]
    spread = frame.standard_error if columns else widened_errors(frame.cores, frame.seconds, frame.standard_error)
    model = new_learner(learner)
    known = {"standard_error": spread, "communication": frame.communication, "cores": cores}
    try:
        takes = inspect.signature(model.fit).parameters
        words = {word: values for word, values in known.items() if word in takes}
        return model.fit(measured_rows(frame, columns), frame.seconds, **words)
    except PreciceLBError as error:
        raise type(error)(f"model of {name}: {error}") from error
    except ValueError as error:
        raise ModelError(f"model of {name}: {type(model).__name__} cannot be fitted: {error}") from error


def measured_rows(samples: Samples, columns: Iterable[str]) -> Array:
    """Ranks and parameters of each measurement, shape (n, 1 + columns)."""
    return np.column_stack([samples.cores, *(samples.parameters[column] for column in columns)])
