"""A solver with threads beside another: calibrated, recommended and started on the split, for real."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from calibrate_helpers import check_threads, threads_used, write_threads

from precice_lb.campaign import CampaignResult, read_study, run_campaign
from precice_lb.cli import main
from precice_lb.dataset import load_runs


@pytest.mark.mpi
def test_a_campaign_of_threads_and_its_split_through_mpiexec(
    tmp_path: Path, mpiexec: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate", str(write_threads(tmp_path))]) == 0
    said = capfd.readouterr()
    assert "run 2 of 2: Left 1, Right 1 x 2 threads: 3 cores (split of the study, 2 of 2)" in said.err
    campaign = tmp_path / "campaign"
    check_threads(campaign)
    found = json.loads((campaign / "recommendation.json").read_text())["split"]
    assert found["Left"] == 1
    assert found["Right"] in {1, 2}
    # Any other split is as easily launched.
    assert main(["launch", "--study", str(tmp_path / "study.toml"), "--split", "Left=1,Right=1x2"]) == 0
    done = subprocess.run([campaign / "launch" / "run.sh"], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert threads_used(tmp_path / "case") == 2


@pytest.mark.mpi
@pytest.mark.slow("compares CPU time with wall time")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core alone")
def test_threads_are_seen_in_cpu_time(tmp_path: Path, mpiexec: str) -> None:
    study = read_study(write_threads(tmp_path, blocks=400, windows=8))
    result: CampaignResult = run_campaign(study, tmp_path / "campaign", report=lambda event: None)
    busy = []
    for stores in result.stores:
        (run,) = load_runs([stores])
        (cores,) = run.participants["Right"].rank_busy_cores
        busy.append(cores)
    assert busy[0] < 1.1
    assert busy[1] > 1.4 * busy[0]
