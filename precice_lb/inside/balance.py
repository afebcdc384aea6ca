"""Balance inside a participant: what features cost, how even its ranks are now, and would be with another partition.

What a unit of each feature costs is found by non-negative least squares over ranks and runs; it is said when
not to trust that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

# Submodules are loaded when they are first used: every recommendation imports this one.
import scipy

from precice_lb.dataset import Measurements
from precice_lb.exceptions import DataError
from precice_lb.inside.loads import BASES, Cells, FeatureCosts, Floats, Integers, RankLoad, counts_for
from precice_lb.inside.mesh import bisection
from precice_lb.text import first_of

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
    fit = _LeastSquares(design, seconds / scale)
    other = _LeastSquares(np.column_stack([design, 1.0 / scale]), seconds / scale)
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


class _LeastSquares:
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
        return float(count * np.log(mean) + (count - self.freedom) * np.log(count))


def _unknown(features: tuple[str, ...], design: Floats) -> str:
    """Name features that these runs say nothing of, whatever their seconds."""
    nowhere = [name for name, column in zip(features, design.T, strict=True) if not column.any()]
    if nowhere:
        return f"no rank of these runs holds {first_of(nowhere, _MOST)}: leave it out, or add a run that has it"
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
            f"{first_of(alike, _MOST)} cannot be told apart, for on all ranks each follows from the others: leave one "
            "out, or add a run with a partition in which they are in other proportions"
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


def _misfit(fit: _LeastSquares, places: Sequence[tuple[str, int]], variance: float, freedom: int) -> str:
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
    fit: _LeastSquares,
) -> str:
    """Name features whose costs may be exchanged with each other's; those at the bound 0 too."""
    errors = np.sqrt(fit.variance * np.diag(np.linalg.pinv(design.T @ design)))
    shares = errors * counts.sum(axis=0) / seconds.sum()
    unsure = [f"{name} (± {share:.0%})" for name, share in zip(features, shares, strict=True) if share > _UNSURE]
    if not unsure:
        return ""
    return (
        f"the share of all seconds is not known for {first_of(unsure, _MOST)}: add runs with partitions in which "
        "features are in other proportions, or leave out one of those that go together"
    )


@dataclass(frozen=True, eq=False)
class Partition:
    """Cells on ranks, with the seconds that they would take.

    Attributes
    ----------
    cells : Cells
        What was shared out.
    weights : ndarray, shape (cells,)
        Seconds of each cell per time window.
    rank_of : ndarray of int64, shape (cells,)
        The rank of each cell.
    seconds : ndarray, shape (ranks,)
        Predicted busy seconds of each rank per time window.
    equal_seconds : ndarray, shape (ranks,)
        The same where every rank gets as many cells.
    """

    cells: Cells
    weights: Floats
    rank_of: Integers
    seconds: Floats
    equal_seconds: Floats


@dataclass(frozen=True, eq=False)
class Balance:
    """What ranks did in some runs, what their features cost, and a partition where one was asked for.

    Attributes
    ----------
    loads : sequence of RankLoad
        The runs.
    costs : FeatureCosts
        As fitted to them.
    partition : Partition or None
        None without cells, or where the costs have a problem.
    participant : str
        Whose; empty where unknown.
    """

    loads: Sequence[RankLoad]
    costs: FeatureCosts
    partition: Partition | None = None
    participant: str = ""

    @property
    def worst(self) -> RankLoad:
        """The run with the largest imbalance."""
        return max(self.loads, key=lambda load: imbalance(self.busy(load)))

    def busy(self, load: RankLoad) -> Floats:
        """Give how long each rank of a run was busy.

        Parameters
        ----------
        load : RankLoad
            The run.

        Returns
        -------
        ndarray, shape (ranks,)
            Seconds per time window: as measured, or as the costs say where waiting could not be kept out.
        """
        return load.seconds if np.isfinite(load.seconds).any() else self.costs.predict(load)

    @property
    def basis(self) -> str:
        """How waiting was kept out of the seconds, in words."""
        return "; ".join(dict.fromkeys(BASES[load.basis] for load in self.loads))

    def samples(self, measured: Measurements) -> Measurements:
        """Take from each sample of the runs what the slowest rank of its run would be faster by in the partition.

        Parameters
        ----------
        measured : Measurements
            Of the same runs.

        Returns
        -------
        Measurements
            Those of other participants as they are.
        """
        assert self.partition is not None
        after = self.partition.seconds.max() / self.partition.seconds.mean()
        gains = {}
        for load in self.loads:
            before = self.costs.predict(load)
            gains[f"run {load.run}"] = max(float(before.max() - after * before.mean()), 0.0)
        frame = measured.frames[self.participant]
        seconds = frame.seconds - np.array([gains[origin] for origin in frame.origin.tolist()])
        return replace(measured, frames={**measured.frames, self.participant: replace(frame, seconds=seconds)})

    def to_dict(self) -> dict[str, Any]:
        """Give everything as JSON-ready values."""
        costs, partition = self.costs, self.partition
        return {
            "format": "precice-lb-inside",
            "format_version": 1,
            "participant": self.participant,
            "costs": {
                name: {"seconds": float(seconds), "standard_error": float(error)}
                for name, seconds, error in zip(costs.features, costs.seconds, costs.standard_errors, strict=True)
            },
            "constant": costs.constant,
            "basis": self.basis,
            "unexplained": costs.unexplained,
            "problem": costs.problem or None,
            "imbalance": imbalance(self.busy(self.worst)),
            "imbalance_after": None if partition is None else imbalance(partition.seconds),
            "speedup": None if partition is None else float(partition.equal_seconds.max() / partition.seconds.max()),
            "partition": None
            if partition is None
            else {
                "ranks": len(partition.seconds),
                "cells": len(partition.rank_of),
                "seconds": partition.seconds,
                "equal_seconds": partition.equal_seconds,
            },
            "runs": [self._run(load) for load in self.loads],
        }

    def _run(self, load: RankLoad) -> dict[str, Any]:
        of_features = self.costs.of_features(load)
        return {
            "run": load.run,
            "ranks": len(load.seconds),
            "basis": load.basis,
            "imbalance": imbalance(self.busy(load)),
            "seconds": load.seconds,
            "predicted": self.costs.predict(load),
            "of_features": {name: of_features[:, place] for place, name in enumerate(self.costs.features)},
        }


def imbalance(seconds: Floats) -> float:
    """Give (max - min)/max of the ranks' seconds, shape (ranks,); ranks without any known (NaN) are left out."""
    known = seconds[np.isfinite(seconds)]
    return float(np.ptp(known) / known.max()) if len(known) and known.max() > 0 else 0.0


def balance_of(loads: Sequence[RankLoad], participant: str = "") -> Balance:
    """Fit the costs of features to runs.

    Parameters
    ----------
    loads : sequence of RankLoad
        One per run.
    participant : str
        Whose they are.

    Returns
    -------
    Balance
        Without a partition.

    Raises
    ------
    DataError
        If there is nothing to fit.
    """
    return Balance(loads, fit_costs(loads), participant=participant)


def partition_of(costs: FeatureCosts, cells: Cells, ranks: int) -> Partition:
    """Share out cells so that ranks are busy for equally long.

    Parameters
    ----------
    costs : FeatureCosts
        Fitted, without a problem.
    cells : Cells
        With all features of the costs.
    ranks : int
        How many.

    Returns
    -------
    Partition

    Raises
    ------
    DataError
        If there are more ranks than cells.
    """
    weights = costs.of_features(cells).sum(axis=1)
    if not 1 <= ranks <= len(weights):
        where = f"{cells.source}: " if cells.source else ""
        raise DataError(f"{where}expected from 1 to {len(weights)} ranks, one for each cell at most, found {ranks}")
    rank_of, equal = (bisection(cells.centres, values, ranks) for values in (weights, np.ones(len(weights))))
    held = (np.bincount(owners, weights, ranks) for owners in (rank_of, equal))
    return Partition(cells, weights, rank_of, *(np.float64(costs.constant) + part for part in held))
