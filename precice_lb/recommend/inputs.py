"""What callers of `recommend` may give, checked."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset import Measurements
from precice_lb.exceptions import DataError, InfeasibleError
from precice_lb.recommend.bounds import whole_number
from precice_lb.recommend.sources import check_samples

__all__ = ["check_participants", "present_split"]


def check_participants(measurements: Measurements, names: tuple[str, ...]) -> dict[str, NDArray[np.float64]]:
    """Give samples in the coupling's order, sorted by ranks so that the order of rows never matters."""
    if not set(names) <= set(measurements.samples):
        missing = ", ".join(name for name in names if name not in measurements.samples)
        raise DataError(
            f"expected measurements of all participants of the coupling ({', '.join(names)}), found none of {missing}"
            + "".join(f". {remark.rstrip('.')}" for remark in dict.fromkeys(measurements.remarks))
        )
    unknown = [name for name in measurements.samples if name not in names]
    if unknown:
        raise DataError(f"expected measurements of {', '.join(names)}, found some of {unknown[0]}, not in the coupling")
    checked = check_samples(measurements.samples)
    return {name: checked[name][np.lexsort(checked[name].T[::-1])] for name in names}


def present_split(split: Mapping[str, int] | None, names: tuple[str, ...]) -> dict[str, int] | None:
    """Check the split in use."""
    if split is None:
        return None
    if set(split) != set(names):
        raise InfeasibleError(
            f"expected the present split of {', '.join(names)}, found one of {', '.join(map(str, split)) or 'none'}"
        )
    return {name: whole_number(split[name], f"present ranks of {name}", 1) for name in names}
