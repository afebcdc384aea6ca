"""Settings of the default learner's prior, judged by the predictive density of measured curves.

A setting is chosen for a pair by curves of other sources alone (leave-source-out), so that what is reported for it is
not what it was chosen by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from precice_lb.models import bayes_discrepancy, bayes_likelihood, bayes_shapes, make_learner
from regret_parts.curves import INSIDE, READINGS, MeasuredCurve, Placed

__all__ = ["SETTINGS", "applied", "densities"]

Array = NDArray[np.float64]
Setting = Mapping[str, float | tuple[float, ...]]

#: The default, and what differs from it.
SETTINGS: dict[str, Setting] = {
    "default": {},
    "steeper falls": {"FALLS": (0.05, 0.5, 0.7, 0.8, 0.9, 0.97, 1.02, 1.15, 1.5, 2.2)},
    "flatter falls": {"FALLS": (0.02, 0.3, 0.6, 0.7, 0.8, 0.93, 1.01, 1.05, 1.3, 1.9)},
    "lower floors": {"FLOOR": -3.0},
    "higher floors": {"FLOOR": -1.2},
    "floors vary more": {"FLOOR_SPREAD": 2.2},
    "minima nearer": {"LOWEST": 1.0},
    "minima farther": {"LOWEST": 3.0},
    "minima vary less": {"LOWEST_SPREAD": 1.8},
    "minima vary more": {"LOWEST_SPREAD": 4.0},
    "flatter rises": {"STEEPEST": 0.7},
    "steeper rises": {"STEEPEST": 1.8},
    "smaller discrepancies": {"DISCREPANCY": 0.01},
    "larger discrepancies": {"DISCREPANCY": 0.08},
    "nearer beyond readings": {"BEYOND": 0.06},
    "farther beyond readings": {"BEYOND": 0.24},
    "rougher discrepancies": {"RANKS_ALIKE": 2.5},
    "smoother discrepancies": {"RANKS_ALIKE": 8.0},
}
MODULES = (bayes_shapes, bayes_likelihood, bayes_discrepancy)
# Cases of each source, and how near a density looks.
CASES, WIDTH = 10, 0.03


@contextmanager
def applied(setting: Setting) -> Iterator[None]:
    """Let the learner have another prior for a while."""
    changed = [(module, name, value) for name, value in setting.items() for module in MODULES if hasattr(module, name)]
    if len(changed) != len(setting):
        raise ValueError(f"expected constants of the prior, found {sorted(setting)}")
    before = [getattr(module, name) for module, name, _ in changed]
    for module, name, value in changed:
        setattr(module, name, value)
    try:
        yield
    finally:
        for (module, name, _), value in zip(changed, before, strict=True):
            setattr(module, name, value)


def densities(curves: Sequence[MeasuredCurve], setting: Setting, seed: int, noise: float) -> dict[str, float]:
    """Mean log predictive density by source, between the readings and, with the same weight, at twice the last one."""
    found = {}
    with applied(setting):
        for source in sorted({curve.source for curve in curves}):
            mine = [curve for curve in curves if curve.source == source]
            rng = np.random.default_rng([seed, 32])
            found[source] = float(np.mean([_density(mine[at % len(mine)], rng, noise) for at in range(CASES)]))
    return found


def _density(curve: MeasuredCurve, rng: np.random.Generator, noise: float) -> float:
    span = min(curve.range, 16.0 if rng.random() < 0.5 else 64.0)
    skipped = rng.uniform(0, np.log(curve.range / span)) * INSIDE
    start = max(np.ceil(curve.ranks[0] * np.exp(skipped)), 1.0)
    truth = Placed(curve, np.log(start / curve.ranks[0]), start)
    last = np.floor(min(start * span, float(curve.ranks[-1])) / 2)
    ranks = np.unique(np.round(np.geomspace(start, last, READINGS)))
    seconds = truth(ranks) * np.exp(noise * rng.standard_normal(len(ranks)))
    model = make_learner("bayes").fit(ranks[:, None], seconds)
    at = np.append(np.sqrt(ranks[:-1] * ranks[1:]), 2 * last * INSIDE)
    drawn = np.log(model.draw(model.particles, 0)(at))  # type: ignore[attr-defined]
    near = np.exp(-0.5 * ((np.log(truth(at)) - drawn) / WIDTH) ** 2) / WIDTH
    logs = np.log(near.mean(axis=0) + 1e-6)
    return float(logs[:-1].mean() + logs[-1])
