"""From measurements to a recommended split: models, the coupling's schedule and the optimiser behind one door."""

from __future__ import annotations

from precice_lb.recommend.api import recommend_split
from precice_lb.recommend.plan import Alternative
from precice_lb.recommend.result import Recommendation
from precice_lb.recommend.sources import load_sources
from precice_lb.rooms import lazily
from precice_lb.schedule.traces import predictor_of_runs, traced_schedule
from precice_lb.split import Machine

__all__ = [
    "Alternative",
    "Machine",
    "Recommendation",
    "load_sources",
    "predictor_of_runs",
    "recommend_split",
    "traced_schedule",
]

__getattr__ = lazily(
    __name__,
    limits=("nearest", "proportional_split"),
    plan=("FailedSplit",),
    posterior=("DRAWS", "ExpectedWindowTime", "curves_of", "geometric_mean"),
    sources=("measurements_from_arrays",),
)
