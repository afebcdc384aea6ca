"""Which time window and coupling iteration each ``advance`` belongs to, where no recorder counted them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import DataError

__all__ = ["WindowCounter", "find_iterations_log", "read_iterations_log"]

# preCICE 1 called time windows time steps.
_WINDOW, _ITERATIONS = ("TimeWindow", "Timesteps"), "Iterations"


def find_iterations_log(participant: str, directory: Path, roots: Iterable[Path]) -> Path | None:
    """Find ``precice-<Participant>-iterations.log``."""
    name = f"precice-{participant}-iterations.log"
    beside = directory / name
    if beside.is_file():
        return beside
    found = {path.resolve() for root in roots if root.is_dir() for path in root.rglob(name)}
    return found.pop() if len(found) == 1 else None


def read_iterations_log(path: Path) -> NDArray[np.int64]:
    """Read the coupling iterations of each completed time window."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise DataError(
            f"{path}: expected an iterations log of preCICE, found none that can be read ({error})"
        ) from None
    if not lines:
        return np.empty(0, dtype=np.int64)
    header = lines[0].split()
    window = next((header.index(name) for name in _WINDOW if name in header), None)
    if window is None or _ITERATIONS not in header:
        raise DataError(f"{path}: expected an iterations log of preCICE with the columns TimeWindow, Iterations")
    iterations = header.index(_ITERATIONS)
    counts: list[int] = []
    for number, line in enumerate(lines[1:], start=2):
        cells = line.split()
        # preCICE begins each line with its line break, so that only the number of cells says whether the last is whole.
        if number == len(lines) and len(cells) < len(header):
            break
        try:
            fine = len(cells) == len(header) and int(cells[window]) == len(counts) + 1 and int(cells[iterations]) > 0
        except ValueError:
            fine = False
        if not fine:
            raise DataError(
                f"{path}, line {number}: expected window {len(counts) + 1} and its iterations, "
                f"found {line.strip()[:60]!r}"
            )
        counts.append(int(cells[iterations]))
    return np.array(counts, dtype=np.int64)


class WindowCounter:
    """Counts time windows and iterations over the calls of ``advance`` of one rank.

    A call that exchanges nothing ends before its window does: a solver with smaller steps than the coupling. Every
    other call ends an iteration, and a window if the log says so; without a log every iteration is a window.
    """

    def __init__(self, iterations: NDArray[np.int64] | None = None) -> None:
        # Of each window, shape (W,).
        self._ends = None if iterations is None else np.cumsum(iterations)
        self.counted = 0

    def count(self, exchanges: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Count on: window and iteration of each call, and whether it ends its window, each of shape (calls,)."""
        ends = exchanges > 0
        before = self.counted + np.cumsum(ends) - ends
        self.counted += int(ends.sum())
        if self._ends is None:
            return before + 1, np.ones_like(before), ends
        window = np.searchsorted(self._ends, before, side="right")
        starts = np.concatenate([[0], self._ends])
        done = np.append(self._ends, np.iinfo(np.int64).max)[window] == before + 1
        return window + 1, before - starts[window] + 1, ends & done

    def fits(self, finalized: bool) -> bool:
        """Whether the log belongs to the calls that were counted."""
        if self._ends is None or not finalized:
            return True
        return self.counted == (int(self._ends[-1]) if len(self._ends) else 0)
