"""When a run has gone on long enough: what its ranks have written by now, and whether more would tell more.

A run's reading of a participant errs by what runs differ by, whatever their length, and by what its windows leave open,
which falls with their number. Once the latter is a small part of the former, more windows hardly change the reading
(Cochran 1977, chapter 10, of samples in two stages; Kalibera and Jones 2013, of benchmarks).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from precice_lb.dataset import load_runs
from precice_lb.dataset.series import drift_of, spread_of
from precice_lb.exceptions import PreciceLBError
from precice_lb.ingest.profiling import enrich

# Windows after warm-up, of the longest, below which nothing is judged: of few the error itself is uncertain.
LEAST = 6
# Looks take at most this share of one core, which may be a rank's, and are so many seconds apart.
_SHARE, _PAUSE = 0.05, 0.3


class Look(NamedTuple):
    """What a run has measured so far."""

    # That all participants completed, and how many of these count, of the longest.
    windows: int
    steady: int
    # By participant, the relative standard error of its seconds; NaN where unknown.
    errors: dict[str, float]
    # Participants whose seconds change as the run goes on.
    drifting: list[str]

    @property
    def words(self) -> str:
        """The errors, in words."""
        known = ", ".join(f"{name} {100 * error:.2g} %" for name, error in self.errors.items())
        return f"standard errors {known}"

    def suffices(self, needed: Mapping[str, float]) -> bool:
        """Whether the run may end: by the errors that are small enough, while no participant's seconds change."""
        known = all(self.errors[name] <= error for name, error in needed.items())
        return known and self.steady >= LEAST and not self.drifting


def look(stores: Path, names: Collection[str]) -> Look | None:
    """Read what all ranks of a run have recorded, which may go on; None where some have recorded nothing yet."""
    try:
        runs = load_runs([stores], complete=enrich)
    # A file that is being written may be read before it is whole.
    except (PreciceLBError, OSError):
        return None
    if len(runs) != 1 or runs[0].not_compared or runs[0].participants.keys() != set(names):
        return None
    (run,) = runs
    windows, steady, errors, drifting = [], [], {}, []
    for name, part in run.participants.items():
        kept = run.steady(name) & np.isfinite(part.compute_seconds)
        seconds = part.compute_per_iteration[kept]
        windows.append(len(part.windows) // run.time.of(name))
        steady.append(int(kept.sum()) // run.time.of(name))
        # Of one that takes next to nothing no error matters.
        errors[name] = 0.0 if part.negligible and len(seconds) else spread_of(seconds).error
        drifting += [name] if not part.negligible and drift_of(seconds).significant else []
    return Look(min(windows), min(steady), errors, drifting)


class Enough:
    """Looks at a run now and then; it may end where each participant's seconds are known as well as ``needed``."""

    def __init__(self, stores: Path, needed: Mapping[str, float]) -> None:
        self._stores, self._needed, self._due = stores, needed, 0.0

    def __call__(self) -> str:
        """Say why the run may end; nothing as long as it may not."""
        if time.monotonic() < self._due:
            return ""
        begin = time.process_time()
        seen = look(self._stores, self._needed)
        self._due = time.monotonic() + max(_PAUSE, (time.process_time() - begin) / _SHARE)
        if seen is None or not seen.suffices(self._needed):
            return ""
        return f"more would tell no more; {seen.words}"
