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
class Case:
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


def case_of(measurements: Measurements, names: tuple[str, ...], wanted: Values | None, learner: Any) -> Case:
    """Choose rows and columns for a case."""
    given = dict(wanted or {})
    frames = measurements.frames
    known = {column for name in names for column in frames[name].parameters}
    for column in given:
        if column not in known:
            raise DataError(
                f"expected parameters out of the measurements' ({', '.join(sorted(known)) or 'none'}), found {column!r}"
            )
    columns: dict[str, dict[str, float]] = {}
    kept = {name: np.ones(len(frame), dtype=np.bool_) for name, frame in frames.items()}
    warnings: list[str] = []
    for name in names:
        modelled: dict[str, float] = {}
        for column, values in frames[name].parameters.items():
            varies = len(np.unique(values)) > 1
            if column not in given:
                if varies:
                    raise DataError(_missing(name, column, values))
                continue
            value = given[column]
            if value is None:
                if varies:
                    warnings.append(
                        f"{name}: measurements with different {column} ({_range(values)}) count as ones of one case, "
                        "as was asked for."
                    )
            elif varies and _is_numeric(values) and getattr(learner, "several_parameters", True):
                modelled[column] = _number(name, column, value)
                low, high = float(values.min()), float(values.max())
                if not low <= modelled[column] <= high:
                    warnings.append(
                        f"{name}: {column} = {modelled[column]:g} is outside of the measured range of {low:g} to "
                        f"{high:g}; the prediction is an extrapolation."
                    )
            else:
                kept[name] &= _equal(name, column, values, value)
        if not kept[name].any():
            raise DataError(f"expected measurements of {name} with all of {_said(given)} at once, found none")
        columns[name] = modelled
    runs = tuple(run for run in measurements.runs if _is_of_case(run, given))
    said = {column: value for column, value in given.items() if value is not None}
    return Case(dataclasses.replace(measurements.rows(kept), runs=runs), columns, said, tuple(warnings))


def _is_of_case(run: MeasuredRun, given: Values) -> bool:
    """Whether a run states no other value of a parameter than the wanted one."""
    return all(
        stated[column] == value
        for stated in run.parameters.values()
        for column, value in given.items()
        if value is not None and column in stated
    )


def _missing(name: str, column: str, values: NDArray[Any]) -> str:
    example = f"{values.max():g}" if _is_numeric(values) else str(values[-1])
    return (
        f"{name}: expected a value of {column} to recommend for, as it varies between measurements ({_range(values)}), "
        f"found none; say --set case.parameter.{column}={example} (in Python parameters={{{column!r}: ...}}), or "
        f"{column}=any (None) where it makes no difference"
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
        text = f"{value:g}" if isinstance(value, float) else str(value)
        same = values == text
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
    different = np.unique(values)
    if np.issubdtype(values.dtype, np.number):
        shown = [f"{value:g}" for value in different]
        return shown[0] if len(shown) == 1 else f"{shown[0]} to {shown[-1]}" if len(shown) > 4 else ", ".join(shown)
    texts = [str(value) for value in different[:4]]
    return ", ".join([*texts, "…"] if len(different) > 4 else texts)


def _said(given: Values) -> str:
    return ", ".join(f"{column}={value}" for column, value in given.items() if value is not None)


def rows_at(ranks: ArrayLike, columns: Mapping[str, float]) -> Array:
    """Ranks, shape (n,), with the parameters of a case beside them, as learners take them, shape (n, 1 + k)."""
    values = np.asarray(ranks, dtype=np.float64).reshape(-1, 1)
    return np.hstack([values, np.tile(list(columns.values()), (len(values), 1))])


def fit_model(case: Case, name: str, learner: Any, cores: float | None = None) -> Any:
    """Fit a model for a participant, of ranks and the parameters of the case; a full node may have so many ranks."""
    columns, frame = case.columns[name], case.measurements.frames[name]
    # Sorted, so that the order of rows never matters.
    frame = frame[np.lexsort((frame.seconds, frame.cores))]
    rows, spread = measured_rows(frame, columns), frame.standard_error
    if not columns:
        spread = widened_errors(frame.cores, frame.seconds, spread)
    model = new_learner(learner)
    known = {"standard_error": spread, "communication": frame.communication, "cores": cores}
    try:
        takes = inspect.signature(model.fit).parameters
        return model.fit(rows, frame.seconds, **{word: values for word, values in known.items() if word in takes})
    except PreciceLBError as error:
        raise type(error)(f"model of {name}: {error}") from error
    except ValueError as error:
        raise ModelError(f"model of {name}: {type(model).__name__} cannot be fitted: {error}") from error


def measured_rows(samples: Samples, columns: Iterable[str]) -> Array:
    """Ranks and parameters of each measurement, shape (n, 1 + columns)."""
    return np.column_stack([samples.cores, *(samples.parameters[column] for column in columns)])
