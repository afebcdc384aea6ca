"""Running sums of one rank's times, for the solver to look at while it runs."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from precice_lb.store.schema import ADVANCE_DTYPE

__all__ = ["Totals", "empty_summary"]

_NS = 1e-9


class Totals:
    """Sums over rows of `precice_lb.store.schema.ADVANCE_DTYPE`, in whole ns so that they stay exact."""

    def __init__(self) -> None:
        self._windows = self._advances = self._solve = self._advance = 0

    def add(self, rows: NDArray[np.void]) -> None:
        """Add rows.

        Parameters
        ----------
        rows : ndarray of ADVANCE_DTYPE, shape (n,)
        """
        self._windows += int(np.count_nonzero(rows["window_complete"]))
        self._advances += len(rows)
        self._solve += int(rows["solve_ns"].sum())
        self._advance += int(rows["advance_ns"].sum())

    def summary(self, rows: NDArray[np.void]) -> dict[str, float]:
        """Return what `timing_summary` of the participant returns.

        Parameters
        ----------
        rows : ndarray of ADVANCE_DTYPE, shape (n,)
            Rows that were not added yet.

        Returns
        -------
        dict
        """
        sums = Totals()
        sums.__dict__.update(self.__dict__)
        sums.add(rows)
        seconds = {"solve": sums._solve * _NS, "advance": sums._advance * _NS}
        whole = sum(seconds.values())
        result: dict[str, float] = {"windows": sums._windows, "advances": sums._advances}
        for name, value in seconds.items():
            known = sums._advances > 0
            result[f"{name}_seconds"] = value if known else math.nan
            result[f"{name}_share"] = value / whole if known and whole > 0 else math.nan
        return result


def empty_summary() -> dict[str, float]:
    """Return the summary of a rank that has measured nothing.

    Returns
    -------
    dict
        As `Totals.summary`.
    """
    return Totals().summary(np.empty(0, dtype=ADVANCE_DTYPE))
