"""What a check finds: numbers per participant of a run, and findings with what to do."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

from precice_lb.dataset.series import UNLIKELY
from precice_lb.layout import Layout
from precice_lb.plain import plain
from precice_lb.plural import plural

DRIFT = 0.03
"""A drift of a larger share is worth a word."""
# Runs that are named where the same was found in several.
NAMED = 8
NUMBERS = re.compile(r"[0-9.]+")


@dataclass(frozen=True)
class Finding:
    """Something that speaks against measurements."""

    # ``warm-up``, ``drift``, ``outliers``, ``spread``, ``windows``, ``threads``, ``shared cores``, ``other load``,
    # ``repeated runs``, ``not measured``, ``not finished`` or ``missing``.
    kind: str
    # Name of the coupled run, or of several, and of the participant; empty for what concerns all.
    run: str
    participant: str
    # What was found, with numbers, and what to do.
    text: str
    remedy: str
    # How bad it is, to compare with others of its kind only.
    size: float = 0.0

    @property
    def where(self) -> str:
        """Run and participant."""
        return f"{self.run}: {self.participant}" if self.participant else self.run


@dataclass(frozen=True)
class FindingGroup:
    """The same finding of several runs and participants: the one to show, and the rest in the order found."""

    worst: Finding
    others: tuple[Finding, ...]

    @property
    def also(self) -> str:
        """Where else it was found, by run; empty where nowhere."""
        runs: dict[str, list[str]] = {}
        for each in self.others:
            runs.setdefault(each.run, []).append(each.participant)
        named = [f"{run}: {', '.join(who)}" if any(who) else run for run, who in runs.items()][:NAMED]
        more = f"; and {plural(len(runs) - NAMED, 'more run')}" if len(runs) > NAMED else ""
        return "; ".join(named) + more


@dataclass(frozen=True)
class Health:
    """Numbers of one participant in one run."""

    run: str
    participant: str
    ranks: int
    # Completed time windows, those left out at the start, and those that are unlike the others there.
    windows: int
    warmup_left_out: int
    warmup_found: int
    # Compute seconds per window after both: the median per coupling iteration times the mean iterations; NaN where not
    # measured.
    seconds: float
    # Mean coupling iterations per window.
    iterations: float
    # Whether its compute time is less than 1 % of its windows, so that nothing is found about it.
    negligible: bool
    # Relative change over the run (NaN where there are too few windows to tell), and how unlikely it is as in
    # `precice_lb.dataset.series.Drift`.
    drift: float
    drift_z_score: float
    # Windows far slower or faster than their neighbours.
    outliers: int
    # Relative standard deviation of a window, per iteration, and standard error of the median.
    deviation: float
    error: float
    # Of each rank.
    threads: int = 1
    # Which version of the participant ran; empty where that was not said.
    version: str = ""

    @property
    def layout(self) -> Layout:
        """Ranks and their threads."""
        return Layout(self.ranks, self.threads)

    @property
    def drifts(self) -> bool:
        """Whether the drift is worth a word: neither small nor chance."""
        return not self.negligible and abs(self.drift_z_score) > UNLIKELY and abs(self.drift) > DRIFT

    @property
    def drift_text(self) -> str:
        """The drift where it is worth a word."""
        return f"{100 * self.drift:+.1f} %" if self.drifts else "unknown" if math.isnan(self.drift) else "none"

    @property
    def each(self) -> str:
        """The words that tell seconds per iteration, where a window has several of these."""
        return " per coupling iteration" if self.iterations > 1 else ""


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
    def groups(self) -> tuple[FindingGroup, ...]:
        """The findings by kind and remedy, whatever numbers are in it, in the order found."""
        groups: dict[tuple[str, str], list[Finding]] = {}
        for each in self.findings:
            groups.setdefault((each.kind, NUMBERS.sub("", each.remedy)), []).append(each)
        found = []
        for group in groups.values():
            worst = max(group, key=lambda each: each.size)
            found.append(FindingGroup(worst, tuple(each for each in group if each is not worst)))
        return tuple(found)

    @property
    def warmup(self) -> int:
        """Windows to leave out of all runs: the most that is left out or found in any of them."""
        return max((max(h.warmup_left_out, h.warmup_found) for h in self.healths), default=0)

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types (seconds; shares of 1)."""
        return {
            "format": "precice-lb-check",
            "format_version": 2,
            "warmup": self.warmup,
            "participants": plain(self.healths),
            "findings": plain(self.findings),
        }
