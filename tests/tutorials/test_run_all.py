"""The run-all.sh of tutorials with more than two participants: it starts them all, and stops them if one fails."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tutorial_helpers import TUTORIALS, copy_tutorial, script_environment

HEAD = "#!/usr/bin/env bash\nset -e -u\n"
ENDLESS = "trap 'touch stopped; exit' TERM\ntouch begun\nwhile true; do sleep 0.05; done\n"
FAILING = "until [ -e ../left-test/begun ] && [ -e ../right-test/begun ]; do sleep 0.05; done\nexit 3\n"


def case_of(directory: Path, **solvers: str) -> Path:
    """Make a case whose participants' scripts do what is given."""
    shutil.copytree(TUTORIALS / "tools", directory / "tools")
    for name, script in solvers.items():
        path = directory / "case" / f"{name}-test" / "run.sh"
        path.parent.mkdir(parents=True)
        path.write_text(HEAD + script)
        path.chmod(0o755)
    shutil.copy(TUTORIALS / "climate" / "run-all.sh", directory / "case")
    return directory / "case"


def run_all(case: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["./run-all.sh"], cwd=case, capture_output=True, text=True, timeout=300, check=False)


def test_the_same_script_in_all_tutorials_with_more_than_two_participants() -> None:
    scripts = list(TUTORIALS.glob("*/run-all.sh"))
    assert {path.parent.name for path in scripts} == {
        path.parent.name for path in TUTORIALS.glob("*/metadata.yaml") if path.read_text().count("\n  - ") > 2
    }
    assert len({path.read_text() for path in scripts}) == 1


def test_all_solvers_run_beside_each_other(tmp_path: Path) -> None:
    wait_for = "touch begun\nuntil [ -e ../{}-test/begun ]; do sleep 0.05; done\n"
    case = case_of(tmp_path, left=wait_for.format("right"), right=wait_for.format("left"))
    done = run_all(case)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_one_that_fails_stops_the_others(tmp_path: Path) -> None:
    case = case_of(tmp_path, left=ENDLESS, right=ENDLESS, failing=FAILING)
    done = run_all(case)
    assert done.returncode == 1
    assert done.stderr.startswith("./failing-test/run.sh failed; its log says why. The other solvers are stopped.\n")
    assert done.stderr.count("failed") == 1
    until = time.monotonic() + 60
    while {path.parent.name for path in case.glob("*/stopped")} != {"left-test", "right-test"}:
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.mpi
@pytest.mark.slow("the climate model's run.sh scripts are run by themselves as well")
def test_the_climate_model_runs_in_one_terminal(tmp_path: Path, mpiexec: str) -> None:
    case = tmp_path / "climate"
    copy_tutorial("climate", case)
    environment = script_environment(mpiexec) | {"PRECICE_LB_BACKEND": "embedded"}
    for command in (["./run-all.sh"], [sys.executable, "../tools/reference.py"]):
        subprocess.run(command, cwd=case, env=environment, check=True, timeout=600)
