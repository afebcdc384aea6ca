"""Clusters where little may be installed: Python environments without h5py and mpi4py, and with numpy alone."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

from record_helpers import SOLVER, assert_whole, configuration, finish, start

from precice_lb import recommend_split
from precice_lb.store.rank_file import write_hdf5
from precice_lb.store.reader import find_stores

ROOT = Path(__file__).parents[2]


def environment_of(directory: Path, wanted: Callable[[str], bool]) -> Path:
    """Make a virtual environment with those of the packages here whose file or directory is ``wanted``; its Python."""
    venv.create(directory, symlinks=True)
    (packages,) = directory.glob("lib/python*/site-packages")
    for place in (Path(path) for path in sys.path if path.endswith("-packages")):
        for path in place.iterdir():
            if wanted(path.name) and path.suffix != ".pth" and not (packages / path.name).exists():
                (packages / path.name).symlink_to(path)
    return directory / "bin" / "python"


def _run(python: Path, directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, *arguments], cwd=directory, env=_environment(), capture_output=True, text=True, check=False
    )


def _environment(**variables: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **variables}


def test_neither_recording_nor_reading_spools_nor_recommending_needs_h5py_or_mpi4py(tmp_path: Path) -> None:
    python = environment_of(tmp_path / "locked", lambda name: not name.startswith(("h5py", "mpi4py")))
    assert _run(python, tmp_path, "-c", "import h5py").returncode == 1
    (tmp_path / "precice-config.xml").write_text(configuration("serial-explicit"))
    (tmp_path / "solver.py").write_text(SOLVER)
    command = [str(python), "-m", "precice_lb", "run", "solver.py"]
    commands = {names[0]: [*command, *names] for names in ("AB", "BA")}
    results = finish(start(tmp_path, commands, dict.fromkeys("AB", _environment(PRECICE_LB_BACKEND="embedded"))))
    for name, result in results.items():
        assert result.returncode == 0
        assert [line for line in result.stderr.splitlines() if "h5py" in line] == [
            f"precice-lb: {tmp_path}/precice-lb-store/{name}-1 keeps its spools, as h5py is not installed; every command "
            "of precice-lb reads them"
        ]
    assert_whole(tmp_path)
    assert {path.suffix for path in find_stores([tmp_path])} == {".spool"}
    shown = ["-m", "precice_lb", "summary", "precice-lb-store"]
    (summary,) = {_run(Path(which), tmp_path, *shown).stdout for which in (python, sys.executable)}
    assert "A" in summary
    samples = {"Fluid": [[1, 8], [2, 4], [4, 2]], "Solid": [[1, 2], [2, 1], [4, 0.5]]}
    question = f"import precice_lb; print(precice_lb.recommend_split({samples}, 5).split)"
    answer = _run(python, tmp_path, "-c", question)
    assert (answer.stdout, answer.stderr) == (f"{recommend_split(samples, 5).split}\n", "")
    refused = _run(python, tmp_path, "-m", "precice_lb", "export", "precice-lb-store", "--merged")
    assert (refused.returncode, refused.stderr) == (2, "precice-lb: error: merged files: " + NO_H5PY)
    write_hdf5(next(tmp_path.rglob("A-0-1.spool")), tmp_path / "A-0-1.h5")
    refused = _run(python, tmp_path, "-m", "precice_lb", "summary", "A-0-1.h5")
    assert (refused.returncode, refused.stderr) == (2, f"precice-lb: error: {tmp_path}/A-0-1.h5: {NO_H5PY}")


NO_H5PY = "expected h5py, which HDF5 files need, found that it cannot be imported (No module named 'h5py'); pip install h5py\n"
