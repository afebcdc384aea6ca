"""One fitted model per participant, of ranks alone, whatever parameters the measurements have."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.dataset import Measurements
from precice_lb.exceptions import ModelError, PreciceLBError
from precice_lb.models import new_learner
from precice_lb.models.repeats import widened_errors
from precice_lb.recommend.case import Case, knows_parameters, rows_of_case

__all__ = ["ModelOfCase", "fit_model", "predicted"]

Array = NDArray[np.float64]


class ModelOfCase:
    """A model of ranks and parameters at fixed values of the parameters."""

    def __init__(self, model: Any, parameters: Mapping[str, float]) -> None:
        self.model = model
        self.parameters = dict(parameters)
        self.learner_name = str(getattr(model, "learner_name", type(model).__name__))
        self.always_valid = bool(getattr(model, "always_valid", False))
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


def predicted(model: Any, measurements: Measurements, name: str) -> Array:
    """Seconds that a participant's model gives for each of its measurements, shape (n,), in their order."""
    if isinstance(model, ModelOfCase):
        return np.asarray(model.model.predict(_rows(measurements, name, list(model.parameters))), dtype=np.float64)
    return np.asarray(model.predict(_rows(measurements, name, [])), dtype=np.float64)


def fit_model(case: Case, name: str, learner: Any) -> Any:
    """Fit a model for a participant, of ranks alone: parameters keep their values of the case."""
    columns = case.columns[name] if knows_parameters(learner) else {}
    here = np.ones(len(case.measurements.samples[name]), dtype=np.bool_)
    if len(columns) < len(case.columns[name]):
        here = rows_of_case(case.measurements, name, case.columns[name])
    rows = _rows(case.measurements, name, list(columns))[here]
    seconds = np.asarray(case.measurements.samples[name], dtype=np.float64)[here, 1]
    given = case.measurements.spread.get(name)
    spread = np.full(len(seconds), np.nan) if given is None else np.asarray(given, dtype=np.float64)[here]
    # Sorted, so that the order of rows never matters.
    order = np.lexsort((seconds, rows[:, 0]))
    rows, seconds, spread = rows[order], seconds[order], spread[order]
    if not columns:
        spread = widened_errors(rows[:, 0], seconds, spread)
    model = _fitted(name, rows, seconds, spread, new_learner(learner))
    return ModelOfCase(model, columns) if columns else model


def _rows(measurements: Measurements, name: str, columns: list[str]) -> Array:
    """Ranks and parameters of each measurement, shape (n, 1 + columns)."""
    ranks = np.asarray(measurements.samples[name], dtype=np.float64)[:, 0]
    return np.column_stack([ranks, *(measurements.parameters[name][column] for column in columns)])


def _fitted(name: str, rows: Array, seconds: Array, spread: Array, model: Any) -> Any:
    try:
        if "spread" in inspect.signature(model.fit).parameters:
            return model.fit(rows, seconds, spread=spread)
        return model.fit(rows, seconds)
    except PreciceLBError as error:
        raise type(error)(f"model of {name}: {error}") from error
    except ValueError as error:
        raise ModelError(f"model of {name}: {type(model).__name__} cannot be fitted: {error}") from error
