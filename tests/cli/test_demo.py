"""The demo where there is no clone: with what the installed package brings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


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
    done = subprocess.run(
        [sys.executable, "-m", "precice_lb", "demo"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(packages)}, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"{tmp_path / 'prefix' / 'share'}" in done.stdout  # where the law lies
    assert (tmp_path / "demo" / "report" / "report.html").is_file()
    assert "By the law of the emulated load the best split is Inner 12, Outer 4 ranks" in done.stdout.splitlines()[-2]
    assert len((done.stdout + done.stderr).splitlines()) < 25
