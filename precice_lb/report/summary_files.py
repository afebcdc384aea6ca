"""Summaries of runs for programs: JSON-ready values and CSV; what was not measured is None or empty."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from typing import Any

from precice_lb.report.summary import QUANTITIES, ParticipantSummary, Quantity, RunSummary

__all__ = ["rank_csv", "summary_csv", "summary_dict"]

_VALUES = ("mean_seconds", "slowest_rank", "slowest_seconds", "fastest_rank", "fastest_seconds", "share")


def summary_dict(run: RunSummary, *, per_rank: bool = False) -> dict[str, Any]:
    """Give a summary as JSON-ready values."""
    return {
        "run": run.name,
        "warmup_windows": run.warmup_windows,
        "ranks": run.ranks,
        "remarks": dict(run.remarks),
        "imbalance": _known(run.imbalance),
        "core_hours_lost_per_hour": {
            "waiting_for_partners": _known(run.lost_to_partners),
            "waiting_for_own_ranks": _known(run.lost_inside),
        },
        "participants": {each.participant: _participant_dict(each, per_rank) for each in run.participants},
    }


def _participant_dict(each: ParticipantSummary, per_rank: bool) -> dict[str, Any]:
    values: dict[str, Any] = {
        "ranks": each.ranks,
        "windows": each.windows,
        "windows_with_measured_wait": each.measured_windows,
        "backend": each.backend,
        "timing_source": each.timing_source or None,
        "timing_problems": [{"problem": text, "ranks": ranks} for text, ranks in each.timing_problems.items()],
        "window_seconds": _known(each.window_seconds),
        "window_seconds_without_outliers": _known(each.usual_window_seconds),
        "compute_seconds": _known(each.compute_seconds),
        "wait_seconds": _known(each.wait_seconds),
        "imbalance": _known(each.imbalance),
        "core_hours_lost_per_hour": {
            "waiting_for_partners": _known(each.lost_to_partners),
            "waiting_for_own_ranks": _known(each.lost_inside),
        },
        "iterations": {
            "mean": _known(each.iterations_mean),
            "least": each.iterations_least,
            "most": each.iterations_most,
            "each": [
                {
                    "iteration": one.number,
                    "windows": one.windows,
                    "compute_seconds": _known(one.compute_seconds),
                    "wait_seconds": _known(one.wait_seconds),
                }
                for one in each.iterations
            ],
        },
        "ranks_waiting_in_the_solver": list(each.silent_ranks),
        "not_measured": list(each.not_measured),
        **{name: _quantity_dict(quantity) for name, quantity in each.quantities.items()},
    }
    if per_rank:
        values["per_rank"] = [dict(zip(_RANK_COLUMNS, row, strict=True)) for row in _rank_rows(each)]
    return values


def summary_csv(runs: Sequence[RunSummary]) -> str:
    """Write summaries as CSV: one row per run, participant and quantity, empty where not measured."""
    rows: list[list[Any]] = [["run", "participant", "ranks", "windows", "iterations", "quantity", *_VALUES]]
    for run in runs:
        for each in run.participants:
            head = [run.name, each.participant, each.ranks, each.windows, _known(each.iterations_mean)]
            rows += [[*head, name, *_quantity_dict(quantity).values()] for name, quantity in each.quantities.items()]
            for name, seconds in (("compute", each.compute_seconds), ("window", each.window_seconds)):
                share = seconds / each.window_seconds
                rows.append([*head, name, _known(seconds), None, None, None, None, _known(share)])
    return _text(rows)


def rank_csv(runs: Sequence[RunSummary]) -> str:
    """Write summaries as CSV with one row per run, participant and rank, empty where not measured."""
    rows: list[list[Any]] = [["run", "participant", "ranks", "windows", *_RANK_COLUMNS]]
    for run in runs:
        for each in run.participants:
            rows += [[run.name, each.participant, each.ranks, each.windows, *row] for row in _rank_rows(each)]
    return _text(rows)


_RANK_COLUMNS = (
    "rank",
    "waits_in_the_solver",
    *(f"{name}_seconds" for name in QUANTITIES),
    *(f"{name}_share" for name in QUANTITIES),
)


def _rank_rows(each: ParticipantSummary) -> list[list[Any]]:
    silent = frozenset(each.silent_ranks)
    seconds = [each.rank_seconds[name] for name in QUANTITIES]
    columns = [[_known(value) for value in values.tolist()] for values in seconds]
    shares = [[_known(value) for value in (values / each.window_seconds).tolist()] for values in seconds]
    return [[rank, rank in silent, *values] for rank, *values in zip(range(each.ranks), *columns, *shares, strict=True)]


def _text(rows: Sequence[Sequence[Any]]) -> str:
    buffer = io.StringIO()
    # None becomes an empty cell.
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _quantity_dict(quantity: Quantity) -> dict[str, Any]:
    values = (
        _known(quantity.mean),
        quantity.slowest_rank,
        _known(quantity.slowest),
        quantity.fastest_rank,
        _known(quantity.fastest),
        _known(quantity.share),
    )
    return dict(zip(_VALUES, values, strict=True))
