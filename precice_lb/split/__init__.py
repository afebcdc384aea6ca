"""How many ranks each participant should get."""

from __future__ import annotations

from precice_lb.split.baselines import equal_split, proportional_split
from precice_lb.split.optimize import SplitResult, optimize_split

__all__ = ["SplitResult", "equal_split", "optimize_split", "proportional_split"]
