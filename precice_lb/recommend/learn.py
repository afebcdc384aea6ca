"""One fitted model per participant, of ranks alone, whatever parameters the measurements have."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.dataset import Measurements
from precice_lb.exceptions import DataError, ModelError, PreciceLBError
from precice_lb.models import new_learner

__all__ = ["ModelOfCase", "fit_models", "varying_columns"]

Array = NDArray[np.float64]


class ModelOfCase:
    """A model of ranks and parameters at fixed values of the parameters.

    Parameters
    ----------
    model : estimator
        Fitted to ranks and parameters.
    parameters : mapping from column to float
        In the order of the columns.
    """

    def __init__(self, model: Any, parameters: Mapping[str, float]) -> None:
        self.model = model
        self.parameters = dict(parameters)
        self.learner_name = str(getattr(model, "learner_name", type(model).__name__))
        self.always_believable = bool(getattr(model, "always_believable", False))
        # What the model cannot do, this cannot either.
        for name in ("predict_interval", "draw", "formula"):
            if hasattr(model, name):
                setattr(self, name, getattr(self, f"_{name}"))

    def predict(self, X: ArrayLike) -> Array:
        """Seconds at ranks, shape (n,)."""
        return np.asarray(self.model.predict(self._rows(X)), dtype=np.float64)

    def _predict_interval(self, X: ArrayLike, level: float = 0.8) -> tuple[Array, Array]:
        low, high = self.model.predict_interval(self._rows(X), level)
        return np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)

    def _draw(self, n: int, random_state: int | np.random.Generator | None = None) -> Callable[[ArrayLike], Array]:
        curves = self.model.draw(n, random_state)
        return lambda ranks: np.asarray(curves(self._rows(ranks)), dtype=np.float64)

    def _formula(self) -> Any:
        if "parameters" in inspect.signature(self.model.formula).parameters:
            return self.model.formula(parameters=list(self.parameters.values()))
        return self.model.formula()

    def to_dict(self) -> dict[str, Any]:
        """Give the model of all parameters as plain JSON types."""
        stored: dict[str, Any] = self.model.to_dict()
        return stored

    def _rows(self, X: ArrayLike) -> Array:
        ranks = np.asarray(X, dtype=np.float64).reshape(-1, 1)
        return np.hstack([ranks, np.tile(list(self.parameters.values()), (len(ranks), 1))])


def varying_columns(measurements: Measurements, name: str) -> list[str]:
    """Columns of a participant's parameters that are not the same in all rows."""
    columns = measurements.parameters.get(name, {})
    return [column for column, values in columns.items() if len(np.unique(values)) > 1]


def fit_models(
    measurements: Measurements,
    names: tuple[str, ...],
    learner: Any,
    learner_parameters: Mapping[str, Any] | None,
    parameters: Mapping[str, float] | None,
) -> dict[str, Any]:
    """Fit a model for each participant.

    Parameters
    ----------
    measurements : Measurements
        Checked; the order of rows does not matter.
    names : tuple of str
        Participants.
    learner, learner_parameters
        As of `recommend`.
    parameters : mapping from column to float, optional
        The case to recommend for. Without it, parameters are left aside.

    Raises
    ------
    DataError
        A column that no participant has, is not of numbers, or varies and is not given.
    ModelError, PreciceLBError
        What cannot be fitted.
    """
    wanted = dict(parameters or {})
    known = {column for name in names for column in measurements.parameters.get(name, {})}
    for column in wanted:
        if column not in known:
            raise DataError(
                f"expected parameters out of the measurements' ({', '.join(sorted(known)) or 'none'}), found {column!r}"
            )
    models = {}
    for name in names:
        columns = varying_columns(measurements, name) if wanted else []
        missing = [column for column in columns if column not in wanted]
        if missing:
            raise DataError(
                f"{name}: expected a value for every parameter that varies, found none of {', '.join(missing)}"
            )
        rows, seconds, spread = _table(measurements, name, columns)
        model = _fitted(name, rows, seconds, spread, new_learner(learner, learner_parameters))
        models[name] = ModelOfCase(model, {column: float(wanted[column]) for column in columns}) if columns else model
    return models


def _table(measurements: Measurements, name: str, columns: list[str]) -> tuple[Array, Array, Array]:
    """Rows of ranks and parameters, seconds, standard errors; sorted, so that the order of rows never matters."""
    samples = np.asarray(measurements.samples[name], dtype=np.float64)
    given = measurements.spread.get(name)
    spread = np.full(len(samples), np.nan) if given is None else np.asarray(given, dtype=np.float64)
    order = np.lexsort((samples[:, 1], samples[:, 0]))
    extra = []
    for column in columns:
        try:
            extra.append(np.asarray(measurements.parameters[name][column], dtype=np.float64))
        except (TypeError, ValueError):
            raise DataError(f"{name}: expected numbers in the column {column}, found something else") from None
    return np.column_stack([samples[:, 0], *extra])[order], samples[order, 1], spread[order]


def _fitted(name: str, rows: Array, seconds: Array, spread: Array, model: Any) -> Any:
    try:
        if "spread" in inspect.signature(model.fit).parameters:
            return model.fit(rows, seconds, spread=spread)
        return model.fit(rows, seconds)
    except PreciceLBError as error:
        raise type(error)(f"model of {name}: {error}") from error
    except ValueError as error:
        raise ModelError(f"model of {name}: {type(model).__name__} cannot be fitted: {error}") from error
