"""The MPI of the launcher beside the MPI of each solver: ranks of another one start as runs of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from precice_lb.calibrate.launchers import Launcher
from precice_lb.calibrate.launchers.local import MpiexecLauncher, MPIFamily
from precice_lb.calibrate.prepare import tokens_of
from precice_lb.calibrate.study import Study
from precice_lb.exceptions import PreciceLBError

__all__ = ["linked_mpi", "mpi_mismatches", "mpi_of_python"]

MPICH, OPEN_MPI = "MPICH", "Open MPI"

# Intel MPI has MPICH's interface, and either's mpiexec starts the other's ranks.
_LAUNCHED = {MPIFamily.HYDRA: MPICH, MPIFamily.INTEL: MPICH, MPIFamily.OPEN_MPI: OPEN_MPI}
_SHARED_OBJECTS = re.compile(r"^\s*(libmpi(?:ch|cxx|fort)?(?:_[\w]+)?\.so\.(\d+))", re.MULTILINE)
# MPI itself is not started: this process would be a rank.
_PROBE = """\
import importlib.util
import mpi4py
mpi4py.rc.initialize = False
from mpi4py import MPI
print(MPI.Get_library_version().splitlines()[0])
spec = importlib.util.find_spec("cyprecice")
print(spec.origin if spec else "")
"""
_SECONDS = 30


def mpi_mismatches(study: Study, launcher: Launcher) -> list[str]:
    """Say whose solver is linked to another MPI than that of the launcher, or to two of them.

    One line stands for all whom it concerns. Where either cannot be found out nothing is said.
    """
    launched = _LAUNCHED.get(launcher.library.family) if isinstance(launcher, MpiexecLauncher) else None
    found: dict[str, list[str]] = {}
    for participant, (_, most) in zip(study.participants, study.bounds.values(), strict=True):
        cores = max(most, participant.minimum_ranks)
        try:
            directory = study.case_directory / participant.directory
            ranks, program = study.layout(participant.name, cores).ranks, tokens_of(study, participant, cores)[0]
        except PreciceLBError:
            continue
        environment = {**os.environ, **study.environment}
        solver = _mpi_of(str(directory / program), environment)
        if len(set(solver.values())) > 1:
            both = " and ".join(f"{what} to {mpi}" for what, mpi in solver.items())
            text = (
                f"{both} are linked, and no process can hold two MPI libraries: build one of them with the other's "
                "compilers"
            )
            found.setdefault(text, []).append(participant.name)
        elif launched is not None and ranks > 1 and solver and launched not in solver.values():
            what, mpi = next(iter(solver.items()))
            assert isinstance(launcher, MpiexecLauncher)
            text = (
                f"{what} is linked to {mpi}, but {launcher.program} belongs to {launched} and would start every rank "
                f"as a run of its own: name the mpiexec of {mpi} in launcher.program"
            )
            found.setdefault(text, []).append(participant.name)
    return [f"{', '.join(names)}: {text}" for text, names in found.items()]


def _mpi_of(program: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Which MPI is in a program, by what has it; empty where that is not known."""
    name = Path(program).name
    if name == "precice-lb":
        program, name = sys.executable, Path(sys.executable).name
    libraries = environment.get("LD_LIBRARY_PATH", "")
    if re.fullmatch(r"python[\d.]*", name):
        unused = {"libprecice"} if environment.get("PRECICE_LB_BACKEND") == "embedded" else set()
        found = mpi_of_python(program, libraries, environment.get("PYTHONPATH", ""))
        return {what: mpi for what, mpi in found.items() if what not in unused}
    mpi = linked_mpi(program, libraries)
    return {} if mpi is None else {name: mpi}


@lru_cache(maxsize=16)
def mpi_of_python(python: str, libraries: str = "", modules: str = "") -> Mapping[str, str]:
    """Which MPI mpi4py and libprecice have that a Python would import; empty where that is not known."""
    lines = _output([python, "-c", _PROBE], libraries, modules).splitlines()
    if len(lines) < 2:
        return {}
    # A message of the library may come first.
    version, extension = lines[-2:]
    known = {"Open MPI": OPEN_MPI, "MPICH": MPICH, "Intel(R) MPI": MPICH}
    found = {"mpi4py": next((mpi for mark, mpi in known.items() if mark in version), None)}
    found["libprecice"] = linked_mpi(extension, libraries) if extension else None
    return {what: mpi for what, mpi in found.items() if mpi is not None}


@lru_cache(maxsize=64)
def linked_mpi(program: str, libraries: str = "") -> str | None:
    """Which MPI an executable or a shared library is linked to, by ``ldd``; None where it does not say."""
    # Up to its version 5 Open MPI counts from 40; MPICH's ABI, which Intel MPI has too, is 12.
    for name, number in _SHARED_OBJECTS.findall(_output(["ldd", program], libraries)):
        if name.startswith("libmpich"):
            return MPICH
        if name.startswith("libmpi.so"):
            return OPEN_MPI if int(number) >= 20 else MPICH if int(number) == 12 else None
    return None


def _output(tokens: list[str], libraries: str, modules: str | None = None) -> str:
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries}
    if modules:
        environment["PYTHONPATH"] = modules
    try:
        done = subprocess.run(
            tokens, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS, check=False,
            env=environment,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    return done.stdout if done.returncode == 0 else ""
