"""Exhaustive search over hypotheses of a few terms, block by block."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import ModelError
from precice_lb.models.pmnf_validation import CrossValidation

__all__ = ["MAXIMUM_HYPOTHESES", "Winner", "search"]

Array = NDArray[np.float64]
Integers = NDArray[np.intp]

#: Hypotheses that are searched at most: some minutes.
MAXIMUM_HYPOTHESES = 50_000_000

# Numbers in one array of a block: several of them stay in the second-level cache.
BLOCK = 8192


@dataclass(frozen=True)
class Winner:
    """The best hypothesis: indices of its terms, its loss, and how many were compared."""

    terms: Integers
    loss: float
    n_hypotheses: int


def search(
    features: Array,
    n_terms: int,
    validation: CrossValidation,
    accept: Callable[[Integers], NDArray[np.bool_]] | None = None,
) -> Winner | None:
    """Find the hypothesis with the least cross-validated loss; of equal ones the first in lexicographic order.

    Of hypotheses of 1 to 3 terms out of finite features, shape (T, m); ``accept`` says of sets of terms, shape
    (h, n_terms), whether each may win. None where no hypothesis can be validated or accepted.
    """
    count = math.comb(len(features), n_terms)
    if count > MAXIMUM_HYPOTHESES:
        raise ModelError(
            f"expected at most {MAXIMUM_HYPOTHESES:,} hypotheses, found {count:,}; give fewer exponents or terms"
        )
    best: Winner | None = None
    every = itertools.combinations(range(len(features)), n_terms)
    size = max(BLOCK // features.shape[1], 1)
    while block := list(itertools.islice(every, size)):
        sets = np.array(block, dtype=np.intp)
        # The hypotheses last: see `least_squares`.
        losses = validation.losses(features.T[:, sets.T].transpose(1, 0, 2))
        if accept is not None:
            better = np.flatnonzero(losses < (best.loss if best else math.inf))
            losses[better[~accept(sets[better])]] = math.inf
        least = int(losses.argmin())
        if losses[least] < (best.loss if best else math.inf):
            best = Winner(sets[least], float(losses[least]), count)
    return best
