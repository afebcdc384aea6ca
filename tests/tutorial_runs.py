"""preCICE's own tutorials, run as they are. They need a copy of the tutorials' repository."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from record_helpers import environment


@dataclass(frozen=True)
class Tutorial:
    """A case: by participant its directory and what python is given there; time windows; files it must write."""

    directory: str
    participants: dict[str, tuple[str, list[str]]]
    windows: int
    writes: tuple[str, ...] = ()


def _oscillator(directory: str) -> Tutorial:
    commands = {
        f"Mass-{side}": (f"mass-{side.lower()}-python", ["../solver-python/oscillator.py", f"Mass-{side}"])
        for side in ("Left", "Right")
    }
    return Tutorial(directory, commands, 100, ("output/trajectory-*.csv",))


CASES = [
    Tutorial(
        "elastic-tube-1d",
        {
            "Fluid": ("fluid-python", ["FluidSolver.py", "../precice-config.xml"]),
            "Solid": ("solid-python", ["SolidSolver.py", "../precice-config.xml"]),
        },
        100,
        ("*.vtk", "*watchpoint*.log"),
    ),
    _oscillator("oscillator"),
    _oscillator("oscillator-overlap"),
    Tutorial(
        "resonant-circuit",
        {"Coil": ("coil-python", ["coil.py"]), "Capacitor": ("capacitor-python", ["capacitor.py"])},
        10,
        ("*watchpoint*.log",),
    ),
    Tutorial(
        "perpendicular-flap",
        {"Fluid": ("fluid-fake", ["fake.py"]), "Solid": ("solid-fake", ["fake.py"])},
        500,
        ("*watchpoint*.log",),
    ),
]


def lay_out(tutorial: Tutorial, case: Path) -> None:
    """Copy a tutorial from the directory that PRECICE_TUTORIALS names, without its scripts."""
    source = Path(os.environ["PRECICE_TUTORIALS"]) / tutorial.directory
    shutil.copytree(source, case, ignore=shutil.ignore_patterns("images", "*.sh"))


def run(tutorial: Tutorial, case: Path, options: list[str], **more: str) -> dict[str, tuple[int, bytes, bytes]]:
    """Exit code, standard output and standard error of each participant, which has more variables."""
    started = {}
    variables = {"MPLBACKEND": "Agg", "PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1"}
    for name, (directory, arguments) in tutorial.participants.items():
        with (case / f"{name}.out").open("wb") as output, (case / f"{name}.err").open("wb") as errors:
            started[name] = subprocess.Popen(
                [sys.executable, "-W", "ignore", *options, *arguments],
                cwd=case / directory,
                env=environment(**variables | more),
                stdout=output,
                stderr=errors,
            )
    try:
        codes = {name: process.wait(timeout=300) for name, process in started.items()}
    finally:
        for process in started.values():
            process.kill()
            process.wait()
    return {name: (code, log(case, f"{name}.out"), log(case, f"{name}.err")) for name, code in codes.items()}


def log(case: Path, name: str) -> bytes:
    """What a solver and preCICE said, without the time of day and the place."""
    return re.sub(rb"\b\d\d:\d\d:\d\d\b", b"", (case / name).read_bytes()).replace(bytes(case), b"")
