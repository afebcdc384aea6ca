"""What an optimisation gives back."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["SplitResult"]


@dataclass(frozen=True)
class SplitResult:
    """The best split and why it is.

    Attributes
    ----------
    split
        Ranks by participant. Their sum may be below the budget: ranks that make nobody faster stay unused.
    window_seconds
        Steady seconds per time window with it; with samples of the times the mean over them.
    waits
        Seconds per window that each participant waits.
    compute_seconds
        Seconds per window that each participant works.
    critical_cycle
        Participants whose work sets the window time.
    gap
        Proven upper bound of (window_seconds − best)/best; 0 says that no split is better. With samples of the times
        it is the distance from the mean of the samples' own optima, which no one split may be able to reach.
    bound
        What proves it, in words.
    versions
        The chosen version of each participant that has several.
    used
        What the split occupies: ``ranks``, ``cores`` (as charged: those of whole nodes where the budget counts nodes),
        and ``nodes`` and ``gpus`` where they matter.
    limits
        Scalability limits: ranks from which on a participant gets no faster by any more that the budget admits, where
        there is such a number.
    verified
        What `optimize_split` was asked to verify, in words; empty if it was not asked.
    """

    split: dict[str, int]
    window_seconds: float
    waits: dict[str, float]
    compute_seconds: dict[str, float]
    critical_cycle: tuple[str, ...]
    gap: float
    bound: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    verified: str = ""
