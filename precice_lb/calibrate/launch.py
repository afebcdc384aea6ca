"""Launchers: how a participant's command becomes a command line that starts its ranks.

A launcher is registered by name with `launcher` and answers with a list of tokens, so that a test can check the exact
command before it is run for real.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Protocol, TypeVar

from precice_lb.exceptions import CalibrationError

__all__ = [
    "Launcher",
    "MPILibrary",
    "MpiexecLauncher",
    "find_mpiexec",
    "launcher",
    "launcher_names",
    "make_launcher",
    "without_banner",
]


class Launcher(Protocol):
    """Turns a participant's command and rank count into the tokens that start it."""

    def __init__(self, *, program: str | None = None, arguments: Sequence[str] = ()) -> None:
        """Find what is needed; raise `CalibrationError` where it is missing."""

    def tokens(
        self, command: Sequence[str], *, ranks: int, participant: str, environment: Mapping[str, str]
    ) -> list[str]:
        """Return the command line that starts ``ranks`` ranks of ``command``."""

    def environment(self) -> dict[str, str]:
        """Return variables that the started command line needs besides the study's."""


# What mpiexec says after a rank has failed: it stands last in the log and hides the solver's own words.
_BANNER = re.compile(
    r"^(=|-{10,}|YOUR APPLICATION TERMINATED|This typically refers to a problem|Please see the FAQ"
    r"|Primary job +terminated|a non-zero exit code|mpi(exec|run)\S* (detected|noticed) that"
    r"|\s+Process name:|\s+Exit code:)"
)

_LauncherType = TypeVar("_LauncherType", bound=type[Launcher])
_REGISTRY: dict[str, type[Launcher]] = {}


def launcher(name: str) -> Callable[[_LauncherType], _LauncherType]:
    """Register the decorated class as the launcher that a study calls ``name``."""

    def register(cls: _LauncherType) -> _LauncherType:
        if name in _REGISTRY:
            raise ValueError(f"launcher {name!r} is registered already, by {_REGISTRY[name].__qualname__}")
        _REGISTRY[name] = cls
        return cls

    return register


def launcher_names() -> tuple[str, ...]:
    """Return the names that ``launcher.name`` of a study may have."""
    return tuple(sorted(_REGISTRY))


def make_launcher(name: str, *, program: str | None = None, arguments: Sequence[str] = ()) -> Launcher:
    """Make the launcher registered as ``name``.

    Parameters
    ----------
    name
        A registered name.
    program
        Program to use instead of the one the launcher would look for.
    arguments
        Further arguments of that program, before the participant's command.

    Raises
    ------
    CalibrationError
        When the name is unknown or the program is missing.
    """
    if name not in _REGISTRY:
        raise CalibrationError(f"unknown launcher {name!r}: expected one of {', '.join(launcher_names())}")
    return _REGISTRY[name](program=program, arguments=arguments)


def without_banner(lines: Sequence[str]) -> list[str]:
    """Drop from the end of a log what an MPI launcher adds when a rank fails, unless nothing else is there."""
    return [line for line in lines if not _BANNER.match(line)] or list(lines)


class MPILibrary(Enum):
    """The families of ``mpiexec`` whose command lines differ."""

    HYDRA = "MPICH/Hydra"
    OPEN_MPI = "Open MPI"
    OTHER = "another MPI"


def find_mpiexec(program: str | None = None) -> str:
    """Return the path of ``mpiexec``: ``program``, else the one beside this Python, else the one on the path.

    The one beside the interpreter comes first because it belongs to the environment's mpi4py.

    Raises
    ------
    CalibrationError
        When there is none.
    """
    if program is not None:
        if found := shutil.which(os.path.expanduser(program)):
            return found
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
    return found


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
    if any(mark in text for mark in ("Open MPI", "OpenRTE", "PRRTE")):
        return MPILibrary.OPEN_MPI
    if "HYDRA" in text.upper() or "Intel(R) MPI" in text:
        return MPILibrary.HYDRA
    if done.returncode != 0:
        last = (text.strip().splitlines() or ["no output"])[-1]
        raise CalibrationError(f"{program} --version failed with exit code {done.returncode}: {last}")
    return MPILibrary.OTHER


@launcher("mpiexec")
class MpiexecLauncher:
    """``mpiexec`` on this machine, from MPICH or Open MPI.

    Open MPI refuses more ranks than cores and, as root, to run at all, unless told otherwise. It also binds each
    participant's ranks to cores from the first core on, so that two participants would share cores while others
    idle: its binding is switched off. Hydra neither limits nor binds.
    """

    def __init__(self, *, program: str | None = None, arguments: Sequence[str] = ()) -> None:
        self.program = find_mpiexec(program)
        self.arguments = tuple(arguments)
        self.library = mpi_library(self.program)

    def tokens(
        self, command: Sequence[str], *, ranks: int, participant: str, environment: Mapping[str, str]
    ) -> list[str]:
        """Return ``mpiexec -n ranks command`` with what the MPI library needs.

        Ranks on this machine inherit ``environment``, so that it need not be spelt out; every participant is
        started alike.
        """
        options = ["--oversubscribe", "--bind-to", "none"] if self.library is MPILibrary.OPEN_MPI else []
        return [self.program, *options, *self.arguments, "-n", str(ranks), *command]

    def environment(self) -> dict[str, str]:
        """Return Open MPI's permission to run as root where that is so; nothing otherwise."""
        if self.library is MPILibrary.OPEN_MPI and os.geteuid() == 0:
            return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return {}
