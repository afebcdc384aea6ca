"""preCICE's own Python tutorials, unmodified, on the embedded backend: with the results that they have on libprecice.

They need a copy of the tutorials' repository.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

TUTORIALS = os.environ.get("PRECICE_TUTORIALS")

pytestmark = [
    pytest.mark.precice,
    pytest.mark.skipif(not TUTORIALS, reason="PRECICE_TUTORIALS does not name a directory with preCICE's tutorials"),
]


@dataclass(frozen=True)
class Tutorial:
    """A case: by participant its directory and its command; the convergence limit; the tables that are compared."""

    directory: str
    participants: dict[str, tuple[str, list[str]]]
    limit: float
    tables: tuple[str, ...]


def _oscillator(directory: str) -> Tutorial:
    commands = {
        f"Mass-{side}": (f"mass-{side.lower()}-python", ["../solver-python/oscillator.py", f"Mass-{side}"])
        for side in ("Left", "Right")
    }
    return Tutorial(directory, commands, 1e-10, ("*/output/trajectory-*.csv",))


CASES = [
    Tutorial(
        "elastic-tube-1d",
        {
            "Fluid": ("fluid-python", ["FluidSolver.py", "../precice-config.xml"]),
            "Solid": ("solid-python", ["SolidSolver.py", "../precice-config.xml"]),
        },
        1e-5,
        ("*/*watchpoint*.log",),
    ),
    _oscillator("oscillator"),
    _oscillator("oscillator-overlap"),
    Tutorial(
        "resonant-circuit",
        {"Coil": ("coil-python", ["coil.py"]), "Capacitor": ("capacitor-python", ["capacitor.py"])},
        1e-3,
        ("*/*watchpoint*.log",),
    ),
    Tutorial(
        "perpendicular-flap",
        {"Fluid": ("fluid-fake", ["fake.py"]), "Solid": ("solid-fake", ["fake.py"])},
        5e-3,
        ("*/*watchpoint*.log",),
    ),
]


def run(tutorial: Tutorial, case: Path, backend: str) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
        "PRECICE_LB_BACKEND": backend,
        "PRECICE_LB_RECORD": "0",
        "MPLBACKEND": "Agg",
        "OMP_NUM_THREADS": "1",
    }
    shutil.copytree(Path(str(TUTORIALS)) / tutorial.directory, case)
    processes = {}
    for name, (directory, arguments) in tutorial.participants.items():
        with (case / f"{name}.out").open("wb") as output:
            processes[name] = subprocess.Popen(
                [sys.executable, "-m", "precice_lb", "run", *arguments],
                cwd=case / directory,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
    try:
        for name, process in processes.items():
            assert process.wait(900) == 0, (case / f"{name}.out").read_text()
    finally:
        for process in processes.values():
            process.kill()
            process.wait()


def table(path: Path) -> np.ndarray:
    rows = [re.split(r"[;,\s]+", line.strip()) for line in path.read_text().splitlines()[1:]]
    return np.array([[float(cell) for cell in row if cell] for row in rows])


@pytest.mark.parametrize("tutorial", CASES, ids=lambda tutorial: tutorial.directory)
def test_as_on_libprecice(tutorial: Tutorial, tmp_path: Path) -> None:
    for backend in ("libprecice", "embedded"):
        run(tutorial, tmp_path / backend, backend)
    names = [
        path.relative_to(tmp_path / "libprecice")
        for pattern in (*tutorial.tables, "*/precice-*-iterations.log")
        for path in (tmp_path / "libprecice").glob(pattern)
    ]
    assert len(names) > len(tutorial.participants)
    quasi_newton = "IQN" in (tmp_path / "embedded" / "precice-config.xml").read_text()
    for name in names:
        expected, found = table(tmp_path / "libprecice" / name), table(tmp_path / "embedded" / name)
        if name.name.endswith("iterations.log"):
            # Window, iterations in all, iterations of the window.
            np.testing.assert_array_equal(found[:, 0], expected[:, 0])
            if not quasi_newton:
                np.testing.assert_array_equal(found[:, 2], expected[:, 2])
                continue
            # The columns of quasi-Newton multiply rounding errors by ten in every few iterations: the first windows
            # take the same number of iterations, later ones as many on average.
            np.testing.assert_allclose(found[:10, 2], expected[:10, 2], atol=1.0)
            assert abs(found[-1, 1] - expected[-1, 1]) <= 0.03 * expected[-1, 1]
        else:
            scale = np.abs(expected).max(axis=0)
            assert (np.abs(found - expected).max(axis=0) <= tutorial.limit * scale + 1e-12).all()
