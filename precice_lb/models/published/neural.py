"""Ensemble of small neural networks on the logarithm of time (Schröder 2019, chapter 3; Totounferoush 2022, 3.2.3).

Both authors train dense networks of rectified linear units, with every input scaled to [0, 1], on log2 of the seconds:
without the logarithm neither learned how time depends on the mesh level.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor
from sklearn.utils._param_validation import Interval

from precice_lb.models.base import Array, Learner


@dataclass(kw_only=True, eq=False, repr=False)
class NeuralRegressor(Learner, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Mean of networks that differ by their random first weights, in log2 of the seconds.

    Every prediction is positive and finite, but nothing else is known about it beyond the measurements.

    Parameters
    ----------
    hidden_layers : sequence of int
        Neurons of each hidden layer; default: Schröder's first choice.
    members : int
        Networks.
    alpha : float
        Penalty on the squared weights, in place of their dropout, which scikit-learn does not have.
    solver : {"lbfgs", "adam"}
        They use ADAM; L-BFGS needs a hundredth of the steps for so few measurements.
    max_iter : int
        Steps at most.
    random_state : int
        Seed: the same measurements give the same networks.
    """

    learner_name: ClassVar[str] = "neural"
    several_parameters: ClassVar[bool] = True
    # The others are checked by the networks.
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"members": [Interval(Integral, 1, None, closed="left")]}
    hidden_layers: Sequence[int] = (30, 30)
    members: int = 5
    alpha: float = 0.01
    solver: str = "lbfgs"
    max_iter: int = 1000
    random_state: int = 0

    def _fit(self, points: Array, seconds: Array, errors: Array) -> None:
        self._validate_params()
        self._low, self._width = points.min(axis=0), np.ptp(points, axis=0)
        self._width[self._width == 0] = 1.0
        target = np.log2(seconds)
        self._centre, self._scale = float(target.mean()), float(target.std()) or 1.0
        networks = [
            MLPRegressor(
                hidden_layer_sizes=tuple(self.hidden_layers),
                alpha=self.alpha,
                solver=self.solver,
                max_iter=self.max_iter,
                random_state=int(seed),
            )
            for seed in np.random.SeedSequence(self.random_state).generate_state(self.members)
        ]
        with warnings.catch_warnings():
            # What matters is their mean, not whether the last digits have settled.
            warnings.simplefilter("ignore", ConvergenceWarning)
            for network in networks:
                network.fit((points - self._low) / self._width, (target - self._centre) / self._scale)
        self.networks_ = networks

    def _predict(self, points: Array) -> Array:
        inputs = (points - self._low) / self._width
        mean = np.mean([network.predict(inputs) for network in self.networks_], axis=0)
        return np.asarray(np.exp2(np.clip(self._centre + self._scale * mean, -900.0, 900.0)))
