"""Adaptive campaigns killed at random moments and started again: no run is lost, repeated, or chosen otherwise."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from calibrate_helpers import (
    COPIES,
    DRIVER,
    alive,
    changed,
    finished_runs,
    make_stores,
    state_of,
    write_case,
    write_study,
)
from conftest import FULL_COUNTS
from emulation import CostLaw
from store_helpers import row

from precice_lb.campaign import RunRecord, read_study

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("mpiexec")]

LAWS = {"Left": CostLaw(0.0, 1.8, 0.09, 0.006), "Right": CostLaw(0.0, 0.6, 0.05, 0.006)}


def drive(study: Path, directory: Path, kill_after: float | None) -> bool:
    """Run or go on with a campaign in a process of its own; whether it came to its end.

    It is killed so many seconds after the start of a run, or of its end where no run is left.
    """
    runs = len(list(directory.glob("runs/*")))
    campaign = subprocess.Popen([sys.executable, "-c", DRIVER, study, directory], stderr=subprocess.PIPE, text=True)
    if kill_after is not None:
        while len(list(directory.glob("runs/*"))) == runs and campaign.poll() is None:
            time.sleep(0.01)
        time.sleep(kill_after)
        campaign.kill()
    _, said = campaign.communicate(timeout=300)
    assert campaign.returncode in (0, -9), said
    return campaign.returncode == 0


def test_campaigns_killed_at_random_moments_and_resumed_lose_repeat_and_change_nothing(tmp_path: Path) -> None:
    write_case(tmp_path, COPIES)
    rng = np.random.default_rng(5)

    def rows_of(name: str, size: int) -> list[Any]:
        own = float(LAWS[name].seconds(size)) * np.exp(0.03 * rng.standard_normal() + 0.01 * rng.standard_normal(12))
        return [row(window + 1, own[window], 3 - own[window], 3 - own[window]) for window in range(12)]

    make_stores(tmp_path / "made", 5, rows_of)
    path = write_study(tmp_path, runs="maximum = 3\ntarget_regret = 0")
    changed(path, ("ranks = 4", "ranks = 6"), *((f"solver.py {n}", f"solver.py {n} {tmp_path}/made") for n in LAWS))
    assert read_study(path).budget == 6
    began = time.monotonic()
    assert drive(path, tmp_path / "undisturbed", None)
    whole = time.monotonic() - began
    expected = [run.split for run in finished_runs(tmp_path / "undisturbed")]
    assert len(expected) == 3
    random = Random(1)
    kills = 0
    campaigns, attempts = (15, 8) if FULL_COUNTS else (1, 3)
    for number in range(campaigns):
        directory = tmp_path / f"campaign-{number}"
        before: list[RunRecord] = []
        for attempt in range(attempts):
            # The first one certainly.
            after = random.uniform(0.0, 1.0) * whole if attempt else 0.0
            if drive(path, directory, after if attempt < attempts - 1 else None):
                break
            kills += 1
            now = finished_runs(directory)
            assert now[: len(before)] == before
            before = now
        state = state_of(directory)
        assert list(state.finished[: len(before)]) == before
        assert [run.split for run in state.finished] == expected
        assert {run.outcome for run in state.runs} <= {"finished", "interrupted"}
        assert len({run.directory for run in state.runs}) == len(state.runs)
        with_stores = {file.parents[2].name for file in directory.glob("runs/**/*.h5")}
        assert with_stores == {run.name for run in state.finished}
        assert alive(directory) == []
    assert kills >= 1
