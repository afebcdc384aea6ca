"""How much of the machine participants occupy together: arrays of uses are (..., participants, kinds of resource)."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np
from numpy.typing import NDArray

from precice_lb.split.constraints import SharedCores

__all__ = ["Layout"]

Integers = NDArray[np.int64]


class Layout:
    """Who stands beside whom and who takes turns: participants to what they occupy in all."""

    def __init__(self, names: Sequence[str], shared: Sequence[SharedCores], capacity: Integers) -> None:
        #: Resources that there are, shape (kinds,).
        self.capacity = capacity
        index = {name: i for i, name in enumerate(names)}
        grouped = {name for group in shared for name in group.members}
        #: Groups of turns of participants, by index; whoever shares with nobody is a group of one turn.
        self.groups: list[list[list[int]]] = [[[index[name] for name in turn] for turn in g.turns] for g in shared]
        self.groups += [[[index[name]]] for name in names if name not in grouped]

    def total(self, uses: Integers) -> Integers:
        """Resources occupied in all, shape (..., kinds)."""
        return np.asarray(sum(self._group(uses, turns) for turns in self.groups))

    def with_capacity(self, capacity: Integers) -> Layout:
        """Give the same participants another machine."""
        other = copy(self)
        other.capacity = capacity
        return other

    def fits(self, uses: Integers) -> NDArray[np.bool_]:
        """Whether the machine holds so much, shape (...)."""
        return np.asarray((self.total(uses) <= self.capacity).all(axis=-1))

    def allowance(self, uses: Integers) -> Integers:
        """Tell what each participant could use at most while all others keep theirs, shaped like `uses`."""
        most = np.empty(np.broadcast_shapes(uses.shape, (1, len(self.capacity))), dtype=np.int64)
        slack = self.capacity - self.total(uses)
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
