"""What ranks of a participant hold and spend, what a unit of each feature costs, and the cells that can be moved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BASES = {
    "given": "seconds as given",
    "serial": "runs on one rank, where nothing waits",
    "sections": "profiling sections of the solver",
    "mpi": "solve time without time in MPI",
}
"""How waiting in the solver's own collectives was kept out of busy seconds, in words."""


@dataclass(frozen=True, eq=False)
class RankLoad:
    """What each rank of a participant held in one run, and how long it was busy with it.

    Attributes
    ----------
    run : str
        Name of the run.
    features : tuple of str
        What was counted.
    counts : ndarray, shape (ranks, features)
        How much of each feature each rank held; not negative.
    seconds : ndarray, shape (ranks,)
        Busy seconds per time window, without waiting; NaN where unknown.
    basis : str
        A key of `BASES`.
    """

    run: str
    features: tuple[str, ...]
    counts: NDArray[np.float64]
    seconds: NDArray[np.float64]
    basis: str = "given"


@dataclass(frozen=True, eq=False)
class FeatureCosts:
    """Seconds per unit of each feature and time window, as fitted.

    Attributes
    ----------
    features : tuple of str
        What was counted.
    seconds, standard_errors : ndarray, shape (features,)
        Seconds per unit and time window, not negative, and their standard errors.
    constant : float
        Seconds of every rank and time window that belong to no feature; 0 where the fit needs none.
    unexplained : float
        Root mean square of the residuals over the mean of the measured seconds of their run.
    problem : str
        Why nothing may be built on it, in one line; empty where nothing speaks against it.
    """

    features: tuple[str, ...]
    seconds: NDArray[np.float64]
    standard_errors: NDArray[np.float64]
    constant: float = 0.0
    unexplained: float = 0.0
    problem: str = ""

    def predict(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Predict how long ranks are busy.

        Parameters
        ----------
        counts : ndarray, shape (ranks, features)
            How much of each feature each rank holds.

        Returns
        -------
        ndarray, shape (ranks,)
            Seconds per time window.
        """
        return np.asarray(counts @ self.seconds + self.constant, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of a participant's mesh.

    Attributes
    ----------
    centres : ndarray, shape (cells, 2 or 3)
        Where they are.
    features : tuple of str
        What is counted.
    counts : ndarray, shape (cells, features)
        How much of each feature each cell is.
    neighbours : ndarray of int64, shape (pairs, 2)
        Pairs of cells that share a face; empty where the mesh does not say.
    source : str
        The file they come from.
    """

    centres: NDArray[np.float64]
    features: tuple[str, ...]
    counts: NDArray[np.float64]
    neighbours: NDArray[np.int64]
    source: str = ""

    def adjacency(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """List the neighbours of each cell.

        Returns
        -------
        starts : ndarray of int64, shape (cells + 1,)
            Where those of each cell begin.
        beside : ndarray of int64, shape (2 * pairs,)
            The neighbours, cell by cell.
        """
        pairs = np.concatenate([self.neighbours, self.neighbours[:, ::-1]])
        order = np.argsort(pairs[:, 0], kind="stable")
        starts = np.append(0, np.cumsum(np.bincount(pairs[:, 0], minlength=len(self.centres))))
        return starts, pairs[order, 1]
