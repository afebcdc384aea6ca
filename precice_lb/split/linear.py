"""The linear program over counts: shares of each participant's counts, rows of the window time, the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from precice_lb.split.layout import Layout
from precice_lb.split.problem import Curve

__all__ = ["Column", "Curves", "LinearProgram", "Tableau"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Curves = Mapping[str, Sequence[Curve]]
#: Participant, version and index on the curve.
Column = tuple[int, int, int]


@dataclass(frozen=True)
class Tableau:
    """Minimise ``cost @ x`` subject to ``upper @ x <= right`` and ``each @ x == 1``.

    The variables are the share of each column, what each group occupies of each kind of resource, and the window time;
    the lines of `upper` are the rows of the window time, the machine, and the turns of the groups. Seconds are in units
    of the program's scale, resources in units of the machine.

    Attributes
    ----------
    columns : list
        What each share is of.
    seconds, uses : ndarray
        Of each column, shape (columns,) and (columns, kinds).
    """

    columns: list[Column]
    seconds: Floats
    uses: Floats
    cost: Floats
    upper: Floats
    right: Floats
    each: Floats


class LinearProgram:
    """Builds the tableau for any choice of columns and rows.

    Parameters
    ----------
    curves, layout, capacity
        As for `minimax_split`.
    scale
        A window time of the right size, in seconds.
    """

    def __init__(self, curves: Curves, layout: Layout, capacity: Integers, scale: float) -> None:
        self.curves = [list(own) for own in curves.values()]
        self.layout, self.scale = layout, scale
        # A resource of which there is none needs no unit either.
        self.unit = np.maximum(capacity, 1).astype(np.float64)
        self.capacity = capacity / self.unit

    def tableau(self, columns: Sequence[Column], matrix: Floats) -> Tableau:
        """Build it for these columns and rows, the latter of shape (rows, participants)."""
        owner = np.array([i for i, _, _ in columns])
        seconds = np.array([self.curves[i][v].seconds[j] for i, v, j in columns]) / self.scale
        uses = np.stack([self.curves[i][v].uses[j] for i, v, j in columns]) / self.unit
        count, kinds = uses.shape
        pools = [g for g, turns in enumerate(self.layout.groups) if len(turns) > 1]
        width = count + len(pools) * kinds + 1
        work = np.zeros((len(matrix), width))
        work[:, :count] = matrix[:, owner] * seconds
        work[:, -1] = -1.0
        machine = np.zeros((kinds, width))
        turns: list[Floats] = []
        for g, group in enumerate(self.layout.groups):
            for turn in group:
                member = np.isin(owner, turn)
                for kind in range(kinds):
                    if g in pools:
                        pool = count + pools.index(g) * kinds + kind
                        line = np.zeros(width)
                        line[:count][member] = uses[member, kind]
                        line[pool] = -1.0
                        turns.append(line)
                        machine[kind, pool] = 1.0
                    else:
                        machine[kind, :count][member] = uses[member, kind]
        each = np.zeros((len(self.curves), width))
        each[owner, np.arange(count)] = 1.0
        cost = np.zeros(width)
        cost[-1] = 1.0
        right = np.concatenate((np.zeros(len(matrix)), self.capacity, np.zeros(len(turns))))
        return Tableau(list(columns), seconds, uses, cost, np.vstack([work, machine, *turns]), right, each)
