"""The sampler of `bayes` on posteriors that are known."""

from __future__ import annotations

import numpy as np
import pytest

from precice_lb.models.bayes_sampler import mix


@pytest.mark.parametrize("particles", [16, *(pytest.param(n, marks=pytest.mark.slow("statistics")) for n in (32, 64))])
def test_a_small_sample_stays_as_wide_as_the_posterior(particles: int) -> None:
    # Of the prior alone, which is standard normal.
    squares = []
    for seed in range(1600 // particles):
        rng = np.random.default_rng(seed)
        squares.append(np.mean(mix(rng.standard_normal((particles, 4)), lambda z: np.zeros(len(z)), rng) ** 2))
    assert np.mean(squares) == pytest.approx(1.0, abs=0.06)
