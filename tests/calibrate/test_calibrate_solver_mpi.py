"""The MPI of the launcher and of the solvers are compared before anything runs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from calibrate_helpers import write_case, write_study

from precice_lb.calibrate import Event, read_study, run_campaign
from precice_lb.calibrate.launchers import make_launcher
from precice_lb.calibrate.solver_mpi import linked_mpi, mpi_mismatches, mpi_of_python

HYDRA, OPEN_MPI_4 = "HYDRA build details", "mpiexec.openmpi (OpenRTE) 4.1.4"
LINKED = {
    "Open MPI": "\tlibmpi.so.40 => /lib/libmpi.so.40 (0x1)\n\tlibc.so.6 => /lib/libc.so.6 (0x2)",
    "MPICH": "\tlibmpi.so.12 => not found",
    "Debian's MPICH": "\tlibmpichcxx.so.12 => /l/x (0x1)\n\tlibmpich.so.12 => /l/x (0x1)",
    "none": "\tlibc.so.6 => /lib/libc.so.6 (0x2)",
}


def program(path: Path, output: str) -> Path:
    """A program that says one thing whatever it is asked."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{output}\nEND\n")
    path.chmod(0o755)
    return path


def mismatches(
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    launcher: str,
    solver: str,
    linked: str = "",
    most: int = 3,
    right: str = "",
) -> list[str]:
    """What is said of a Left that is a fake Python, or a fake compiled program where ``solver`` is empty."""
    write_case(directory)
    mpiexec = program(directory / "bin" / "mpiexec", launcher)
    started = program(directory / "bin" / "python3.12", solver) if solver else program(directory / "bin" / "fluid", "")
    program(directory / "bin" / "ldd", LINKED[linked or "none"])
    monkeypatch.setenv("PATH", f"{directory / 'bin'}{os.pathsep}{os.environ['PATH']}")
    path = write_study(directory, launcher=f"program = '{mpiexec}'", left=f"maximum_ranks = {most}")
    text = path.read_text().replace("python solver.py Left", f"{started} solver.py")
    path.write_text(text.replace("python solver.py Right", right or "sh -c true"))
    study = read_study(path)
    return mpi_mismatches(study, make_launcher("mpiexec", study.launcher_options))


@pytest.mark.parametrize(
    ("launcher", "solver", "expected"),
    [
        (HYDRA, "MPICH Version:      4.2.0\n", None),
        (HYDRA, "Intel(R) MPI Library 2021.9 for Linux* OS\n", None),
        (OPEN_MPI_4, "Open MPI v4.1.4, package: Debian OpenMPI\n", None),
        ("Great MPI 1.0", "Open MPI v4.1.4\n", None),
        (OPEN_MPI_4, "another MPI\n", None),
        (OPEN_MPI_4, "MPICH Version:      4.2.0\n", ("MPICH", "Open MPI")),
        (HYDRA, "Open MPI v4.1.4\n", ("Open MPI", "MPICH")),
    ],
)
def test_mpi4py_is_compared_with_the_launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launcher: str, solver: str, expected: tuple[str, str] | None
) -> None:
    said = mismatches(tmp_path, monkeypatch, launcher=launcher, solver=solver)
    if expected is None:
        assert said == []
        return
    theirs, ours = expected
    (line,) = said
    assert line == (
        f"Left: mpi4py is linked to {theirs}, but {tmp_path}/bin/mpiexec belongs to {ours} and would start every rank "
        f"as a run of its own: name the mpiexec of {theirs} in launcher.program"
    )


def test_all_whom_it_concerns_stand_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = f"{tmp_path}/bin/python3.12 solver.py"
    (line,) = mismatches(tmp_path, monkeypatch, launcher=HYDRA, solver="Open MPI v4.1.4\n", right=right)
    assert line.startswith("Left, Right: mpi4py is linked to Open MPI, but ")


def test_one_rank_needs_no_launcher_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert mismatches(tmp_path, monkeypatch, launcher=HYDRA, solver="Open MPI v4.1.4\n", most=1) == []


def test_two_mpi_libraries_in_one_process_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    solver = f"Open MPI v4.1.4\n{tmp_path}/cyprecice.so"
    (line,) = mismatches(tmp_path, monkeypatch, launcher=OPEN_MPI_4, solver=solver, linked="MPICH")
    assert line.startswith("Left: mpi4py to Open MPI and libprecice to MPICH are linked, and no process can hold two")
    monkeypatch.setenv("PRECICE_LB_BACKEND", "embedded")
    shutil.rmtree(tmp_path / "case")
    assert mismatches(tmp_path, monkeypatch, launcher=OPEN_MPI_4, solver=solver, linked="MPICH") == []


@pytest.mark.parametrize(
    ("launcher", "linked", "expected"),
    [
        (HYDRA, "Open MPI", "Open MPI"),
        (OPEN_MPI_4, "Debian's MPICH", "MPICH"),
        (OPEN_MPI_4, "MPICH", "MPICH"),
        (OPEN_MPI_4, "Open MPI", None),
        (OPEN_MPI_4, "none", None),
    ],
)
def test_compiled_solvers_are_compared_by_what_they_are_linked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launcher: str, linked: str, expected: str | None
) -> None:
    said = mismatches(tmp_path, monkeypatch, launcher=launcher, solver="", linked=linked)
    assert [line.partition(", but ")[0] for line in said] == (
        [] if expected is None else [f"Left: fluid is linked to {expected}"]
    )


def test_what_cannot_be_found_out_is_not_said(tmp_path: Path) -> None:
    assert linked_mpi("/bin/sh") is None
    assert linked_mpi(str(tmp_path / "missing")) is None
    assert mpi_of_python(str(tmp_path / "python3")) == {}
    assert mpi_of_python(str(program(tmp_path / "python3", "Traceback"))) == {}


@pytest.mark.mpi
def test_a_campaign_says_so_before_its_first_run(tmp_path: Path, mpiexec: str) -> None:
    write_case(tmp_path)
    other = program(tmp_path / "bin" / "python3", "Open MPI v4.1.4\n")
    path = write_study(tmp_path, runs="splits = [{Left=1, Right=1}]", launcher=f"program = '{mpiexec}'\npin = false")
    path.write_text(path.read_text().replace("python solver.py Left", f"{other} solver.py"))
    events: list[Event] = []
    study = read_study(path)
    launcher = make_launcher("mpiexec", study.launcher_options)
    with pytest.raises(Exception, match="every run failed"):
        run_campaign(study, tmp_path / "campaign", report=events.append)
    kinds = [event.kind for event in events]
    expected = ["warning"] * len(mpi_mismatches(study, launcher))
    assert kinds[: 1 + len(expected)] == ["started", *expected]
    assert kinds[1 + len(expected)] == "run started"
    assert all((event.kind == "warning") == str(event).startswith("warning: ") for event in events)


@pytest.mark.mpi
def test_the_mpis_of_this_machine_are_told_apart(mpiexec: str) -> None:
    openmpi = shutil.which("ompi_info")
    if openmpi is None:
        pytest.skip("no Open MPI on this machine")
    assert linked_mpi(openmpi) == "Open MPI"
