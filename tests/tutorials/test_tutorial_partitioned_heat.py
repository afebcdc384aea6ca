"""Two boxes of FEniCSx: the exact solution on several ranks, the same bytes when recorded, a campaign with a report."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tutorial_helpers import ROOT, TUTORIALS, copy_tutorial, run_together

from precice_lb.dataset import load_runs
from precice_lb.ingest.profiling import enrich

pytestmark = [pytest.mark.fenicsx, pytest.mark.mpi]
ON_LIBPRECICE = pytest.param("libprecice", marks=pytest.mark.precice)


def solve(python, directory, ranks, *options, backend="embedded", recorded=True, right=("heat.py", "Neumann")):
    """Run both boxes in a copy of the tutorial; return error and iterations of each."""
    copy_tutorial("partitioned-heat", directory)
    scripts = {"dirichlet-fenicsx": ("heat.py", "Dirichlet"), "neumann-fenicsx": right}
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PRECICE_LB_BACKEND": backend, "OMP_NUM_THREADS": "1"}
    start = [python, "-m", "precice_lb", "run"] if recorded else [python]
    mpiexec = str(Path(python).parent / "mpiexec")
    commands = {
        name: [mpiexec, "-n", str(count), *start, f"../solver-fenicsx/{script}", *own, "--output", "box.npz", *options]
        for (name, (script, *own)), count in zip(scripts.items(), ranks, strict=True)
    }
    run_together(commands, directory, environment)
    told = [re.search(r"(\d+) iterations, error (\S+)", (directory / f"{name}.log").read_text()) for name in commands]
    return [{"iterations": int(each[1]), "error": float(each[2])} for each in told]


@pytest.mark.parametrize("backend", ["embedded", ON_LIBPRECICE])
@pytest.mark.parametrize("ranks", [(1, 1), (2, 1), (1, 2), (1, 3)])
def test_the_exact_solution_on_any_ranks(fenicsx_python, tmp_path, ranks, backend):
    left, right = solve(fenicsx_python, tmp_path / "run", ranks, "--cells", "4", backend=backend)
    assert left["error"] == pytest.approx(2.65e-4, rel=0.01)
    assert right["error"] == pytest.approx(1.31e-2, rel=0.01)
    (run,) = load_runs([tmp_path / "run"], complete=enrich)
    assert {name: part.ranks for name, part in run.participants.items()} == dict(
        zip(("Dirichlet", "Neumann"), ranks, strict=True)
    )
    for part, solved in zip(run.participants.values(), (left, right), strict=True):
        assert part.iterations.sum() == solved["iterations"]
        assert all(re.match("fenicsxprecice\\.", name) for name in part.rank_sections)
        assert part.rank_sections


@pytest.mark.precice
def test_recording_changes_no_byte(fenicsx_python, tmp_path):
    def solved(place, recorded):
        solve(fenicsx_python, tmp_path / place, (1, 1), "--cells", "4", backend="libprecice", recorded=recorded)
        boxes = [tmp_path / place / name for name in ("dirichlet-fenicsx", "neumann-fenicsx")]
        assert [(box / "precice-lb-store").is_dir() for box in boxes] == [recorded, recorded]
        return [(box / "box.npz").read_bytes() for box in boxes]

    recorded = solved("recorded", True)
    # Alone, too, this solver ends in one of two ways, by where its arrays lie in memory.
    assert any(solved(f"plain-{attempt}", False) == recorded for attempt in range(6))


@pytest.mark.parametrize("backend", ["embedded", ON_LIBPRECICE])
def test_a_laminate_is_solved_whoever_has_its_cells(fenicsx_python, tmp_path, backend):
    meshio = pytest.importorskip("meshio")
    laminate = ("laminate.py", "--degree", "10")
    solve(fenicsx_python, tmp_path / "1", (1, 1), "--cells", "4", right=laminate, backend=backend)
    program = str(TUTORIALS / "partitioned-heat" / "solver-fenicsx" / "laminate.py")
    write = [fenicsx_python, "-m", "precice_lb", "run", program, "--cells", "4", "--mesh", "box.vtu"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PRECICE_LB_BACKEND": backend}
    subprocess.run(write, cwd=tmp_path / "1", env=environment, check=True)
    box = meshio.read(tmp_path / "1" / "box.vtu")
    centres = box.points[box.cells[0].data].mean(axis=1)
    held = {name: box.cell_data[name][0] for name in ("plain", "laminate")}
    np.testing.assert_array_equal(held["laminate"], centres[:, 0] > 2)
    np.testing.assert_array_equal(held["plain"], centres[:, 0] < 2)
    ranks = (4 * centres[:, 1]).astype(int) % 2  # slices by turns
    ranks[centres[:, 0] > 2.5] = 1
    np.savetxt(tmp_path / "ranks.txt", ranks, fmt="%d")
    apart = (*laminate, "--partition", str(tmp_path / "ranks.txt"))
    solve(fenicsx_python, tmp_path / "2", (1, 2), "--cells", "4", right=apart, backend=backend)
    alone, both = (np.load(tmp_path / run / "neumann-fenicsx" / "box.npz")["error"] for run in ("1", "2"))
    assert both == pytest.approx(alone, rel=1e-3)
    assert both < 0.015
    (run,) = load_runs([tmp_path / "2"], complete=enrich)
    part = run.participants["Neumann"]
    for name, amounts in held.items():
        np.testing.assert_array_equal(part.rank_counts[name], np.bincount(ranks, amounts))
    assert np.all((part.rank_sections["assembly"] > 0) & (part.rank_sections["assembly"] < part.rank_solve))
