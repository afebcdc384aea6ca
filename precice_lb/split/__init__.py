"""How many ranks each participant should get."""

from __future__ import annotations

from precice_lb.split.baselines import equal_split, proportional_split
from precice_lb.split.constraints import Constraints, Machine, SharedCores
from precice_lb.split.optimize import SplitResult, near_optimal_splits, optimize_split
from precice_lb.split.tradeoff import TradeoffCurve, TradeoffPoint, tradeoff_curve

__all__ = [
    "Constraints",
    "Machine",
    "SharedCores",
    "SplitResult",
    "TradeoffCurve",
    "TradeoffPoint",
    "equal_split",
    "near_optimal_splits",
    "optimize_split",
    "proportional_split",
    "tradeoff_curve",
]
