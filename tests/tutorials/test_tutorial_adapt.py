"""The tutorial on adapting a solver: the plate in Python and C++, its profiling files, and what is recommended."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from emulation import read_laws
from report_helpers import precice_lb
from tutorial_helpers import (
    TUTORIALS,
    copy_tutorial,
    couple,
    run_together,
    script_environment,
    tutorial_modules,
)

from precice_lb.dataset import load_runs
from precice_lb.ingest.profiling import enrich

PLATE = TUTORIALS / "adapt-your-solver"
README = (PLATE / "README.md").read_text(encoding="utf-8")
(plot,) = tutorial_modules("adapt-your-solver", "plot")
CELLS, STEP = 32, 2e-4


def one_plate(windows):
    """Solve the whole plate (y, x) at once, without ranks and without coupling."""
    y = (np.arange(CELLS) + 0.5) / CELLS
    x = (np.arange(2 * CELLS) + 0.5) / CELLS - 1.0
    field = plot.exact(x, y, 0.0)
    for _ in range(windows):
        wide = np.pad(field, 1, mode="edge")
        around = wide[2:, 1:-1] + wide[:-2, 1:-1] + wide[1:-1, 2:] + wide[1:-1, :-2]
        field = field + STEP * CELLS**2 * (around - 4.0 * field)
    return field


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [(1, 1), (2, 1)])
def test_two_halves_are_one_plate_on_any_ranks(mpiexec, tmp_path, ranks):
    copy_tutorial("adapt-your-solver", tmp_path / "run", windows=40)
    solvers = dict(zip(("left-python", "right-python"), ranks, strict=True))
    left, right = couple(mpiexec, tmp_path / "run", solvers, backend="embedded")
    np.testing.assert_allclose(
        np.hstack([left["temperature"], right["temperature"]]), one_plate(40), rtol=0.0, atol=1e-14
    )
    assert float(left["time"]) == pytest.approx(40 * STEP)


def test_the_recorded_profiling_files_lead_to_the_best_split(tmp_path):
    precice_lb("import", "precice-profiling", str(PLATE / "recorded"), "--output", "stores", cwd=tmp_path)
    assert "Left, 2 ranks" in precice_lb("summary", "stores", cwd=tmp_path).stdout
    laws = read_laws(PLATE / "law.json")
    for run in load_runs([tmp_path / "stores"], complete=enrich):
        for name, part in run.participants.items():
            law = float(laws[name].seconds(part.ranks))
            assert law < np.median(part.compute_seconds) < 1.2 * law  # recorded on a busy machine
    answer = precice_lb("recommend", "stores", "--ranks", "16", "--format", "json", cwd=tmp_path)
    assert json.loads(answer.stdout)["split"] == {"Left": 12, "Right": 4}


@pytest.fixture(scope="module")
def compiled(mpiexec, tmp_path_factory):
    """Let the run.sh of a copy build and run what is in C++, with the libprecice that pyprecice has loaded."""
    if shutil.which("make") is None or shutil.which("pkg-config") is None:
        pytest.skip("make or pkg-config is missing")
    directory = tmp_path_factory.mktemp("compiled") / "case"
    copy_tutorial("adapt-your-solver", directory)
    code = "import precice; print(next(l.split()[-1] for l in open('/proc/self/maps') if 'libprecice.so' in l))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    environment = script_environment(mpiexec)
    environment["PKG_CONFIG_PATH"] = str(Path(done.stdout.strip()).parent / "pkgconfig")
    if shutil.which("mpicxx", path=environment["PATH"]) is None:
        pytest.skip("mpicxx is missing")
    # Two that build the same program at the same time.
    run_together({"left-cpp": ["./run.sh"], "right-cpp": ["./run.sh"]}, directory, environment)
    solvers = {"left-cpp": ["./run.sh", "1"], "right-openmp": ["./run.sh"]}
    run_together(solvers, directory, environment | {"OMP_NUM_THREADS": "2"})
    return directory, environment


def assert_one_plate(left, right, windows):
    halves = [np.loadtxt(left), np.loadtxt(right)]
    np.testing.assert_allclose(np.hstack(halves), one_plate(windows), rtol=0.0, atol=1e-14)


@pytest.mark.precice
@pytest.mark.mpi
@pytest.mark.parametrize("right", ["right-cpp", "right-openmp"])
def test_the_solver_in_c_plus_plus_does_the_same(compiled, right):
    directory, _ = compiled
    assert_one_plate(directory / "left-cpp" / "left.txt", directory / right / "right.txt", 200)
    # As the solver itself counts its threads.
    said = (directory / right / f"{right}.log").read_text()
    assert said.startswith("Right: 1 x 2 threads, each rank on ") == (right == "right-openmp")


@pytest.mark.precice
@pytest.mark.mpi
def test_what_the_readme_does_with_the_compiled_solver(compiled):
    directory, environment = compiled
    build, *_ = re.findall(r"<!-- not run: needs libprecice[^>]*-->\n```\w*\n(.*?)```", README, flags=re.DOTALL)
    subprocess.run(["bash", "-ec", build], cwd=directory, env=environment, check=True, timeout=300)
    precice_lb("import", "precice-profiling", "runs", "--output", "stores", cwd=directory)
    (run,) = load_runs([directory / "stores"], complete=enrich)
    assert {name: part.ranks for name, part in run.participants.items()} == {"Left": 2, "Right": 6}
    for name, part in run.participants.items():
        assert len(part.windows) == 12
        assert np.median(part.compute_seconds) > read_laws(PLATE / "law.json")[name].seconds(part.ranks)
