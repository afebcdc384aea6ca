"""How many ranks each participant should get."""

from __future__ import annotations

from precice_lb.split.baselines import equal_split, proportional_split
from precice_lb.split.constraints import Constraints, SharedCores
from precice_lb.split.optimize import optimize_split
from precice_lb.split.result import SplitResult

__all__ = [
    "Constraints",
    "SharedCores",
    "SplitResult",
    "equal_split",
    "optimize_split",
    "proportional_split",
]
