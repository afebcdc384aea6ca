"""Balance inside a participant: how even its ranks are now, and how even they would be with another partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from precice_lb.dataset import Measurements
from precice_lb.exceptions import DataError
from precice_lb.inside.cost import counts_for, fit_costs, predicted, seconds_by_feature
from precice_lb.inside.loads import BASES, Cells, FeatureCosts, Floats, Integers, RankLoad
from precice_lb.inside.weighted import PARTITIONERS, cost_weights

_SAME_CELLS = 0.01
"""Relative difference up to which a run held as much as the mesh."""


@dataclass(frozen=True, eq=False)
class Partition:
    """Cells on ranks, with the seconds that they would take.

    Attributes
    ----------
    partitioner : str
        A key of `PARTITIONERS`.
    cells : Cells
        What was shared out.
    weights : ndarray, shape (cells,)
        Seconds of each cell per time window.
    rank_of : ndarray of int64, shape (cells,)
        The rank of each cell.
    seconds : ndarray, shape (ranks,)
        Predicted busy seconds of each rank per time window.
    equal_seconds : ndarray, shape (ranks,)
        The same where the partitioner gives every rank as many cells.
    """

    partitioner: str
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
        return load.seconds if np.isfinite(load.seconds).any() else predicted(self.costs, load)

    @property
    def basis(self) -> str:
        """How waiting was kept out of the seconds, in words."""
        return "; ".join(dict.fromkeys(BASES[load.basis] for load in self.loads))

    @property
    def now(self) -> tuple[Floats, str]:
        """Seconds of ranks that the partition is compared with, shape (ranks,), and what they are.

        Those of a run with these cells on as many ranks; otherwise predicted ones of as many cells on each.
        """
        assert self.partition is not None
        ranks = len(self.partition.seconds)
        same = [load for load in self.loads if len(load.seconds) == ranks and self._has_the_cells(load)]
        if same:
            load = max(same, key=lambda each: imbalance(self.busy(each)))
            return self.busy(load), f"run {load.run}" if load.run else "the run"
        return self.partition.equal_seconds, "as many cells on each rank"

    def _has_the_cells(self, load: RankLoad) -> bool:
        """Whether a run was one of the cells that were shared out, and all its seconds are known."""
        assert self.partition is not None
        names, cells = self.costs.features, self.partition.cells
        held = counts_for(load, names).sum(axis=0)
        wanted = cells.counts[:, [cells.features.index(name) for name in names]].sum(axis=0)
        return bool(np.isfinite(self.busy(load)).all() and np.allclose(held, wanted, rtol=_SAME_CELLS))

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
            before = predicted(self.costs, load)
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
            "speedup": None if partition is None else float(self.now[0].max() / partition.seconds.max()),
            "partition": None
            if partition is None
            else {
                "partitioner": partition.partitioner,
                "ranks": len(partition.seconds),
                "cells": len(partition.rank_of),
                "compared_with": self.now[1],
                "seconds_now": self.now[0],
                "seconds": partition.seconds,
            },
            "runs": [self._run(load) for load in self.loads],
        }

    def _run(self, load: RankLoad) -> dict[str, Any]:
        of_features = seconds_by_feature(self.costs, load)
        return {
            "run": load.run,
            "ranks": len(load.seconds),
            "basis": load.basis,
            "imbalance": imbalance(self.busy(load)),
            "seconds": load.seconds,
            "predicted": predicted(self.costs, load),
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


def partition_of(costs: FeatureCosts, cells: Cells, ranks: int, partitioner: str = "bisection") -> Partition:
    """Share out cells so that ranks are busy for equally long.

    Parameters
    ----------
    costs : FeatureCosts
        Fitted, without a problem.
    cells : Cells
        With all features of the costs.
    ranks : int
        How many.
    partitioner : str
        A key of `PARTITIONERS`.

    Returns
    -------
    Partition

    Raises
    ------
    DataError
        If there are more ranks than cells, or the partitioner cannot share them out.
    """
    weights = cost_weights(cells, costs)
    if not 1 <= ranks <= len(weights):
        where = f"{cells.source}: " if cells.source else ""
        raise DataError(f"{where}expected from 1 to {len(weights)} ranks, one for each cell at most, found {ranks}")

    rank_of = PARTITIONERS[partitioner](cells, weights, ranks)
    equal = PARTITIONERS[partitioner](cells, np.ones(len(weights)), ranks)
    held = (np.bincount(owners, weights, ranks) for owners in (rank_of, equal))
    return Partition(partitioner, cells, weights, rank_of, *(np.float64(costs.constant) + each for each in held))
