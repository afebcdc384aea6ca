"""What coupled runs spent their time on: solve, mapping, wait and overhead per participant, and the load imbalance."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset import CoupledRun, ParticipantRun, load_imbalance
from precice_lb.report.text import SecondsUnit, percent, seconds_unit
from precice_lb.report.view import Grid

__all__ = ["QUANTITIES", "ParticipantSummary", "Quantity", "RunSummary", "summarise", "summary_csv"]

QUANTITIES = ("solve", "mapping", "wait", "overhead")
"""What a time window of a rank consists of."""

_NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Quantity:
    """Seconds per time window of one quantity over the ranks of a participant; NaN where not measured.

    Attributes
    ----------
    mean
        Mean over the ranks.
    slowest_rank, slowest
        The rank with the most seconds, and these.
    fastest_rank, fastest
        The rank with the fewest seconds, and these.
    share
        The mean over the participant's window time.
    """

    mean: float
    slowest_rank: int | None
    slowest: float
    fastest_rank: int | None
    fastest: float
    share: float

    @property
    def measured(self) -> bool:
        """Whether some rank measured it."""
        return not math.isnan(self.mean)


@dataclass(frozen=True)
class ParticipantSummary:
    """One participant in one run.

    Attributes
    ----------
    participant, ranks, windows
        Name, number of ranks, and number of time windows after warm-up.
    window_seconds, own_seconds, wait_seconds
        Mean wall time, median own time and mean wait per window; NaN where not measured.
    quantities
        By name, as in `QUANTITIES`.
    imbalance
        (max - min) / max of the ranks' busy time (solve, mapping and overhead, or solve alone where the others were
        not measured), over the ranks that receive data; NaN for one rank or where it cannot be told.
    silent_ranks
        Ranks that never wait although others do: they wait in their solver's next collective, which counts as solve.
    backend
        The coupling backend that ran.
    """

    participant: str
    ranks: int
    windows: int
    window_seconds: float
    own_seconds: float
    wait_seconds: float
    quantities: dict[str, Quantity]
    imbalance: float
    silent_ranks: tuple[int, ...]
    backend: str

    @property
    def not_measured(self) -> tuple[str, ...]:
        """Names of the quantities that were not measured."""
        return tuple(name for name, quantity in self.quantities.items() if not quantity.measured)


@dataclass(frozen=True)
class RunSummary:
    """One coupled run; ``imbalance`` is (max - min) / max of the participants' own seconds, NaN where unknown."""

    name: str
    warmup_windows: int
    participants: tuple[ParticipantSummary, ...]
    imbalance: float

    def grid(self, names: Mapping[str, str]) -> Grid:
        """Lay the run out as a table; ``names`` says how to write each participant's name."""
        unit = self._unit()
        rows: list[tuple[str, ...]] = []
        for each in self.participants:
            who = f"{names[each.participant]}, {each.ranks} rank{'s' * (each.ranks != 1)}"
            rows.append((who, "window", unit.number(each.window_seconds), "", "", ""))
            rows += [("", name, *_cells(unit, quantity, each.ranks)) for name, quantity in each.quantities.items()]
        windows = max(each.windows for each in self.participants)
        title = (
            f"Run {self.name}: time per time window, over {windows} windows after a warm-up of {self.warmup_windows}"
        )
        header = ("participant", "time", f"mean ({unit.symbol})", "share", "slowest rank", "fastest rank")
        return Grid(title, header, tuple(rows), (False, False, True, True, True, True))

    def notes(self, names: Mapping[str, str]) -> list[tuple[str, str]]:
        """Imbalances, and what was not measured with the remedy, as (key, text) pairs."""
        unit = self._unit()
        if len(self.participants) == 1:
            notes = [("load imbalance between participants", "only one participant was recorded")]
        elif math.isnan(self.imbalance):
            notes = [("load imbalance between participants", _NOT_MEASURED)]
        else:
            own = ", ".join(f"{names[each.participant]} {unit.text(each.own_seconds)}" for each in self.participants)
            notes = [("load imbalance between participants", f"{percent(self.imbalance)} (own time: {own})")]
        for each in self.participants:
            notes.append((f"load imbalance inside {names[each.participant]}", _inside(each)))
        for each in self.participants:
            if each.not_measured:
                key = f"{', '.join(each.not_measured)} of {names[each.participant]}"
                notes.append((key, f"{_NOT_MEASURED}, {_reason(each, self.warmup_windows)}"))
        return notes

    def _unit(self) -> SecondsUnit:
        return seconds_unit((each.window_seconds for each in self.participants), digits=5)

    def to_dict(self) -> dict[str, Any]:
        """Give the same as JSON-ready values; None where not measured."""
        return {
            "run": self.name,
            "warmup_windows": self.warmup_windows,
            "imbalance": _known(self.imbalance),
            "participants": {
                each.participant: {
                    "ranks": each.ranks,
                    "windows": each.windows,
                    "backend": each.backend,
                    "window_seconds": _known(each.window_seconds),
                    "own_seconds": _known(each.own_seconds),
                    "wait_seconds": _known(each.wait_seconds),
                    "imbalance": _known(each.imbalance),
                    "ranks_waiting_in_the_solver": list(each.silent_ranks),
                    "not_measured": list(each.not_measured),
                    **{name: _quantity_dict(quantity) for name, quantity in each.quantities.items()},
                }
                for each in self.participants
            },
        }


def summarise(runs: Sequence[CoupledRun]) -> list[RunSummary]:
    """Sum up coupled runs.

    Parameters
    ----------
    runs
        What `precice_lb.dataset.load_runs` gave.

    Returns
    -------
    list of RunSummary
        In the same order.
    """
    return [_run_summary(run) for run in runs]


def summary_csv(runs: Sequence[RunSummary]) -> str:
    """Write summaries as CSV: one row per run, participant and quantity, empty where not measured.

    Parameters
    ----------
    runs
        The summaries.

    Returns
    -------
    str
        Text with a header; times in seconds per time window.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    values = ("mean_seconds", "slowest_rank", "slowest_seconds", "fastest_rank", "fastest_seconds", "share")
    writer.writerow(["run", "participant", "ranks", "windows", "quantity", *values])
    for run in runs:
        for each in run.participants:
            head = [run.name, each.participant, each.ranks, each.windows]
            for name, quantity in each.quantities.items():
                writer.writerow([*head, name, *("" if v is None else v for v in _quantity_dict(quantity).values())])
            for name, seconds in (("own", each.own_seconds), ("window", each.window_seconds)):
                share = seconds / each.window_seconds
                writer.writerow([*head, name, _csv(seconds), "", "", "", "", _csv(share)])
    return buffer.getvalue()


def _csv(value: float) -> Any:
    return "" if math.isnan(value) else value


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _quantity_dict(quantity: Quantity) -> dict[str, Any]:
    return {
        "mean_seconds": _known(quantity.mean),
        "slowest_rank": quantity.slowest_rank,
        "slowest_seconds": _known(quantity.slowest),
        "fastest_rank": quantity.fastest_rank,
        "fastest_seconds": _known(quantity.fastest),
        "share": _known(quantity.share),
    }


def _run_summary(run: CoupledRun) -> RunSummary:
    parts = tuple(_participant_summary(part, run.steady(name)) for name, part in run.participants.items())
    return RunSummary(run.name, run.warmup_windows, parts, run.imbalance)


def _participant_summary(part: ParticipantRun, steady: NDArray[np.bool_]) -> ParticipantSummary:
    window = _mean(part.window_seconds[steady])
    by_name = dict(
        zip(QUANTITIES, (part.rank_solve, part.rank_mapping, part.rank_wait, part.rank_overhead), strict=True)
    )
    quantities = {name: _quantity(seconds, window) for name, seconds in by_name.items()}
    waits = np.nan_to_num(part.rank_wait)
    silent = np.flatnonzero((waits <= 0.0) & np.isfinite(part.rank_wait)) if (waits > 0.0).any() else np.array([], int)
    busy = part.rank_solve + np.nan_to_num(part.rank_mapping) + np.nan_to_num(part.rank_overhead)
    busy[silent] = np.nan
    told = int(np.isfinite(busy).sum())
    return ParticipantSummary(
        participant=part.participant,
        ranks=part.ranks,
        windows=int(steady.sum()),
        window_seconds=window,
        own_seconds=float(np.median(part.own_seconds[steady])) if steady.any() else math.nan,
        wait_seconds=_mean(part.wait_seconds[steady]),
        quantities=quantities,
        imbalance=load_imbalance(busy) if told > 1 else math.nan,
        silent_ranks=tuple(int(rank) for rank in silent),
        backend=str(part.metadata.get("backend", "unknown")),
    )


def _quantity(seconds: NDArray[np.float64], window: float) -> Quantity:
    if not np.isfinite(seconds).any():
        return Quantity(math.nan, None, math.nan, None, math.nan, math.nan)
    slowest, fastest = int(np.nanargmax(seconds)), int(np.nanargmin(seconds))
    mean = float(np.nanmean(seconds))
    return Quantity(mean, slowest, float(seconds[slowest]), fastest, float(seconds[fastest]), mean / window)


def _mean(seconds: NDArray[np.float64]) -> float:
    return float(np.mean(seconds)) if len(seconds) else math.nan


def _cells(unit: SecondsUnit, quantity: Quantity, ranks: int) -> tuple[str, ...]:
    if not quantity.measured:
        return _NOT_MEASURED, "", "", ""
    cells = unit.number(quantity.mean), percent(quantity.share)
    if ranks == 1:
        return *cells, "", ""
    slowest = f"{unit.number(quantity.slowest)} (#{quantity.slowest_rank})"
    return *cells, slowest, f"{unit.number(quantity.fastest)} (#{quantity.fastest_rank})"


def _reason(each: ParticipantSummary, warmup: int) -> str:
    if not each.windows:
        return f"since no time window is left after a warm-up of {warmup}; record more or leave out fewer with --warmup"
    return (
        f"since backend {each.backend} does not tell how the time inside advance is spent; "
        "record with PRECICE_LB_BACKEND=embedded to see it"
    )


def _inside(each: ParticipantSummary) -> str:
    if each.ranks == 1:
        return "one rank only"
    silent = ", ".join(str(rank) for rank in each.silent_ranks[:8]) + (", …" if len(each.silent_ranks) > 8 else "")
    plural = "s" * (len(each.silent_ranks) > 1)
    note = f"rank{plural} {silent} without received data, whose waiting for partners looks like solve"
    if math.isnan(each.imbalance):
        return f"{_NOT_MEASURED}: {note}" if each.silent_ranks else _NOT_MEASURED
    return percent(each.imbalance) + (f" (left out: {note})" if each.silent_ranks else "")
