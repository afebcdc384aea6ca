"""Settings of the default learner's prior, judged by the predictive density of measured curves.

A setting is chosen for a pair by curves of other sources alone (leave-source-out), so that what is reported for it is
not what it was chosen by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.models import make_learner
from precice_lb.models.posterior import DRAWS, NEVER, Prior
from regret_parts.curves import INSIDE, READINGS, MeasuredCurve, Placed

__all__ = ["SETTINGS", "Setting", "densities"]

Array = NDArray[np.float64]
Setting = Mapping[str, Any]

#: The default, and what differs from it: values and their weights.
SETTINGS: dict[str, Setting] = {
    "default": {},
    "slopes of -1": {"slope": -1.0},
    "slopes vary more": {"slope_sd": 0.14},
    "slopes vary less": {"slope_sd": 0.03},
    "no drift": {"drift": ((0.0,), (1.0,))},
    "less drift": {"drift": ((0.0, 0.1), (0.7, 0.3))},
    "more drift": {"drift": ((0.0, 0.1, 0.3), (0.35, 0.35, 0.3))},
    "no turns": {"turn": ((NEVER,), (1.0,))},
    "turns of half the weight": {"turn": (Prior.turn[0], (*(weight / 2 for weight in Prior.turn[1][:-1]), 0.7))},
    "turns of half as much more": {"turn": (Prior.turn[0], (*(1.5 * weight for weight in Prior.turn[1][:-1]), 0.1))},
    "level does not wander": {"tau": ((0.001,), (1.0,))},
    "level wanders more": {"tau": ((0.02, 0.06, 0.15, 0.3), (0.3, 0.3, 0.3, 0.1))},
    "slope does not wander": {"sigma": ((0.01,), (1.0,))},
    "slope wanders less": {"sigma": ((0.03, 0.1, 0.25, 0.6), (0.5, 0.3, 0.15, 0.05))},
    "slope wanders more": {"sigma": ((0.1, 0.2, 0.4, 0.8, 1.6), (0.3, 0.3, 0.2, 0.15, 0.05))},
    "noise is larger": {"noise": ((0.01, 0.03, 0.07, 0.15, 0.3, 0.5), (0.15, 0.25, 0.2, 0.2, 0.15, 0.05))},
    "outliers are rarer": {"outlier": 0.001},
    "outliers are more frequent": {"outlier": 0.02},
    "begins at the first reading": {"before": 0.0},
    "begins farther below": {"before": 1.4},
}
# Cases of each source, and how near a density looks.
CASES, WIDTH = 10, 0.03


def densities(curves: Sequence[MeasuredCurve], setting: Setting, seed: int, noise: float) -> dict[str, float]:
    """Mean log predictive density by source, between the readings and, with the same weight, at twice the last one."""
    found = {}
    for source in sorted({curve.source for curve in curves}):
        mine = [curve for curve in curves if curve.source == source]
        rng = np.random.default_rng([seed, 32])
        found[source] = float(np.mean([_density(mine[at % len(mine)], setting, rng, noise) for at in range(CASES)]))
    return found


def _density(curve: MeasuredCurve, setting: Setting, rng: np.random.Generator, noise: float) -> float:
    span = min(curve.range, 16.0 if rng.random() < 0.5 else 64.0)
    skipped = rng.uniform(0, np.log(curve.range / span)) * INSIDE
    start = max(np.ceil(curve.ranks[0] * np.exp(skipped)), 1.0)
    truth = Placed(curve, np.log(start / curve.ranks[0]), start)
    last = np.floor(min(start * span, float(curve.ranks[-1])) / 2)
    ranks = np.unique(np.round(np.geomspace(start, last, READINGS)))
    seconds = truth(ranks) * np.exp(noise * rng.standard_normal(len(ranks)))
    model = make_learner("bayes", prior=setting).fit(ranks[:, None], seconds)
    at = np.append(np.sqrt(ranks[:-1] * ranks[1:]), 2 * last * INSIDE)
    drawn = np.log(model.draw(DRAWS, 0)(at))  # type: ignore[attr-defined]
    near = np.exp(-0.5 * ((np.log(truth(at)) - drawn) / WIDTH) ** 2) / WIDTH
    logs = np.log(near.mean(axis=0) + 1e-6)
    return float(logs[:-1].mean() + logs[-1])
