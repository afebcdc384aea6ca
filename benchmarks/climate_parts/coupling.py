"""Who does what in a simulated day, and how long it takes on how many ranks.

The shape is that of D. Kim, J. W. Larson, K. Chiu, Automatic performance prediction for load-balancing coupled models,
2013, section VI: a coupler (cpl) with an atmosphere (atm), land and ice, which it meets every hour, and an ocean (ocn),
which it meets once a day; 20, 60 and 20 % of each load at three places. Their times came from a climate model on a
machine of 2003 and are not published; those here are made so that their reference split (16, 64, 80, 16, 32) takes
about their 22 s per day.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["HOURS", "NAMES", "REFERENCE", "Step", "program", "seconds_per_day"]

HOURS = 24
NAMES = ("cpl", "atm", "ocn", "land", "ice")
REFERENCE = {"cpl": 16, "atm": 64, "ocn": 80, "land": 16, "ice": 32}
LOADS = (0.2, 0.6, 0.2)

_SECONDS = {
    "cpl": ((4, 14.0), (8, 8.0), (16, 5.0), (32, 3.6), (64, 3.0)),
    "atm": ((8, 76.0), (16, 41.0), (32, 23.0), (64, 13.5), (128, 8.6)),
    "ocn": ((10, 140.0), (20, 72.0), (40, 38.0), (80, 21.5), (160, 13.0)),
    "land": ((2, 14.0), (4, 7.5), (8, 4.2), (16, 2.6), (32, 1.9)),
    "ice": ((4, 24.0), (8, 13.0), (16, 7.6), (32, 4.8), (64, 3.5)),
}


class Step(NamedTuple):
    """A part of the day's load, or a meeting in which each side waits for the other (a synchronous send)."""

    kind: Literal["load", "meet"]
    share: float = 0.0
    partners: tuple[str, ...] = ()


def program(name: str) -> list[Step]:
    """List the steps of one constituent in a day."""
    if name == "ocn":
        first, second, third = (Step("load", share) for share in LOADS)
        return [first, Step("meet", partners=("cpl",)), second, Step("meet", partners=("cpl",)), third]
    first, second, third = (Step("load", share / HOURS) for share in LOADS)
    if name != "cpl":
        return [first, Step("meet", partners=("cpl",)), second, Step("meet", partners=("cpl",)), third] * HOURS
    steps = []
    for hour in range(HOURS):
        steps.append(first)
        if hour == 0:
            steps.append(Step("meet", partners=("ocn",)))
        # Data for land and ice go out together, and theirs are awaited together.
        steps += [Step("meet", partners=("land", "ice")), second, Step("meet", partners=("atm",))]
        steps += [Step("meet", partners=("land", "ice")), Step("meet", partners=("atm",))]
        if hour == HOURS - 1:
            steps.append(Step("meet", partners=("ocn",)))
        steps.append(third)
    return steps


def seconds_per_day(name: str, ranks: ArrayLike) -> NDArray[np.float64]:
    """Compute seconds of a constituent per day: linear between the points, perfect below them, constant above."""
    counts = np.asarray(ranks, dtype=np.float64)
    known, seconds = np.array(_SECONDS[name]).T
    return np.asarray(np.interp(counts, known, seconds) * np.maximum(known[0] / counts, 1.0))
