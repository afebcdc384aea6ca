"""preCICE's own tutorials, unmodified, with and without recording. They need a copy of the tutorials' repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from record_helpers import environment

from precice_lb.store.reader import find_stores, read_store

TUTORIALS = os.environ.get("PRECICE_TUTORIALS")

pytestmark = [
    pytest.mark.precice,
    pytest.mark.skipif(not TUTORIALS, reason="PRECICE_TUTORIALS does not name a directory with preCICE's tutorials"),
]

PARTICIPANTS = {"Fluid": ("fluid-python", "FluidSolver.py"), "Solid": ("solid-python", "SolidSolver.py")}


def _run(case: Path, options: list[str]) -> dict[str, tuple[int, str]]:
    """Exit code and standard error of each participant."""
    logs = {name: case / f"{name}.err" for name in PARTICIPANTS}
    started = {}
    for name, (directory, script) in PARTICIPANTS.items():
        with logs[name].open("w") as errors:
            started[name] = subprocess.Popen(
                [sys.executable, *options, script, "../precice-config.xml"],
                cwd=case / directory,
                env=environment(MPLBACKEND="Agg"),
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
    try:
        return {name: (process.wait(timeout=120), logs[name].read_text()) for name, process in started.items()}
    finally:
        for process in started.values():
            process.kill()
            process.wait()


def _files(case: Path, pattern: str) -> dict[str, bytes]:
    return {str(path.relative_to(case)): path.read_bytes() for path in sorted(case.rglob(pattern))}


def test_elastic_tube_1d_gives_the_same_files_with_and_without_recording(tmp_path: Path) -> None:
    cases = {}
    for name, options in (("plain", []), ("recorded", ["-m", "precice_lb", "run"])):
        cases[name] = case = tmp_path / name
        shutil.copytree(Path(str(TUTORIALS)) / "elastic-tube-1d", case, ignore=shutil.ignore_patterns("*.sh"))
        assert _run(case, options) == dict.fromkeys(PARTICIPANTS, (0, ""))
    for pattern in ("*.vtk", "*watchpoint*.log", "*-iterations.log", "*-convergence.log"):
        files = _files(cases["plain"], pattern)
        assert len(files) >= 1
        assert _files(cases["recorded"], pattern) == files
    stores = [read_store(path) for path in find_stores([cases["recorded"]])]
    assert sorted(store.metadata["participant"] for store in stores) == ["Fluid", "Solid"]
    for store in stores:
        directory, _ = PARTICIPANTS[store.metadata["participant"]]
        log = cases["recorded"] / directory / f"precice-{store.metadata['participant']}-iterations.log"
        ends = store.advances[store.advances["window_complete"]]
        np.testing.assert_array_equal(ends["iteration"], np.loadtxt(log, skiprows=1)[:, 2])
        assert store.metadata["finished"] is True
        assert len(ends) == 100
