"""What a check finds: numbers per participant of a run, and findings with what to do."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

__all__ = ["CheckResult", "Finding", "Health"]


@dataclass(frozen=True)
class Finding:
    """Something that speaks against measurements.

    Attributes
    ----------
    kind
        ``warm-up``, ``drift``, ``outliers``, ``spread``, ``windows``, ``other load``, ``repeated runs`` or
        ``not measured``.
    run
        Name of the coupled run, or of several.
    participant
        Its name; empty for what concerns all.
    text
        What was found, with numbers.
    remedy
        What to do.
    """

    kind: str
    run: str
    participant: str
    text: str
    remedy: str


@dataclass(frozen=True)
class Health:
    """Numbers of one participant in one run.

    Attributes
    ----------
    run, participant, ranks
        Which.
    windows
        Completed time windows.
    warmup_left_out, warmup_found
        Windows left out at the start, and those that are unlike the others.
    seconds
        Median own seconds per window after both; NaN where not measured.
    drift, drift_deviations
        Relative change over the run, and how unlikely it is as in `precice_lb.dataset.series.Drift`.
    outliers
        Windows far slower or faster than their neighbours.
    deviation, error
        Relative standard deviation of a window and standard error of the median.
    """

    run: str
    participant: str
    ranks: int
    windows: int
    warmup_left_out: int
    warmup_found: int
    seconds: float
    drift: float
    drift_deviations: float
    outliers: int
    deviation: float
    error: float

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types; null for what is not known."""
        return {key: _plain(value) for key, value in self.__dict__.items()}


@dataclass(frozen=True)
class CheckResult:
    """All numbers and all findings.

    Attributes
    ----------
    healths : tuple of Health
        One per participant of each run.
    findings : tuple of Finding
        What is wrong, with remedies.
    """

    healths: tuple[Health, ...]
    findings: tuple[Finding, ...] = field(default=())

    @property
    def warmup(self) -> int:
        """Windows to leave out of all runs: the most that is left out or found in any of them."""
        return max((max(h.warmup_left_out, h.warmup_found) for h in self.healths), default=0)

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types (seconds; shares of 1)."""
        return {
            "format": "precice-lb-check",
            "format_version": 1,
            "warmup": self.warmup,
            "participants": [health.to_dict() for health in self.healths],
            "findings": [dict(finding.__dict__) for finding in self.findings],
        }


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
