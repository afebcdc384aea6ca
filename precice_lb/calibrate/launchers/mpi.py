"""The MPI launchers of this machine: where they are and to which family they belong."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path

from precice_lb.exceptions import CalibrationError

__all__ = ["MPIFamily", "MPILibrary", "find_mpiexec", "mpi_library"]


class MPIFamily(Enum):
    """The families of ``mpiexec`` whose command lines differ."""

    HYDRA = "MPICH/Hydra"
    INTEL = "Intel MPI"
    OPEN_MPI = "Open MPI"
    OTHER = "another MPI"


@dataclass(frozen=True)
class MPILibrary:
    """Family and major version (0 where it does not say) of an ``mpiexec``."""

    family: MPIFamily
    major: int


def find_mpiexec(program: str | None = None) -> str:
    """Return the path of ``mpiexec``: ``program``, else the one beside this Python, else the one on the path.

    The one beside the interpreter comes first because it belongs to the environment's mpi4py.
    """
    if program is not None:
        if found := shutil.which(os.path.expanduser(program)):
            return _below_a_prefix(found)
        raise CalibrationError(
            f"launcher.program: expected an MPI launcher, but {program!r} is not an executable program"
        )
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("mpiexec")
    if found is None:
        raise CalibrationError(
            f"no mpiexec beside {sys.executable} or on the path: install one with `pip install mpich` "
            "(or the extra `mpich` of this package), or use the machine's own MPI"
        )
    return _below_a_prefix(found)


def _below_a_prefix(program: str) -> str:
    """Name a program of /bin by the directory that this links to; links of its own say what it is called as."""
    # Open MPI takes the directory above its own for its installation and refuses the root directory.
    directory, name = os.path.split(program)
    return os.path.join(os.path.realpath(directory), name) if os.path.dirname(directory) == "/" else program


@lru_cache(maxsize=8)
def mpi_library(program: str) -> MPILibrary:
    """Tell from ``mpiexec --version`` which family a launcher belongs to."""
    try:
        done = subprocess.run(
            [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CalibrationError(f"{program} --version does not work: {error}") from error
    text = done.stdout + done.stderr
    number = re.search(r"(\d+)\.\d+", text)
    major = int(number[1]) if number else 0
    if any(mark in text for mark in ("Open MPI", "OpenRTE", "PRRTE")):
        return MPILibrary(MPIFamily.OPEN_MPI, major)
    if "Intel(R) MPI" in text:
        return MPILibrary(MPIFamily.INTEL, major)
    if "HYDRA" in text.upper():
        return MPILibrary(MPIFamily.HYDRA, major)
    if done.returncode != 0:
        last = (text.strip().splitlines() or ["no output"])[-1]
        raise CalibrationError(f"{program} --version failed with exit code {done.returncode}: {last}")
    return MPILibrary(MPIFamily.OTHER, major)
