"""Which splits a campaign measures.

A design is asked for the next split and answers with a proposal or with None. `FixedDesign` works off a list.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import InfeasibleError
from precice_lb.plural import plural
from precice_lb.recommend.limits import Limits
from precice_lb.split import Constraints
from precice_lb.split.constraints import check_names

__all__ = ["Allow", "Bounds", "FixedDesign", "Proposal", "Split", "allowed_counts", "allowed_splits", "split_key"]

Split = dict[str, int]
Bounds = Mapping[str, tuple[int, int]]
# The only rank counts of some participants, rising.
Allow = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Proposal:
    """The next split to measure, and why this one, in one line."""

    split: Split
    reason: str
    #: Index of the small mesh of the study that the run is on; None for the case itself.
    mesh: int | None = None


@dataclass(frozen=True)
class FixedDesign:
    """Splits fixed beforehand, measured in order."""

    splits: tuple[Split, ...]
    #: Given for each of them.
    reason: str
    conclusion: None = None

    @property
    def total(self) -> int:
        """Number of splits."""
        return len(self.splits)

    def ask(self, tried: Collection[Mapping[str, int]]) -> Proposal | None:
        """Return the first split that is not among ``tried``, runs that failed in this call included, or None."""
        known = {split_key(split) for split in tried}
        for number, split in enumerate(self.splits, start=1):
            if split_key(split) not in known:
                return Proposal(dict(split), f"{self.reason} {number} of {self.total}")
        return None


def split_key(split: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Return a hashable form of a split that does not depend on the order of the participants."""
    return tuple(sorted(split.items()))


def allowed_counts(
    constraints: Constraints, names: Sequence[str], budget: int, lowest: Mapping[str, int], highest: Mapping[str, int]
) -> dict[str, list[int]]:
    """List the rank counts of each participant that its bounds and the constraints leave."""
    check_names(constraints, dict.fromkeys(names, ()))
    limits = Limits(budget, lowest, highest, constraints)
    counts = {name: limits.counts(name).tolist() for name in names}
    if (needed := sum(each[0] for each in counts.values())) > budget:
        raise InfeasibleError(
            f"expected a budget of {plural(needed, 'rank')} or more for the fewest that are allowed, found {budget}"
        )
    return counts


def allowed_splits(splits: NDArray[np.int64], names: Sequence[str], allow: Allow) -> NDArray[np.int64]:
    """Round ranks down to counts that are allowed, or up to the first of them; shape (k, participants)."""
    columns = splits.T.copy()
    for column, name in zip(columns, names, strict=True):
        if name in allow:
            counts = np.asarray(allow[name], dtype=np.int64)
            column[:] = counts[np.maximum(np.searchsorted(counts, column, side="right") - 1, 0)]
    return np.asarray(columns.T)
