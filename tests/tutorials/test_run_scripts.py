"""The scripts of the tutorials as their users start them: run.sh, the comparison with reference results, clean.sh."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tutorial_helpers import TUTORIALS, copy_tutorial, run_together, script_environment

yaml = pytest.importorskip("yaml", reason="PyYAML comes with the extra docs")

FENICSX = {"partitioned-heat", "two-scale-heat"}
LONG = pytest.mark.slow("the scripts of the pulse are run anyway")
CASES = [
    pytest.param(
        path.parent.name,
        marks=[
            *([] if path.parent.name == "pulse" else [LONG]),
            *([pytest.mark.fenicsx, pytest.mark.precice] if path.parent.name in FENICSX else []),
        ],
    )
    for path in sorted(TUTORIALS.glob("*/metadata.yaml"))
]

# A Python without precice_lb, that makes environments without installing anything.
BARE_PYTHON = r"""#!/bin/sh
[ "$1" = -c ] && exit 1
mkdir -p "$3/bin" && touch "$3/bin/activate"
printf '#!/bin/sh\n[ $1 = freeze ] || cat\n[ -z "$OFFLINE" ]\n' >"$3/bin/pip" && chmod +x "$3/bin/pip"
"""


def test_an_environment_for_each_list_of_requirements(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").write_text(BARE_PYTHON)
    (tmp_path / "bin" / "python3").chmod(0o755)
    shutil.copytree(TUTORIALS / "tools", tmp_path / "tools")
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    installed = []
    # Without a network the first attempt fails, and is none.
    cases = [("one", "../solver", "1"), ("one", "../solver", ""), ("two", "../solver", ""), ("alone", ".", "")]
    for solver, requirements, offline in cases:
        for directory in (tmp_path / "case" / solver, tmp_path / "case" / solver / requirements):
            directory.mkdir(parents=True, exist_ok=True)
        (tmp_path / "case" / solver / requirements / "requirements.txt").write_text(f"numpy\npackage-of-{solver}\n")
        command = ["bash", "-e", "-u", "-c", f". ../../tools/solver.sh; use_python {requirements}"]
        done = subprocess.run(
            command, cwd=tmp_path / "case" / solver, env={**environment, "OFFLINE": offline},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == bool(offline), done.stderr
        installed.append(done.stdout.split())
    assert installed == [["numpy", "package-of-one"]] * 2 + [[], ["numpy", "package-of-alone"]]


def test_the_comparison_tells_what_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    compare = runpy.run_path(str(TUTORIALS / "tools" / "reference.py"))["main"]
    monkeypatch.chdir(tmp_path)

    def told(scale: float, *words: str, **more: float) -> tuple[int, str]:
        np.savez(tmp_path / "solver" / "out.npz", a=scale * np.arange(50.0), **more)
        monkeypatch.setattr(sys, "argv", ["reference.py", *words])
        return compare(), capsys.readouterr().err

    (tmp_path / "solver").mkdir()
    assert told(1.0, "--write", b=2.0) == (0, "")
    assert told(1.0 + 1e-7, b=2.0) == (0, "")
    assert told(1.0 + 1e-5, "--tolerance", "1e-4", b=2.0) == (0, "")
    where = "reference-results/fields.json"
    assert told(1.0 + 1e-5, b=2.0) == (1, f"out.npz: a differs from {where} by 1.0e-05 (relative)\n")
    assert told(1.0) == (1, f"out.npz: b is in {where} alone\n")
    assert told(float("nan"), b=2.0)[0] == 1


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


def test_wrong_input_is_told_in_one_line(tmp_path: Path) -> None:
    case = tmp_path / "pulse"
    copy_tutorial("pulse", case)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(TUTORIALS.parent)}

    def refused(directory: Path, *command: str) -> str:
        done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        return done.stderr

    for ranks in ("0", "four", "--help"):
        assert f"expected a number of ranks as the first argument, found '{ranks}'" in refused(
            case / "inner-python", "./run.sh", ranks
        )
    compare = (sys.executable, str(tmp_path / "tools" / "reference.py"))
    assert "expected results in */*.npz, found none" in refused(case, *compare)
    (case / "inner-python" / "inner.npz").write_text("no archive")
    assert "inner-python/inner.npz: expected the fields of a run, cannot read them" in refused(case, *compare)
    np.savez(case / "inner-python" / "inner.npz", x=np.ones(3))
    (case / "reference-results").rename(case / "elsewhere")
    assert "expected reference-results/fields.json in" in refused(case, *compare)


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
