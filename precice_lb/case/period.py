"""After how much simulated time the windows of all coupling schemes end together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from precice_lb.case.config import Configuration
from precice_lb.exceptions import ScheduleError

#: More steps of one participant until all windows end together are refused: the sizes are then unrelated numbers.
_MAXIMUM_STEPS = 1000


@dataclass(frozen=True)
class Period:
    """The shortest simulated time at whose end the windows of all schemes end together."""

    # Simulated time that it is long; NaN where the first participants of all schemes set the size of windows.
    length: float
    # By scheme, the ends of its windows as parts of the period.
    scheme_ends: tuple[frozenset[Fraction], ...]
    # By participant, the ends of its time windows: those at which any of its schemes has one.
    steps: dict[str, tuple[Fraction, ...]]


def period_of(configuration: Configuration) -> Period:
    """Find the common period of all coupling schemes."""
    schemes = configuration.coupling_schemes
    exact = _exact([scheme.time_window_size for scheme in schemes if not scheme.window_size_from_first])
    denominator = math.lcm(*(size.denominator for size in exact.values()))
    period = Fraction(math.lcm(*(int(size * denominator) for size in exact.values())), denominator)
    # Where the first participant sizes windows, each step of it ends one.
    sizes = [period if scheme.window_size_from_first else exact[scheme.time_window_size] for scheme in schemes]
    if period / min(sizes, default=period) > _MAXIMUM_STEPS:
        several = ", ".join(f"{float(size):.12g}" for size in sorted(set(exact.values())))
        raise ScheduleError(
            f"{configuration.path}: expected time windows that end together within {_MAXIMUM_STEPS} steps, found sizes "
            f"{several}; give the coupling schemes time-window-sizes that are simple multiples of each other"
        )
    ends = [frozenset(k * size / period for k in range(1, int(period / size) + 1)) for size in sizes]

    def steps_of(name: str) -> frozenset[Fraction]:
        parts = (part for part, scheme in zip(ends, schemes, strict=True) if name in scheme.participants)
        return frozenset().union(*parts)

    # Schemes of method first-participant exchange at every step of their first participant.
    following = [index for index, scheme in enumerate(schemes) if scheme.window_size_from_first]
    before: list[frozenset[Fraction]] = []
    while before != ends:
        before = list(ends)
        for index in following:
            ends[index] = steps_of(schemes[index].participants[0])
    steps = {name: tuple(sorted(steps_of(name))) for name in configuration.participants}
    for index, scheme in enumerate(schemes):
        for name in scheme.participants if scheme.is_implicit else ():
            if set(steps[name]) != ends[index]:
                line = configuration.participants[name].line
                raise ScheduleError(
                    f'{configuration.path}:{line}: expected explicit time windows of participant "{name}" that are '
                    "whole multiples of its implicit ones, found others, which preCICE calls not well-defined; "
                    "change their time-window-size"
                )
    return Period(float(period) if exact else math.nan, tuple(ends), steps)


def _exact(sizes: list[float]) -> dict[float, Fraction]:
    """Sizes as written; what differs by rounding alone counts as equal."""
    exact: dict[float, Fraction] = {}
    for size in sorted(sizes):
        last = max(exact, default=None)
        exact[size] = exact[last] if last is not None and size - last <= 1e-9 * size else Fraction(repr(size))
    return exact
