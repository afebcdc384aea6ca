"""Losses by which hypotheses are compared (Schröder 2019, equations 2.8 to 2.10)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.exceptions import ModelError

__all__ = ["LOSSES", "Loss", "get_loss", "mape", "mse", "smape"]

Loss = Callable[[ArrayLike, ArrayLike], NDArray[np.float64]]


def smape(truth: ArrayLike, prediction: ArrayLike) -> NDArray[np.float64]:
    """Symmetric mean absolute percentage error, 0 to 200 % (equation 2.8), of predictions (n, …), shape (…)."""
    truth, prediction = _aligned(truth, prediction)
    scale = np.abs(truth) + np.abs(prediction)
    error = 2.0 * np.abs(truth - prediction)
    return _mean(np.divide(error, scale, out=np.zeros_like(error), where=scale != 0)) * 100.0


def mape(truth: ArrayLike, prediction: ArrayLike) -> NDArray[np.float64]:
    """Mean absolute percentage error, in percent of the truth (equation 2.9)."""
    truth, prediction = _aligned(truth, prediction)
    return _mean(np.abs((truth - prediction) / truth)) * 100.0


def mse(truth: ArrayLike, prediction: ArrayLike) -> NDArray[np.float64]:
    """Mean squared error, in squared seconds (equation 2.10)."""
    truth, prediction = _aligned(truth, prediction)
    return _mean(np.square(truth - prediction))


LOSSES: dict[str, Loss] = {"smape": smape, "mape": mape, "mse": mse}


def get_loss(name: str) -> Loss:
    """Look a loss up by its name."""
    try:
        return LOSSES[name]
    except (KeyError, TypeError):
        raise ModelError(f"expected a loss out of {', '.join(LOSSES)}, found {name!r}") from None


def _aligned(truth: ArrayLike, prediction: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    predicted = np.asarray(prediction, dtype=np.float64)
    measured = np.asarray(truth, dtype=np.float64)
    return measured.reshape(measured.shape + (1,) * (predicted.ndim - measured.ndim)), predicted


def _mean(errors: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(errors.mean(axis=0), dtype=np.float64)
