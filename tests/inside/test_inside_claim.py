"""Oskooi et al., section 4: within 20 ± 10 % beyond the data, once the model is told what costs and what is sent."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import inside_claim


def test_domains_unlike_the_training_are_predicted() -> None:
    blind, fractions, told = list(inside_claim.HOW)[:3]
    found = [inside_claim.compare(40, 0.03, seed, resolution=32, ways=(blind, fractions, told)) for seed in range(2)]

    def off(way: str) -> np.ndarray:
        return np.abs(np.concatenate([each[way, name] for each in found for name in inside_claim.DOMAINS]) - 1)

    assert off(told).mean() < 0.2
    assert off(fractions).mean() < 0.2
    assert off(fractions).mean() < off(blind).mean()
