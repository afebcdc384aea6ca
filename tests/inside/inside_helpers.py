"""Planted domains: what ranks hold, and how long that takes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from precice_lb.inside import RankLoad

FEATURES = ("cells", "porous", "monitor")
SECONDS = np.array([1e-6, 4e-6, 2.5e-6])


def planted(
    generator: np.random.Generator,
    sizes: Sequence[int],
    noise: float,
    *,
    seconds: NDArray[np.float64] = SECONDS,
    constant: float = 0.0,
) -> list[RankLoad]:
    """Runs of one domain on several numbers of ranks; about half of it has feature 2, some ranks much of feature 3."""
    loads = []
    for ranks in sizes:
        cells = 64_000 / ranks * generator.uniform(0.7, 1.3, ranks)
        shares = [generator.uniform(0, 1, ranks), np.clip(generator.gamma(0.5, 0.6, ranks), 0, 1)]
        counts = np.column_stack([cells, *(cells * share for share in shares)])
        busy = (counts @ seconds + constant) * (1 + noise * generator.standard_normal(ranks))
        loads.append(RankLoad(f"{ranks}-{len(loads)}", FEATURES, counts, busy))
    return loads


def only(loads: Sequence[RankLoad], *features: str) -> list[RankLoad]:
    """The same runs where only some features were counted."""
    places = [FEATURES.index(name) for name in features]
    return [RankLoad(load.run, features, load.counts[:, places], load.seconds) for load in loads]
