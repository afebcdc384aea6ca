"""Which case to recommend for, where the measurements are of several, and one fitted model per participant for it."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.dataset import MeasuredRun, Measurements, Samples
from precice_lb.exceptions import DataError, ModelError, PreciceLBError
from precice_lb.models.base import new_learner, widened_errors

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
    warnings: tuple[str, ...]


def learner_name(model: Any) -> str:
    """Name of a learner or fitted model."""
    return str(getattr(model, "learner_name", type(model).__name__))


def selected(measurements: Measurements, names: tuple[str, ...], wanted: Values | None, learner: Any) -> Selection:
    """Choose rows and columns for a case."""
    asked = dict(wanted or {})
    frames = measurements.frames
    known = {column for name in names for column in frames[name].parameters}
    if unknown := [column for column in asked if column not in known]:
        raise DataError(
            f"expected parameters out of the measurements' ({', '.join(sorted(known)) or 'none'}), found {unknown[0]!r}"
        )
    columns: dict[str, dict[str, float]] = {name: {} for name in names}
    kept = {name: np.ones(len(frame), dtype=np.bool_) for name, frame in frames.items()}
    warnings: list[str] = []
    for name in names:
        for column, values in frames[name].parameters.items():
            varies, value = len(np.unique(values)) > 1, asked.get(column)
            if column not in asked and varies:
                example = f"{values.max():g}" if _is_numeric(values) else str(values[-1])
                raise DataError(
                    f"{name}: expected a value of {column} to recommend for, as it varies between measurements "
                    f"({_range(values)}), found none; say --set case.parameter.{column}={example} (in Python "
                    f"parameters={{{column!r}: ...}}), or {column}=any (None) where it makes no difference"
                )
            if value is None:
                if varies:
                    warnings.append(
                        f"{name}: measurements with different {column} ({_range(values)}) count as ones of one case, "
                        "as was asked for."
                    )
            elif varies and _is_numeric(values) and getattr(learner, "several_parameters", True):
                number = columns[name][column] = _number(name, column, value)
                if not (low := float(values.min())) <= number <= (high := float(values.max())):
                    warnings.append(
                        f"{name}: {column} = {number:g} is outside of the measured range of {low:g} to {high:g}; the "
                        "prediction is an extrapolation."
                    )
            else:
                kept[name] &= _equal(name, column, values, value)
        if not kept[name].any():
            texts = ", ".join(f"{column}={value}" for column, value in asked.items() if value is not None)
            raise DataError(f"expected measurements of {name} with all of {texts} at once, found none")
    stated = {column: value for column, value in asked.items() if value is not None}
    runs = tuple(run for run in measurements.runs if _is_of_case(run, stated))
    return Selection(dataclasses.replace(measurements.rows(kept), runs=runs), columns, stated, tuple(warnings))


def _is_of_case(run: MeasuredRun, stated: Mapping[str, float | str]) -> bool:
    """Whether a run states no other value of a parameter than the wanted one."""
    return all(
        of_participant.get(column, value) == value
        for of_participant in run.parameters.values()
        for column, value in stated.items()
    )


def _number(name: str, column: str, value: Any) -> float:
    if not isinstance(value, str | bool):
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = np.nan
        if np.isfinite(number):
            return number
    raise DataError(f"{name}: expected a number for the parameter {column}, found {value!r}")


def _equal(name: str, column: str, values: NDArray[Any], value: Any) -> NDArray[np.bool_]:
    if np.issubdtype(values.dtype, np.number):
        same = values == _number(name, column, value)
    else:
        same = values == (f"{value:g}" if isinstance(value, float) else str(value))
    if same.any():
        return np.asarray(same)
    raise DataError(
        f"{name}: expected measurements with {column}={value}, found {_range(values)}; measure there, name a measured "
        "value, or leave it to the default learner, which learns from all"
    )


def _is_numeric(values: NDArray[Any]) -> bool:
    """Whether values of a parameter are numbers, all of them finite."""
    return bool(np.issubdtype(values.dtype, np.number) and np.isfinite(values.astype(np.float64)).all())


def _range(values: NDArray[Any]) -> str:
    """Write the different values, at most four of them, or the ends of many numbers."""
    different, is_number = np.unique(values), np.issubdtype(values.dtype, np.number)
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
