"""`precice-lb calibrate --dry-run`: what would run, while nothing is started and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from calibrate_helpers import changed, quiet, runs_of, write_study
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
