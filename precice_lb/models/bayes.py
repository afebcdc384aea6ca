"""A posterior over a family of curves: what a few noisy measurements leave of what run times can look like.

Three to seven measurements do not determine a curve, and whoever picks the one that fits best is often wrong where it
matters, beyond them. Here no curve is picked: those that explain the measurements are drawn, each as often as it is
probable, and a decision is made over all of them. The family, over ranks and other parameters, is in
`precice_lb.models.bayes_family`, noise and what the family leaves unexplained in `precice_lb.models.bayes_likelihood`,
the sampler in `precice_lb.models.bayes_sampler`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from precice_lb.exceptions import ModelError
from precice_lb.models.base import CurveLearner, quantiles
from precice_lb.models.bayes_family import Prior, Shapes, Sizes, prior_sample, reference_ranks, size_choices
from precice_lb.models.bayes_likelihood import (
    Discrepancy,
    Likelihood,
    RankLikelihood,
    SizeLikelihood,
    bend,
    fourier_features,
    spectrum,
)
from precice_lb.models.bayes_sampler import mix, sample_posterior
from precice_lb.models.formula import Formula, term_of, term_values
from precice_lb.models.hypotheses import solve_nonnegative

Array = NDArray[np.float64]

# The sample of the prior, this many times the particles that are drawn from the posterior.
PRIOR_FACTOR = 8
# Moves of the sampler after each step and after the last: a curve over ranks is soon found; sizes, with more variables
# and often many precise measurements, are mixed after that.
MOVES, MOVES_WITH_SIZES = (2, 8), (8, 8)
FALLS = tuple(k / 40 for k in range(12, 61))
RISES = ((0.0, 1.0), (0.25, 0.0), (0.5, 0.0), (0.75, 0.0), (1.0, 0.0))
# Terms below this share everywhere are left out.
NEGLIGIBLE = 1e-3


@dataclass(kw_only=True, eq=False, repr=False)
class BayesRegressor(CurveLearner):
    """Posterior over curves that fall, flatten and rise.

    Parameters
    ----------
    particles : int
        Curves drawn from the posterior; 8 times as many are drawn from the prior at first.
    noise : float
        Prior median of the relative noise of one measurement, which is between 0.3 and 15 %.
    noise_scale : float
        The prior's standard deviation of the noise's natural logarithm. The default is wide: the measurements are to
        tell the noise, as far as they can. A narrow prior makes intervals too wide on quiet machines and too narrow on
        busy ones; with three measurements even the wide one does.
    straggling : float
        Prior probability that a measurement is far too slow (or too fast); looked at without parameters beside ranks.
    prior : mapping, optional
        Constants of `precice_lb.models.bayes_family.Prior` that are to differ.
    random_state : int
        Seed of the sampler: the same measurements give the same curves.
    """

    learner_name: ClassVar[str] = "bayes"
    former_names: ClassVar[Mapping[str, str]] = {"members": "particles", "noise_spread": "noise_scale"}
    always_valid: ClassVar[bool] = True
    several_parameters: ClassVar[bool] = True
    particles: int = 512
    noise: float = 0.04
    noise_scale: float = 1.0
    straggling: float = 0.02
    prior: Mapping[str, Any] | None = None
    random_state: int = 0

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
        given = self.sizes_.parameters if parameters is None or not self.sizes_ else parameters
        return compact_formula(ranks, self.predict(np.column_stack([ranks, np.tile(given, (len(ranks), 1))])))

    def _fit(self, points: Array, seconds: Array, errors: Array) -> None:
        self._check_parameters()
        self.ranks_ = points[:, 0]
        # To which the prior is relative.
        self.reference_ = reference_ranks(self.ranks_)
        logarithmic, undecided = size_choices(points)
        best = self._try_sizes(points, seconds, errors, logarithmic)
        # One parameter after the other: all their combinations are too many.
        for column in undecided:
            other = best.sizes.logarithmic.copy()
            other[column] ^= True
            best = max(best, self._try_sizes(points, seconds, errors, other), key=lambda each: each.evidence)
        rng = np.random.default_rng(self.random_state)
        self.sizes_ = best.sizes
        # Of each particle standard normal variables (4, with parameters 9 and one for each), ln of the seconds of what
        # falls at the reference, relative noise, and how far it bends up beyond the measured ranks.
        self.z_ = mix(best.z, lambda z: best.likelihood(best.shapes(z)), rng) if best.sizes else best.z
        self.log_scale_, self.noise_, weights = best.likelihood.draw(best.shapes(self.z_), rng)
        self.bends_ = ndtri((rng.permutation(self.particles) + 0.5) / self.particles)
        self.discrepancy_ = Discrepancy(best.frequencies, weights)

    def _try_sizes(self, points: Array, seconds: Array, errors: Array, logarithmic: ArrayLike) -> _Posterior:
        sizes, prior = Sizes.of(points, seconds, logarithmic), self._prior()
        frequencies, noise = spectrum(sizes, prior), (self.noise, self.noise_scale)
        likelihood: Likelihood
        if sizes:
            features = fourier_features(frequencies, points, sizes)
            likelihood = SizeLikelihood(seconds, errors, noise, features, prior)
        else:
            ranks, points = self.ranks_, np.unique(points, axis=0)
            features = fourier_features(frequencies, points, sizes)
            likelihood = RankLikelihood(ranks, seconds, errors, noise, self.straggling, features, prior)

        def shapes(z: Array) -> Array:
            return Shapes(z, self.reference_, sizes, prior)(points)

        sample = prior_sample(PRIOR_FACTOR * self.particles, sizes.dimensions)
        rng = np.random.default_rng(self.random_state)
        moves = MOVES_WITH_SIZES if sizes else MOVES
        z, evidence = sample_posterior(lambda z: likelihood(shapes(z)), sample, self.particles, moves, rng)
        return _Posterior(evidence, z, sizes, frequencies, likelihood, shapes)

    def _predict(self, points: Array) -> Array:
        """Positive, finite seconds: the mean over the drawn curves."""
        return np.asarray(self._curves()(points).mean(axis=0), dtype=np.float64)

    def _interval(self, points: Array, level: float) -> tuple[Array, Array]:
        return quantiles(self._curves()(points), level)

    def _draw(self, n: int, rng: np.random.Generator) -> Callable[[Array], Array]:
        """Choose n of the drawn curves, in random order; more than there are only by repeating some."""
        count = len(self.z_)
        return self._curves(rng.permutation(count)[:n] if n <= count else rng.integers(count, size=n))

    def _curves(self, chosen: Any = slice(None)) -> Callable[[Array], Array]:
        """Curves of all or of some particles, from points (m, 1 + k) to seconds (n, m)."""
        prior = self._prior()
        shapes = Shapes(self.z_[chosen], self.reference_, self.sizes_, prior)
        scale, last = np.exp(self.log_scale_[chosen])[:, None], float(self.ranks_.max())

        def curves(points: Array) -> Array:
            logs = self.discrepancy_(points, self.sizes_, chosen)
            logs += bend(self.bends_[chosen], np.log2(np.maximum(points[:, 0] / last, 1.0)), prior)
            return np.asarray(scale * shapes(points) * np.exp(logs), dtype=np.float64)

        return curves

    def _n_columns(self) -> int:
        return 1 + len(self.sizes_)

    def _prior(self) -> Prior:
        return Prior(**(self.prior or {}))

    def _check_parameters(self) -> None:
        for name in ("noise", "noise_scale"):
            if not getattr(self, name) > 0:
                raise ModelError(f"expected {name} above 0, found {getattr(self, name)!r}")
        if not 0 <= self.straggling < 1:
            raise ModelError(f"expected straggling from 0 to below 1, found {self.straggling!r}")
        if not self.particles >= 16:
            raise ModelError(f"expected particles from 16, found {self.particles!r}")
        known = [field.name for field in fields(Prior)]
        for name in self.prior or {}:
            if name not in known:
                raise ModelError(f"expected constants of the prior out of {', '.join(known)}, found {name!r}")


class _Posterior(NamedTuple):
    """One way of taking sizes: the evidence for it, particles, and what makes them up."""

    evidence: float
    z: Array
    sizes: Sizes
    frequencies: Array
    likelihood: Likelihood
    # From z to shapes at the points that the likelihood looks at.
    shapes: Callable[[Array], Array]


def compact_formula(ranks: Array, seconds: Array) -> Formula:
    """Fit a fall p^-α, a constant and a rise, with coefficients that are not negative, to a curve over ranks.

    The least mean squared relative error over α from 0.3 to 1.5 in steps of 0.025 and five rises wins.
    """
    exponents = [(-a, 0.0) for a in FALLS] + [(0.0, 0.0), *RISES]
    values = term_values(ranks, exponents) / seconds
    constant = len(FALLS)
    members = np.array(
        [(f, constant, r) for f, r in itertools.product(range(constant), range(constant + 1, len(exponents)))]
    )
    columns = np.ascontiguousarray(values[members.T].transpose(0, 2, 1))
    coefficients, residuals = solve_nonnegative(columns, np.ones(columns.shape[1:]))
    best = int(np.argmin(residuals))
    parts = coefficients[:, best, None] * values[members[best]]
    return Formula(
        tuple(
            term_of(c, [exponents[k]])
            for c, k, part in zip(coefficients[:, best], members[best], parts, strict=True)
            if part.max() >= NEGLIGIBLE
        )
    )
