"""Files of a partition: read back as their readers do, and by OpenFOAM where it is installed."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from precice_lb.inside import Cells
from precice_lb.inside.mesh import partition_files
from precice_lb.inside.weighted import PARTITIONERS, whole_weights
from precice_lb.partners.meshes import read_ranks


def _grid(width: int, height: int) -> Cells:
    """Cells in the order of OpenFOAM's blockMesh: x runs fastest."""
    y, x = np.divmod(np.arange(width * height), width)
    number = np.arange(width * height).reshape(height, width)
    pairs = [number[:, :-1].ravel(), number[:, 1:].ravel()], [number[:-1].ravel(), number[1:].ravel()]
    neighbours = np.concatenate([np.column_stack(each) for each in pairs])
    counts = np.column_stack([np.ones(len(x)), (x < width // 4) & (y < height // 2)]).astype(float)
    return Cells(np.column_stack([x, y]) + 0.5, ("cells", "porous"), counts, neighbours, "grid.vtu")


CELLS = _grid(20, 16)
WEIGHTS = CELLS.counts @ np.array([1e-6, 7e-6])
RANK_OF = PARTITIONERS["bisection"](CELLS, WEIGHTS, 6)
FILES = partition_files(CELLS, WEIGHTS, RANK_OF)


def _foam_list(text: str) -> NDArray[np.float64]:
    found = re.search(r"(\d+)\s*\n\(\n(.*?)\n\)", text, re.DOTALL)
    assert found is not None
    values = np.array(found[2].split(), dtype=float)
    assert len(values) == int(found[1])
    return values


def test_ranks_are_read_back(tmp_path: Path) -> None:
    (tmp_path / "partition.txt").write_bytes(FILES["partition.txt"])
    assert (read_ranks(tmp_path / "partition.txt") == RANK_OF).all()
    text = FILES["cellDecomposition"].decode()
    assert (_foam_list(text) == RANK_OF).all()
    assert re.search(r"class\s+labelList;\s+location\s+\"constant\";\s+object\s+cellDecomposition;", text)
    assert "rank of 6 in the order of the cells of grid.vtu" in text


def test_weights_are_read_back() -> None:
    text = FILES["weightField"].decode()
    assert _foam_list(text) * WEIGHTS.mean() == pytest.approx(WEIGHTS, rel=1e-5)
    assert f"{WEIGHTS.mean():.6g} s per time window" in text
    whole = np.loadtxt(io.BytesIO(FILES["vertex-weights.txt"]), dtype=int)
    assert (whole == whole_weights(WEIGHTS)).all()
    assert whole / whole.sum() == pytest.approx(WEIGHTS / WEIGHTS.sum(), rel=1e-5)
    # Cells of no cost: OpenFOAM and METIS take no weight of 0 everywhere.
    nothing = partition_files(CELLS, np.zeros(320), RANK_OF)
    assert set(_foam_list(nothing["weightField"].decode())) == {1.0}
    some = partition_files(CELLS, np.where(np.arange(320) < 100, 0, 1.0), RANK_OF)
    assert _foam_list(some["weightField"].decode()).min() == 1e-3


def test_openfoam_decomposes_as_the_files_say(tmp_path: Path) -> None:
    if "WM_PROJECT_DIR" not in os.environ or shutil.which("decomposePar") is None:
        pytest.skip("no environment of OpenFOAM")
    head = "FoamFile {{ version 2.0; format ascii; class dictionary; object {}; }}\n"
    for folder in ("constant", "system", "0"):
        (tmp_path / folder).mkdir()
    settings = {
        "controlDict": "application none; startFrom startTime; startTime 0; stopAt endTime; endTime 1; deltaT 1;\n"
        "writeControl timeStep; writeInterval 1;\n",
        "fvSchemes": "ddtSchemes {} gradSchemes {} divSchemes {} laplacianSchemes {} interpolationSchemes {} "
        "snGradSchemes {}\n",
        "fvSolution": "solvers {}\n",
        "blockMeshDict": "vertices ((0 0 0) (20 0 0) (20 16 0) (0 16 0) (0 0 1) (20 0 1) (20 16 1) (0 16 1));\n"
        "blocks (hex (0 1 2 3 4 5 6 7) (20 16 1) simpleGrading (1 1 1)); edges ();\n"
        "boundary (sides { type wall; faces ((0 4 7 3) (1 2 6 5) (0 1 5 4) (3 7 6 2)); }\n"
        "flat { type empty; faces ((0 3 2 1) (4 5 6 7)); });\n",
    }
    for name, text in settings.items():
        (tmp_path / "system" / name).write_text(head.format(name) + text)
    (tmp_path / "constant" / "cellDecomposition").write_bytes(FILES["cellDecomposition"])
    (tmp_path / "0" / "weightField").write_bytes(FILES["weightField"])

    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    def held() -> list[int]:
        told = run("decomposePar", "-force")
        return [int(count) for count in re.findall(r"Number of cells = (\d+)", told)]

    run("blockMesh")
    decompose = tmp_path / "system" / "decomposeParDict"
    manual = 'method manual; coeffs { dataFile "cellDecomposition"; } manualCoeffs { dataFile "cellDecomposition"; }\n'
    decompose.write_text(head.format("decomposeParDict") + "numberOfSubdomains 6;\n" + manual)
    assert held() == np.bincount(RANK_OF).tolist()
    weighted = "method hierarchical; coeffs { n (6 1 1); order xyz; } hierarchicalCoeffs { n (6 1 1); order xyz; }\n"
    decompose.write_text(
        head.format("decomposeParDict") + "numberOfSubdomains 6;\n" + weighted + "weightField weightField;\n"
    )
    counts = held()
    assert sum(counts) == 320
    # Slabs of equal cost: those with heavy cells are thinner.
    assert min(counts) < 320 / 6 / 1.5
