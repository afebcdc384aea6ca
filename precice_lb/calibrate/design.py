"""Which splits a campaign measures.

A design is asked for the next split and answers with a proposal or with None. `FixedDesign` works off a list.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Allow", "Bounds", "Design", "FixedDesign", "Proposal", "Split", "allowed_splits", "split_key"]

Split = dict[str, int]
Bounds = Mapping[str, tuple[int, int]]
# The only rank counts of some participants, rising.
Allow = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Proposal:
    """The next split to measure.

    Attributes
    ----------
    split : dict of str to int
        Ranks per participant.
    reason : str
        Why this one, in one line.
    mesh : int or None
        Position of the smaller mesh to run it on; None for the case itself.
    """

    split: Split
    reason: str
    #: Index of the small mesh of the study that the run is on; None for the case itself.
    mesh: int | None = None


class Design(Protocol):
    """Chooses what to measure next from what has been tried."""

    @property
    def total(self) -> int:
        """Largest number of runs this design can still ask for, finished ones included."""

    @property
    def conclusion(self) -> str | None:
        """Why the last answer was None, where there is something to say."""

    def ask(self, tried: Collection[Mapping[str, int]]) -> Proposal | None:
        """Return the next split, or None when nothing more is worth a run.

        Parameters
        ----------
        tried : collection of mapping from participant to int
            The split of every run that ended well and of those that failed in this call.
        """


@dataclass(frozen=True)
class FixedDesign:
    """Splits fixed beforehand, measured in order.

    Attributes
    ----------
    splits : tuple of dict of str to int
        Ranks per participant.
    reason : str
        Given for each of them.
    conclusion : str or None
        Why it ends when all are measured.
    """

    splits: tuple[Split, ...]
    reason: str
    conclusion: str | None = None

    @property
    def total(self) -> int:
        """Number of splits."""
        return len(self.splits)

    def ask(self, tried: Collection[Mapping[str, int]]) -> Proposal | None:
        """Return the first split that is not among ``tried``, or None.

        Parameters
        ----------
        tried : collection of mapping from participant to int
            Splits of the runs that ended well and of those that failed in this call.
        """
        known = {split_key(split) for split in tried}
        for number, split in enumerate(self.splits, start=1):
            if split_key(split) not in known:
                return Proposal(dict(split), f"{self.reason} {number} of {self.total}")
        return None


def split_key(split: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Return a hashable form of a split that does not depend on the order of the participants."""
    return tuple(sorted(split.items()))


def allowed_splits(splits: NDArray[np.int64], names: Sequence[str], allow: Allow) -> NDArray[np.int64]:
    """Round ranks down to counts that are allowed, or up to the first of them; shape (k, participants)."""
    columns = splits.T.copy()
    for column, name in zip(columns, names, strict=True):
        if name in allow:
            counts = np.asarray(allow[name], dtype=np.int64)
            column[:] = counts[np.maximum(np.searchsorted(counts, column, side="right") - 1, 0)]
    return np.asarray(columns.T)
