"""What a unit of each feature costs: non-negative least squares over ranks and runs, and when not to trust it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

# Submodules are loaded when they are first used: every recommendation imports this one.
import scipy

from precice_lb.exceptions import DataError
from precice_lb.inside.loads import FeatureCosts, Floats, RankLoad

_NOISE = 0.035
"""Relative standard deviation of busy seconds that nobody needs to explain."""
_FALSE_ALARMS = 0.005
"""Share of fits of the right features with that noise that may be refused, by each of two tests."""
_UNSURE = 0.15
"""A feature's standard error, as a share of all seconds, beyond which its cost is not known."""
_IDLE = 0.1
"""Errors of ranks that are busy for less than this share of their run's mean are taken relative to that share."""
_CLEARLY = 6.0
"""By how much Bayes' information criterion must fall for a constant."""
_NEGLIGIBLE = 1e-3
"""Relative residuals below this are no evidence for a constant."""
_SAME = 1e-7
"""Relative singular value below which features are the same."""
_MORE = 1.5
"""Factor by which ranks must hold more of everything in one run than in another, for a constant."""
_MOST = 4


def counts_for(load: RankLoad, features: Sequence[str]) -> Floats:
    """Give the counts of some features, shape (ranks, features); a load that does not know one has none of it."""
    known = {name: load.counts[:, place] for place, name in enumerate(load.features)}
    nothing = np.zeros(len(load.counts))
    return np.column_stack([known.get(name, nothing) for name in features])


def seconds_by_feature(costs: FeatureCosts, load: RankLoad) -> Floats:
    """Give the seconds that each rank spends on each feature, shape (ranks, features)."""
    return counts_for(load, costs.features) * costs.seconds


def predicted(costs: FeatureCosts, load: RankLoad) -> Floats:
    """Predict how long each rank is busy per time window, shape (ranks,)."""
    return costs.predict(counts_for(load, costs.features))


def residuals(costs: FeatureCosts, load: RankLoad) -> Floats:
    """Give measured less predicted seconds of each rank, shape (ranks,); NaN where no seconds are known."""
    return np.asarray(load.seconds - predicted(costs, load), dtype=np.float64)


def fit_costs(loads: Sequence[RankLoad]) -> FeatureCosts:
    """Fit seconds per unit of each feature and time window to what ranks held and how long they were busy.

    Ranks of all runs count by their relative errors. A constant per rank is fitted where it clearly improves the fit.
    What speaks against the result stands in its ``problem``.

    Parameters
    ----------
    loads : sequence of RankLoad
        One per run; ranks without seconds (NaN) are left out.

    Returns
    -------
    FeatureCosts
        The standard error of a feature of cost 0 says how much it may cost instead.

    Raises
    ------
    DataError
        If there are no features, or no busy seconds above 0.
    """
    features = tuple(dict.fromkeys(name for load in loads for name in load.features))
    if not features:
        raise DataError("expected counts of at least one feature, found none; count what ranks hold, such as cells")
    loads = [load for load in loads if np.isfinite(load.seconds).any()]
    if not any(np.nansum(load.seconds) for load in loads):
        raise DataError("expected busy seconds of ranks above 0, found none; give runs that were measured")
    kept = [(load, np.flatnonzero(np.isfinite(load.seconds))) for load in loads]
    places = [(load.run, rank) for load, ranks in kept for rank in ranks.tolist()]
    seconds = np.concatenate([load.seconds[ranks] for load, ranks in kept])
    counts = np.concatenate([counts_for(load, features)[ranks] for load, ranks in kept])
    # Those of a run that was never busy are not divided by.
    means = np.concatenate([np.full(len(ranks), load.seconds[ranks].mean() or 1.0) for load, ranks in kept])
    scale = np.maximum(seconds, _IDLE * means)
    design = counts / scale[:, None]
    fit = _Fit(design, seconds / scale)
    other = _Fit(np.column_stack([design, 1.0 / scale]), seconds / scale)
    if (
        _sizes_differ(loads, features)
        and len(seconds) > other.rank > fit.rank
        and other.criterion < fit.criterion - _CLEARLY
    ):
        fit = other
    size = len(features)
    unexplained = float(np.sqrt(np.mean((fit.relative * scale / means) ** 2)))
    costs = FeatureCosts(features, fit.values[:size], fit.errors[:size], float(fit.values[size:].sum()), unexplained)
    problem = (
        _unknown(features, design)
        or _misfit(fit, places, *_noise(loads))
        or _unsure(features, counts, design, seconds, fit)
    )
    return replace(costs, problem=problem)


def _sizes_differ(loads: Sequence[RankLoad], features: tuple[str, ...]) -> bool:
    """Whether ranks of one run hold clearly more of everything than those of another.

    Elsewhere a constant is the same as work that nobody counted and that is spread evenly.
    """
    means = np.array([counts_for(load, features).mean(axis=0) for load in loads])
    return bool(((means[:, None] >= _MORE * means) & (means[:, None] > 0)).all(axis=2).any())


class _Fit:
    """Values and standard errors of all columns, and relative residuals with the share of noise that each keeps."""

    def __init__(self, design: Floats, wanted: Floats) -> None:
        lengths = np.linalg.norm(design, axis=0)
        scale = np.where(lengths > 0, lengths, 1.0)
        design = np.where(lengths > 0, design / scale, 0.0)
        # nnls of scipy 1.12 to 1.15 may stop before the optimum.
        values = np.maximum(scipy.optimize.lsq_linear(design, wanted, (0, np.inf), method="bvls").x, 0.0)
        self.relative = wanted - design @ values
        active = values > 0
        basis, _ = np.linalg.qr(design[:, active])
        self.kept = 1 - (basis**2).sum(axis=1)
        #: How many values are left to judge the fit by, and the relative variance of what is left.
        self.freedom = len(wanted) - int(active.sum())
        self.variance = float(self.relative @ self.relative) / max(self.freedom, 1)
        errors = np.full(len(values), np.inf)
        for place in np.flatnonzero(lengths):
            # Of a feature at the bound 0: the error that it would have if it were above.
            those = design[:, active | (np.arange(len(values)) == place)]
            if np.linalg.matrix_rank(those, _SAME) == those.shape[1]:
                position = int(active[:place].sum())
                errors[place] = np.sqrt(self.variance * np.linalg.inv(those.T @ those)[position, position])
        self.rank = int(np.linalg.matrix_rank(design, _SAME))
        self.values, self.errors = values / scale, errors / scale

    @property
    def criterion(self) -> float:
        """Bayes' information criterion."""
        count = len(self.relative)
        mean = float(np.mean(self.relative**2)) + _NEGLIGIBLE**2
        return float(count * np.log(mean) + (self.values > 0).sum() * np.log(count))


def _unknown(features: tuple[str, ...], design: Floats) -> str:
    """Name features that these runs say nothing of, whatever their seconds."""
    nowhere = [name for name, column in zip(features, design.T, strict=True) if not column.any()]
    if nowhere:
        return f"no rank of these runs holds {_names(nowhere)}: leave it out, or add a run that has it"
    if len(design) <= len(features):
        return (
            f"{len(design)} busy seconds of ranks are too few for the costs of {len(features)} features: add runs, on "
            "more ranks or with other partitions, or leave features out"
        )
    _, sizes, directions = np.linalg.svd(design / np.linalg.norm(design, axis=0), full_matrices=False)
    lost = directions[sizes < _SAME * sizes[0]]
    alike = [name for name, parts in zip(features, lost.T, strict=True) if np.abs(parts).max(initial=0) > 1e-3]
    if alike:
        return (
            f"{_names(alike)} cannot be told apart, for on all ranks each follows from the others: leave one out, or "
            "add a run with a partition in which they are in other proportions"
        )
    return ""


def _noise(loads: Sequence[RankLoad]) -> tuple[float, int]:
    """Give the relative variance of the same rank in runs of the same partition, and its degrees of freedom."""
    groups: dict[tuple[object, ...], list[Floats]] = {}
    for load in loads:
        groups.setdefault((load.features, load.counts.shape, load.counts.tobytes()), []).append(load.seconds)
    squares, freedom = 0.0, 0
    for repeated in groups.values():
        if len(repeated) > 1:
            seconds = np.array(repeated)[:, np.isfinite(repeated).all(axis=0)]
            mean = seconds.mean(axis=0)
            squares += float((((seconds - mean) / np.maximum(mean, _IDLE * mean.mean())) ** 2).sum())
            freedom += seconds.size - len(mean)
    return squares / max(freedom, 1), freedom


def _misfit(fit: _Fit, places: Sequence[tuple[str, int]], variance: float, freedom: int) -> str:
    """Say whether seconds differ from the features' by more than noise: all together, or those of one rank."""
    allowed = max(_NOISE**2, variance)
    left = max(fit.freedom, 1)
    if variance <= _NOISE**2:
        quantile = scipy.stats.chi2.isf(_FALSE_ALARMS, left) / left
    else:
        quantile = scipy.stats.f.isf(_FALSE_ALARMS, left, freedom)
    single = np.abs(fit.relative) / np.sqrt(np.maximum(fit.kept, 1e-6))
    fits = fit.variance <= allowed * quantile
    if fits and single.max() <= np.sqrt(allowed) * scipy.stats.norm.isf(_FALSE_ALARMS / 2 / len(single)):
        return ""
    worst = int(np.argmax(single if fits else np.abs(fit.relative)))
    run, rank = places[worst]
    deviation = float(fit.relative[worst])
    left_over, noise, most = (value**0.5 for value in (fit.variance, allowed, allowed * quantile))
    return (
        f"the features leave {left_over:.1%} of the seconds of a rank unexplained, noise of {noise:.1%} would leave at "
        f"most {most:.1%} (rank {rank}{f' of run {run}' if run else ''} is "
        f"{abs(deviation):.0%} {'slower' if deviation > 0 else 'faster'} than they say): count what else costs time "
        "there, or repeat runs with the same partition, so that noise is known"
    )


def _unsure(
    features: tuple[str, ...],
    counts: Floats,
    design: Floats,
    seconds: Floats,
    fit: _Fit,
) -> str:
    """Name features whose costs may be exchanged with each other's; those at the bound 0 too."""
    errors = np.sqrt(fit.variance * np.diag(np.linalg.pinv(design.T @ design)))
    shares = errors * counts.sum(axis=0) / seconds.sum()
    unsure = [f"{name} (± {share:.0%})" for name, share in zip(features, shares, strict=True) if share > _UNSURE]
    if not unsure:
        return ""
    return (
        f"the share of all seconds is not known for {_names(unsure)}: add runs with partitions in which features are "
        "in other proportions, or leave out one of those that go together"
    )


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST]) + (f" and {len(names) - _MOST} more" if len(names) > _MOST else "")
