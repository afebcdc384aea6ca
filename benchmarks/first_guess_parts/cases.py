"""Coupled cases: tutorials of preCICE and of this project, as they are or with an edit."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

__all__ = ["CASES", "CONFIGURATION", "ROOT", "Case"]

ROOT = Path(__file__).resolve().parents[2]
CONFIGURATION = "precice-config.xml"


@dataclass(frozen=True)
class Case:
    """A coupled case: where it is, for each program its directory and arguments, and what of it is compared."""

    directory: str
    programs: tuple[tuple[str, str], ...]
    results: str
    # By file: what is there, and what is put in its place.
    edits: tuple[tuple[str, str, str], ...] = ()
    ranks: tuple[int, ...] = (1, 1)
    python: str = ""

    def lay_out(self, target: Path) -> Path:
        """Copy the case with its edits; return the path of its configuration."""
        source = Path(os.path.expandvars(self.directory))
        if "$" in str(source):
            raise SystemExit(f"{source}: set PRECICE_TUTORIALS to a copy of preCICE's tutorials")
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("images", "precice-profiling", "*.log"))
        for name, old, new in self.edits:
            text = (target / name).read_text()
            assert old in text, (name, old)
            (target / name).write_text(text.replace(old, new))
        return target / CONFIGURATION


TUBE = Case(
    "$PRECICE_TUTORIALS/elastic-tube-1d",
    (
        ("fluid-python", f"FluidSolver.py ../{CONFIGURATION}"),
        ("solid-python", f"SolidSolver.py ../{CONFIGURATION}"),
    ),
    "fluid-python/output/out_fluid_*.vtk",
)
OSCILLATOR = Case(
    "$PRECICE_TUTORIALS/oscillator",
    (
        ("mass-left-python", "../solver-python/oscillator.py Mass-Left"),
        ("mass-right-python", "../solver-python/oscillator.py Mass-Right"),
    ),
    "mass-*-python/output/trajectory-*.csv",
)
INFLOW = "u0 + ampl * np.sin(frequency *\n                                              (t + t_shift) * np.pi)"
OWN_TUBE = Case(
    str(ROOT / "tutorials/elastic-tube"),
    (
        ("fluid-python", "../solver-python/fluid.py --output fluid.npz"),
        ("solid-python", "../solver-python/solid.py"),
    ),
    "fluid-python/fluid.npz",
)


def _tube(*edits: tuple[str, str, str]) -> Case:
    return replace(TUBE, edits=edits)


def _reused(windows: int) -> Case:
    return _tube((CONFIGURATION, 'time-windows-reused value="8"', f'time-windows-reused value="{windows}"'))


CASES = {
    "tube-1d": TUBE,
    "tube-1d-61": _tube(("solid-python/SolidSolver.py", "N = 100 ", "N = 60 ")),
    # Totounferoush (2022), equation 4.7, with the number of the time step.
    "tube-1d-thesis": _tube(
        ("fluid-python/FluidSolver.py", INFLOW, "u0 + u0 / 100 * np.sin(np.pi * round(t / 0.01) / 10) ** 2")
    ),
    "tube-1d-reused-2": _reused(2),
    "tube-1d-reused-20": _reused(20),
    "oscillator": OSCILLATOR,
    # Its own limits are near rounding errors. There residuals repeat themselves to the last digit, or are exactly zero,
    # and Aitken's factor becomes NaN or zero for the rest of the run.
    "oscillator-1e-8": replace(OSCILLATOR, edits=((CONFIGURATION, 'limit="1e-10"', 'limit="1e-8"'),)),
    # Ten windows are too few to learn anything from.
    "heat": Case(
        "$PRECICE_TUTORIALS/partitioned-heat-conduction",
        (("dirichlet-nutils", "heat.py"), ("neumann-nutils", "heat.py")),
        "neumann-nutils/precice-*-watchpoint-*.log",
        (
            (CONFIGURATION, '<time-window-size value="0.1"', '<time-window-size value="0.02"'),
            (
                CONFIGURATION,
                '<participant name="Neumann">',
                '<participant name="Neumann"><watch-point mesh="Neumann-Mesh" name="Middle" coordinate="1; 0.5" />',
            ),
        ),
        python="PRECICE_NUTILS_PYTHON",
    ),
    "flap": Case(
        "$PRECICE_TUTORIALS/perpendicular-flap",
        (("fluid-fake", "fake.py"), ("solid-nutils", "solid.py")),
        "solid-nutils/precice-*-watchpoint-*.log",
        ((CONFIGURATION, '<max-time value="5"', '<max-time value="1"'),),
        python="PRECICE_NUTILS_PYTHON",
    ),
    "tube": OWN_TUBE,
    "tube-2+3": replace(
        OWN_TUBE,
        ranks=(2, 3),
        edits=((CONFIGURATION, 'max-time-windows value="280"', 'max-time-windows value="40"'),),
    ),
}
