"""The time limit of a production job: from the time windows of the whole run and how long each may take."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from precice_lb.campaign.launchers.slurm import named, split_options
from precice_lb.case import Configuration
from precice_lb.text import plural

MARGIN = 0.2
"""Share of the expected time that a production job may take longer."""

# How the comment in a job script begins that says why it asks for no time limit.
_NO_LIMIT = "# No time limit is asked for: "
_TIME_OPTIONS = ("time", "time-min")


@dataclass(frozen=True)
class TimeLimit:
    """How long a production run may take.

    Attributes
    ----------
    minutes : int or None
        Whole minutes; None if they are not known.
    reason : str
        What the minutes follow from, or why they are not known.
    """

    minutes: int | None
    reason: str

    @property
    def comment(self) -> str:
        """The line of a job script that explains its time limit, or the lack of one."""
        if self.minutes is None:
            return f"{_NO_LIMIT}{self.reason}; submit with sbatch --time=HH:MM:SS"
        return f"# Time limit: {self.reason}"


def production_time_limit(configuration: Configuration, window_seconds: float) -> TimeLimit:
    """Return the time limit of a run of a whole case.

    Parameters
    ----------
    configuration : Configuration
        Its number of time windows counts.
    window_seconds : float
        Upper bound of the seconds per time window; NaN if it is not known.

    Returns
    -------
    TimeLimit
    """
    windows = configuration.windows
    if windows is None:
        return TimeLimit(None, f"{configuration.path.name} does not say how many time windows there are")
    if not 0 < window_seconds < math.inf:
        return TimeLimit(None, "no upper bound of the window time of this split is known")
    seconds = windows * window_seconds * (1 + MARGIN)
    reason = f"{plural(windows, 'time window')} of at most {window_seconds:.4g} s, and a fifth more"
    return TimeLimit(math.ceil(seconds / 60), reason)


def without_time(options: Sequence[str], stated: Collection[str]) -> tuple[str, ...]:
    """Return the options of a job without time limits, which are those of calibration runs.

    Parameters
    ----------
    options : sequence of str
        Each may hold several options of ``sbatch``.
    stated : collection of str
        Those that the command line states for this job stay as they are.
    """
    kept = []
    for text in options:
        if text in stated:
            kept.append(text)
            continue
        parts = [part for part in split_options(text) if named([part]).keys().isdisjoint(_TIME_OPTIONS)]
        if parts:
            kept.append(" ".join(parts))
    return tuple(kept)


def has_time(options: Sequence[str]) -> bool:
    """Whether options of a job state a time limit."""
    return "time" in named(options)


def missing_limit(script: Path) -> str:
    """Return why a job script asks for no time limit; empty if it asks for one.

    Parameters
    ----------
    script : Path
        As `precice_lb.campaign.write_scripts` wrote it.
    """
    try:
        lines = script.read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    for line in lines:
        if line.startswith(_NO_LIMIT):
            return f"{script.name} asks for no time limit: {line.removeprefix(_NO_LIMIT)}"
    return ""
