"""What segments measured, from their stores: what the next decision knows of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from precice_lb.calibrate.result import measurements_of
from precice_lb.calibrate.state import RunRecord
from precice_lb.chain.document import SegmentEntry
from precice_lb.chain.records import Segment
from precice_lb.chain.segments import note_of
from precice_lb.dataset import CoupledRun, ParticipantRun
from precice_lb.dataset.series import LEAST_WINDOWS, mean_of, spread_of

# The latest windows are this part of those after warm-up.
_LATEST = 4


def segment_of(record: RunRecord, run: CoupledRun, iterations: Mapping[str, float]) -> Segment:
    """Return what a finished run says of its segment; its windows count with ``iterations`` coupling iterations."""
    note = note_of(record)
    costs = {name: _costs(run, name, iterations[name]) for name in run.participants}
    walls = [mean_of(part.window_seconds[run.steady(name)])[0] for name, part in run.participants.items()]
    inside = max(float(np.nansum(part.window_seconds)) for part in run.participants.values())
    return Segment(
        split=dict(record.split),
        windows=note.windows,
        window_seconds=float(np.nanmax(walls)),
        seconds={name: cost.seconds for name, cost in costs.items()},
        standard_errors={name: cost.error for name, cost in costs.items()},
        latest={name: cost.latest for name, cost in costs.items()},
        border_seconds=max(record.seconds - inside, 0.0) + note.prepare_seconds + note.collect_seconds,
        change_seconds=note.prepare_seconds + note.collect_seconds,
    )


@dataclass(frozen=True)
class _Costs:
    seconds: float
    error: float
    latest: float


def _costs(run: CoupledRun, name: str, iterations: float) -> _Costs:
    """Reduce a participant as a campaign's samples are: the median per iteration, times the mean of all runs."""
    each = run.participants[name].compute_per_iteration[run.steady(name)]
    each = each[np.isfinite(each)]
    if not len(each):
        return _Costs(math.nan, math.nan, math.nan)
    seconds = float(np.median(each)) * iterations
    latest = each[-max(len(each) // _LATEST, LEAST_WINDOWS) :]
    return _Costs(seconds, spread_of(each).error * seconds, float(np.median(latest)) * iterations)


def entry_of(record: RunRecord, segment: Segment, run: CoupledRun) -> SegmentEntry:
    """Return what ``chain.json`` says of a segment."""
    note = note_of(record)
    return SegmentEntry(
        segment=note.number,
        run=record.name,
        start_window=note.start_window,
        split=dict(segment.split),
        windows=segment.windows,
        window_seconds=segment.window_seconds,
        seconds=dict(segment.seconds),
        wait_share={name: _wait_share(part, run.steady(name)) for name, part in run.participants.items()},
        border_seconds=segment.border_seconds,
        kind=note.kind,
        decision=record.reason,
    )


def _wait_share(part: ParticipantRun, steady: NDArray[np.bool_]) -> float:
    known = steady & np.isfinite(part.wait_seconds) & np.isfinite(part.window_seconds)
    wall = float(part.window_seconds[known].sum())
    return float(part.wait_seconds[known].sum()) / wall if wall > 0 else math.nan


def earlier_samples(runs: Sequence[CoupledRun], iterations: Mapping[str, float]) -> dict[str, NDArray[np.float64]]:
    """Return ranks, seconds and standard errors of runs made before, by participant, shape (n, 3) each."""
    if not runs:
        return {}
    measured = measurements_of(runs, iterations)
    return {name: np.column_stack([rows, measured.errors(name)]) for name, rows in measured.samples.items()}
