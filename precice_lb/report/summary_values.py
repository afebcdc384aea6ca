"""Summaries of runs for programs: JSON-ready values and CSV."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Sequence
from typing import Any

from precice_lb.plain import plain
from precice_lb.report.summary import QUANTITIES, ParticipantSummary, Quantity, RunSummary


def summary_dict(run: RunSummary, *, per_rank: bool = False) -> dict[str, Any]:
    """Give a summary as JSON-ready values."""
    values = {
        "run": run.name,
        "warmup_windows": run.warmup_windows,
        "ranks": run.ranks,
        "remarks": dict(run.remarks),
        "imbalance": run.imbalance,
        "core_hours_lost_per_hour": {
            "waiting_for_partners": run.lost_to_partners,
            "waiting_for_own_ranks": run.lost_inside,
        },
        "participants": {each.participant: _participant_dict(run, each, per_rank) for each in run.participants},
    }
    if run.predictors:
        values["first_guess"] = {"mode": run.guess, "predictors": run.predictors}
    found: dict[str, Any] = plain(values)
    return found


def _participant_dict(run: RunSummary, each: ParticipantSummary, per_rank: bool) -> dict[str, Any]:
    values: dict[str, Any] = {
        "ranks": each.ranks,
        "threads": each.threads,
        "windows": each.windows,
        "windows_with_measured_wait": each.measured_windows,
        "backend": each.backend,
        "timing_source": each.timing_source or None,
        "timing_problems": [{"problem": text, "ranks": ranks} for text, ranks in each.timing_problems.items()],
        "window_seconds": each.window_seconds,
        "window_seconds_without_outliers": each.usual_window_seconds,
        "compute_seconds": each.compute_seconds,
        "faster_than_slowest": run.faster_than_slowest(each),
        "wait_seconds": each.wait_seconds,
        "hidden_wait_seconds": each.hidden_seconds,
        "imbalance": each.imbalance,
        "imbalance_without_time_in_mpi": each.mpi_known,
        "core_hours_lost_per_hour": {
            "waiting_for_partners": each.lost_to_partners,
            "waiting_for_own_ranks": each.lost_inside,
        },
        "iterations": {
            "mean": each.iterations_mean,
            "least": each.iterations_least,
            "most": each.iterations_most,
            "each": each.iterations,
        },
        "ranks_waiting_in_the_solver": each.silent_ranks,
        "not_measured": each.not_measured,
        **each.quantities,
        "sections": each.sections,
    }
    if per_rank:
        values["per_rank"] = [dict(zip(_RANK_COLUMNS, row, strict=True)) for row in _rank_rows(each)]
        values["sections_per_rank"] = each.section_seconds
        values["counts_per_rank"] = each.counts
    return values


def summary_csv(runs: Sequence[RunSummary]) -> str:
    """Write summaries as CSV: one row per run, participant and quantity, empty where not measured.

    First guesses are of no participant alone: of each predictor, in how many windows and with how many iterations, and
    what guessing took.
    """
    values = [each.name for each in dataclasses.fields(Quantity)]
    rows: list[list[Any]] = [["run", "participant", "ranks", "windows", "iterations", "quantity", *values]]
    for run in runs:
        for each in run.participants:
            head = [run.name, each.participant, each.ranks, each.windows, each.iterations_mean]
            told = each.quantities | {f"section {name}": quantity for name, quantity in each.sections.items()}
            rows += [[*head, name, *dataclasses.astuple(quantity)] for name, quantity in told.items()]
            for name, seconds in (("compute", each.compute_seconds), ("window", each.window_seconds)):
                share = seconds / each.window_seconds
                rows.append([*head, name, seconds, None, None, None, None, share])
        for p in run.predictors:
            head = [run.name, None, run.ranks, p.windows, p.iterations, f"first guess {p.name}"]
            rows.append([*head, p.cost_seconds, None, None, None, None, p.cost_seconds / p.window_seconds])
    return _text(rows)


def rank_csv(runs: Sequence[RunSummary]) -> str:
    """Write summaries as CSV with one row per run, participant and rank, empty where not measured."""
    features = list(dict.fromkeys(name for run in runs for each in run.participants for name in each.counts))
    counted = [f"count {name}" for name in features]
    rows: list[list[Any]] = [["run", "participant", "ranks", "windows", *_RANK_COLUMNS, *counted]]
    for run in runs:
        for each in run.participants:
            counts = [each.counts[name] if name in each.counts else [None] * each.ranks for name in features]
            for row, *held in zip(_rank_rows(each), *counts, strict=True):
                rows.append([run.name, each.participant, each.ranks, each.windows, *row, *held])
    return _text(rows)


_RANK_COLUMNS = (
    "rank",
    "waits_in_the_solver",
    *(f"{name}_seconds" for name in QUANTITIES),
    *(f"{name}_share" for name in QUANTITIES),
    "hidden_wait_seconds",
    "mpi_seconds",
    "interface_vertices",
)


def _rank_rows(each: ParticipantSummary) -> list[list[Any]]:
    silent = frozenset(each.silent_ranks)
    seconds = [each.rank_seconds[name] for name in QUANTITIES]
    shares = [values / each.window_seconds for values in seconds]
    columns = [values.tolist() for values in (*seconds, *shares, each.rank_hidden, each.rank_mpi, each.rank_vertices)]
    return [[rank, rank in silent, *values] for rank, *values in zip(range(each.ranks), *columns, strict=True)]


def _text(rows: Sequence[Sequence[Any]]) -> str:
    buffer = io.StringIO()
    # What is not known becomes null, and that an empty cell.
    csv.writer(buffer, lineterminator="\n").writerows(plain(rows))
    return buffer.getvalue()
