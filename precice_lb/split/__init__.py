"""How many ranks each participant should get."""

from __future__ import annotations

from precice_lb.case.machine import Constraints, Machine, NodeKind, SharedCores
from precice_lb.rooms import lazily
from precice_lb.split.optimize import (
    SplitResult,
    TradeoffCurve,
    TradeoffPoint,
    near_optimal_splits,
    optimize_split,
    tradeoff_curve,
)

__all__ = [
    "Constraints",
    "Machine",
    "NodeKind",
    "SharedCores",
    "SplitResult",
    "TradeoffCurve",
    "TradeoffPoint",
    "near_optimal_splits",
    "optimize_split",
    "tradeoff_curve",
]

__getattr__ = lazily(__name__, admissible=("Limits", "limits_of"))
