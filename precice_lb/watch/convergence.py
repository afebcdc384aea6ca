"""How implicit couplings of a running simulation converge, from preCICE's own logs as they grow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.case.config import ConvergenceMeasure, CouplingScheme
from precice_lb.exceptions import DataError
from precice_lb.ingest.profiling.tables import IterationsTail, find_table, last_row
from precice_lb.watch.run import LATEST, LiveRun, Searches

# Columns of the iterations log that every coupling has; what follows is of its acceleration.
_COMMON = ("TimeWindow", "TotalIterations", "Iterations", "Convergence")


@dataclass(frozen=True)
class Residual:
    """One convergence measure: its residual as of the log beside its limit as of ``precice-config.xml``."""

    # ``absolute``, ``relative``, ``residual-relative`` or ``absolute-or-relative``.
    kind: str
    data: str
    mesh: str
    # Not finite where values are zero, or have diverged; None of ``absolute-or-relative``: preCICE does not write it.
    residual: float | None
    limit: float

    @classmethod
    def of(cls, measure: ConvergenceMeasure, row: Mapping[str, float]) -> Residual:
        """Find a measure in a row of the convergence log."""
        residual = None if measure.kind == "absolute-or-relative" else row.get(measure.header)
        return cls(measure.kind, measure.data, measure.mesh, residual, measure.limit)


@dataclass(frozen=True)
class Convergence:
    """Iterations of one implicit coupling, and how far the present time window is."""

    # All, and the one that judges the iterations, whose logs tell.
    participants: tuple[str, ...]
    participant: str
    # Time windows of the log.
    windows: int
    # Median over the latest windows, and over all; NaN before the first is complete.
    iterations_latest: float
    iterations: float
    # As the configuration says; None where it sets no limit.
    max_iterations: int | None
    # Windows that ended without convergence; None where there is no convergence measure, or the log does not tell.
    not_converged: int | None
    # What the log says of the acceleration after the last window: ``QNColumns`` and such.
    acceleration: dict[str, int]
    # The window that the participants are in, and the iteration in it that the residuals are of; 0 without any.
    window: int
    iteration: int
    residuals: tuple[Residual, ...]


class CouplingTail:
    """Follows the logs of one implicit coupling of a run, which may lie anywhere below a directory."""

    def __init__(self, scheme: CouplingScheme, directory: Path, searches: Searches) -> None:
        #: Why the log could not be read just now; empty if it could.
        self.problem = ""
        self._scheme = scheme
        self._directory = directory
        self._searches = searches
        self._tail: IterationsTail | None = None
        self._begin_anew()

    def _begin_anew(self) -> None:
        # Iterations of each time window, how many did not converge, and the last window with what the log says of it.
        self._iterations = np.empty(0, np.int64)
        self._not_converged: int | None = 0
        self._last, self._acceleration = 0, dict[str, int]()

    def update(self, run: LiveRun) -> Convergence | None:
        """Read what is new; None where no log of this run is there."""
        self.problem, scheme = "", self._scheme
        log = self._find(run)
        if log is None:
            return None
        self._read(log)
        if run.has_ended and scheme.controller in run.ranks:
            done = run.series[scheme.controller].rows["iterations"]
            if (len(self._iterations), self._iterations.sum()) != (len(done), done.sum()):
                # A later run has written over it.
                return None
        row = last_row(log.with_name(f"precice-{scheme.controller}-convergence.log"))
        result = Convergence(
            participants=scheme.participants,
            participant=scheme.controller,
            windows=len(self._iterations),
            iterations_latest=median(self._iterations[-LATEST:]),
            iterations=median(self._iterations),
            max_iterations=scheme.max_iterations,
            not_converged=self._not_converged if scheme.measures else None,
            acceleration=self._acceleration,
            window=int(row.get("TimeWindow", 0)),
            iteration=int(row.get("Iteration", 0)),
            residuals=tuple(Residual.of(measure, row) for measure in scheme.measures) if row else (),
        )
        return result if result.windows or result.window else None

    def _find(self, run: LiveRun) -> Path | None:
        """Find the iterations log of the participant that judges, unless an earlier run has left it."""
        name = self._scheme.controller
        known = Path(run.metadata.get(name, {}).get("working_directory", self._directory))
        log = f"precice-{name}-iterations.log"
        try:
            path: Path | None = known / log
            if path is not None and not path.is_file():
                path = self._searches(log, lambda: find_table(log, known, [self._directory]))
            return path if path is not None and path.stat().st_mtime_ns >= run.begun_unix_ns else None
        except OSError:
            return None

    def _read(self, log: Path) -> None:
        """Count the windows that the log tells of since it was read last."""
        if self._tail is None or self._tail.path != log:
            self._tail = IterationsTail(log)
            self._begin_anew()
        try:
            for columns in self._tail.windows():
                # A log that begins anew is of another run, but for one that goes on with the next window: preCICE
                # starts a new one when a mesh is reset.
                if columns["TimeWindow"][0] != self._last + 1 and self._last:
                    self._begin_anew()
                judged, failed = columns.get("Convergence"), self._not_converged
                self._iterations = np.append(self._iterations, columns["Iterations"])
                self._not_converged = None if judged is None or failed is None else failed + int((judged == 0).sum())
                self._acceleration = {name: int(v[-1]) for name, v in columns.items() if name not in _COMMON}
                self._last = int(columns["TimeWindow"][-1])
        except DataError as error:
            self.problem = str(error)


def median(values: NDArray[Any]) -> float:
    """Median of what is known; NaN of nothing."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else math.nan
