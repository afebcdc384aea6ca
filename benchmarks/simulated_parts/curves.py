"""Curves of simulated solvers, and pairs of them on one cluster.

Between the rank counts that were simulated, the truth is what `regret_parts.curves.Placed` makes of them.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from regret_parts.curves import MeasuredCurve, Placed

__all__ = ["CURVES", "SimulatedCurve", "SimulatedPair", "draw_pair", "load_curves"]

Array = NDArray[np.float64]

DATA = Path(__file__).resolve().parents[1] / "data"
CURVES, COUPLED = DATA / "simulated.csv", DATA / "simulated_coupled.csv"


@dataclass(frozen=True, eq=False)
class SimulatedCurve(MeasuredCurve):
    """One solver on one cluster.

    Attributes
    ----------
    source, name : str
        The selector of collectives, and the solver.
    ranks, seconds : arrays of shape (n,)
        Rising in ranks.
    cores_per_node : int
        Of the cluster.
    """

    cores_per_node: int


@dataclass(frozen=True, eq=False)
class SimulatedPair:
    """Two solvers on one cluster, and readings of both; ranks are counted in blocks.

    Attributes
    ----------
    solvers : tuple of Placed
        The truth.
    cores_per_node : int
        Of the cluster. Either solver has nodes of its own, filled one after the other.
    ranks : array of shape (k,)
        Where both are read.
    seconds : array of shape (2, k)
        Readings.
    """

    solvers: tuple[Placed, Placed]
    cores_per_node: int
    ranks: Array
    seconds: Array


def load_curves(path: Path = CURVES) -> list[SimulatedCurve]:
    """Read all curves."""
    rows: dict[tuple[str, str, int], list[tuple[float, float]]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            key = (row["selector"], row["solver"], int(row["cores_per_node"]))
            rows.setdefault(key, []).append((float(row["ranks"]), float(row["seconds"])))
    return [SimulatedCurve(*key[:2], *np.array(sorted(points)).T, key[2]) for key, points in rows.items()]


def draw_pair(
    curves: Sequence[SimulatedCurve], blocks: int, block: int, seed: int, index: int, noise: float, readings: int
) -> SimulatedPair:
    """Draw two solvers of one cluster, and read them up to half of a budget of so many blocks of ranks.

    Readings are about a factor of 2 apart; a single one is the last. There, times are within a factor of 8. The same
    index gives the same solvers whatever budget and readings. Readings err by lognormal noise.
    """
    rng = np.random.default_rng([seed, 44, index])
    clusters = sorted({curve.cores_per_node for curve in curves})
    cores = clusters[rng.integers(len(clusters))]
    mine = [curve for curve in curves if curve.cores_per_node == cores]
    chosen = [mine[which] for which in rng.choice(len(mine), 2, replace=False)]
    last = blocks // 2
    solvers = [Placed(curve, 0.0, float(curve.ranks[0]) / block) for curve in chosen]
    for solver, seconds in zip(solvers, (10.0, 10.0 * 8 ** rng.uniform(-1, 1)), strict=True):
        solver.scale = seconds / float(solver(np.array([float(last)]))[0])
    ranks = np.unique(np.round(np.geomspace(last, max(last / 16, 1.0), readings)))
    truth = np.array([solver(ranks) for solver in solvers])
    seconds = truth * np.exp(noise * rng.standard_normal(truth.shape))
    return SimulatedPair((solvers[0], solvers[1]), cores, ranks, seconds)
