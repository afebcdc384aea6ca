"""Recommendations where loads vary from window to window: recorded windows are replayed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from coupled_runs import coupled_run
from precice_xml_helpers import coupling
from test_one_posterior import Reciprocal

from precice_lb.dataset import Measurements, Samples, measurements_from_runs
from precice_lb.recommend import ExpectedWindowTime, recommend_split
from precice_lb.schedule import Schedule

RANKS = np.array([4.0, 8, 16, 32])
NAMES = ["Fluid", "Solid"]


def measured(recorded: tuple[dict[str, Any], ...] = ()) -> Measurements:
    """Both take 32 s per window on one rank and scale perfectly."""
    return Measurements(dict.fromkeys(NAMES, Samples(RANKS, 32 / RANKS)), recorded=recorded)


# Over the typical window.
ALTERNATING = ({"Fluid": np.tile([0.5, 1.5], 24), "Solid": np.ones(48)},)


def test_a_learner_without_curves_searches_by_replay_too() -> None:
    found = recommend_split(measured(ALTERNATING), 32, coupling=Schedule.parallel(NAMES), learner=Reciprocal())
    p = np.arange(1, 32)
    truth = 0.5 * (np.maximum(16 / p, 32 / (32 - p)) + np.maximum(48 / p, 32 / (32 - p)))
    assert found.window_seconds == pytest.approx(float(truth.min()), rel=0.03)


def test_too_little_recorded_changes_nothing() -> None:
    few = tuple({name: series[:3] for name, series in run.items()} for run in ALTERNATING)
    schedule = Schedule.parallel(NAMES)
    assert (
        recommend_split(measured(few), 32, coupling=schedule).split
        == recommend_split(measured(), 32, coupling=schedule).split
    )


def test_who_runs_ahead_does_not_wait_for_noise() -> None:
    schedule = coupling("AB", ("serial-explicit", "AB", [("A", "B")]))
    recorded = ({"A": np.full(40, 1.0), "B": np.tile([0.5, 1.5], 20)},)
    expected = ExpectedWindowTime(
        schedule, {"A": lambda r: np.full((1, len(r)), 0.2), "B": lambda r: np.full((1, len(r)), 1.0)}, recorded
    )
    waits = expected.waits({"A": 1, "B": 1})
    assert waits["A"][0] == 0
    assert waits["B"][0] == pytest.approx(0, abs=0.05)


def test_measurements_keep_the_recorded_windows() -> None:
    own = {"A": np.array([9.0, 1, 2, math.nan, 4]), "B": np.array([9.0, 5, 6, 7, 8])}
    run = coupled_run("a run", {"A": 2, "B": 2}, own, np.ones(5), serial=False)
    for part in run.participants.values():
        part.rank_overhead[:], part.receiving[1] = [0.1, 0.2], False
    table = measurements_from_runs([run])
    (recorded,) = table.recorded
    np.testing.assert_array_equal(recorded["A"], [0.5, 1, 2])
    np.testing.assert_allclose(recorded["B"], np.array([5, 6, 8]) / 6)
    # The rank that receives spends 0.1 s in `advance` without mapping, of 7/3 and 6.5 s.
    assert table.overhead == pytest.approx({"A": 0.1 / (7 / 3), "B": 0.1 / 6.5})
