"""The scripts of the tutorials as their users start them: run.sh, the comparison with reference results, clean.sh."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tutorial_helpers import TUTORIALS, copy_tutorial, run_together, script_environment

yaml = pytest.importorskip("yaml", reason="PyYAML comes with the extra dev")

FENICSX = {"partitioned-heat", "two-scale-heat"}
LONG = pytest.mark.slow("the scripts of the shortest are run anyway")
CASES = [
    pytest.param(
        path.parent.name,
        marks=[
            *([] if path.parent.name == "adapt-your-solver" else [LONG]),
            *([pytest.mark.fenicsx, pytest.mark.precice] if path.parent.name in FENICSX else []),
        ],
    )
    for path in sorted(TUTORIALS.glob("*/metadata.yaml"))
]


@pytest.mark.mpi
@pytest.mark.parametrize("name", CASES)
def test_scripts_run_compare_and_clean(name: str, tmp_path: Path, mpiexec: str, request: pytest.FixtureRequest) -> None:
    python, backend = Path(sys.executable), "embedded"
    if name in FENICSX:
        python, backend = Path(request.getfixturevalue("fenicsx_python")), "libprecice"
        mpiexec = str(python.parent / "mpiexec")
    case = tmp_path / name
    copy_tutorial(name, case)
    before = {path for path in case.rglob("*") if "__pycache__" not in path.parts}
    environment = script_environment(mpiexec, python) | {"PRECICE_LB_BACKEND": backend}
    solvers = yaml.safe_load((case / "metadata.yaml").read_text())["cases"]
    # The first solver of each participant.
    first = {solver["participant"]: solver["directory"] for solver in reversed(solvers.values())}
    run_together({directory: ["./run.sh"] for directory in first.values()}, case, environment)
    compare = [str(python), "../tools/reference.py"]
    done = subprocess.run(compare, cwd=case, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "as in reference-results" in done.stdout
    for directory in first.values():
        assert list((case / directory / "precice-lb-store").rglob("*-*.*"))  # .h5, or .spool beside FEniCSx' own HDF5
        assert (case / directory / f"{Path(directory).name}.log").stat().st_size
    subprocess.run(["./clean.sh"], cwd=case, env=environment, check=True, capture_output=True)
    assert {path for path in case.rglob("*") if "__pycache__" not in path.parts} == before
    assert subprocess.run(compare, cwd=case, env=environment, capture_output=True, check=False).returncode == 2
