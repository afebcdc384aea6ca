"""Which predictor makes the next first guess, and whether it is wanted: ``auto`` tries, and counts iterations."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from precice_lb.guess.history import History
from precice_lb.guess.predictors import PREDICTORS, Predictor

Array = NDArray[np.float64]

MODES = ("auto", *PREDICTORS)
"""What may be asked for."""

_CANDIDATES = ("linear", "quadratic", "periodic", "reduced")
# Windows over which errors of predictions are compared.
_RECENT = 8

# Of `Guard`, in windows: to hold at first, of these not counted, to predict before the first verdict, to hold after a
# bad one, and to predict before a probe. Then which share of hold's iterations predictions may take at most.
_START, _SETTLED, _TRIAL, _PAUSE, _PROBE = 7, 3, 4, 8, 48
_GAIN = 0.93
# After fewer windows predictions are not wanted any more if they have cost so much of a window more than hold does.
_LOSS = 0.5


class Guesser:
    """Predicts one field of one rank, by the predictor asked for or the one whose predictions have been best.

    ``initial`` is what the field starts from, where that is known.

    Attributes
    ----------
    name : str
        Predictor that made the first guess of the last converged time window.
    error : float
        Norm of what that guess was wrong by, as a share of what the last value would have been wrong by; NaN where
        there is none.
    """

    def __init__(self, mode: str, initial: Array | None = None) -> None:
        names = _CANDIDATES if mode == "auto" else (mode,)
        self._predictors: dict[str, Predictor] = {name: PREDICTORS[name]() for name in names}
        self._compares = mode == "auto"
        self._best = "hold" if self._compares else mode
        self._history = History()
        if initial is not None:
            self._history.add(initial)
        # Of each predictor: errors of late, and what it has predicted for the current window.
        self._errors: dict[str, list[float]] = {name: [] for name in names}
        self._predicted: dict[str, Array] = {}
        # Who made this window's first guess and which, and the same of the next one.
        self._started: tuple[str, Array | None] = ("hold", None)
        self._proposed: tuple[str, Array | None] = ("hold", None)
        self.name, self.error = "hold", math.nan

    def propose(self, value: Array, *, wanted: bool) -> Array:
        """Return the first guess of the next time window, if this one ends with ``value``: a prediction or just it."""
        name = self._best if wanted else "hold"
        guess = value if name == "hold" else self._predictors[name].predict(self._history, value)
        if not np.all(np.isfinite(guess)):
            raise ArithmeticError(f"expected finite predictions of {name}, found others")
        self._proposed = name, guess
        return guess

    def converged(self, value: Array, *, fit: bool) -> None:
        """Take a converged value, judge predictions by it, and choose a predictor; ``fit`` is whether all learn."""
        last = self._history.last
        self.name, guess = self._started
        self._started = self._proposed
        scale = math.nan if last is None else float(np.linalg.norm(value - last))
        self.error = math.nan if guess is None or not scale > 0.0 else float(np.linalg.norm(value - guess)) / scale
        if self._compares:
            for name, predicted in self._predicted.items():
                error = float(np.linalg.norm(value - predicted)) / scale if scale > 0.0 else 1.0
                self._errors[name] = [*self._errors[name][1 - _RECENT :], error]
            self._predicted = {name: each.predict(self._history, value) for name, each in self._predictors.items()}
            means = {name: float(np.mean(errors)) for name, errors in self._errors.items() if errors}
            self._best = min(means, key=means.__getitem__, default="hold")
        self._history.add(value)
        if fit:
            for predictor in self._predictors.values():
                predictor.fit(self._history)

    def give_up(self) -> None:
        """Hold from now on."""
        self._predictors, self._predicted, self._errors, self._compares = {}, {}, {}, False
        self._best, self._proposed = "hold", ("hold", None)


class Guard:
    """Decides, by counting coupling iterations alone, whether a time window starts from a prediction.

    Every rank of every participant counts the same, so all decide alike without a word. It holds at first, which tells
    how many iterations a window takes without predictions; then it predicts, as long as windows take fewer, with a
    window of hold now and then to see whether that still is so. Where they do not take fewer, it holds again, three
    times as long each time. What a window is to start from has been sent when the one before it ends, so a decision is
    of the next but one.
    """

    def __init__(self) -> None:
        self._baseline = 0.0
        self._holds: list[int] = []
        self._guesses: list[int] = []
        # Windows still to hold, how many the next time, and windows of predictions before the next probe.
        self._left, self._pause, self._probe = _START, _PAUSE, _PROBE
        self._probing = False

    def count(self, guessed: bool, iterations: int) -> None:
        """Take a converged window's iterations."""
        if not guessed:
            self._holds.append(iterations)
            if self._probing:
                self._probed(iterations)
            else:
                self._baseline = float(np.mean(self._holds[_SETTLED:] or self._holds))
        elif self._left <= 0:
            self._guesses.append(iterations)
            count = len(self._guesses)
            lost = sum(self._guesses) - count * self._baseline if count < _TRIAL else 0.0
            if lost > _LOSS * self._baseline or (count >= _TRIAL and self._mean() > _GAIN * self._baseline):
                self._hold(self._pause)
                self._pause *= 3
            elif count % self._probe == 0:
                self._left, self._probing = 1, True
                self._probe *= 2

    def wants(self) -> bool:
        """Whether the window after the current one is to start from a prediction; to be asked once in each."""
        self._left -= 1
        return self._left < 0

    def _probed(self, iterations: int) -> None:
        """Go on predicting, unless the window that held took no more iterations than predictions do."""
        self._probing = False
        if iterations <= self._mean():
            self._hold(_START)

    def _hold(self, windows: int) -> None:
        self._left, self._holds, self._guesses, self._probing = windows, [], [], False

    def _mean(self) -> float:
        """Return the mean iterations of late with predictions."""
        return float(np.mean(self._guesses[-_RECENT:]))
