"""Time windows of one case with several first guesses, window by window: what each saves, and which one to use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset.series import LEAST_WINDOWS, margin_of
from precice_lb.plain import plain
from precice_lb.plural import plural

__all__ = ["AUTO", "CHANCE", "HOLD", "NONE", "Change", "GuessComparison", "GuessRun"]

NONE, HOLD, AUTO = "none", "hold", "auto"
"""A plain run; preCICE's own guess, the last value, in the changed variables; the one that judges itself."""
CHANCE = 0.05
"""That any of the guesses compared seems to change something by how windows differ alone."""

_Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GuessRun:
    """The run with one predictor, ``none`` for the plain one; where it failed, why, and no windows."""

    predictor: str
    #: Where its campaign lives.
    directory: Path
    error: str | None = None
    #: Completed time windows, warm-up included, with their coupling iterations and wall seconds.
    windows: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    iterations: _Values = field(default_factory=lambda: np.empty(0))
    seconds: _Values = field(default_factory=lambda: np.empty(0))
    #: Windows that ended without convergence; None where preCICE's log of iterations does not tell.
    not_converged: int | None = None
    #: Cores of this machine that other programs kept busy meanwhile, where that is known.
    other_load: float | None = None


@dataclass(frozen=True)
class Change:
    """A mean over windows less that of the same windows of another run, relative to that one's."""

    mean: float
    #: How far that may be from the mean over many more windows.
    margin: float

    @property
    def below(self) -> bool:
        """Whether it is less beyond the margin."""
        return self.mean + self.margin < 0

    @property
    def above(self) -> bool:
        """Whether it is more beyond the margin."""
        return self.mean - self.margin > 0

    def __str__(self) -> str:
        margin = f"± {100 * self.margin:.1f} %" if math.isfinite(self.margin) else "± unknown"
        return f"{100 * self.mean:+.1f} % {margin}"


@dataclass(frozen=True, eq=False)
class GuessComparison:
    """Runs over the same windows, the plain one first."""

    runs: Sequence[GuessRun]
    warmup_windows: int
    #: The patched one, of all runs but the first.
    configuration: Path

    @property
    def others(self) -> list[GuessRun]:
        """Runs with a first guess that ended well."""
        return [run for run in self.runs[1:] if run.error is None]

    def steady(self, run: GuessRun) -> NDArray[np.bool_]:
        """Which of a run's windows come after the warm-up."""
        return run.windows > self.warmup_windows

    def iterations(self, run: GuessRun, other: GuessRun | None = None) -> Change | None:
        """Compare iterations per window with those of another run, by default the plain one; None where one failed."""
        return self._change(run, other or self.runs[0], run.iterations, (other or self.runs[0]).iterations)

    def seconds(self, run: GuessRun) -> Change | None:
        """Compare seconds per window with those of the plain run; None where one of them failed."""
        return self._change(run, self.runs[0], run.seconds, self.runs[0].seconds)

    def _change(self, run: GuessRun, other: GuessRun, values: _Values, others: _Values) -> Change | None:
        if run.error is not None or other.error is not None:
            return None
        _, mine, theirs = np.intersect1d(
            run.windows[self.steady(run)], other.windows[self.steady(other)], return_indices=True
        )
        differences = values[self.steady(run)][mine] - others[self.steady(other)][theirs]
        level = float(others[self.steady(other)][theirs].mean())
        # Each of them may seem to be the one.
        chance = CHANCE / max(len(self.others), 1)
        return Change(float(differences.mean()) / level, margin_of(differences, chance) / level)

    @property
    def recommended(self) -> str | None:
        """What to set for production; None for nothing."""
        return self._judged[0]

    @property
    def verdict(self) -> str:
        """That in a sentence, with why."""
        return self._judged[1]

    @cached_property
    def _judged(self) -> tuple[str | None, str]:
        plain_run, others = self.runs[0], self.others
        unset = "leave PRECICE_LB_GUESS unset"
        if plain_run.error is not None:
            return None, "The run without a guess failed: there is nothing to compare the others with."
        if not others:
            return None, f"No run with a first guess ended well: {unset}."
        steady = int(self.steady(plain_run).sum())
        if steady < LEAST_WINDOWS:
            return None, (
                f"{plural(steady, 'window')} after warm-up cannot tell a difference from noise, which takes "
                f"{LEAST_WINDOWS} at least: give more (--windows)."
            )
        # The last value needs no prediction: where it seems to save something, that is no merit of a guess.
        predicted = [run for run in others if run.predictor != HOLD]
        converging = [run for run in predicted if not _more(run.not_converged, plain_run.not_converged)]
        pays = [run for run in converging if (change := self.iterations(run)) and change.below]
        if not pays:
            return None, f"No first guess pays: {self._least(converging or predicted)}; {unset}."
        best = self._best(pays)
        iterations, seconds = self.iterations(best), self._judged_seconds(best)
        found = f"iterations per window {iterations}, seconds {seconds} against none"
        if seconds is not None and seconds.below:
            return best.predictor, (
                f"Set PRECICE_LB_GUESS={best.predictor} for all participants, with {self.configuration} as their "
                f"configuration: {found}."
            )
        if seconds is not None and seconds.above:
            return None, f"{best.predictor} needs fewer iterations, but its windows take longer ({found}): {unset}."
        return None, (
            f"{best.predictor} needs fewer iterations, but what that is in seconds is within the noise of the windows "
            f"({found}): give more windows (--windows), on a machine that does nothing else."
        )

    def _judged_seconds(self, run: GuessRun) -> Change | None:
        """Compare seconds, with a margin of what the machine alone did to the last value, which iterates as often."""
        seconds = self.seconds(run)
        hold = next((each for each in self.others if each.predictor == HOLD), None)
        iterations, control = (self.iterations(hold), self.seconds(hold)) if hold else (None, None)
        if seconds is None or control is None or iterations is None or iterations.below or iterations.above:
            return seconds
        return Change(seconds.mean, max(seconds.margin, abs(control.mean)))

    def _best(self, pays: Sequence[GuessRun]) -> GuessRun:
        """Return the one with the fewest iterations, or ``auto``, which judges itself, where that is noise."""
        best = min(pays, key=lambda run: float(run.iterations[self.steady(run)].mean()))
        for run in pays:
            if run.predictor == AUTO and (change := self.iterations(run, best)) is not None and not change.above:
                return run
        return best

    def _least(self, runs: Sequence[GuessRun]) -> str:
        """Say how many iterations the best of those needs that do not pay."""
        if not runs:
            return "only the last value was tried"
        best = min(runs, key=lambda run: float(run.iterations[self.steady(run)].mean()))
        change = self.iterations(best)
        if _more(best.not_converged, self.runs[0].not_converged):
            return f"with {best.predictor}, more windows end without convergence than with none"
        noise = "" if change is None or change.above else ", within the noise of the windows"
        return f"the best, {best.predictor}, needs {change} iterations per window{noise}"

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as JSON-ready values; what is unknown is None."""
        rows = []
        for run in self.runs:
            steady = self.steady(run)
            iterations, seconds = self.iterations(run), self.seconds(run)
            known = run.error is None
            rows.append(
                {
                    "predictor": run.predictor,
                    "error": run.error,
                    "directory": str(run.directory),
                    "windows": int(steady.sum()),
                    "iterations_per_window": float(run.iterations[steady].mean()) if known else None,
                    "iterations": int(run.iterations.sum()) if known else None,
                    "iterations_change": iterations,
                    "seconds_per_window": float(run.seconds[steady].mean()) if known else None,
                    "seconds_change": seconds,
                    "not_converged": run.not_converged,
                    "other_load": run.other_load,
                }
            )
        found = {"runs": rows, "recommended": self.recommended, "verdict": self.verdict}
        case = {"warmup_windows": self.warmup_windows, "configuration": str(self.configuration)}
        values: dict[str, Any] = plain({**case, **found})
        return values


def _more(count: int | None, other: int | None) -> bool:
    return count is not None and other is not None and count > other
