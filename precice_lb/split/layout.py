"""How much of the machine participants occupy together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from precice_lb.split.constraints import SharedCores

__all__ = ["Layout"]

Integers = NDArray[np.int64]


class Layout:
    """Who stands beside whom and who takes turns: participants to what they occupy in all.

    Arrays of uses have shape (..., participants, kinds of resource).

    Parameters
    ----------
    names
        The participants, in the order of the second last axis.
    shared
        Groups that take turns on the same cores; everyone else has cores of its own.
    """

    def __init__(self, names: Sequence[str], shared: Sequence[SharedCores]) -> None:
        index = {name: i for i, name in enumerate(names)}
        grouped = {name for group in shared for name in group.members}
        #: Groups of turns of participants, by index; whoever shares with nobody is a group of one turn.
        self.groups: list[list[list[int]]] = [[[index[name] for name in turn] for turn in g.turns] for g in shared]
        self.groups += [[[index[name]]] for name in names if name not in grouped]

    def total(self, uses: Integers) -> Integers:
        """Resources occupied in all, shape (..., kinds)."""
        return np.asarray(sum(self._group(uses, turns) for turns in self.groups))

    def allowance(self, uses: Integers, capacity: Integers) -> Integers:
        """Tell what each participant could use at most while all others keep theirs, shaped like `uses`."""
        most = np.empty(np.broadcast_shapes(uses.shape, (1, len(capacity))), dtype=np.int64)
        slack = capacity - self.total(uses)
        for turns in self.groups:
            room = slack + self._group(uses, turns)
            for turn in turns:
                left = room - uses[..., turn, :].sum(axis=-2)
                for member in turn:
                    most[..., member, :] = left + uses[..., member, :]
        return most

    @staticmethod
    def _group(uses: Integers, turns: Sequence[Sequence[int]]) -> Integers:
        occupied: Integers = uses[..., turns[0], :].sum(axis=-2)
        for turn in turns[1:]:
            occupied = np.maximum(occupied, uses[..., turn, :].sum(axis=-2))
        return occupied
