"""Search spaces of the performance model normal form: the papers' exponents, and what any must be."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from precice_lb.exceptions import ModelError
from precice_lb.models.losses import get_loss

__all__ = ["EQ_2_7_I", "EQ_2_7_J", "EQ_5_1_I", "EQ_5_1_J", "check_hypotheses"]

#: Search space of Schröder 2019, equation 5.1: 100 terms, 4,950 hypotheses of two terms.
EQ_5_1_I: tuple[float, ...] = tuple(k / 4 for k in range(-8, 12))
EQ_5_1_J: tuple[float, ...] = (-2.0, -1.0, 0.0, 1.0, 2.0)
#: Search space of Calotoiu et al., equation 2.7 of Schröder 2019; rising terms only.
EQ_2_7_I: tuple[float, ...] = tuple(k / 4 for k in range(13))
EQ_2_7_J: tuple[float, ...] = (0.0, 1.0, 2.0)


def check_hypotheses(
    exponents: Sequence[float], log_exponents: Sequence[float], ridge: float, log_base: float, loss: str
) -> None:
    """Check what makes up and compares hypotheses.

    Raises
    ------
    ModelError
        Not a sequence of numbers, a negative ridge, no base of a logarithm, no loss of that name.
    """
    if not (ridge >= 0 and math.isfinite(ridge)):
        raise ModelError(f"expected a ridge of at least 0, found {ridge!r}")
    if not (log_base > 0 and log_base != 1 and math.isfinite(log_base)):
        raise ModelError(f"expected a positive log_base other than 1, found {log_base!r}")
    for name, given in (("exponents", exponents), ("log_exponents", log_exponents)):
        values = np.asarray(given, dtype=np.float64)
        if values.ndim != 1 or not values.size or not np.isfinite(values).all():
            raise ModelError(f"expected {name} as a sequence of numbers, found {given!r:.60}")
    get_loss(loss)
