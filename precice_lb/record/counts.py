"""What the solver says that its rank holds: how many cells of each kind, for learning what they cost."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.record.notes import warn_once
from precice_lb.store.schema import COUNT_DTYPE, NAME_BYTES
from precice_lb.store.writer import raised_elsewhere

_MOST_NAMES = 1000
_NO_ROWS: NDArray[np.void] = np.empty(0, dtype=COUNT_DTYPE)


class Counts:
    """Numbers of features since the last flush; ``names`` are what column ``name`` of the rows counts, from 0."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._latest: dict[str, tuple[int, float]] = {}
        self._new: list[tuple[int, int, float]] = []

    def take(self, feature: Any, number: Any, call: int) -> None:
        """Take how much of a feature the rank holds from the ``call``-th ``advance`` since the last flush on."""
        try:
            name = feature.decode("utf-8", "replace") if isinstance(feature, bytes) else feature
            if not isinstance(name, str) or not name.strip("\0"):
                raise TypeError(f"expected the name of a feature, found {feature!r}")
            name = name.encode("utf-8", "replace")[:NAME_BYTES].decode("utf-8", "ignore").rstrip("\0")
            count = float(number)
            if not (math.isfinite(count) and count >= 0):
                raise ValueError(f"expected how much of {name!r} this rank holds, found {number!r}")
            at, latest = self._latest.get(name, (len(self.names), None))
            if latest == count:
                return
            if at == _MOST_NAMES:
                raise ValueError(f"expected at most {_MOST_NAMES} features, found {name!r} as a further one")
        except Exception as error:
            # A signal handler's exception is the solver's, and none of ours.
            if raised_elsewhere(error):
                raise
            warn_once(f"a call of count() is ignored: {error}")
            return
        if at == len(self.names):
            self.names.append(name)
        self._latest[name] = at, count
        self._new.append((call, at, count))

    def rows(self, windows: NDArray[np.int64]) -> NDArray[np.void]:
        """Return rows of `COUNT_DTYPE` since the last call, given the time window of each call of ``advance``."""
        if not self._new:
            return _NO_ROWS
        rows = np.array(self._new, dtype=COUNT_DTYPE)
        rows["window"] = windows[rows["window"]]
        self._new.clear()
        return rows
