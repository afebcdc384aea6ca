"""When a time window's coupling iterations have converged.

preCICE's ``cplscheme/BaseCouplingScheme.cpp`` (``measureConvergence``) and the measures in ``cplscheme/impl``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from precice_lb.embedded.clock import TOLERANCE
from precice_lb.embedded.coupling_data import CouplingData
from precice_lb.embedded.intracomm import IntraComm
from precice_lb.embedded.settings import MeasureSettings

__all__ = ["Convergence", "Measure"]


class Measure:
    """One convergence measure of a data."""

    def __init__(self, settings: MeasureSettings, data: CouplingData) -> None:
        self._relative = settings.relative
        self._limit = settings.limit
        self.data = data
        self.residual = 0.0

    @property
    def header(self) -> str:
        """Column of ``precice-<P>-convergence.log``."""
        return f"Res{'Rel' if self._relative else 'Abs'}({self.data.field.mesh}:{self.data.field.data})"

    def judge(self, difference: float, norm: float) -> bool:
        """Whether an iteration has converged, from the 2-norms of its change and of its values."""
        scale = norm if self._relative else 1.0
        self.residual = float("inf") if abs(scale) <= TOLERANCE else difference / scale
        return difference <= scale * self._limit


class Convergence:
    """All measures of a coupling scheme, at the participant that decides; no `max_iterations` is no upper limit."""

    def __init__(self, measures: Sequence[Measure], max_iterations: int | None) -> None:
        self.measures = measures
        self.max_iterations = max_iterations

    def has_converged(self, iteration: int, intra: IntraComm) -> bool:
        """Whether iteration `iteration` (from 1) of a time window was its last one."""
        squares = []
        for measure in self.measures:
            now = measure.data.field.waveform.last
            change = now - measure.data.previous.last
            squares += [np.vdot(change, change), np.vdot(now, now)]
        norms = np.sqrt(intra.total(np.array(squares))) if squares else np.zeros(0)
        judged = [
            measure.judge(float(difference), float(norm))
            for measure, difference, norm in zip(self.measures, norms[::2], norms[1::2], strict=True)
        ]
        return (bool(judged) and all(judged)) or iteration == self.max_iterations
