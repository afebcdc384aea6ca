"""What coupled runs did: per participant and time window, and as samples for performance models.

A participant's compute time per time window is the window's wall time without the wait for its partners. Ranks without
interface vertices do not wait in ``advance`` but in their solver's next collective, where waiting looks like
solving; so the wait is taken from the ranks that receive data and subtracted from the wall time of the window.
"""

from __future__ import annotations

from precice_lb.dataset.measurements import MeasuredRun, Measurements, Samples
from precice_lb.dataset.records import CoupledRun, ParticipantRun
from precice_lb.dataset.runs import load_runs
from precice_lb.dataset.samples import load_measurements, measurements_from_runs
from precice_lb.rooms import lazily

__all__ = [
    "CoupledRun",
    "MeasuredRun",
    "Measurements",
    "ParticipantRun",
    "Samples",
    "load_measurements",
    "load_runs",
    "measurements_from_runs",
]

__getattr__ = lazily(
    __name__,
    runs=("flaws", "remarks"),
    samples=("pooled_iterations", "without_stragglers"),
    series=("drift_of", "mean_of", "outliers_of", "shift_of", "spread_of", "warmup_of"),
)
