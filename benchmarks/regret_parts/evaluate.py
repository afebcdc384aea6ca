"""How well a learner predicts measurements that it has not seen."""

from __future__ import annotations

import warnings
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from precice_lb.models import make_learner
from precice_lb.models.published.normal_form import smape

Array = NDArray[np.float64]


class Evaluation(NamedTuple):
    """Errors of predictions and intervals."""

    # Symmetric mean absolute percentage error (Schröder 2019, equation 2.9), 0 to 200 %.
    smape: float
    # Share of measurements inside their intervals; NaN for a learner that has none.
    coverage: float
    # Predictions that are no time at all.
    not_positive: int


def evaluate(learner: str, X: Array, y: Array, test: NDArray[np.bool_], level: float = 0.8) -> Evaluation:
    """Fit a learner to some measurements and predict the others, where ``test``, shape (n,), is true.

    An interval is for the true mean: it is widened by the scatter of measurements around the fitted curve.
    """
    model, points, seconds = make_learner(learner), X[test], y[test]
    with warnings.catch_warnings():
        # An optimiser that stops early shows in the errors.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X[~test], y[~test])
    prediction = np.asarray(model.predict(points))
    low, high = (
        model.predict_interval(points, level)
        if hasattr(model, "predict_interval")
        else np.full((2, len(points)), np.nan)
    )
    # A curve takes about two measurements to fit.
    squares = np.square(np.asarray(model.predict(X[~test])) / y[~test] - 1).sum()
    scatter = np.sqrt(squares / max(int((~test).sum()) - 2, 1))
    half = NormalDist().inv_cdf((1 + level) / 2) * scatter * np.abs(prediction)
    inside = (seconds >= prediction - np.hypot(prediction - low, half)) & (
        seconds <= prediction + np.hypot(high - prediction, half)
    )
    coverage = float(inside.mean()) if np.isfinite(low).all() else float("nan")
    return Evaluation(float(smape(seconds, prediction)), coverage, int((prediction <= 0).sum()))
