"""Learners that know the law of scaling, or nothing: the factorised model, and an ensemble of neural networks.

T = W·N/p + C·S: computation is proportional to the elements per rank, communication to the largest surface of a rank's
part of the mesh. The coefficients W and C are nearly constant, so their logarithms are learned as linear functions of
the logarithms of ranks, size and further parameters, drawn towards constants, and W as a sum over kinds of elements
where their fractions are known. The paper measures computation and communication apart and trains networks on thousands
of runs; here a handful serves. Where communication was not measured, both are told apart by how the sum scales; the
surfaces are those of cubes, (N/p)^((D-1)/D).

Both authors of networks train dense ones of rectified linear units, with every input scaled to [0, 1], on log2 of the
seconds: without the logarithm neither learned how time depends on the mesh level.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import least_squares
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import VotingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler
from sklearn.utils._param_validation import Interval, Options

from precice_lb.exceptions import ModelError
from precice_lb.models.base import Array, Formula, Learner, column_of

# Guess of the share of communication at a typical measurement, and the prior's standard deviation of its logarithm.
COMMUNICATION, COMMUNICATION_SCALE = 0.05, 2.0
# Prior's standard deviation of the logarithm of what a kind of elements costs more than others.
EXTRA_SCALE = 3.0
# Shares from which the fit starts; the best end wins.
STARTS = (0.005, 0.05, 0.4)
# Penalty on the squared weights of networks.
ALPHA = 0.01
# Seconds beyond these powers of two are no numbers.
LARGEST_POWER = 900.0


@dataclass(kw_only=True, eq=False, repr=False)
class FactorizedRegressor(Learner, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Work per rank and surface per rank, with coefficients that vary slowly.

    Every prediction is positive and finite.

    Parameters
    ----------
    size_column : int
        Column of X that holds the number of elements (or degrees of freedom) N. Without further columns N is constant.
    dimensions : int
        D of the mesh, 2 or 3.
    slope_scale : float
        Prior standard deviation of the exponents by which W and C deviate from constants; 0 for constants.
    noise : float
        Prior guess of the relative noise of one measurement.
    fraction_columns : sequence of int
        Columns of X that are fractions of the elements, from 0 to 1, which cost more than others: of porous cells, say.
        W is a sum over them, W = W0·(1 + a1·f1 + a2·f2 + …) with positive a.
    """

    learner_name: ClassVar[str] = "factorized"
    several_parameters: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "dimensions": [Options(Integral, {2, 3})],
        "slope_scale": [Interval(Real, 0, None, closed="left")],
        "noise": [Interval(Real, 0, None, closed="neither")],
    }
    size_column: int = 1
    dimensions: int = 3
    slope_scale: float = 0.2
    noise: float = 0.05
    fraction_columns: Sequence[int] = ()

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        standard_error: ArrayLike | None = None,
        communication: ArrayLike | None = None,
    ) -> FactorizedRegressor:
        """Return itself, having learned from measurements.

        Parameters
        ----------
        X : array of shape (n, d)
            Ranks, then parameters; rows may repeat.
        y : array of shape (n,)
            Seconds per time window.
        standard_error : array of shape (n,), optional
            Of each row of ``y`` in seconds, NaN where unknown.
        communication : array of shape (n,), optional
            Seconds of each row of ``y`` that are communication, NaN where unknown; the others tell of the sum alone.

        Raises
        ------
        ModelError
            Bad input or parameters of the learner, or too few measurements for it.
        """
        self._communication = communication
        return super().fit(X, y, standard_error)

    def _predict(self, points: Array) -> Array:
        logs, fractions = self._logs(points)
        both = np.logaddexp(*self._parts(logs, fractions, self.log_coefficients_, self.extra_))
        return np.asarray(np.exp(np.clip(both, -600.0, 600.0)))

    def _fit(self, points: Array, seconds: Array, errors: Array) -> None:
        self._validate_params()
        d, columns = points.shape[1], list(self.fraction_columns)
        if d > 1 and not 1 <= self.size_column < d:
            raise ModelError(f"expected size_column from 1 to {d - 1}, found {self.size_column!r}")
        if not set(columns) <= set(range(1, d)) - {self.size_column}:
            raise ModelError(f"expected fraction_columns out of 1 to {d - 1} but the size's, found {columns}")
        unknown = np.full(len(points), np.nan)
        sent = column_of(unknown if self._communication is None else self._communication, "communication", len(points))
        del self._communication
        if (bad := (sent < 0) | (sent >= seconds)).any():
            raise ModelError(
                f"expected communication from 0 to below the {seconds[bad][0]:g} s of its row, found {sent[bad][0]:g}"
            )
        scale = np.sqrt(self.noise**2 + (errors / seconds) ** 2)
        logs, fractions = self._logs(points)
        # Of each column of X the mean of ln(x).
        self.centre_ = logs.mean(axis=0)
        is_known, is_sent = np.isfinite(sent), sent > 0
        target = np.log(seconds - np.where(is_known, sent, 0.0))
        per_rank, surfaces = self._sizes(logs)
        typical, shift = float(np.mean(target - per_rank)), float(np.mean(per_rank - surfaces))
        count, free = 2 * (1 + len(self.centre_)), (np.ptp(logs, axis=0) > 0) & (self.slope_scale > 0)

        def unpacked(values: Array) -> tuple[Array, Array]:
            coefficients = values[:count].reshape(2, -1).copy()
            coefficients[:, 1:] *= free
            return coefficients, values[count:]

        def residuals(values: Array) -> Array:
            coefficients, extra = unpacked(values)
            work, exchange = self._parts(logs, fractions, coefficients, extra)
            fitted = np.where(is_known, work, np.logaddexp(work, exchange))
            share = coefficients[1, 0] - coefficients[0, 0] - shift - math.log(COMMUNICATION)
            exchanged = (exchange[is_sent] - np.log(sent[is_sent])) / scale[is_sent]
            slopes = coefficients[:, 1:].ravel() / (self.slope_scale or 1.0)
            drawn = [slopes, extra / EXTRA_SCALE, [share / COMMUNICATION_SCALE]]
            return np.concatenate([(fitted - target) / scale, exchanged, *drawn])

        ends = []
        for start in STARTS:
            first = np.zeros(count + len(columns))
            first[[0, count // 2]] = typical + math.log1p(-start), typical + shift + math.log(start)
            ends.append(least_squares(residuals, first))
        # Rows for ln W and ln C: the constant, then the slope for each column; then ln a of the fractions.
        self.log_coefficients_, self.extra_ = unpacked(min(ends, key=lambda end: float(end.cost)).x)
        self.formula_ = self._as_formula()

    def _logs(self, points: Array) -> tuple[Array, Array]:
        """Logarithms of ranks and parameters (n, d), 0 for fractions; and the fractions."""
        values, columns = points.copy(), list(self.fraction_columns)
        fractions, values[:, columns] = points[:, columns], 1.0
        if not (values > 0).all():
            raise ModelError(f"expected parameters above 0, found {values[values <= 0][0]:g}; count them from 1")
        if ((fractions < 0) | (fractions > 1)).any():
            raise ModelError("expected fractions of elements from 0 to 1, found others")
        return np.log(values), fractions

    def _sizes(self, logs: Array) -> tuple[Array, Array]:
        """Logarithms of the elements per rank, and of the surface of these."""
        per_rank = np.asarray((logs[:, self.size_column] if logs.shape[1] > 1 else 0.0) - logs[:, 0])
        return per_rank, per_rank * (self.dimensions - 1) / self.dimensions

    def _parts(self, logs: Array, fractions: Array, coefficients: Array, extra: Array) -> tuple[Array, Array]:
        """Logarithms of computation and communication."""
        w, c = coefficients[:, 1:] @ (logs - self.centre_).T + coefficients[:, :1]
        per_rank, surfaces = self._sizes(logs)
        return per_rank + w + np.log1p(fractions @ np.exp(extra)), surfaces + c

    def _as_formula(self) -> Formula:
        d = len(self.centre_)
        exponents = np.zeros((2 + len(self.extra_), d, 2))
        # Computation, communication, then more computation for each kind of elements.
        exponents[:2, :, 0] = self.log_coefficients_[:, 1:]
        logs = self.log_coefficients_[:, 0] - exponents[:2, :, 0] @ self.centre_
        powers = np.array([1.0, (self.dimensions - 1) / self.dimensions])
        exponents[:2, 0, 0] -= powers
        if d > 1:
            exponents[:2, self.size_column, 0] += powers
        exponents[2:] = exponents[0]
        exponents[range(2, len(exponents)), list(self.fraction_columns), 0] += 1.0
        return Formula(np.exp(np.append(logs, logs[0] + self.extra_)), exponents)


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
    random_state : int
        Seed: the same measurements give the same networks.
    """

    learner_name: ClassVar[str] = "neural"
    several_parameters: ClassVar[bool] = True
    # The layers are checked by the networks.
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"members": [Interval(Integral, 1, None, closed="left")]}
    hidden_layers: Sequence[int] = (30, 30)
    members: int = 5
    random_state: int = 0

    def _fit(self, points: Array, seconds: Array, errors: Array) -> None:
        self._validate_params()
        seeds = np.random.SeedSequence(self.random_state).generate_state(self.members)
        # ALPHA in place of dropout, which scikit-learn does not have; L-BFGS needs a hundredth of ADAM's steps here.
        words = {"hidden_layer_sizes": tuple(self.hidden_layers), "alpha": ALPHA, "solver": "lbfgs", "max_iter": 1000}
        networks = [(str(seed), MLPRegressor(random_state=int(seed), **words)) for seed in seeds]
        self.networks_ = TransformedTargetRegressor(
            make_pipeline(MinMaxScaler(), VotingRegressor(networks)),
            transformer=make_pipeline(FunctionTransformer(np.log2, _power_of_two), StandardScaler()),
            check_inverse=False,
        )
        with warnings.catch_warnings():
            # What matters is their mean, not whether the last digits have settled.
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.networks_.fit(points, seconds)

    def _predict(self, points: Array) -> Array:
        return np.asarray(self.networks_.predict(points))


def _power_of_two(exponents: Array) -> Array:
    return np.exp2(np.clip(exponents, -LARGEST_POWER, LARGEST_POWER))
