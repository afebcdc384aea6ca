"""The numbers behind the curves of a recommendation: time over ranks, and window time over the split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.recommend.outlook import curves_of

if TYPE_CHECKING:
    from precice_lb.recommend import Recommendation
    from precice_lb.schedule import Schedule

__all__ = ["Landscape", "ScalingCurve", "landscape_of", "scaling_curve", "window_seconds"]

Array = NDArray[np.float64]

_GRID_POINTS = 200


@dataclass(frozen=True, eq=False)
class ScalingCurve:
    """Own seconds per window of a participant over its ranks.

    Attributes
    ----------
    ranks, seconds : ndarray, shape (k,)
        From the fewest to the most ranks that were measured, are recommended, or in use.
    low, high : ndarray, shape (k,), or None
        Interval of the seconds, where the learner has one.
    measured : (float, float)
        Fewest and most ranks that were measured.
    """

    ranks: Array
    seconds: Array
    low: Array | None
    high: Array | None
    measured: tuple[float, float]


def scaling_curve(recommendation: Recommendation, who: str) -> ScalingCurve:
    """Evaluate the model of a participant over its ranks."""
    counts = np.asarray(recommendation.measurements.samples[who], dtype=float)[:, 0]
    first, last = float(counts.min()), float(counts.max())
    shown = [first, last, float(recommendation.split[who])]
    if "present" in recommendation.alternatives:
        shown.append(float(recommendation.alternatives["present"].split[who]))
    ranks = np.unique(np.concatenate([np.geomspace(min(shown), max(shown), _GRID_POINTS), shown]))
    low, high = _interval(recommendation, who, ranks) or (None, None)
    return ScalingCurve(ranks, _predict(recommendation.models[who], ranks), low, high, (first, last))


@dataclass(frozen=True, eq=False)
class Landscape:
    """Window time over the split of all ranks between two participants.

    Attributes
    ----------
    ranks : dict of str to ndarray, shape (k,)
        Of each participant.
    own : dict of str to ndarray, shape (k,)
        Own seconds per window that the models predict.
    window : ndarray, shape (k,)
        Seconds per window, mean over the drawn curves where the learner draws some.
    low, high : ndarray, shape (k,), or None
        Its interval, where known.
    """

    ranks: dict[str, Array]
    own: dict[str, Array]
    window: Array
    low: Array | None
    high: Array | None


def landscape_of(recommendation: Recommendation, schedule: Schedule) -> Landscape:
    """Evaluate all ways to divide the recommended ranks between two participants.

    Parameters
    ----------
    recommendation
        Of two participants.
    schedule
        Their coupling.
    """
    first, second = recommendation.split
    total = sum(recommendation.split.values())
    ranks = np.unique(np.linspace(1, total - 1, _GRID_POINTS).round())
    ranks = np.union1d(ranks, [float(recommendation.split[first])])
    windows = window_seconds(recommendation, schedule, {first: ranks, second: total - ranks})
    usable = np.isfinite(windows).all(axis=0)
    ranks, windows = ranks[usable], windows[:, usable]
    grids = {first: ranks, second: total - ranks}
    own = {who: _predict(recommendation.models[who], grid) for who, grid in grids.items()}
    if len(windows) > 1:
        edge = (1.0 - recommendation.level) / 2.0
        low, high = np.quantile(windows, [edge, 1.0 - edge], axis=0)
        return Landscape(grids, own, windows.mean(axis=0), low, high)
    intervals = {who: _interval(recommendation, who, grid) for who, grid in grids.items()}
    known = {who: pair for who, pair in intervals.items() if pair is not None}
    if len(known) < len(grids):
        return Landscape(grids, own, windows[0], None, None)
    # The window time never falls when a cost rises, so all low and all high bounds hold it between them.
    low, high = (np.asarray(schedule.window_seconds({w: pair[side] for w, pair in known.items()})) for side in (0, 1))
    return Landscape(grids, own, windows[0], low, high)


def window_seconds(recommendation: Recommendation, schedule: Schedule, ranks: Mapping[str, Array]) -> Array:
    """Seconds per window of some splits for each drawn curve.

    Parameters
    ----------
    recommendation, schedule
        Its models, and the coupling.
    ranks
        By participant, in the coupling's order, shape (k,).

    Returns
    -------
    ndarray, shape (curves, k)
        One row where the learner draws no curves. NaN for splits at which a model has no value, or none above zero,
        far from what was measured.
    """
    drawn = {}
    for index, who in enumerate(schedule.participants):
        counts, inverse = np.unique(ranks[who].astype(np.int64), return_inverse=True)
        drawn[who] = curves_of(recommendation.models[who], [0, index])(counts)[:, inverse.ravel()]
    usable = np.all([(np.isfinite(curves) & (curves > 0)).all(axis=0) for curves in drawn.values()], axis=0)
    windows = np.full(np.broadcast_shapes(*(curves.shape for curves in drawn.values())), np.nan)
    if usable.any():
        windows[:, usable] = schedule.window_seconds({who: curves[:, usable] for who, curves in drawn.items()})
    return windows


def _predict(model: Any, ranks: Array) -> Array:
    return np.asarray(model.predict(ranks[:, np.newaxis]), dtype=float)


def _interval(recommendation: Recommendation, who: str, ranks: Array) -> tuple[Array, Array] | None:
    model = recommendation.models[who]
    if not hasattr(model, "predict_interval"):
        return None
    low, high = model.predict_interval(ranks[:, np.newaxis], recommendation.level)
    if not np.isfinite([low, high]).all():
        return None
    return np.maximum(low, 0.0), np.asarray(high, dtype=float)
