"""From measurements to a recommended split: models, the coupling's schedule and the optimiser behind one door."""

from __future__ import annotations

from precice_lb.recommend.facade import recommend, recommend_split
from precice_lb.recommend.result import Alternative, Recommendation
from precice_lb.recommend.sources import load_sources

__all__ = ["Alternative", "Recommendation", "load_sources", "recommend", "recommend_split"]
