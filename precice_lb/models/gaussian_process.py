"""Gaussian process on logarithms of ranks, parameters and seconds.

Ideal scaling is taken out: what is learned is ln(p·y), as a linear function plus a smooth one of the logarithms, with
hyperparameters of largest marginal likelihood (Rasmussen and Williams 2006, chapters 2 and 5; scikit-learn). Far from
the measurements the curve is a power law.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_solve
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor as ScikitProcess
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

from precice_lb.exceptions import ModelError
from precice_lb.models.base import CurveLearner, array
from precice_lb.models.formula import Expression, names_of

__all__ = ["GaussianProcessRegressor"]

Array = NDArray[np.float64]

# Bounds of the hyperparameters: variances in squared logarithms of seconds, lengths in logarithms of ranks. The lower
# ones keep three to seven measurements that happen to lie on a line from being taken for the truth.
SMOOTH_VARIANCE, LENGTH, SLOPE_VARIANCE, NOISE_VARIANCE = (1e-2, 4.0), (0.7, 20.0), (1e-2, 1.0), (1e-4, 0.05)
# Variance of the level over that of the slopes.
LEVEL = 30.0
# Cosines of which a drawn smooth function is made.
COSINES = 1024
# Curves are kept within these logarithms of seconds.
LARGEST = 600.0


@dataclass(kw_only=True, eq=False, repr=False)
class GaussianProcessRegressor(CurveLearner):
    """Power law plus a smooth deviation, with its uncertainty.

    Every prediction is positive and finite.

    Parameters
    ----------
    restarts : int
        Further random starts of the search for the hyperparameters.
    random_state : int
        Seed of the starts.
    """

    learner_name: ClassVar[str] = "gaussian-process"
    several_parameters: ClassVar[bool] = True
    learned: ClassVar[Mapping[str, Callable[[Any], Any]]] = {
        # Variances ``smooth``, ``slope`` and ``noise``, and ``lengths`` of shape (d,).
        "hyperparameters": dict,
        # Logarithms of ranks and parameters about their means; ln(p·y) about its mean, the level; variances of the
        # measurements: that of the runs and that of the standard error.
        **dict.fromkeys(("points", "targets", "noise", "centre"), array),
        "level": float,
    }

    restarts: int = 2
    random_state: int = 0

    def _fit(self, points: Array, seconds: Array, errors: Array) -> None:
        if not (isinstance(self.restarts, int) and self.restarts >= 0):
            raise ModelError(f"expected restarts of 0 or more, found {self.restarts!r}")
        logs = np.log(points)
        self.centre_ = logs.mean(axis=0)
        self.points_ = logs - self.centre_
        raw = np.log(seconds) + logs[:, 0]
        self.level_ = float(raw.mean())
        self.targets_ = raw - self.level_
        d = points.shape[1]
        kernel = _kernel(0.05, np.full(d, 2.0), 0.05) + WhiteKernel(1e-3, NOISE_VARIANCE)
        known = (errors / seconds) ** 2
        process = ScikitProcess(
            kernel, alpha=known + 1e-10, n_restarts_optimizer=self.restarts, random_state=self.random_state
        )
        with warnings.catch_warnings():
            # Few measurements drive hyperparameters to their bounds, which are there for that.
            warnings.simplefilter("ignore", ConvergenceWarning)
            process.fit(self.points_, self.targets_)
        smooth, linear, white = process.kernel_.k1.k1, process.kernel_.k1.k2, process.kernel_.k2
        self.hyperparameters_: dict[str, Any] = {
            "smooth": float(smooth.k1.constant_value),
            "lengths": [float(length) for length in np.broadcast_to(smooth.k2.length_scale, d)],
            "slope": float(linear.k1.constant_value),
            "noise": float(white.noise_level),
        }
        self.noise_ = known + self.hyperparameters_["noise"] + 1e-10

    def _interval(self, points: Array, level: float) -> tuple[Array, Array]:
        """Quantiles of the posterior of the curve, given the hyperparameters."""
        logs = np.log(points) - self.centre_
        half = float(norm.ppf((1 + level) / 2)) * self._process.predict(logs, return_std=True)[1]
        centre = np.log(self._predict(points))
        return np.exp(np.maximum(centre - half, -LARGEST)), np.exp(np.minimum(centre + half, LARGEST))

    def _draw(self, n: int, rng: np.random.Generator) -> Callable[[Array], Array]:
        """Draw from the prior (random Fourier features, Rahimi and Recht 2007), corrected by Matheron's rule."""
        d, given = self.points_.shape[1], self.hyperparameters_
        frequencies = rng.standard_normal((COSINES, d)) / np.asarray(given["lengths"])
        phases = rng.uniform(0, 2 * np.pi, COSINES)
        heights = rng.standard_normal((n, COSINES)) * np.sqrt(2 * given["smooth"] / COSINES)
        slopes = rng.standard_normal((n, d)) * np.sqrt(given["slope"])
        levels = rng.standard_normal(n) * np.sqrt(given["slope"] * LEVEL)

        def prior(logs: Array) -> Array:
            smooth = heights @ np.cos(frequencies @ logs.T + phases[:, None])
            return np.asarray(smooth + levels[:, None] + slopes @ logs.T, dtype=np.float64)

        missed = self.targets_ - prior(self.points_)
        missed -= rng.standard_normal(missed.shape) * np.sqrt(self.noise_)
        weights = cho_solve((self._process.L_, True), missed.T).T

        def curves(points: Array) -> Array:
            logs = np.log(points) - self.centre_
            values = prior(logs) + weights @ self._process.kernel_(self.points_, logs)
            values += self.level_ - np.log(points[:, 0])
            return np.asarray(np.exp(np.clip(values, -LARGEST, LARGEST)), dtype=np.float64)

        return curves

    def _positive_for(self) -> str:
        return "their logarithms"

    def _prepare(self) -> None:
        """Solve for the weights of the measurements."""
        given = self.hyperparameters_
        kernel = _kernel(given["smooth"], given["lengths"], given["slope"])
        self._process = ScikitProcess(kernel, alpha=self.noise_, optimizer=None).fit(self.points_, self.targets_)
        weights = self._process.alpha_
        # The linear part of all measurements together is one linear function.
        slopes = given["slope"] * (weights @ self.points_)
        constant = self.level_ + given["slope"] * LEVEL * float(weights.sum())
        self.formula_ = ProcessFormula(
            constant, slopes, given["smooth"] * weights, self.points_, np.asarray(given["lengths"]), self.centre_
        )


def _kernel(smooth: float, lengths: ArrayLike, slope: float) -> Any:
    """Covariance of a smooth function and a linear one."""
    bumps = ConstantKernel(smooth, SMOOTH_VARIANCE) * RBF(lengths, LENGTH)
    return bumps + ConstantKernel(slope, SLOPE_VARIANCE) * DotProduct(np.sqrt(LEVEL), "fixed")


@dataclass(frozen=True, eq=False)
class ProcessFormula(Expression):
    """``exp(constant + slopes · u + Σ weights_k exp(-½ |(u - u_k) / lengths|²)) / p`` with u = ln(x) - centre.

    For ranks and parameters slopes, lengths and centre (d,); for the measurements weights (n,) and points u (n, d).
    """

    constant: float
    slopes: Array
    weights: Array
    points: Array
    lengths: Array
    centre: Array

    @property
    def names(self) -> tuple[str, ...]:
        """Of ranks and parameters."""
        return names_of(len(self.centre))

    def __call__(self, points: ArrayLike) -> Array:
        """Seconds at each row of ranks and parameters, shape (n,)."""
        logs = np.log(np.asarray(points, dtype=np.float64).reshape(-1, len(self.centre)))
        u = logs - self.centre
        apart = (u[:, None, :] - self.points[None]) / self.lengths
        smooth = np.exp(-0.5 * np.square(apart).sum(axis=2)) @ self.weights
        values = self.constant + u @ self.slopes + smooth - logs[:, 0]
        return np.asarray(np.exp(np.clip(values, -LARGEST, LARGEST)), dtype=np.float64)

    def text(self, digits: int = 4) -> str:
        """Plain text: the power law, and how many bumps bend it."""
        factor = float(np.exp(np.clip(self.constant - self.slopes @ self.centre, -LARGEST, LARGEST)))
        powers = self.slopes.copy()
        powers[0] -= 1
        law = "·".join(f"{name}^{power:.{digits}g}" for name, power in zip(self.names, powers, strict=True))
        scales = ", ".join(f"{length:.{digits}g}" for length in self.lengths)
        return (
            f"{factor:.{digits}g}·{law}·exp(sum of {len(self.weights)} bumps of up to "
            f"{np.abs(self.weights).max():.{digits}g} with lengths {scales} in ln)"
        )

    def latex(self, digits: int = 4) -> str:
        """LaTeX for math mode, with the smooth deviation as a function s."""
        parts = [f"{self.constant:.{digits}g}"]
        for name, slope, centre in zip(self.names, self.slopes, self.centre, strict=True):
            parts.append(rf"{slope:+.{digits}g}\,(\ln {name} {-centre:+.{digits}g})")
        return rf"\frac{{1}}{{p}} \exp({' '.join(parts)} + s({', '.join(self.names)}))"

    def python(self) -> str:
        """Python expression of ``p``, ``x1``, … (with ``math`` imported) at full precision."""
        logs = [f"(math.log({name}) - {c!r})" for name, c in zip(self.names, self.centre.tolist(), strict=True)]
        parts = [repr(float(self.constant))]
        parts += [f"{slope!r} * {u}" for u, slope in zip(logs, self.slopes.tolist(), strict=True)]
        for weight, point in zip(self.weights.tolist(), self.points.tolist(), strict=True):
            squares = " + ".join(
                f"(({u} - {at!r}) / {length!r}) ** 2"
                for u, at, length in zip(logs, point, self.lengths.tolist(), strict=True)
            )
            parts.append(f"{weight!r} * math.exp(-0.5 * ({squares}))")
        return f"math.exp({' + '.join(parts)}) / p"
