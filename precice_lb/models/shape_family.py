"""The family of curves of `shape`: a falling part, a constant and a rising part, any of which may be missing."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import ModelError

__all__ = ["FALLS", "RISES", "check_terms", "family"]

Array = NDArray[np.float64]

#: α of the falling terms p^-α: from poor scaling over ideal (1) to superlinear (caches); with a constant beside them.
FALLS: tuple[float, ...] = tuple(k / 8 for k in range(3, 17))
#: (exponent, log_exponent) of the rising terms: collectives in log p, and communication that grows with p.
RISES: tuple[tuple[float, float], ...] = ((0.0, 1.0), (0.5, 0.0), (1.0, 0.0))

# Share of prior probability for curves without a falling part: a solver that does not scale at all.
NEVER_FALLS = 0.02


def family(
    falls: Sequence[float], rises: Sequence[tuple[float, float]], fall_mean: float, fall_scale: float
) -> tuple[Array, Array, NDArray[np.intp], Array]:
    """Make the members of the family out of a normal prior of α.

    Exponents (T, 2) of the terms; a mixing matrix (T, T), whose row k holds the terms that part k is made of; members
    (M, 3), indices of the parts of each (falling, constant, rising), -1 for none; their log prior (M,).
    """
    exponents = np.array([(-a, 0.0) for a in falls] + [(0.0, 0.0)] + [tuple(r) for r in rises], dtype=np.float64)
    constant, first_rise = len(falls), len(falls) + 1
    mixing = np.eye(len(exponents))
    # log(1) = 0: a rise in the logarithm is one of 1 + log(p), so that every curve is positive at 1 rank too.
    mixing[first_rise:, constant] = exponents[first_rise:, 1] > 0
    log_fall = -0.5 * ((np.asarray(falls) - fall_mean) / fall_scale) ** 2
    log_fall += np.log1p(-NEVER_FALLS) - np.log(np.exp(log_fall).sum())
    members, prior = [], []
    options = itertools.product([*range(len(falls)), -1], [-1, constant], [-1, *range(first_rise, len(exponents))])
    for fall, flat, rise in options:
        if fall == flat == rise:
            continue
        members.append((fall, flat, rise))
        prior.append(
            (log_fall[fall] if fall >= 0 else np.log(NEVER_FALLS)) - (np.log(len(rises)) if rise >= 0 else 0.0)
        )
    return exponents, mixing, np.array(members, dtype=np.intp), np.array(prior)


def check_terms(falls_given: Sequence[float], rises_given: Sequence[tuple[float, float]]) -> None:
    """Refuse a falling term that does not fall, or a rising one that falls."""
    falls = np.asarray(falls_given, dtype=np.float64)
    if falls.ndim != 1 or not falls.size or not (np.isfinite(falls) & (falls > 0)).all():
        raise ModelError(f"expected falls as positive numbers, found {falls_given!r:.60}")
    rises = np.asarray(rises_given, dtype=np.float64).reshape(-1, 2)
    if not (np.isfinite(rises) & (rises >= 0)).all() or not rises.any(axis=1).all():
        raise ModelError(f"expected rises as pairs of exponents of which one is positive, found {rises_given!r:.60}")
