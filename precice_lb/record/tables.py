"""Names and numbers that a solver gives besides its calls, running sums, and notes to it."""

from __future__ import annotations

import contextlib
import math
import os
import sys
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from precice_lb.names import say
from precice_lb.store.columns import stored_name

_MOST_NAMES = 1000


class Names(dict[str | bytes, int]):
    """Numbers from 0 of names that rows count; -1 of those that are one too many: they would be kept for ever.

    ``texts`` are the names as a store has them, in this order.
    """

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what
        self._texts: dict[str, int] = {}

    @property
    def texts(self) -> tuple[str, ...]:
        """All names so far."""
        return tuple(self._texts)

    def __missing__(self, name: str | bytes) -> int:
        text = stored_name(name.decode("utf-8", "replace") if isinstance(name, bytes) else name)
        if text not in self._texts and len(self._texts) == _MOST_NAMES:
            warn_once(f"{self._what} are recorded for the first {_MOST_NAMES} names only")
            return -1
        self[name] = self._texts.setdefault(text, len(self._texts))
        return self[name]


def checked_count(feature: Any, number: Any) -> tuple[str, float] | None:
    """Return the name of a feature and how much of it a rank holds; None, and one warning, where it is no such call."""
    name = feature.decode("utf-8", "replace") if isinstance(feature, bytes) else feature
    if not isinstance(name, str) or not name.strip("\0"):
        _ignore_count("the name of a feature", feature)
        return None
    try:
        count = float(number)
    # Code of any package may run here, and raise what it likes.
    except Exception:
        _ignore_count("how much of a feature this rank holds", number, name)
        return None
    if not (math.isfinite(count) and count >= 0):
        _ignore_count("how much of a feature this rank holds, at least 0", count, name)
        return None
    return name, count


def _ignore_count(expected: str, found: Any, feature: str = "") -> None:
    """Warn of a call of ``count``, once of each kind."""
    text = repr(found)[:80] if type(found) in (str, bytes, int, float, type(None)) else f"a {type(found).__name__}"
    of = f" of {feature[:80]!r}" if feature else ""
    warn_once(f"a call of count() is ignored: expected {expected}, found {text}{of}", kind=expected)


NO_SUMS = np.zeros(4, np.int64)
"""`sums` of no rows."""


def sums(rows: NDArray[np.void]) -> NDArray[np.int64]:
    """Sum up rows of ``advance``: complete time windows, calls of ``advance``, and ns of solve and ``advance``."""
    windows = np.count_nonzero(rows["window_complete"])
    return np.array([windows, len(rows), rows["solve_ns"].sum(), rows["advance_ns"].sum()])


def summary(summed: NDArray[np.int64]) -> dict[str, float]:
    """Return what ``timing_summary`` of the participant returns."""
    windows, advances, *times = summed.tolist()
    result: dict[str, float] = {"windows": windows, "advances": advances}
    for name, time in zip(("solve", "advance"), times, strict=True):
        result[f"{name}_seconds"] = time * 1e-9 if advances else math.nan
        result[f"{name}_share"] = time / sum(times) if sum(times) > 0 else math.nan
    return result


_said: set[str] = set()


def warn_once(message: str, kind: str = "") -> None:
    """Print a warning, the first of its kind (or of these words) in this process.

    A solver that turns Python's own warnings into errors would die of those.
    """
    if (kind or message) not in _said:
        _said.add(kind or message)
        note(f"warning: {message}", sys.stderr)


def note(message: str, stream: TextIO | None) -> None:
    """Print a line under the name of the tool; nothing happens if the stream is closed or full."""
    if stream is not None:
        with contextlib.suppress(Exception):
            say(f"precice-lb: {message}", stream)


def setting(name: str, *choices: str) -> str:
    """Read an environment variable; the first choice where it is not set, or set to something else."""
    found = os.environ.get(name) or choices[0]
    if found in choices:
        return found
    warn_once(f"{name} is ignored: expected {' or '.join(sorted(filter(None, choices)))}, found {found!r}")
    return choices[0]
