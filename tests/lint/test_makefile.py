"""What `make` would run, as README says it."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from markdown_helpers import ROOT


def would_run(*arguments: str) -> str:
    """Return the commands that make would run if nothing was made before."""
    if shutil.which("make") is None:
        pytest.skip("no make")
    command = ["make", "--no-print-directory", "--dry-run", "--always-make", *arguments]
    # Without what another make hands down, such as MPI= of `make test MPI=`.
    environment = {
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MPI")
    }
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize(("words", "extra"), [(["demo"], "[mpich]"), (["demo", "MPI="], "")])
def test_demo_installs_mpich_unless_the_machine_has_its_own_mpi(words: list[str], extra: str) -> None:
    commands = would_run(*words).splitlines()

    installs = [command for command in commands if " pip install " in command]
    assert len(installs) == 1
    assert installs[0].endswith(f'-e ".{extra}"')
    assert commands[-1] == ".venv/bin/precice-lb demo"


def test_make_test_lints_checks_types_and_runs_the_tests() -> None:
    # What it runs through another make is not shown.
    commands = would_run("test")
    assert "types style" in commands
    assert "-m pytest" in commands
    assert "mypy" in would_run("types")
    assert "ruff check ." in would_run("style")


def test_make_mutants_takes_subpackages_and_a_seed() -> None:
    command = would_run("mutants", "SUBPACKAGES=split watch", "SEED=7", "JOBS=2").splitlines()[-1]
    assert command == "PYTHONPATH=tests .venv/bin/python -m mutants --jobs 2 --seed 7 split watch"
