"""What speaks against trusting a recommendation blindly."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from precice_lb.plural import plural
from precice_lb.recommend.bounds import outside

__all__ = ["caveats"]


def caveats(
    samples: Mapping[str, NDArray[np.float64]],
    split: Mapping[str, int],
    lowest: Mapping[str, int],
    highest: Mapping[str, int],
    believed: Mapping[str, tuple[int, int]],
) -> list[str]:
    """Find reasons for doubt."""
    found = []
    for name, rows in samples.items():
        ranks = np.unique(rows[:, 0]).astype(int)
        if len(ranks) == 1:
            found.append(
                f"{name} was measured at {plural(ranks[0], 'rank')} only: how it scales is assumed (nearly ideally), "
                "not measured; measure at other rank counts."
            )
        elif len(ranks) == 2:
            found.append(f"{name} was measured at two rank counts only: measure at a third to see its curve bend.")
        if len(ranks) > 1 and (known := outside(split[name], ranks)):
            found.append(
                f"{name}: {plural(split[name], 'rank')}, outside of the measured range of {known[0]} to {known[1]}: "
                "the prediction is an extrapolation."
            )
        low, high = believed[name]
        if split[name] == low > lowest[name] or split[name] == high < highest[name]:
            found.append(
                f"{name}: its model can be believed from {low} to {plural(high, 'rank')} only (elsewhere it is not "
                "positive or bends as no run time does), and that bound decided; measure beyond it or choose another "
                "learner."
            )
    return found
