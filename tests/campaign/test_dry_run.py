"""`precice-lb calibrate --dry-run`: what would run, while nothing is started and nothing is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from calibrate_helpers import changed, quiet, runs_of, write_case, write_study
from fake_slurm import FakeSlurm
from report_helpers import refused

from precice_lb.campaign import read_study, run_campaign
from precice_lb.cli import main

pytestmark = pytest.mark.usefixtures("mpiexec")


def said(capsys: pytest.CaptureFixture[str], path: Path) -> str:
    """What a dry run prints; every file is as before it."""
    root = path.parent
    before = {each: each.read_bytes() for each in root.rglob("*") if each.is_file()}
    assert main(["calibrate", "--dry-run", str(path)]) == 0
    assert {each: each.read_bytes() for each in root.rglob("*") if each.is_file()} == before
    return capsys.readouterr().out


def test_commands_copies_splits_and_core_hours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = write_case(tmp_path)
    (case / "mesh.bin").write_bytes(bytes(3_000_000))
    (case / "grid.bin").write_bytes(bytes(1000))
    path = write_study(
        tmp_path,
        runs="maximum = 3",
        case='link = ["grid.bin"]',
        left='prepare = ["python -c pass"]',
        right="maximum_ranks = 2",
    )
    text = said(capsys, path)
    assert not (tmp_path / "study-campaign").exists()
    assert "nothing is started" in text
    assert f"each run works on a copy of {case}: 3 files, 3.0 MB" in text
    assert "run 1 of at most 3: Left 2, Right 2 ranks (the even split, since nothing is measured yet)" in text
    for name in ("Left", "Right"):
        assert re.search(rf"^  {name}: \S*mpiexec .*-n 2 \S+ solver.py {name}$", text, re.MULTILINE)
    assert "  Left, before: python -c pass" in text
    # Three runs of 300 s with four ranks each.
    assert "at most 3 runs of 300 s on 4 ranks: 1 core-hours" in text


def test_splits_of_the_study_and_those_that_are_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_study(tmp_path, runs="splits = [{Left=1,Right=2}, {Left=2,Right=1}]\nretries = 1")
    text = said(capsys, path)
    assert "run 1 of at most 2: Left 1, Right 2 ranks" in text
    assert "then: Left 2, Right 1\n" in text
    assert "at most 4 runs" in text
    run_campaign(read_study(path), tmp_path / "study-campaign", report=quiet)
    assert len(runs_of(tmp_path / "study-campaign")) == 2
    assert "nothing is left to run" in said(capsys, path)
    changed(path, ("windows = 7", "windows = 8"))
    assert "holds a campaign of another study (runs.windows changed)" in refused(capsys, "calibrate", "--dry-run", path)


def test_job_scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = FakeSlurm(tmp_path / "slurm", monkeypatch)
    path = write_study(tmp_path, launcher='name = "slurm"\noptions = ["--account=a1"]', case='network = "lo"')
    text = said(capsys, path)
    assert re.search(r"^  #SBATCH --account=a1$", text, re.MULTILINE)
    assert re.search(r"^  .*srun .*solver.py Left", text, re.MULTILINE)
    assert slurm.states() == []
