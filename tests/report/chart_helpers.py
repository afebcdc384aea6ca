"""A recommendation whose every number is planted, and what figures draw of one.

Inner computes 120 ms and Outer 40 ms in a window on one rank, and both scale ideally.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from numpy.typing import NDArray

from precice_lb.dataset import Measurements, Samples
from precice_lb.recommend import Alternative, Recommendation
from precice_lb.recommend.posterior import ExpectedWindowTime
from precice_lb.schedule import Schedule

Array = NDArray[np.float64]

BLUE, ORANGE, GREEN = "#0072b2", "#d55e00", "#009e73"
"""Colours of the first, second and third participant."""
# Seconds per window on one rank.
_SERIAL_SECONDS = {"Inner": 0.12, "Outer": 0.04}


class IdealModel:
    """A model of ideal scaling, with an interval from 80 % to 125 %.

    Parameters
    ----------
    seconds : float
        Seconds per window on one rank; a parameter beside the ranks multiplies them.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def predict(self, rows: Array) -> Array:
        return np.asarray(self.seconds * rows[:, 1:].prod(axis=1) / rows[:, 0])

    def predict_interval(self, rows: Array, level: float) -> tuple[Array, Array]:
        assert level == 0.8
        return 0.8 * self.predict(rows), 1.25 * self.predict(rows)


def ideal_curves(seconds: float, factors: Sequence[float]) -> Callable[[NDArray[np.int64]], Array]:
    """Return curves of ideal scaling, one for each factor."""
    return lambda ranks: seconds / np.asarray(ranks) * np.array(factors, dtype=float)[:, None]


def planted_recommendation(factors: Sequence[float] = (1.0,), **changes: Any) -> Recommendation:
    """Recommend 12 ranks for Inner and 4 for Outer, with 8 of each as the equal split.

    Parameters
    ----------
    factors : sequence of float
        Of the ideal curves: all participants are so many times as slow.
    changes
        Fields of the recommendation.
    """
    samples = {
        "Inner": Samples(ranks=[2, 4, 8], seconds=[0.061, 0.029, 0.016], standard_error=[0.003, 0.002, 0.001]),
        "Outer": Samples(ranks=[1, 2, 4], seconds=[0.041, 0.019, 0.011], standard_error=[0.002, 0.001, 0.001]),
    }
    schedule = changes.pop("coupling", Schedule.parallel(["Inner", "Outer"]))
    curves = {name: ideal_curves(seconds, factors) for name, seconds in _SERIAL_SECONDS.items()}
    values: dict[str, Any] = {
        "split": {"Inner": 12, "Outer": 4},
        "window_seconds": 0.011,
        "interval": (0.009, 0.013),
        "level": 0.8,
        "rank_intervals": {},
        "compute_seconds": {"Inner": 0.009, "Outer": 0.007},
        "waits": {"Inner": 0.002, "Outer": 0.004},
        "imbalance": 0.2,
        "total_ranks": 16,
        "schedule": "parallel-explicit Inner, Outer",
        "learner": "bayes",
        "models": {name: IdealModel(seconds) for name, seconds in _SERIAL_SECONDS.items()},
        "measurements": Measurements(samples),
        "expected": ExpectedWindowTime(schedule, curves),
        # Of the limits a figure asks for layouts alone.
        "limits": SimpleNamespace(layouts={}),
        "parameters": {},
        "modelled": {"Inner": {}, "Outer": {}},
        "alternatives": {"equal": Alternative({"Inner": 8, "Outer": 8}, 0.018, 0.4)},
        "warnings": (),
    }
    return Recommendation(**{**values, **changes})


# --- what was drawn -------------------------------------------------------------------------------------------------


def axes_of(figure: Figure) -> Axes:
    """Return the only axes of a figure."""
    (axes,) = figure.axes
    return axes


def numbers(values: Any) -> list[float]:
    """Return values as numbers that equal others if they differ by rounding alone."""
    return [round(float(value), 9) for value in np.ravel(values)]


def lines_of(axes: Axes, **properties: Any) -> list[tuple[list[float], list[float]]]:
    """Return x and y of the lines with some properties, such as ``marker="*"``, in the order in which they are drawn.

    A colour is given in hexadecimal.
    """
    found = []
    for line in axes.get_lines():
        values = {"color": to_hex(line.get_color()), "marker": line.get_marker(), "linestyle": line.get_linestyle()}
        if properties.items() <= values.items():
            found.append((numbers(line.get_xdata()), numbers(line.get_ydata())))
    return found


def band_at(axes: Axes, x: float, colour: str) -> tuple[float, float]:
    """Return the lower and the upper end at a place of the band that is filled in a colour."""
    (band,) = [
        collection
        for collection in axes.collections
        if isinstance(collection, PolyCollection) and to_hex(collection.get_facecolor()[0]) == colour
    ]
    vertices = np.concatenate([path.vertices for path in band.get_paths()])
    heights = vertices[np.isclose(vertices[:, 0], x), 1]
    assert len(heights) > 0, f"the band has no vertex at {x:g}"
    return float(heights.min()), float(heights.max())


def legend_of(figure: Figure) -> dict[str, Any]:
    """Return the drawn sample of each entry of a figure's legend, by its text."""
    (legend,) = figure.legends
    texts = [text.get_text() for text in legend.get_texts()]
    return dict(zip(texts, legend.legend_handles, strict=True))
