"""Splits beside the recommended one: what they take, and what else a plan consists of."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, Literal

from precice_lb.split import TradeoffCurve, TradeoffPoint

__all__ = ["Alternative", "FailedSplit", "Payback", "Plan", "Prefer"]

Prefer = Literal["time", "cost"] | float


@dataclass(frozen=True)
class Alternative:
    """A split beside the recommended one, and its seconds per window.

    Attributes
    ----------
    split : dict of str to int
        Ranks by participant.
    window_seconds : float
        Seconds per time window: means over the drawn curves, or measured where no model is used.
    gain : float
        This window time over the recommended one's, minus 1: 0.25 says that the recommended split is 25 % faster,
        counted in time windows per second.
    probability : float
        That the recommended split is faster than this one; NaN where that is not known.
    meant : dict of str to int
        Where the bounds do not allow the split that this one stands for, such as the equal one: that split.
    used : dict of str to int
        Ranks, cores and nodes that it occupies, in lists of splits that are nearly as good.
    schedule : str
        The coupling in words, where it is another one: with as many coupling iterations as now.
    """

    split: dict[str, int]
    window_seconds: float
    gain: float
    probability: float = math.nan
    meant: dict[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    schedule: str = ""

    @property
    def longer(self) -> float:
        """By what share the window is longer than with the recommended split: the gain, said of a near split."""
        return self.gain


@dataclass(frozen=True)
class Payback:
    """After how many time windows measuring has paid for itself."""

    # What measuring took.
    core_hours: float
    # Time windows by the split that would be used otherwise (``present``, ``equal``, …); infinite where the
    # recommended one does not take fewer core-hours.
    windows: dict[str, float]


@dataclass(frozen=True, eq=False)
class Plan:
    """More than one split to choose from."""

    # Splits whose window is at most a share ``within`` longer than the recommended one's, best first.
    near: tuple[Alternative, ...]
    # That share.
    within: float
    # Ranks in the list are multiples of this, as people round them.
    step: int
    # Window time against core-hours over budgets up to the whole one, without budgets that are beaten in both.
    # Windows are means over the drawn curves; efficiency is the least core-hours per window over a point's.
    tradeoff: TradeoffCurve
    # The point of it that is recommended.
    chosen: TradeoffPoint
    # What decided which.
    prefer: Prefer

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types."""
        curve = self.tradeoff
        near = [
            {"split": each.split, "window_seconds": each.window_seconds, "longer": each.gain, "used": each.used}
            for each in self.near
        ]
        return {
            "within": self.within,
            "step": self.step,
            "near": near,
            "prefer": self.prefer,
            "chosen": dataclasses.asdict(self.chosen),
            "knee": dataclasses.asdict(curve.knee),
            "tradeoff": [dataclasses.asdict(point) for point in curve.points],
        }


@dataclass(frozen=True)
class FailedSplit:
    """A split all of whose runs failed, or a participant's number of ranks."""

    # Ranks by participant; of one participant alone where it failed beside any others.
    ranks: dict[str, int]
    # Names of the runs.
    runs: tuple[str, ...]
    # Lines of their logs that say why, each after its participant's name.
    reasons: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types."""
        return {"ranks": dict(self.ranks), "runs": list(self.runs), "reasons": list(self.reasons)}
