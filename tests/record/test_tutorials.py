"""preCICE's own tutorials, unmodified, with and without recording. They need a copy of the tutorials' repository."""

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
from record_helpers import environment

from precice_lb.dataset import load_runs
from precice_lb.ingest.profiling import enrich
from precice_lb.store.reader import find_stores, read_store

TUTORIALS = os.environ.get("PRECICE_TUTORIALS")

pytestmark = [
    pytest.mark.precice,
    pytest.mark.skipif(not TUTORIALS, reason="PRECICE_TUTORIALS does not name a directory with preCICE's tutorials"),
]


@dataclass(frozen=True)
class Tutorial:
    """A case: by participant its directory and what python is given there; time windows; files it must write."""

    directory: str
    participants: dict[str, tuple[str, list[str]]]
    windows: int
    writes: tuple[str, ...]


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
    Tutorial(
        "oscillator",
        {
            "Mass-Left": ("mass-left-python", ["../solver-python/oscillator.py", "Mass-Left"]),
            "Mass-Right": ("mass-right-python", ["../solver-python/oscillator.py", "Mass-Right"]),
        },
        100,
        ("output/trajectory-*.csv",),
    ),
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


def run(tutorial: Tutorial, case: Path, options: list[str]) -> dict[str, tuple[int, bytes, bytes]]:
    """Exit code, standard output and standard error of each participant."""
    started = {}
    for name, (directory, arguments) in tutorial.participants.items():
        with (case / f"{name}.out").open("wb") as output, (case / f"{name}.err").open("wb") as errors:
            started[name] = subprocess.Popen(
                [sys.executable, "-W", "ignore", *options, *arguments],
                cwd=case / directory,
                env=environment(MPLBACKEND="Agg", PYTHONDONTWRITEBYTECODE="1", OPENBLAS_NUM_THREADS="1"),
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


def results(case: Path) -> dict[str, bytes]:
    """Every file in the participants' directories but preCICE's measured times, and stores."""
    return {
        str(path.relative_to(case)): path.read_bytes()
        for path in sorted(case.rglob("*"))
        if path.parent != case and path.is_file() and not {"precice-profiling", "precice-lb-store"} & set(path.parts)
    }


@pytest.mark.parametrize("tutorial", CASES, ids=[case.directory for case in CASES])
def test_results_are_the_same_with_and_without_recording(tmp_path: Path, tutorial: Tutorial) -> None:
    cases, said = {}, {}
    for name, options in (("plain", []), ("recorded", ["-m", "precice_lb", "run"])):
        cases[name] = case = tmp_path / name
        shutil.copytree(
            Path(str(TUTORIALS)) / tutorial.directory, case, ignore=shutil.ignore_patterns("images", "*.sh")
        )
        said[name] = run(tutorial, case, options)
        assert {participant: code for participant, (code, _, _) in said[name].items()} == dict.fromkeys(
            tutorial.participants, 0
        ), said[name]
    assert said["recorded"] == said["plain"]
    files = results(cases["plain"])
    for pattern in ("precice-*-iterations.log", *tutorial.writes):
        assert any(Path(path).match(pattern) for path in files), pattern
    assert results(cases["recorded"]) == files

    stores = [read_store(path) for path in find_stores([cases["recorded"]])]
    assert sorted(store.metadata["participant"] for store in stores) == sorted(tutorial.participants)
    for store in stores:
        name = store.metadata["participant"]
        log = cases["recorded"] / tutorial.participants[name][0] / f"precice-{name}-iterations.log"
        ends = store.advances[store.advances["window_complete"]]
        np.testing.assert_array_equal(ends["iteration"], np.loadtxt(log, skiprows=1)[:, 2])
        assert store.metadata["finished"] is True
        assert len(ends) == tutorial.windows
    (found,) = load_runs([cases["recorded"]], complete=enrich)
    for participant in found.participants.values():
        assert participant.windows.tolist() == list(range(1, tutorial.windows + 1))
        assert np.isfinite(participant.compute_seconds).all()
        assert (participant.compute_seconds > 0).all()
        assert (participant.wait_seconds >= 0).all()
