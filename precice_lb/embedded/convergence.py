"""When a time window's coupling iterations have converged.

preCICE's ``cplscheme/BaseCouplingScheme.cpp`` (``measureConvergence``) and the measures in ``cplscheme/impl``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from precice_lb.embedded.clock import TOLERANCE
from precice_lb.embedded.coupling_data import CouplingData
from precice_lb.embedded.errors import CouplingError
from precice_lb.embedded.settings import MeasureSettings

__all__ = ["Convergence", "Measure", "Total"]

#: Sums an array over the ranks of a participant.
Total = Callable[[NDArray[np.float64]], NDArray[np.float64]]

_ABBREVIATIONS = {"absolute": "Abs", "relative": "Rel", "residual-relative": "Drop", "absolute-or-relative": "AbsOrRel"}


class Measure:
    """One convergence measure.

    Parameters
    ----------
    settings
        Its kind and limits.
    data
        What it looks at.
    """

    def __init__(self, settings: MeasureSettings, data: CouplingData) -> None:
        self.settings = settings
        self.data = data
        self.first_norm = sys.float_info.max
        self._is_first = True
        self.residual = 0.0

    @property
    def header(self) -> str:
        """Column of ``precice-<P>-convergence.log``."""
        return f"Res{_ABBREVIATIONS[self.settings.kind]}({self.data.field.mesh}:{self.data.field.data})"

    def new_series(self) -> None:
        """Start with the next time window."""
        self._is_first = True
        self.first_norm = sys.float_info.max

    def judge(self, difference: float, norm: float) -> bool:
        """Whether an iteration has converged, from the 2-norms of its change and of its values."""
        kind, limits = self.settings.kind, self.settings.limits
        if kind == "residual-relative":
            if self._is_first:
                self.first_norm, self._is_first = difference, False
            self.residual = _ratio(difference, self.first_norm)
            return difference < self.first_norm * limits[0]
        if kind == "relative":
            self.residual = _ratio(difference, norm)
            return difference <= norm * limits[0]
        if kind == "absolute":
            self.residual = difference
            return difference <= limits[0]
        # preCICE writes 0 to the log for this measure.
        return difference <= norm * limits[1] or difference <= limits[0]


class Convergence:
    """All measures of a coupling scheme, at the participant that decides.

    Parameters
    ----------
    measures
        In the order of the configuration.
    min_iterations, max_iterations
        Limits of the number of iterations in a time window; None for no upper limit.
    """

    def __init__(self, measures: Sequence[Measure], min_iterations: int, max_iterations: int | None) -> None:
        self.measures = measures
        self.min_iterations = min_iterations
        self.max_iterations = max_iterations

    def has_converged(self, iteration: int, total: Total) -> bool:
        """Whether iteration `iteration` (from 1) of a time window was its last one.

        Raises
        ------
        CouplingError
            If a strict measure has not converged in the last iteration that is allowed.
        """
        return self._measured(iteration, total) or iteration == self.max_iterations

    def _measured(self, iteration: int, total: Total) -> bool:
        if not self.measures:
            return False
        squares = []
        for measure in self.measures:
            now = measure.data.field.waveform.last
            change = now - measure.data.previous.last
            squares += [np.vdot(change, change), np.vdot(now, now)]
        norms = np.sqrt(total(np.array(squares)))
        all_converged, one_suffices, one_strict = True, False, False
        for measure, difference, norm in zip(self.measures, norms[::2], norms[1::2], strict=True):
            if measure.judge(float(difference), float(norm)):
                one_suffices = one_suffices or measure.settings.suffices
                continue
            all_converged = False
            if measure.settings.strict:
                one_strict = True
                if self.max_iterations is not None and iteration >= self.max_iterations:
                    raise CouplingError(
                        f'the strict convergence measure for data "{measure.settings.data}" did not converge within '
                        f"the allowed {self.max_iterations} iterations: raise max-iterations or do not mark it strict"
                    )
        return iteration >= self.min_iterations and (all_converged or (one_suffices and not one_strict))

    def new_series(self) -> None:
        """Start with the next time window."""
        for measure in self.measures:
            measure.new_series()


def _ratio(numerator: float, denominator: float) -> float:
    return float("inf") if abs(denominator) <= TOLERANCE else numerator / denominator
