"""A posterior over a family of curves: what a few noisy measurements leave of what run times can look like.

Three to seven measurements do not determine a curve, and whoever picks the one that fits best is often wrong where it
matters, beyond them. Here no curve is picked: those that explain the measurements are drawn, each as often as it is
probable, and a decision is made over all of them. The family and its prior are in `precice_lb.models.bayes_shapes`,
the noise in `precice_lb.models.bayes_likelihood`, the sampler in `precice_lb.models.bayes_sampler`, parameters beside
ranks in `precice_lb.models.bayes_sizes`, what the family leaves unexplained in `precice_lb.models.bayes_discrepancy`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from precice_lb.exceptions import ModelError
from precice_lb.models.base import Learner
from precice_lb.models.bayes_discrepancy import Discrepancy, SmoothLikelihood, fourier_features, spectrum
from precice_lb.models.bayes_formula import compact_formula
from precice_lb.models.bayes_likelihood import Likelihood
from precice_lb.models.bayes_sampler import mix, sample_posterior
from precice_lb.models.bayes_shapes import Shapes, prior_sample, reference_ranks
from precice_lb.models.bayes_sizes import Sizes, check_rows, size_choices
from precice_lb.models.formula import Formula
from precice_lb.models.inputs import check_level, check_measurements

__all__ = ["BayesRegressor", "PosteriorCurves"]

Array = NDArray[np.float64]

# The sample of the prior, this many times the particles that are drawn from the posterior.
PRIOR_FACTOR = 8
# Moves of the sampler after each step and after the last: a curve over ranks is soon found; sizes, with more variables
# and often many precise measurements, are mixed after that.
MOVES, MOVES_WITH_SIZES = (2, 8), (8, 8)


class PosteriorCurves:
    """Whole curves drawn from a posterior: members of the family, each with its scale.

    Parameters
    ----------
    z : array of shape (n, D)
        Their variables.
    log_scale : array of shape (n,)
        Their ln W, W in seconds.
    reference : float
        As of `precice_lb.models.bayes_shapes.reference_ranks`.
    sizes : Sizes
        What parameters do, where there are any.
    discrepancies : Discrepancy
        What members do not explain.
    """

    def __init__(self, z: Array, log_scale: Array, reference: float, sizes: Sizes, discrepancies: Discrepancy) -> None:
        self._shapes = Shapes(z, reference)
        self._z, self._scale = z, np.exp(log_scale)[:, None]
        self._sizes, self._discrepancy = sizes, discrepancies

    def at_reference(self, ranks: Array) -> Array:
        """Seconds of every curve at ranks, shape (m,), for the reference size; shape (curves, m)."""
        here = np.zeros((len(ranks), len(self._sizes.centre)))
        log_size = np.zeros((1, len(ranks))) if len(self._sizes.centre) else None
        return self._scale * self._shapes(ranks, log_size) * self._discrepancy(ranks, here)

    def __call__(self, rows: ArrayLike) -> Array:
        """Seconds of every curve at every row of ranks (and parameters), shape (curves, len(rows))."""
        checked = check_rows(rows, 1 + len(self._sizes.centre))
        values = _shapes(self._shapes, checked, self._sizes, self._z)
        return self._scale * values * self._discrepancy(checked[:, 0], self._sizes.steps(checked))


class BayesRegressor(Learner):
    """Posterior over curves that fall, flatten and rise.

    Parameters
    ----------
    particles : int
        Curves drawn from the posterior; 8 times as many are drawn from the prior at first.
    noise : float
        Prior median of the relative noise of one measurement, which is between 0.3 and 15 %.
    noise_spread : float
        The prior's standard deviation of the noise's natural logarithm. The default is wide: the measurements are to
        tell the noise, as far as they can. A narrow prior makes intervals too wide on quiet machines and too narrow on
        busy ones; with three measurements even the wide one does.
    straggling : float
        Prior probability that a measurement is far too slow (or too fast); looked at without parameters beside ranks.
    random_state : int
        Seed of the sampler: the same measurements give the same curves.

    Attributes
    ----------
    z_ : array of shape (particles, D)
        The curves' standard normal variables: 4, with parameters 9 and one for each.
    log_scale_ : array of shape (particles,)
        Natural logarithm of the seconds of what falls, at the reference.
    noise_ : array of shape (particles,)
        Relative noise that goes with them.
    reference_ : float
        Rank count to which the prior is relative.
    sizes_ : Sizes
        What parameters do, where there are any.
    discrepancy_ : Discrepancy
        What the curves do not explain.
    ranks_ : array of shape (n,)
        Where it was measured.
    """

    learner_name: ClassVar[str] = "bayes"
    former_names: ClassVar[Mapping[str, str]] = {"members": "particles"}
    always_valid: ClassVar[bool] = True

    def __init__(
        self,
        *,
        particles: int = 512,
        noise: float = 0.04,
        noise_spread: float = 1.0,
        straggling: float = 0.02,
        random_state: int = 0,
    ) -> None:
        self.particles = particles
        self.noise = noise
        self.noise_spread = noise_spread
        self.straggling = straggling
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, spread: ArrayLike | None = None) -> BayesRegressor:
        """Draw curves from the posterior.

        Raises
        ------
        ModelError
            Bad input or parameters.
        """
        rows = check_rows(X)
        self.ranks_, seconds = check_measurements(rows[:, 0], y)
        self._check_parameters()
        errors = _errors(spread, seconds)
        self.reference_ = reference_ranks(self.ranks_)
        options = size_choices(rows)
        choice = tuple(each[0] for each in options)
        best = self._try_sizes(rows, seconds, errors, choice)
        # One parameter after the other: all their combinations are too many.
        for column in (at for at, each in enumerate(options) if len(each) > 1):
            other = (*choice[:column], not choice[column], *choice[column + 1 :])
            tried = self._try_sizes(rows, seconds, errors, other)
            if tried[0] > best[0]:
                choice, best = other, tried
        _, z, self.sizes_, frequencies, likelihood = best
        shapes = self._members(rows, self.sizes_)
        rng = np.random.default_rng(self.random_state)
        self.z_ = mix(z, _after(likelihood, shapes), rng) if len(self.sizes_.centre) else z
        self.log_scale_, self.noise_, weights = likelihood.draw(shapes(self.z_), rng)
        bends = ndtri((rng.permutation(self.particles) + 0.5) / self.particles)
        self.discrepancy_ = Discrepancy(frequencies, weights, bends, float(self.ranks_.max()))
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Positive, finite seconds at each row of X: the mean over the drawn curves."""
        return np.asarray(self._curves()(X).mean(axis=0), dtype=np.float64)

    def predict_interval(self, X: ArrayLike, level: float = 0.8) -> tuple[Array, Array]:
        """Quantiles of the drawn curves."""
        level = check_level(level)
        low, high = np.quantile(self._curves()(X), [(1 - level) / 2, (1 + level) / 2], axis=0)
        return np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)

    def sample(self, X: ArrayLike, n: int, random_state: int | np.random.Generator | None = None) -> Array:
        """Draw curves and give their seconds at the rows of X, shape (n, len(X)).

        The same seed draws the same curves, whatever X.
        """
        return self.draw(n, random_state)(X)

    def draw(self, n: int, random_state: int | np.random.Generator | None = None) -> PosteriorCurves:
        """Choose n of the drawn curves, in random order; more than there are only by repeating some."""
        self._require_fitted()
        rng = np.random.default_rng(random_state)
        count = len(self.z_)
        chosen = rng.permutation(count)[:n] if n <= count else rng.integers(count, size=n)
        return self._curves(chosen)

    def formula(self, parameters: Sequence[float] | None = None) -> Formula:
        """Give a fall, a constant and a rise that come nearest to `predict` from 1 to 4 times the measured ranks.

        Usually within 2 %.

        Parameters
        ----------
        parameters : sequence of float, optional
            Values of the parameters that it is for; by default their largest measured ones.
        """
        self._require_fitted()
        ranks = np.unique(np.geomspace(1.0, 4.0 * self.ranks_.max(), 40).round())
        if not len(self.sizes_.centre) or parameters is None:
            return compact_formula(ranks, self._curves().at_reference(ranks).mean(axis=0))
        return compact_formula(ranks, self.predict([[p, *parameters] for p in ranks]))

    def _try_sizes(
        self, rows: Array, seconds: Array, errors: Array, choice: tuple[bool, ...]
    ) -> tuple[float, Array, Sizes, Array, Likelihood | SmoothLikelihood]:
        """Evidence for one way of taking sizes, particles, and what makes them up."""
        sizes = Sizes.of(rows, seconds, choice)
        frequencies = spectrum(sizes)
        likelihood = self._likelihood(rows, seconds, errors, sizes, frequencies)
        log_likelihood = _after(likelihood, self._members(rows, sizes))
        prior = prior_sample(PRIOR_FACTOR * self.particles, sizes.dimensions)
        moves = MOVES_WITH_SIZES if choice else MOVES
        rng = np.random.default_rng(self.random_state)
        z, evidence = sample_posterior(log_likelihood, prior, self.particles, moves, rng)
        return evidence, z, sizes, frequencies, likelihood

    def _likelihood(
        self, rows: Array, seconds: Array, errors: Array, sizes: Sizes, frequencies: Array
    ) -> Likelihood | SmoothLikelihood:
        ranks, prior = rows[:, 0], (self.noise, self.noise_spread)
        if len(sizes.centre):
            return SmoothLikelihood(seconds, errors, *prior, fourier_features(frequencies, ranks, sizes.steps(rows)))
        points = np.unique(ranks)
        features = fourier_features(frequencies, points, np.zeros((len(points), 0)))
        return Likelihood(ranks, seconds, errors, *prior, self.straggling, features)

    def _members(self, rows: Array, sizes: Sizes) -> Callable[[Array], Array]:
        """Shapes at what a likelihood looks at."""
        at = rows if len(sizes.centre) else np.unique(rows[:, 0])[:, None]
        return lambda z: _shapes(Shapes(z, self.reference_), at, sizes, z)

    def _curves(self, chosen: Any = slice(None)) -> PosteriorCurves:
        self._require_fitted()
        parts = self.z_[chosen], self.log_scale_[chosen]
        return PosteriorCurves(*parts, self.reference_, self.sizes_, self.discrepancy_[chosen])

    def _check_parameters(self) -> None:
        for name in ("noise", "noise_spread"):
            if not getattr(self, name) > 0:
                raise ModelError(f"expected {name} above 0, found {getattr(self, name)!r}")
        if not 0 <= self.straggling < 1:
            raise ModelError(f"expected straggling from 0 to below 1, found {self.straggling!r}")
        if not self.particles >= 16:
            raise ModelError(f"expected particles from 16, found {self.particles!r}")

    def _require_fitted(self) -> None:
        if not hasattr(self, "z_"):
            raise ModelError(f"expected a fitted {type(self).__name__}; call fit first")

    def _state(self) -> dict[str, Any]:
        return {
            "z": self.z_.tolist(),
            "log_scale": self.log_scale_.tolist(),
            "noise": self.noise_.tolist(),
            "reference": self.reference_,
            "sizes": self.sizes_.to_dict(),
            "deviations": self.discrepancy_.to_dict(),
            "ranks": self.ranks_.tolist(),
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.reference_ = float(state["reference"])
        self.sizes_, self.discrepancy_ = Sizes(**state["sizes"]), Discrepancy(**state["deviations"])
        for name in ("z", "log_scale", "noise", "ranks"):
            setattr(self, f"{name}_", np.asarray(state[name], dtype=np.float64))


def _shapes(shapes: Shapes, rows: Array, sizes: Sizes, z: Array) -> Array:
    return shapes(rows[:, 0], sizes(z, rows) if len(sizes.centre) else None)


def _after(second: Callable[[Array], Array], first: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda z: second(first(z))


def _errors(spread: ArrayLike | None, seconds: Array) -> Array:
    """Check standard errors; 0 where unknown."""
    if spread is None:
        return np.zeros_like(seconds)
    try:
        errors = np.asarray(spread, dtype=np.float64)
    except (TypeError, ValueError):
        raise ModelError("expected standard errors as numbers, found something else") from None
    if errors.shape != seconds.shape or (errors < 0).any():
        raise ModelError(
            f"expected one standard error from 0 (or NaN) per measurement, found shape {errors.shape} for "
            f"{len(seconds)} of them"
        )
    return np.where(np.isfinite(errors), errors, 0.0)
