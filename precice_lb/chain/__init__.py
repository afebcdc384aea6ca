"""Chains of jobs: production runs in segments, whose border is where the split of ranks may change."""

from __future__ import annotations

from precice_lb.rooms import lazily

__getattr__ = lazily(
    __name__,
    decide=("DecisionProblem",),
    document=("CHAIN_FILE", "ChainDocument", "Decision", "Segment", "read_chain"),
)
