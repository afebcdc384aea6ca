"""First guesses of time windows: which predictor made each, what it took, and how many iterations followed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

from precice_lb.store.columns import Array, Integers, Rows
from precice_lb.store.records import RankFile

GUESSED = np.dtype([("name", "U32"), ("seconds", "<f8"), ("error", "<f8")])
"""One row per time window: the predictor that made its first guess (empty where none did), the seconds of the rank that
spent most on it, and what it was wrong by over what the last value would have been wrong by, mean over the ranks."""


@dataclass(frozen=True)
class Predictor:
    """What the windows have in common that began with a guess of one predictor; NaN for what is not known."""

    name: str
    windows: int
    # Mean coupling iterations per window.
    iterations: float
    # Mean seconds per window spent on guessing, and mean wall seconds of the window.
    cost_seconds: float
    window_seconds: float
    # Median of `GUESSED`'s.
    error: float


Columns: TypeAlias = tuple[Integers, Array, Array, Rows]
"""Of a participant's windows, shape (W,) each: number, coupling iterations, wall seconds and `GUESSED`."""


def mode_of(metadata: Iterable[Mapping[str, Any]]) -> str:
    """Name the first guess that the participants of a run were asked for; empty where none was."""
    return " + ".join(dict.fromkeys(each["guess"] for each in metadata if "guess" in each))


class Guesses:
    """What the ranks of a participant guessed for windows, rising."""

    def __init__(self, windows: Integers) -> None:
        self._windows = windows
        self._found = np.full(len(windows), np.array(("", np.nan, 0.0), dtype=GUESSED))
        self._errors = np.zeros(len(windows), dtype=np.int64)

    def add(self, store: RankFile) -> None:
        """Take the guesses of one rank."""
        names, rows = store.names("guesses"), store.rows("guesses")
        if not (names and len(self._windows)):
            return
        found, rows = self._found, rows[np.isin(rows["window"], self._windows)]
        at = np.searchsorted(self._windows, rows["window"])
        unnamed = found["name"][at] == ""
        found["name"][at[unnamed]] = np.array(names)[rows["name"][unnamed]]
        found["seconds"][at] = np.fmax(found["seconds"][at], rows["cost_ns"] * 1e-9)
        known = np.isfinite(rows["error"])
        found["error"][at[known]] += rows["error"][known]
        self._errors[at[known]] += 1

    @property
    def rows(self) -> Rows:
        """Rows of `GUESSED`."""
        found: Rows = self._found.copy()
        errors = self._errors
        found["error"] = np.divide(found["error"], errors, out=np.full(len(found), np.nan), where=errors > 0)
        return found


def predictors_of(participants: Sequence[Columns]) -> tuple[Predictor, ...]:
    """Sum up the windows of a run by predictor, those with the most windows first.

    Of participants that guess at the same time, in a parallel scheme, the one that takes longest counts; where their
    predictors differ, the window is one of both.
    """
    participants = [each for each in participants if (each[-1]["name"] != "").any()]
    if not participants:
        return ()
    windows = reduce(np.intersect1d, (numbers for numbers, *_ in participants))
    parts = [[column[np.searchsorted(each[0], windows)] for column in each[1:]] for each in participants]
    iterations, walls, guesses = (np.stack(columns) for columns in zip(*parts, strict=True))
    names = np.full(len(windows), "")
    for own in guesses["name"]:
        both = np.char.add(np.char.add(names, " + "), own)
        names = np.where((own == "") | (own == names), names, np.where(names == "", own, both))
    found = []
    for name in set(names.tolist()) - {""}:
        own = names == name
        errors = guesses["error"][:, own]
        known = errors[np.isfinite(errors)]
        found.append(
            Predictor(
                name,
                windows=int(own.sum()),
                iterations=float(iterations[:, own].max(axis=0).mean()),
                cost_seconds=float(np.fmax.reduce(guesses["seconds"][:, own]).mean()),
                window_seconds=float(np.fmax.reduce(walls[:, own]).mean()),
                error=float(np.median(known)) if len(known) else np.nan,
            )
        )
    return tuple(sorted(found, key=lambda each: (-each.windows, each.name)))
