"""The numbers behind the curves of a recommendation: time over ranks, and window time over the split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from precice_lb.recommend import Recommendation

__all__ = ["Landscape", "ScalingCurve", "landscape_of", "scaling_curves"]

Array = NDArray[np.float64]

_GRID_POINTS = 200


@dataclass(frozen=True, eq=False)
class ScalingCurve:
    """Compute seconds per window of a participant over its ranks."""

    # From the fewest to the most ranks that were measured, are recommended, or in use, shape (k,).
    ranks: Array
    seconds: Array
    # Interval of the seconds, where the learner has one, shape (k,).
    low: Array | None
    high: Array | None
    # Fewest and most ranks that were measured.
    measured: tuple[float, float]


def scaling_curves(recommendation: Recommendation) -> dict[str, ScalingCurve]:
    """Evaluate the model of each participant over its ranks."""
    present = recommendation.alternatives.get("present")
    curves = {}
    for who, chosen in recommendation.split.items():
        counts = np.asarray(recommendation.measurements.samples[who], dtype=float)[:, 0]
        first, last = float(counts.min()), float(counts.max())
        shown = [first, last, float(chosen), *([float(present.split[who])] if present is not None else [])]
        ranks = np.unique(np.concatenate([np.geomspace(min(shown), max(shown), _GRID_POINTS), shown]))
        low, high = _interval(recommendation, who, ranks) or (None, None)
        curves[who] = ScalingCurve(ranks, _predict(recommendation.models[who], ranks), low, high, (first, last))
    return curves


@dataclass(frozen=True, eq=False)
class Landscape:
    """Window time over the split of all ranks between two participants."""

    # Of each participant, shape (k,).
    ranks: dict[str, Array]
    # Compute seconds per window that the models predict, shape (k,).
    own: dict[str, Array]
    # Seconds per window, mean over the drawn curves where the learner draws some, shape (k,).
    window: Array
    # Its interval, where known, shape (k,).
    low: Array | None
    high: Array | None


def landscape_of(recommendation: Recommendation) -> Landscape:
    """Evaluate all ways to divide the recommended ranks of two participants, by the curves that were decided on."""
    expected = recommendation.expected
    first, second = recommendation.split
    total = sum(recommendation.split.values())
    ranks = np.unique(np.linspace(1, total - 1, _GRID_POINTS).round())
    ranks = np.union1d(ranks, [float(recommendation.split[first])])
    counts = {first: ranks, second: total - ranks}
    windows = expected.steady_windows(np.column_stack([counts[who] for who in expected.names]).astype(np.int64))
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
    low, high = (
        np.asarray(expected.schedule.window_seconds({w: pair[side] for w, pair in known.items()})) for side in (0, 1)
    )
    return Landscape(grids, own, windows[0], low, high)


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
