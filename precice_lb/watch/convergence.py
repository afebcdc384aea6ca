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
from precice_lb.ingest.profiling.tables import IterationsLog, find_table, last_row
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


def read_convergence(
    scheme: CouplingScheme, run: LiveRun, directory: Path, searches: Searches, logs: dict[Path, IterationsLog]
) -> tuple[Convergence | None, str]:
    """Read the logs of an implicit coupling, which may lie anywhere below a directory, and why that fails.

    None where no log of this run is there; ``logs`` keep what was read of them.
    """
    name, problem = scheme.controller, ""
    path = _find_log(name, run, directory, searches)
    if path is None:
        return None, ""
    log = logs.setdefault(path, IterationsLog(path))
    try:
        log.read()
    except DataError as error:
        problem = str(error)
    iterations = log.columns.get("Iterations", np.empty(0, np.int64))
    if run.has_ended and name in run.ranks:
        done = run.series[name].rows["iterations"]
        if (len(iterations), iterations.sum()) != (len(done), done.sum()):
            # A later run has written over it.
            return None, problem
    judged = log.columns.get("Convergence", np.empty(0))
    knows_failed = bool(scheme.measures) and len(judged) == len(iterations)
    row = last_row(path.with_name(f"precice-{name}-convergence.log"))
    result = Convergence(
        participants=scheme.participants,
        participant=name,
        windows=len(iterations),
        iterations_latest=median(iterations[-LATEST:]),
        iterations=median(iterations),
        max_iterations=scheme.max_iterations,
        not_converged=int((judged == 0).sum()) if knows_failed else None,
        acceleration={key: int(values[-1]) for key, values in log.columns.items() if key not in _COMMON},
        window=int(row.get("TimeWindow", 0)),
        iteration=int(row.get("Iteration", 0)),
        residuals=tuple(Residual.of(measure, row) for measure in scheme.measures) if row else (),
    )
    return result if result.windows or result.window else None, problem


def _find_log(name: str, run: LiveRun, directory: Path, searches: Searches) -> Path | None:
    """Find the iterations log of the participant that judges, unless an earlier run has left it."""
    known = Path(run.metadata.get(name, {}).get("working_directory", directory))
    path: Path | None = known / f"precice-{name}-iterations.log"
    try:
        if path is not None and not path.is_file():
            file = path.name
            path = searches(file, lambda: find_table(file, known, [directory]))
        return path if path is not None and path.stat().st_mtime_ns >= run.begun_unix_ns else None
    except OSError:
        return None


def median(values: NDArray[Any]) -> float:
    """Median of what is known; NaN of nothing."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else math.nan
