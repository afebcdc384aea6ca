"""A campaign of a compiled solver on libprecice: what was planted is what is measured."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from calibrate_helpers import changed, run_study, write_case, write_study
from conftest import FULL_COUNTS

from precice_lb.dataset import load_measurements
from precice_lb.ingest.profiling import enrich


def compiled_sleeper(directory: Path) -> Path:
    """Compile the C program of this test against libprecice."""
    compiler = shutil.which("gcc") or pytest.skip("no gcc on this machine")
    # The library that pyprecice has loaded, whichever way the machine finds it, and the headers beside it.
    code = "import precice; print(next(l.split()[-1] for l in open('/proc/self/maps') if 'libprecice.so' in l))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    library = Path(done.stdout.strip())
    headers = library.parent.parent / "include"
    if not (headers / "precice" / "preciceC.h").exists():
        pytest.skip(f"no headers of libprecice below {headers}")
    program = directory / "sleeper"
    source = Path(__file__).parent / "sleeper.c"
    options = [f"-I{headers}", str(library), f"-Wl,-rpath,{library.parent}", "-Wl,--allow-shlib-undefined"]
    subprocess.run([compiler, "-O1", "-Wall", "-Werror", "-o", program, source, *options], check=True)
    return program


@pytest.mark.mpi
@pytest.mark.precice
@pytest.mark.usefixtures("mpiexec")
def test_a_compiled_solver_is_calibrated_through_profiling_files_alone(tmp_path: Path) -> None:
    case = write_case(tmp_path)
    (case / "solver.py").unlink()
    compiled_sleeper(case)
    path = write_study(tmp_path, runs="splits = [{Left=1, Right=2}, {Left=2, Right=1}]")
    changed(path, ("python solver.py Left", "./sleeper Left 0.4"), ("python solver.py Right", "./sleeper Right 0.2"))
    result = run_study(path)
    assert len(result.finished) == 2, result.runs
    measured = load_measurements(result.stores, complete=enrich)
    samples = {name: rows[np.argsort(rows[:, 0])] for name, rows in measured.samples.items()}
    assert [rows[:, 0].tolist() for rows in samples.values()] == [[1, 2]] * 2
    for name, work in (("Left", 0.4), ("Right", 0.2)):
        least = work / samples[name][:, 0]
        # Ranks on a busy machine may be late, never early.
        assert np.all(samples[name][:, 1] >= least * 0.99)
        if FULL_COUNTS:
            assert np.all(samples[name][:, 1] <= least + 0.25)
