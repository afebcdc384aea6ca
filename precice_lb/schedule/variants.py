"""Programs of all participants, each variant with its weight, evaluated for arrays of costs per time window."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.exceptions import ScheduleError
from precice_lb.schedule.graph import EventGraph
from precice_lb.schedule.program import Program
from precice_lb.schedule.replay import replay

__all__ = ["Variants", "rows_of"]

Floats = NDArray[np.float64]

# Cost vectors evaluated at once: enough for speed, little enough for memory.
_CHUNK = 8192


class Variants:
    """What programs make of costs of shape (batch, participants), in seconds per time window."""

    def __init__(
        self, variants: Sequence[tuple[float, Mapping[str, Program]]], iterations: Mapping[str, float]
    ) -> None:
        self._variants = [(weight, programs, EventGraph(programs)) for weight, programs in variants]
        self.names = tuple(variants[0][1])
        self._per_iteration = np.array([1.0 / iterations[name] for name in self.names])

    def seconds(self, rows: Floats, participant: str | None = None) -> Floats:
        """Steady seconds per window, shape (batch,), of the coupling or of one participant."""
        rows = rows * self._per_iteration
        result = np.zeros(len(rows))
        for weight, _, graph in self._variants:
            within = None if participant is None else graph.upstream[participant]
            for begin in range(0, len(rows), _CHUNK):
                part = slice(begin, begin + _CHUNK)
                result[part] += weight * graph.window_seconds(rows[part], within)
        return result

    def critical_cycle(self, row: Floats) -> tuple[str, ...]:
        """Participants that set the window time of costs of shape (participants,), by the variant of most weight."""
        return max(self._variants, key=lambda variant: variant[0])[2].critical_cycle(row * self._per_iteration)

    def ends(self, rows: Floats, shape: tuple[int, ...]) -> Floats:
        """Completion time of each window for costs of each, rows of a shape (..., windows)."""
        columns = [row.reshape(shape) for row in (rows * self._per_iteration).T]
        return self._replay([partial(_of_window, column) for column in columns], shape[-1], None)

    def mean_seconds(self, rows: Floats, factors: Sequence[Floats], skip: int) -> Floats:
        """Mean seconds per window, shape (batch,), where costs vary by factors of each participant in each window."""
        rows, windows = rows * self._per_iteration, len(factors[0])
        scaled = [partial(_scaled, rows[:, i], each) for i, each in enumerate(factors)]
        # One window more, since nobody waits for what follows the last one.
        ends = self._replay(scaled, windows + 1, [skip - 1, windows - 1] if skip else [windows - 1])
        return np.asarray((ends[:, -1] - ends[:, 0] if skip else ends[:, 0]) / (windows - skip), dtype=np.float64)

    def _replay(self, costs: Sequence[Callable[[int], Floats]], windows: int, wanted: Sequence[int] | None) -> Floats:
        named = dict(zip(self.names, costs, strict=True))
        return np.asarray(sum(w * replay(programs, named, windows, wanted) for w, programs, _ in self._variants))


def rows_of(names: Sequence[str], costs: Mapping[str, ArrayLike]) -> tuple[Floats, tuple[int, ...]]:
    """Check costs, and give them as rows of shape (batch, participants), with the shape to give back."""
    if set(costs) != set(names):
        raise ScheduleError(f"expected costs of {', '.join(names)}, found {', '.join(costs) or 'none'}")
    arrays = np.broadcast_arrays(*(np.asarray(costs[name], dtype=np.float64) for name in names))
    rows = np.stack([array.ravel() for array in arrays], axis=1)
    if not np.all(np.isfinite(rows) & (rows >= 0)):
        bad = names[int(np.argwhere(~(np.isfinite(rows) & (rows >= 0)))[0, 1])]
        raise ScheduleError(f'expected finite costs that are not negative, found others for "{bad}"')
    return rows, arrays[0].shape


def _of_window(column: Floats, window: int) -> Floats:
    return np.asarray(column[..., window])


def _scaled(column: Floats, factors: Floats, window: int) -> Floats:
    return np.asarray(column * factors[window % len(factors)])
