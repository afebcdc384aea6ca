"""Measured strong-scaling curves of public sources, and pairs of solvers made of them.

`benchmarks/data/curves.csv` has the figures, `benchmarks/data/curve_sources.csv` says where each curve is from. The
truth between the points of a curve is monotone interpolation in logarithms (piecewise cubic, Fritsch and Carlson 1980);
beyond them there is none.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

__all__ = ["CurvePair", "MeasuredCurve", "Placed", "draw_curve_pair", "load_curves"]

Array = NDArray[np.float64]

DATA = Path(__file__).resolve().parents[1] / "data" / "curves.csv"
# Readings of each solver, unless asked for otherwise.
READINGS = 5
# A pair spans at most this factor of ranks, so that a few long curves do not make all the pairs.
LARGEST_RANGE = 256.0
# Just inside of the truth, whatever rounding says.
INSIDE, ROUNDING = 1 - 1e-9, 1e-6


@dataclass(frozen=True, eq=False)
class MeasuredCurve:
    """One published curve.

    Attributes
    ----------
    source, name : str
        Who measured, and what.
    ranks, seconds : arrays of shape (n,)
        As published, rising in ranks.
    """

    source: str
    name: str
    ranks: Array
    seconds: Array

    @property
    def range(self) -> float:
        """Most over fewest ranks."""
        return float(self.ranks[-1] / self.ranks[0])


class Placed:
    """A curve on a rank axis of another unit, from a place of it on, with other seconds.

    Parameters
    ----------
    curve : MeasuredCurve
        What was measured.
    skipped : float
        Natural logarithm of the part of the curve's range that is left out at its low end.
    start : float
        Ranks at which it then begins.
    """

    def __init__(self, curve: MeasuredCurve, skipped: float, start: float) -> None:
        self._log_seconds = PchipInterpolator(np.log(curve.ranks), np.log(curve.seconds), extrapolate=False)
        self._shift = np.log(curve.ranks[0]) + skipped - np.log(start)
        self.scale = 1.0

    def __call__(self, ranks: Array) -> Array:
        """Seconds at ranks; NaN beyond what was measured."""
        at = np.log(ranks) + self._shift
        ends = self._log_seconds.x[[0, -1]]
        # Rounding may lead out of the range.
        at = np.where(np.abs(at - at.clip(*ends)) < ROUNDING, at.clip(*ends), at)
        return np.asarray(self.scale * np.exp(self._log_seconds(at)), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class CurvePair:
    """Two coupled solvers, each a published curve.

    Attributes
    ----------
    curves : tuple of MeasuredCurve
        What they are made of.
    solvers : tuple of Placed
        The truth, from ``start`` to ``start * span`` ranks.
    start, span : float
        Fewest ranks, and most over fewest.
    ranks : array of shape (k,)
        Where both are read, from the fewest ranks on.
    seconds : array of shape (2, k)
        Readings.
    """

    curves: tuple[MeasuredCurve, MeasuredCurve]
    solvers: tuple[Placed, Placed]
    start: float
    span: float
    ranks: Array
    seconds: Array

    def bounds(self, budget: int, free: bool = False) -> tuple[int, int]:
        """Fewest and most ranks of either solver for which there is a truth.

        Unless free, also for what is left of the budget.
        """
        least, most = int(np.ceil(self.start)), int(self.start * self.span * INSIDE)
        low, high = max(least, budget - most), min(most, budget - least)
        return (least if free else low), high


def load_curves(path: Path = DATA) -> list[MeasuredCurve]:
    """Read all curves."""
    rows: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            rows.setdefault((row["source"], row["curve"]), []).append((float(row["ranks"]), float(row["seconds"])))
    return [MeasuredCurve(*names, *np.array(sorted(points)).T) for names, points in rows.items()]


def draw_curve_pair(
    curves: Sequence[MeasuredCurve],
    seed: int,
    index: int,
    noise: float,
    readings: int = READINGS,
    read_up_to: float = 0.5,
) -> CurvePair:
    """Draw a pair: two sources, of each a curve, and a place of it that both span.

    Both solvers begin at the geometric mean of their fewest ranks and take times within a factor of 8 at the last
    reading, which is at a share of the most ranks. A single reading is that one. Readings err by lognormal noise.
    """
    rng = np.random.default_rng([seed, 31, index])
    sources = sorted({curve.source for curve in curves})
    chosen = []
    for source in rng.choice(len(sources), 2, replace=False):
        mine = [curve for curve in curves if curve.source == sources[source]]
        chosen.append(mine[rng.integers(len(mine))])
    span = min(*(curve.range for curve in chosen), LARGEST_RANGE)
    start = max(float(np.round(np.sqrt(chosen[0].ranks[0] * chosen[1].ranks[0]))), 1.0)
    solvers = [Placed(curve, rng.uniform(0, np.log(curve.range / span)) * INSIDE, start) for curve in chosen]
    last = start * span * read_up_to
    for solver, seconds in zip(solvers, (10.0, 10.0 * 8 ** rng.uniform(-1, 1)), strict=True):
        solver.scale = seconds / float(solver(np.array([last]))[0])
    ranks = np.unique(np.round(np.geomspace(last, start, readings)))
    truth = np.array([solver(ranks) for solver in solvers])
    seconds = truth * np.exp(noise * rng.standard_normal(truth.shape))
    return CurvePair((chosen[0], chosen[1]), (solvers[0], solvers[1]), start, span, ranks, seconds)
