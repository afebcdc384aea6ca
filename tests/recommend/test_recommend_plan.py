"""Machines, nearly best splits and budgets: against brute force and arithmetic."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_helpers import write_campaign
from test_recommend import CASE

from precice_lb.dataset import Measurements, Samples
from precice_lb.recommend import ExpectedWindowTime, curves_of, geometric_mean, recommend_split
from precice_lb.schedule import Schedule

NOISY = {
    name: np.column_stack(
        [rows[:, 0], rows[:, 1] * (1 + 0.05 * np.random.default_rng(seed).standard_normal(len(rows)))]
    )
    for seed, (name, rows) in enumerate(CASE.items())
}


def expected(found: Any, schedule: Schedule, splits: list[dict[str, int]]) -> np.ndarray:
    """Expected window times over the curves that the recommendation was made by."""
    curves = {name: curves_of(model, [0, k]) for k, (name, model) in enumerate(found.models.items())}
    counts = np.array([[s[n] for n in found.models] for s in splits])
    return geometric_mean(ExpectedWindowTime(schedule, curves).windows(counts))


# --- machines ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("coupling", ["parallel", "serial"])
def test_whole_nodes_are_given_out_as_well_as_is_possible(coupling: str) -> None:
    found = recommend_split(NOISY, nodes=12, cores_per_node=48, whole_nodes=True, coupling=coupling, within=0.1)
    schedule = getattr(Schedule, coupling)(list(NOISY))
    splits = [
        {"Fluid": 48 * a, "Solid": 48 * b} for a, b in itertools.product(range(1, 12), range(1, 12)) if a + b <= 12
    ]
    seconds = expected(found, schedule, splits)
    assert found.window_seconds == pytest.approx(seconds.min(), rel=1e-9)
    assert found.split == splits[int(np.argmin(seconds))]
    assert found.used == {"ranks": sum(found.split.values()), "cores": 576, "nodes": 12}
    # Nothing within a tenth of it is missing.
    near = sorted(float(value) for value in seconds if value <= 1.1 * seconds.min())
    assert [each.window_seconds for each in found.plan.near] == pytest.approx(near[:10])
    assert found.plan.near[0].longer == pytest.approx(0)
    assert found.plan.step == 1
    assert found.window_seconds / (1 + found.gap) <= seconds.min() * (1 + 1e-9)
    assert found.alternatives["equal"].split == {"Fluid": 288, "Solid": 288}


# --- nearly best splits and budgets ----------------------------------------------------------------------------------


def test_splits_are_listed_in_steps_that_people_take() -> None:
    found = recommend_split(NOISY, 448, within=0.05)
    near, step = found.plan.near, found.plan.step
    assert step == 4
    assert len(near) == 10
    assert all(count % step == 0 for each in near for count in each.split.values())
    assert [each.longer for each in near] == sorted(each.longer for each in near)
    assert all(0 <= each.longer <= 0.05 for each in near)
    every = [{"Fluid": p, "Solid": q} for p in range(4, 445, 4) for q in range(4, 449 - p, 4)]
    seconds = expected(found, Schedule.parallel(list(NOISY)), every)
    assert near[0].window_seconds == pytest.approx(seconds.min())
    assert near[-1].window_seconds == pytest.approx(np.sort(seconds)[9])


def test_the_gap_is_a_proof() -> None:
    for coupling in ("parallel", "serial"):
        found = recommend_split(NOISY, 40, coupling=coupling)
        splits = [{"Fluid": p, "Solid": q} for p in range(1, 40) for q in range(1, 41 - p)]
        best = expected(found, getattr(Schedule, coupling)(list(NOISY)), splits).min()
        assert -1e-9 <= found.window_seconds / best - 1 <= found.gap + 1e-9
        assert found.gap < 0.05
        assert found.proof
        assert set(found.critical) <= set(found.split)
    certain = recommend_split(CASE, 40, learner="pmnf")
    assert certain.gap == pytest.approx(0, abs=1e-9)


def test_what_measuring_took_stands_in_the_json(tmp_path: Path) -> None:
    write_campaign(tmp_path, [{"Inner": 2, "Outer": 2}, {"Inner": 4, "Outer": 3}])
    # Each of these runs takes five seconds.
    took = recommend_split(tmp_path, 8).to_dict()["measurements"]["core_hours"]
    assert took == pytest.approx((4 + 7) * 5 / 3600)
    assert recommend_split(CASE, 96).to_dict()["measurements"]["core_hours"] is None


def test_tables_of_splits_have_the_window_time_that_is_predicted() -> None:
    rows = Samples(np.array([4, 8, 16, 32]), np.array([4.0, 2.0, 1.0, 0.5]))
    varying = np.tile([0.6, 1.4], 30)
    recorded = ({"A": varying, "B": varying[::-1]},)
    table = Measurements(dict.fromkeys("AB", rows), recorded=recorded)
    found = recommend_split(table, 40, coupling=Schedule.parallel(["A", "B"]), within=0.05)
    # Whoever is slow is waited for: 1.4 times what either takes.
    assert found.window_seconds == pytest.approx(1.4 * found.compute_seconds["A"], rel=0.05)
    assert found.plan is not None
    assert found.plan.chosen.window_seconds == pytest.approx(found.window_seconds, rel=1e-9)
    assert found.plan.near[0].window_seconds >= found.window_seconds * (1 - 1e-3)
