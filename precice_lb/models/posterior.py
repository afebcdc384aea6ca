"""A posterior over curves of run times that bends where the readings bend, and knows what a node is.

The logarithm of a solver's seconds is a Gaussian process over x, the logarithm of its ranks over somewhat fewer than
the fewest measured ones (Rasmussen and Williams 2006, ch. 2)::

    f(x) = a + b x + d x²/2 + ln(1 + exp(r (x - x_t))) + σ ∫∫ dW₁ + τ W₂ + ν ε

a level a; a slope b that is nearly -1, as run times fall like 1/p; a drift d by which curves lose their slope; a turn
at x_t, from which on what does not fall (r = 1, as in Amdahl's law) or what grows (r > 1) outweighs the rest, if there
is one at all. The slope wanders (σ, twice integrated white noise, the smoothing spline of Wahba 1978), so does the
level (τ), and readings err (ν, beside what is known of each). The covariances of both are, to either side of the
origin by itself,

    <∫∫dW ∫∫dW'> = s² (3t - s) / 6,    <W W'> = s,    s = min(x, x'), t = max(x, x').

Beyond a full node, where its cores are known, new memory comes with every node: there both begin afresh, with a slope
near -1 and a small jump.

Given a *cell*, (σ, τ, ν) and (d, x_t, r), everything is exact. Cells are weighed by prior and marginal likelihood; so
is, in each, that one of the readings is an outlier. Few readings say little of ν, which participants of one machine
mostly share: what the readings of one say of it counts for the others (`share_noise`). Curves are drawn by Matheron's
rule (Journel and Huijbregts 1978; Wilson et al. 2020): a draw of the prior, moved by what its own noisy readings miss
of the measured ones. They are drawn at no more than `KNOTS` rank counts beside the measured ones, and straight between
them in logarithms. More than `MOST_READINGS` readings are put together where they are near to each other, which loses
what the curve does within a percent or so of the ranks.

With further parameters, such as the size of a mesh, there are two axes: the ranks, and the ranks over the size
V = exp(Σ γ θ), as the work of a rank depends on its part alone. Beyond that the level depends on ln V linearly, and
little. The exponents γ are cells around those of a plane through the readings; whether θ is a parameter or its
logarithm is for the evidence to say. So cheap runs on small meshes inform the large one (Totounferoush 2022,
section 3.4, scales a model by the ratio of the sizes and corrects it by a few runs).

The numbers of `Prior` were settled by published curves, whole sources left out (`benchmarks/real_curves.py` with the
learner ``bayes-chosen``), and by random families.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.exceptions import ModelError
from precice_lb.models.base import Array, Learner

Integers = NDArray[np.intp]
Booleans = NDArray[np.bool_]
# Values, and the weights of each.
Cells = tuple[tuple[float, ...], tuple[float, ...]]

# Rank counts at which curves are drawn, beside the measured ones, and by how much beyond them where nobody says.
KNOTS, BEYOND = 72, 64.0
# More readings than this are put together.
MOST_READINGS = 64
# A parameter that varies by more than this factor is not a level.
LARGEST_LEVEL_RANGE = 20.0
# How often exponents are sought between those that explain the readings best.
REFINED = 3
# Draws behind a prediction.
DRAWS = 512
# Octaves so far that what begins there never counts.
NEVER = 99.0


@dataclass(frozen=True)
class Prior:
    """What run times are like before anything was measured."""

    level_sd: float = 3.0
    slope: float = -0.96
    slope_sd: float = 0.07
    # Where there is one number of ranks only, with no turn and no drift: it stands for what is to both sides of it.
    slope_of_one: float = -0.75
    slope_of_one_sd: float = 0.2
    # The origin is so much, in logarithms, below the fewest measured ranks.
    before: float = 0.7
    drift: Cells = ((0.0, 0.1, 0.25), (0.5, 0.35, 0.15))
    # Octaves from the most measured ranks to a turn, NEVER for none, and the steepness of what then counts.
    turn: Cells = (
        (-10.0, -6.0, -4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, NEVER),
        (0.01, 0.02, 0.02, 0.05, 0.05, 0.07, 0.08, 0.08, 0.1, 0.12, 0.4),
    )
    rise: Cells = ((1.0, 1.7, 3.0), (0.5, 0.3, 0.2))
    sigma: Cells = ((0.03, 0.1, 0.25, 0.6, 1.5), (0.3, 0.3, 0.22, 0.13, 0.05))
    tau: Cells = ((0.005, 0.03, 0.1, 0.3), (0.4, 0.35, 0.2, 0.05))
    noise: Cells = ((0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.5), (0.09, 0.18, 0.25, 0.2, 0.15, 0.1, 0.03))
    # Probability that participants have the same one.
    noise_shared: float = 0.65
    # One reading is off by so much, with this probability for each.
    outlier: float = 0.004
    outlier_sd: float = 0.35
    # Where a full node ends; beyond, slopes are as within it.
    node_jump_sd: float = 0.05
    # What the level depends on ln V, beside the part of a rank; and γ over that of a plane.
    size_sd: float = 0.1
    growth: tuple[float, ...] = (0.6, 0.8, 1.0, 1.25, 1.6)


def _grid(*cells: Cells) -> tuple[list[Array], Array]:
    """Combine cells: the values of each, and the logarithms of their weights."""
    values = np.array(list(itertools.product(*(cell[0] for cell in cells)))).T
    weights = np.array(list(itertools.product(*(cell[1] for cell in cells))))
    return list(values), np.log(weights).sum(axis=1)


@dataclass(frozen=True, eq=False)
class _Places:
    """Where points are: on axes, each with its own origin, and what the level depends on linearly, shape (m, q)."""

    axes: tuple[Array, ...]
    columns: Array
    # By what curves drift and turn.
    bent: Array

    def covariances(self, other: _Places) -> tuple[Array, Array]:
        """Covariances with other points of the twice integrated white noise, and of the Wiener process."""
        twice, once = np.zeros((2, len(self.columns), len(other.columns)))
        for s, t in zip(self.axes, other.axes, strict=True):
            a, b = np.abs(s)[:, None], np.abs(t)
            low, high = np.minimum(a, b), np.maximum(a, b)
            low = np.where(s[:, None] * t > 0, low, 0.0)
            twice, once = twice + low**2 * (3 * high - low) / 6, once + low
        return twice, once

    def paths(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Draw both, shape (n, points) each."""
        twice, once = np.zeros((2, n, len(self.columns)))
        for s, side in itertools.product(self.axes, (1, -1)):
            columns = np.flatnonzero(side * s > 0)
            places, back = np.unique(np.abs(s[columns]), return_inverse=True)
            h, z = np.diff(places, prepend=0.0), rng.standard_normal((3, n, len(places)))
            slope = np.cumsum(np.sqrt(h) * z[0], axis=1)
            # The exact step of slope and value together.
            steps = h * (slope - np.sqrt(h) * z[0]) + h**1.5 * (z[0] / 2 + z[1] / np.sqrt(12))
            twice[:, columns] += np.cumsum(steps, axis=1)[:, back]
            once[:, columns] += np.cumsum(np.sqrt(h) * z[2], axis=1)[:, back]
        return twice, once


class _Fit:
    """The posterior for one choice of the sizes' exponents."""

    def __init__(
        self, points: Array, chosen: Booleans, y: Array, errors: Array, cores: float, prior: Prior, growth: float
    ) -> None:
        self.prior, self.chosen = prior, chosen
        self.reference = _taken(points, chosen).max(axis=0)
        x, steps = self._steps(points)
        slopes = np.linalg.lstsq(np.column_stack([np.ones(len(x)), x, steps]), y, rcond=None)[0]
        self.growth = slopes[2:] / max(-slopes[1], 0.5) * growth
        part = x - steps @ self.growth
        # Where the axes of ranks and of a rank's part begin.
        self.origin, self.part_origin = float(x.min()) - prior.before, float(part.min()) - prior.before
        node = np.log(cores) - self.origin
        # Beyond a node alone, nothing is known of what is within it.
        self.node = float(node) if not len(self.growth) and node > prior.before else np.inf
        #: Whether all readings are within one node.
        self.within = float(x.max()) - self.origin <= self.node
        #: Where the readings end, from where on turns are counted.
        self.last = float(self._places(x, steps).bent.max())
        one = len(np.unique(x)) == 1
        slope, slope_sd = (prior.slope_of_one, prior.slope_of_one_sd) if one else (prior.slope, prior.slope_sd)
        rest = (prior.size_sd,) if len(self.growth) else (prior.node_jump_sd, prior.slope_sd)
        self.sd = np.array([prior.level_sd, slope_sd, *rest])
        self.mean = np.array([0.0, slope, 0.0, prior.slope])[: len(self.sd)]
        self.noise = np.array(prior.noise[0])
        variance = self.noise[:, None] ** 2 + errors**2
        within = np.zeros(len(self.noise))
        if len(x) > MOST_READINGS:
            x, steps, y, variance, within = _merged(x, steps, y, variance)
        self.variance, self.y, self.here = variance, y, self._places(x, steps)
        self.x, self.steps = x, steps
        (self.sigma, self.tau, level), weight = _grid(
            prior.sigma, prior.tau, (tuple(range(len(self.noise))), prior.noise[1])
        )
        self.level = level.astype(np.intp)
        bends = (prior.drift, prior.turn, prior.rise)
        (self.drift, self.turn, self.rise), mean_weight = _grid(
            *(tuple(((value,), (1.0,)) for value in (0.0, NEVER, 1.0)) if one else bends)
        )
        self.mean_share = np.exp(mean_weight) / np.exp(mean_weight).sum()
        columns, diagonal = self.here.columns, np.arange(len(x))
        twice, once = self.here.covariances(self.here)
        covariance = (columns * self.sd**2) @ columns.T + (
            self.sigma[:, None, None] ** 2 * twice + self.tau[:, None, None] ** 2 * once
        )
        covariance[:, diagonal, diagonal] += variance[self.level]
        self.inverse = np.linalg.inv(covariance)
        every = np.arange(len(self.drift))
        missed = y - self._means(self.here, every)
        solved = missed @ self.inverse
        logs = weight[:, None] + mean_weight - 0.5 * np.einsum("cjn,jn->cj", solved, missed)
        logs += (within[self.level] - 0.5 * np.linalg.slogdet(covariance)[1])[:, None]
        # A reading that is an outlier has a variance of its own, which changes the inverse by a matrix of rank one.
        off = prior.outlier_sd**2
        spread = (1.0 + off * self.inverse[:, diagonal, diagonal])[:, None]
        likelier = np.log(prior.outlier) - 0.5 * np.log(spread) + 0.5 * off * solved**2 / spread
        if len(x) < 3:
            likelier[:] = -np.inf
        logs = logs[:, :, None] + np.concatenate([np.zeros((*logs.shape, 1)), likelier], axis=2)
        self.evidence = float(np.logaddexp.reduce(logs, axis=None))
        self.share = np.exp(logs - self.evidence)

    def _steps(self, points: Array) -> tuple[Array, Array]:
        """Logarithms of ranks, and how far parameters are from those that were taken for a reference."""
        return np.log(points[:, 0]), _taken(points, self.chosen) - self.reference

    def _places(self, x: Array, steps: Array) -> _Places:
        """Turn points into places."""
        ones = np.ones(len(x))
        if len(self.growth):
            size = steps @ self.growth
            part = x - size - self.part_origin
            return _Places((part, x - self.origin), np.column_stack([ones, part, size]), part)
        s = x - self.origin
        inner, outer = np.minimum(s, self.node), np.maximum(s - self.node, 0.0)
        columns = np.column_stack([ones, inner, outer > 0, outer])
        return _Places((inner,), columns, inner) if self.within else _Places((inner, outer), columns, outer)

    def _means(self, places: _Places, cells: Integers) -> Array:
        """Prior means of some cells, shape (cells, points)."""
        return np.asarray(places.columns @ self.mean + self._bend(places.bent, cells, self.last))

    def _bend(self, places: Array, cells: Integers, last: float) -> Array:
        """By what curves of some cells drift and turn, shape (cells, places)."""
        rise, turn = self.rise[cells, None], last + np.log(2.0) * self.turn[cells, None]
        turned = np.logaddexp(0.0, rise * (places - turn)) - np.logaddexp(0.0, -rise * turn)
        return np.asarray(turned + self.drift[cells, None] * np.maximum(places, 0.0) ** 2 / 2)

    def _beyond(self, x: Array, n: int, rng: np.random.Generator) -> Array:
        """Draw what happens beyond the node that all readings are within, of which they say nothing."""
        prior, places = self.prior, np.maximum(x - self.origin - self.node, 0.0)
        sigma, tau = (rng.choice(hyperprior[0], n, p=np.divide(hyperprior[1], np.sum(hyperprior[1])))[:, None]
                      for hyperprior in (prior.sigma, prior.tau))  # fmt: skip
        cells = rng.choice(len(self.drift), n, p=self.mean_share)
        twice, once = _Places((places,), places[:, None], places).paths(n, rng)
        # The first two octaves of nodes are like those that anybody measures.
        return sigma * twice + tau * once + self._bend(places, cells, 2 * np.log(2.0))

    def draw(self, points: Array, n: int, rng: np.random.Generator) -> Array:
        """Draw logarithms of seconds at points, shape (n, points)."""
        x, steps = self._steps(points)
        m, rows, off = len(self.x), np.arange(n), self.prior.outlier_sd**2
        weights = np.cumsum(self.share)
        cells = np.searchsorted(weights, (rows + rng.random(n)) / n * weights[-1]).clip(max=len(weights) - 1)
        cell, mean, out = np.unravel_index(rng.permutation(cells), self.share.shape)
        both = self._places(np.append(self.x, x), np.vstack([self.steps, steps]))
        there = self._places(x, steps)
        sigma, tau = self.sigma[cell, None], self.tau[cell, None]
        twice, once = both.paths(n, rng)
        values = self._means(both, mean) + sigma * twice + tau * once
        values += self.sd * rng.standard_normal((n, len(self.sd))) @ both.columns.T
        if self.within and self.node < np.inf:
            values[:, m:] += self._beyond(x, n, rng)
        variance, odd, late = self.variance[self.level[cell]], off * (out > 0), np.maximum(out - 1, 0)
        variance[rows, late] += odd
        missed = self.y - values[:, :m] - np.sqrt(variance) * rng.standard_normal((n, m))
        solved = np.einsum("nij,nj->ni", self.inverse[cell], missed)
        column = self.inverse[cell, late]
        solved -= (odd * solved[rows, late] / (1 + odd * column[rows, late]))[:, None] * column
        twice, once = there.covariances(self.here)
        moved = (solved @ self.here.columns * self.sd**2) @ there.columns.T
        moved += sigma**2 * (solved @ twice.T) + tau**2 * (solved @ once.T)
        return np.asarray(values[:, m:] + moved)


def _merged(x: Array, steps: Array, y: Array, variance: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Put readings together in bins of ranks, each case by itself; and how likely they are within these."""
    cases, case = np.unique(steps, axis=0, return_inverse=True)
    bins = max(MOST_READINGS // len(cases), 1)
    bin_number = np.floor((x - x.min()) / max(np.ptp(x), 1e-9) * bins * (1 - 1e-9))
    _, label = np.unique(case.ravel() * (bins + 1) + bin_number, return_inverse=True)
    # Weighed as at a middle level of noise: by it alone the mean would depend on the cell.
    weight = 1.0 / variance[len(variance) // 3]
    total = np.bincount(label, weight)
    mean_x, mean_y = np.bincount(label, weight * x) / total, np.bincount(label, weight * y) / total
    away_x = x - mean_x[label]
    slope = np.divide(np.bincount(label, weight * away_x * y), np.bincount(label, weight * away_x**2) + 1e-12)
    slope = np.where(np.bincount(label) > 2, slope, -1.0)
    away = y - mean_y[label] - slope[label] * away_x
    of_mean = np.array([np.bincount(label, weight**2 * row) for row in variance]) / total**2
    within = 0.5 * np.log(of_mean).sum(axis=1) - 0.5 * (away**2 / variance + np.log(variance)).sum(axis=1)
    first = np.unique(label, return_index=True)[1]
    return mean_x, steps[first], mean_y, of_mean, within


@dataclass(kw_only=True, eq=False)
class BayesRegressor(Learner):
    """The default model: a posterior over curves that bends where the readings bend.

    Parameters
    ----------
    prior : mapping, optional
        Constants of `Prior` that are to differ.
    random_state : int
        Seed of predictions: the same measurements give the same ones.
    """

    learner_name: ClassVar[str] = "bayes"
    several_parameters: ClassVar[bool] = True
    prior: Mapping[str, Any] | None = None
    random_state: int = 0

    def fit(
        self, X: ArrayLike, y: ArrayLike, standard_error: ArrayLike | None = None, cores: float | None = None
    ) -> BayesRegressor:
        """Return itself, having learned from measurements.

        Parameters
        ----------
        X : array of shape (n, d)
            Ranks, then parameters; rows may repeat.
        y : array of shape (n,)
            Seconds per time window.
        standard_error : array of shape (n,), optional
            Of each row of ``y`` in seconds, NaN where unknown.
        cores : float, optional
            Ranks on a full node, where that is known.
        """
        self._cores = np.inf if cores is None else float(cores)
        return super().fit(X, y, standard_error)

    def draw(self, n: int, random_state: int | np.random.Generator | None = None) -> Callable[[ArrayLike], Array]:
        """Draw n whole curves; the same seed draws the same curves, whatever they are asked for.

        Parameters
        ----------
        n : int
            How many.
        random_state : int, generator or None
            Seed.

        Returns
        -------
        callable
            Takes rows and gives seconds, shape (n, rows).
        """
        self._require_fitted()
        seed = np.random.default_rng(random_state).integers(2**31)
        low = min(self.ranks_.min(), max(self.ranks_.min() / BEYOND, 1.0))
        knots = np.geomspace(low, BEYOND * self.ranks_.max(), KNOTS)
        if low < self._cores < knots[-1]:
            knots = np.append(knots, [self._cores, self._cores + 1])
        # What was measured closely is drawn closely.
        measured = np.unique(self.ranks_)
        knots = np.unique(np.append(knots, measured[:: -(-len(measured) // MOST_READINGS)]))
        known: dict[tuple[float, ...], Array] = {}

        def curves(X: ArrayLike) -> Array:
            points = self._points(X)
            logs = np.empty((n, len(points)))
            cases, case = np.unique(points[:, 1:], axis=0, return_inverse=True)
            for label, row in enumerate(cases):
                if tuple(row) not in known:
                    rows = np.column_stack([knots, np.tile(row, (len(knots), 1))])
                    known[tuple(row)] = self._sample(rows, n, np.random.default_rng(seed))
                here = case.ravel() == label
                logs[:, here] = interpolated(points[here, 0], knots, known[tuple(row)])
            return np.exp(logs)

        return curves

    def _fit(self, points: Array, seconds: Array, errors: Array) -> None:
        known = [field.name for field in fields(Prior)]
        for name in self.prior or {}:
            if name not in known:
                raise ModelError(f"expected constants of the prior out of {', '.join(known)}, found {name!r}")
        self.ranks_ = points[:, 0]
        prior = Prior(**(self.prior or {}))
        y = np.log(seconds)
        self._centre = float(y.mean())
        y, errors = y - self._centre, errors / seconds
        columns = points[:, 1:].T
        logarithmic = np.array([bool((column > 0).all()) for column in columns], dtype=np.bool_)
        choices = [logarithmic]
        for index, column in enumerate(columns):
            is_level = len(np.unique(column)) >= 3 and column.max() <= LARGEST_LEVEL_RANGE * column.min()
            if logarithmic[index] and is_level:
                choices.append(logarithmic & (np.arange(len(columns)) != index))
        self._fits: list[_Fit] = []
        for chosen in choices:
            fit = partial(_Fit, points, chosen, y, errors, self._cores, prior)
            logs = np.log(prior.growth) if len(columns) else np.zeros(1)
            fits = {float(log): fit(np.exp(log)) for log in logs}
            for _ in range(REFINED if len(columns) else 0):
                logs = np.sort(list(fits))
                best = int(np.argmax([fits[log].evidence for log in logs]))
                for left in (best - 1, best):
                    if 0 <= left < len(logs) - 1:
                        middle = float(logs[left] + logs[left + 1]) / 2
                        fits[middle] = fit(np.exp(middle))
            logs = np.sort(list(fits))
            for log, share in zip(logs, np.gradient(logs) if len(logs) > 1 else [1.0], strict=True):
                fits[log].evidence += float(np.log(share))
                self._fits.append(fits[log])
        self.reweigh(np.ones(len(prior.noise[0])))

    def reweigh(self, ratio: Array) -> None:
        """Let levels of noise count by so much more or less."""
        fits = self._fits
        for fit in fits:
            fit.share *= ratio[fit.level, None, None]
        best = max(fit.evidence for fit in fits)
        levels = np.array(
            [np.exp(fit.evidence - best) * np.bincount(fit.level, fit.share.sum(axis=(1, 2))) for fit in fits]
        )
        self._shares = levels.sum(axis=1) / levels.sum()
        #: Probabilities of the prior's levels of noise.
        self.levels_ = levels.sum(axis=0) / levels.sum()
        #: Root mean square of the noise of readings, relative.
        self.noise_ = float(np.sqrt(self.levels_ @ fits[0].noise ** 2))

    def _sample(self, points: Array, n: int, rng: np.random.Generator) -> Array:
        """Draw logarithms of seconds at points together, shape (n, points)."""
        # As many draws of each as its share, to less than one.
        counts = np.diff(np.rint(np.append(0.0, np.cumsum(self._shares)) * n).astype(int))
        draws = [fit.draw(points, count, rng) for fit, count in zip(self._fits, counts, strict=True) if count]
        return np.vstack(draws)[rng.permutation(n)] + self._centre

    def _predict(self, points: Array) -> Array:
        """Positive, finite seconds: the median of the draws."""
        return np.exp(np.median(self._sample(points, DRAWS, self._rng()), axis=0))

    def predict_interval(self, X: ArrayLike, level: float = 0.8) -> tuple[Array, Array]:
        """Bounds that hold the true mean seconds with a given probability.

        Parameters
        ----------
        X : array of shape (n, d)
            Ranks, then parameters.
        level : float
            Probability, from 0 to 1.

        Returns
        -------
        low, high : array of shape (n,)
            Seconds.
        """
        if not 0 < level < 1:
            raise ModelError(f"expected an interval's level between 0 and 1, found {level!r}")
        logs = self._sample(self._points(X), DRAWS, self._rng())
        low, high = np.exp(np.quantile(logs, [(1 - level) / 2, (1 + level) / 2], axis=0))
        return low, high

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(self.random_state)


def _taken(points: Array, logarithmic: Booleans) -> Array:
    """Parameters of points, shape (m, k), or their logarithms."""
    values = points[:, 1:]
    if (values[:, logarithmic] <= 0).any():
        column = int(np.argmax((values * logarithmic <= 0).any(axis=0) & logarithmic))
        raise ModelError(f"expected positive values in column {column + 1} of X, found {values[:, column].min():g}")
    return np.where(logarithmic, np.log(np.where(logarithmic, values, 1.0)), values)


def counted_noise(levels: Array | None = None) -> float:
    """Return the relative noise whose readings count for as much as those of the prior's levels do in the mean.

    ``levels`` are the probabilities of these, `BayesRegressor.levels_`; by default the prior's own.
    """
    weights = np.asarray(Prior.noise[1] if levels is None else levels)
    return float((weights @ np.array(Prior.noise[0]) ** -2.0) ** -0.5)


def share_noise(models: Sequence[BayesRegressor]) -> None:
    """Let fitted models of the participants of one machine tell each other of the noise of readings."""
    prior = Prior(**(models[0].prior or {}))
    weights, same = np.divide(prior.noise[1], np.sum(prior.noise[1])), prior.noise_shared
    likelihoods = np.array([same * model.levels_ / weights + 1 - same for model in models])
    for row, model in enumerate(models):
        common = np.delete(likelihoods, row, axis=0).prod(axis=0)
        model.reweigh(same * common / (weights @ common) + 1 - same)


def interpolated(ranks: NDArray[Any], known: NDArray[Any], values: Array) -> Array:
    """Values on straight lines over the logarithm of ranks, going on beyond the known ones, shape (n, m).

    Of n curves with values (n, k) at known ranks (k,), rising; at ranks (m,), or (n, m) where each curve is asked at
    others. Logarithms of seconds make straight lines on doubly logarithmic axes.
    """
    if len(known) == 1:
        return np.broadcast_to(values, (len(values), np.shape(ranks)[-1]))
    right = np.searchsorted(known, ranks, side="right").clip(1, len(known) - 1)
    low, high = np.log(known)[right - 1], np.log(known)[right]
    share = (np.log(ranks) - low) / (high - low)
    rows = np.arange(len(values))[:, None]
    return np.asarray(values[rows, right - 1] * (1 - share) + values[rows, right] * share)
