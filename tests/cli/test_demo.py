"""The demo: its case is a copy in its own directory, and it works where there is no clone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from precice_lb.cli import commands, main

if TYPE_CHECKING:
    from precice_lb.campaign import Study

ROOT = Path(__file__).parents[2]


def snapshot(directory: Path) -> dict[Path, int]:
    """Time of the last change of all files and directories below a directory, in nanoseconds, by path."""
    return {path: path.lstat().st_mtime_ns for path in directory.rglob("*")}


def test_demo_works_on_a_copy_of_its_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clone = tmp_path / "clone"
    (clone / "configs").mkdir(parents=True)
    shutil.copy(ROOT / "configs" / "pulse.toml", clone / "configs")
    for name in ("pulse", "tools"):
        shutil.copytree(ROOT / "tutorials" / name, clone / "tutorials" / name, symlinks=True)
    studies: list[Study] = []

    def run(study: Study, place: Path, **_: Any) -> None:
        studies.append(study)
        recommendation = {"split": {"Inner": 12, "Outer": 4}, "total_ranks": 16}
        (place / "recommendation.json").write_text(json.dumps(recommendation))

    monkeypatch.setattr(commands, "run_and_recommend", run)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(clone)
    before = snapshot(clone)

    # A second time, the copy is there already.
    for _ in range(2):
        assert main(["demo", "--directory", "../here"]) == 0

    assert [study.case_directory for study in studies] == [tmp_path / "here" / "case"] * 2
    assert (tmp_path / "here" / "case" / "solver-python" / "pulse.py").is_file()
    assert snapshot(clone) == before


@pytest.mark.mpi
@pytest.mark.slow("builds a wheel, installs it and runs the demo from it")
@pytest.mark.usefixtures("mpiexec")
def test_the_wheel_alone_runs_the_demo(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", tmp_path / "dist", ROOT], check=True)
    (wheel,) = (tmp_path / "dist").iterdir()
    subprocess.run(
        [*pip, "install", "--no-deps", "--ignore-installed", "--prefix", tmp_path / "prefix", wheel], check=True
    )
    (packages,) = (tmp_path / "prefix").glob("lib/*/site-packages")
    before = snapshot(tmp_path / "prefix")
    done = subprocess.run(
        [sys.executable, "-m", "precice_lb", "demo"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(packages)}, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "the cost law in demo/case/law.json" in done.stdout
    assert snapshot(tmp_path / "prefix") == before
    assert {path.name for path in tmp_path.iterdir()} == {"dist", "prefix", "demo"}
    assert (tmp_path / "demo" / "report" / "report.html").is_file()
    assert "By the law of the emulated load the best split is Inner 12, Outer 4 ranks" in done.stdout.splitlines()[-2]
    assert len((done.stdout + done.stderr).splitlines()) < 25
