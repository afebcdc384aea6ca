"""In which unit participants of a coupled run are compared: per period of coupled time, not window by window.

A period is the shortest coupled (simulated) time at whose end the windows of all schemes end together: one window
where all are equally long.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from precice_lb.exceptions import PreciceLBError
from precice_lb.plural import plural
from precice_lb.precice_xml import parse_configuration
from precice_lb.precice_xml.period import period_of
from precice_lb.store.records import RankFile

WINDOW = "time window"
_ITERATION = "coupling iteration"
_PLURALS = {WINDOW: "time windows", _ITERATION: "coupling iterations", "call of advance": "calls of advance"}


@dataclass(frozen=True)
class CoupledTime:
    """What one period is."""

    # Windows of each participant in it; 1 of those that are not named.
    windows: Mapping[str, int] = field(default_factory=dict)
    # In words, after "per".
    unit: str = WINDOW
    # Why participants cannot be compared, and the remedy; empty where they can.
    problem: str = ""

    def of(self, participant: str) -> int:
        """Time windows of a participant in one period."""
        return self.windows.get(participant, 1)

    def periods(self, participant: str, windows: int) -> int:
        """Periods that so many of its first windows lie in."""
        return -(-windows // self.of(participant))


def coupled_time(configuration: str, stores: Mapping[str, RankFile]) -> CoupledTime:
    """Find out of the configuration, and of what one rank of each participant recorded, what is alike."""
    units = {name: str(store.metadata.get("window_unit", WINDOW)) for name, store in stores.items()}
    time = _periods(configuration, stores)
    if set(units.values()) <= {WINDOW}:
        return time
    # Schemes iterate each for itself.
    if len(set(units.values())) == 1 and not time.windows and not _by_counts(stores).problem:
        return dataclasses.replace(time, unit=next(iter(units.values())))
    named = {unit: [name for name in units if units[name] == unit] for unit in dict.fromkeys(units.values())}
    counted = ", ".join(f"{' and '.join(names)} by {_PLURALS.get(unit, unit)}" for unit, names in named.items())
    logs = ", ".join(f"precice-{name}-iterations.log" for name in named.get(_ITERATION, ()))
    remedy = f"; put {logs} beside the profiling files, or give the precice-config.xml" if logs else ""
    return CoupledTime(problem=f"{counted}, which are not alike{remedy}")


def _periods(configuration: str, stores: Mapping[str, RankFile]) -> CoupledTime:
    """Count windows by the configuration, or, where that does not tell, by the time steps that were recorded."""
    try:
        period = period_of(parse_configuration(configuration))
    except PreciceLBError:
        lengths = {name: _length(store) for name, store in stores.items()}
        return _by_lengths(lengths) if all(length > 0 for length in lengths.values()) else _by_counts(stores)
    counts = {name: len(period.steps[name]) for name in stores if name in period.steps}
    return _of(counts, period.length)


def _by_lengths(lengths: Mapping[str, float]) -> CoupledTime:
    longest = max(lengths.values())
    counts = {name: longest / length for name, length in lengths.items()}
    if all(abs(count - round(count)) < 0.01 * count for count in counts.values()):
        return _of({name: round(count) for name, count in counts.items()}, longest)
    told = ", ".join(f"{length:.6g} of {name}" for name, length in lengths.items())
    return CoupledTime(problem=f"time windows are {told} long and do not end together; compare equally long ones")


def _length(store: RankFile) -> float:
    """Coupled time of a window, the median of the time steps that were recorded; NaN where none were."""
    rows = store.advances
    changes = (np.diff(rows["window"], prepend=0) != 0) | (np.diff(rows["iteration"], prepend=0) != 0)
    starts = np.flatnonzero(changes)
    if not len(starts):
        return math.nan
    lengths = np.add.reduceat(rows["computed_dt"], starts)[np.logical_or.reduceat(rows["window_complete"], starts)]
    return float(np.median(lengths)) if len(lengths) else math.nan


def _of(counts: Mapping[str, int], length: float) -> CoupledTime:
    if set(counts.values()) <= {1}:
        return CoupledTime()
    return CoupledTime(counts, "period" if math.isnan(length) else f"{length:.6g} of coupled time")


def _by_counts(stores: Mapping[str, RankFile]) -> CoupledTime:
    """Without a configuration: whoever came to the end together has as many windows, if these are alike."""
    ends = {name: int(s.advances["window"].max(initial=0)) for name, s in stores.items() if s.metadata["finished"]}
    if len(ends) < len(stores) or len(set(ends.values())) <= 1:
        return CoupledTime()
    told = ", ".join(f"{plural(count, 'window')} of {name}" for name, count in ends.items())
    return CoupledTime(problem=f"there are {told}, which are not alike; give the precice-config.xml (--config)")
