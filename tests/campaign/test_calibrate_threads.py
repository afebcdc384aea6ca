"""A solver with threads beside another: calibrated, recommended and started on the split, for real."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from calibrate_helpers import check_threads, threads_used, write_threads

from precice_lb.cli import main


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
