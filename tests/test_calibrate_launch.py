"""Launchers: the exact tokens, then the same command for real."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from precice_lb.calibrate import launcher, launcher_names, make_launcher
from precice_lb.calibrate.launch import MpiexecLauncher, MPILibrary, find_mpiexec, mpi_library
from precice_lb.exceptions import CalibrationError

# In one piece, since ranks share the output.
RANK = """\
import os
rank = os.environ.get("PMI_RANK", os.environ.get("OMPI_COMM_WORLD_RANK"))
os.write(1, f"rank {rank} {os.environ['SEEN']}\\n".encode())
"""


def fake_mpiexec(directory: Path, version: str) -> str:
    """A program that answers ``--version`` as an MPI does, to see the tokens without that MPI."""
    program = directory / "mpiexec"
    program.write_text(f"#!/bin/sh\necho '{version}'\n")
    program.chmod(0o755)
    return str(program)


def tokens(program: str, *arguments: str) -> list[str]:
    made = make_launcher("mpiexec", program=program, arguments=arguments)
    return made.tokens(["solver", "in put"], ranks=3, participant="A", environment={})


def test_tokens_for_hydra(tmp_path: Path) -> None:
    program = fake_mpiexec(tmp_path, "HYDRA build details:\n    Version: 5.0.2")
    assert tokens(program) == [program, "-n", "3", "solver", "in put"]
    assert tokens(program, "-bind-to", "core") == [program, "-bind-to", "core", "-n", "3", "solver", "in put"]
    assert make_launcher("mpiexec", program=program).environment() == {}


@pytest.mark.parametrize("version", ["mpirun (Open MPI) 5.0.3", "mpiexec.openmpi (OpenRTE) 4.1.4"])
def test_tokens_for_open_mpi(tmp_path: Path, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = fake_mpiexec(tmp_path, version)
    wanted = [program, "--oversubscribe", "--bind-to", "none", "-n", "3", "solver", "in put"]
    assert tokens(program) == wanted
    made = make_launcher("mpiexec", program=program)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert made.environment() == {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert made.environment() == {}


def test_tokens_for_an_unknown_mpi(tmp_path: Path) -> None:
    program = fake_mpiexec(tmp_path, "Great MPI 1.0")
    assert mpi_library(program) is MPILibrary.OTHER
    assert tokens(program) == [program, "-n", "3", "solver", "in put"]


def run_real(program: str, ranks: int) -> list[str]:
    made = make_launcher("mpiexec", program=program)
    environment = {**os.environ, "SEEN": "yes", **made.environment()}
    command = made.tokens([sys.executable, "-c", RANK], ranks=ranks, participant="A", environment=environment)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())


@pytest.mark.mpi
def test_the_environments_mpiexec_starts_the_ranks_it_is_told(mpiexec: str) -> None:
    assert run_real(mpiexec, 5) == [f"rank {rank} yes" for rank in range(5)]


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("name", "library"), [("mpiexec.openmpi", MPILibrary.OPEN_MPI), ("mpiexec.mpich", MPILibrary.HYDRA)]
)
def test_the_systems_mpiexec_starts_more_ranks_than_cores(name: str, library: MPILibrary) -> None:
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"no {name} on this machine")
    assert mpi_library(program) is library
    ranks = (os.cpu_count() or 1) + 1
    assert run_real(program, ranks) == sorted(f"rank {rank} yes" for rank in range(ranks))


def test_the_mpiexec_beside_the_interpreter_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside, on_path = tmp_path / "env", tmp_path / "usr"
    for directory in (beside, on_path):
        directory.mkdir()
        fake_mpiexec(directory, "HYDRA")
    monkeypatch.setenv("PATH", str(on_path))
    monkeypatch.setattr(sys, "executable", str(beside / "python"))
    assert find_mpiexec() == str(beside / "mpiexec")
    (beside / "mpiexec").unlink()
    assert find_mpiexec() == str(on_path / "mpiexec")
    (on_path / "mpiexec").unlink()
    with pytest.raises(CalibrationError, match=r"no mpiexec beside .*pip install mpich"):
        find_mpiexec()


def test_a_program_that_is_missing_or_broken_is_named(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match=r"launcher\.program: .*'no-such-mpi'"):
        make_launcher("mpiexec", program="no-such-mpi")
    broken = tmp_path / "mpiexec"
    broken.write_text("#!/bin/sh\necho libmpi.so is missing >&2\nexit 127\n")
    broken.chmod(0o755)
    with pytest.raises(CalibrationError, match=r"exit code 127: libmpi\.so is missing"):
        make_launcher("mpiexec", program=str(broken))


def test_the_registry() -> None:
    assert "mpiexec" in launcher_names()
    with pytest.raises(CalibrationError, match=r"unknown launcher 'srun': expected one of mpiexec"):
        make_launcher("srun")
    with pytest.raises(ValueError, match=r"'mpiexec' is registered already"):
        launcher("mpiexec")(MpiexecLauncher)
