"""Windows of measured splits: what they say of these, and of the splits beside them.

The logarithm of a split's window is what the participants' curves say, plus a Gaussian process over splits: a part that
all of them have in common, such as what the coupling itself costs, one that is alike for splits whose ranks differ by
little, and a larger one of each split alone, as a decomposition may suit one number of ranks and not the next. A
measured window is a noisy reading of it. So windows of a split that ran count for what it is thought to take, and a
split that never ran is not preferred for what the curves leave out of all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset import MeasuredRun
from precice_lb.models.base import median_of_repeats
from precice_lb.schedule import Schedule

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# Standard deviations of what all splits have in common, and, as cells, of what each has for itself.
COMMON, APART = 0.3, (0.02, 0.06, 0.2)
# Ratio of a participant's ranks, in logarithms, over which splits are alike, and which part of a split's variance is
# its own (almost: over the second ratio).
ALIKE, ALONE, OWN = 0.5, 0.03, 0.8


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A measured split beside its prediction."""

    # Ranks by participant.
    split: dict[str, int]
    # Mean seconds per window; of several runs, their median.
    measured: float
    # Relative, with what runs usually differ by.
    standard_error: float
    # Seconds per window by the participants' curves alone.
    predicted: float
    # The runs that measured it.
    runs: tuple[str, ...]


def compared_with_measured(
    schedule: Schedule, runs: Sequence[MeasuredRun], modelled: Callable[[Integers], Array]
) -> tuple[Comparison, ...]:
    """Set predictions, seconds of shape (curves, splits), beside the windows of measured splits, the shortest first."""
    names = schedule.participants
    groups: dict[tuple[int, ...], list[MeasuredRun]] = {}
    for run in runs:
        if set(names) <= set(run.split):
            groups.setdefault(tuple(run.split[name] for name in names), []).append(run)
    if not groups:
        return ()
    predicted = np.exp(np.log(modelled(np.array(list(groups), dtype=np.int64))).mean(axis=0))
    comparisons = []
    for (ranks, group), seconds in zip(groups.items(), predicted, strict=True):
        windows = np.array([_window(schedule, run) for run in group])
        measured, error = median_of_repeats(windows[:, 0], windows[:, 1])
        split = dict(zip(names, ranks, strict=True))
        runs_of = tuple(dict.fromkeys(run.name for run in group))
        comparisons.append(Comparison(split, measured, error, float(seconds), runs_of))
    return tuple(sorted(comparisons, key=lambda comparison: comparison.measured))


def _window(schedule: Schedule, run: MeasuredRun) -> tuple[float, float]:
    """Mean seconds of the coupling's windows in a run, and their standard error: of who takes longest for them."""
    counts: Mapping[str, int] = schedule.windows
    seconds = {name: counts[name] * run.window_seconds[name] for name in schedule.participants}
    longest = max(seconds, key=seconds.__getitem__)
    return seconds[longest], counts[longest] * run.standard_errors[longest]


class Correction:
    """What measured windows add to the logarithms of windows, for each drawn set of curves.

    Parameters
    ----------
    comparisons : sequence of Comparison
        The measured windows.
    ranks : array of shape (m, participants)
        Their splits.
    logs : array of shape (draws, m)
        What the curves say of them.
    seed : int
        Of the draws of the readings' noise.
    """

    def __init__(self, comparisons: Sequence[Comparison], ranks: Integers, logs: Array, seed: int) -> None:
        self._ranks = ranks
        errors = np.array([comparison.standard_error for comparison in comparisons])
        draws = np.random.default_rng([seed, 77]).standard_normal(logs.shape)
        draws -= draws.mean(axis=0)
        missed = np.log([comparison.measured for comparison in comparisons]) - logs
        middle = missed.mean(axis=0)
        weights, solved = [], []
        for apart in APART:
            covariance = self._covariance(ranks, apart) + np.diag(errors**2)
            weights.append(-0.5 * (middle @ np.linalg.solve(covariance, middle) + np.linalg.slogdet(covariance)[1]))
            solved.append(np.linalg.solve(covariance, (missed + errors * draws).T))
        shares = np.exp(np.array(weights) - max(weights))
        self._solved = [weights * share for weights, share in zip(solved, shares / shares.sum(), strict=True)]

    def __call__(self, ranks: Integers) -> Array:
        """Give it for splits of shape (k, participants), shape (draws, k)."""
        parts = zip(APART, self._solved, strict=True)
        return np.asarray(sum((self._covariance(ranks, apart) @ solved).T for apart, solved in parts))

    def _covariance(self, ranks: Integers, apart: float) -> Array:
        distance = np.abs(np.log(ranks)[:, None] - np.log(self._ranks)[None]).max(axis=2)
        alike = (1 - OWN) * np.exp(-distance / ALIKE) + OWN * np.exp(-distance / ALONE)
        return np.asarray(COMMON**2 + apart**2 * alike)
