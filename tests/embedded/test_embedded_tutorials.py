"""preCICE's own Python tutorials, unmodified, on the embedded backend: with the results that they have on libprecice.

They need a copy of the tutorials' repository.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tutorial_runs import CASES, Tutorial, lay_out, run

pytestmark = [pytest.mark.precice, pytest.mark.tutorials]
# By directory: the limit of the coupling's convergence.
LIMITS = {
    "elastic-tube-1d": 1e-5,
    "oscillator": 1e-10,
    "oscillator-overlap": 1e-10,
    "resonant-circuit": 1e-3,
    "perpendicular-flap": 5e-3,
}


def table(path: Path) -> np.ndarray:
    rows = [re.split(r"[;,\s]+", line.strip()) for line in path.read_text().splitlines()[1:]]
    return np.array([[float(cell) for cell in row if cell] for row in rows])


@pytest.mark.parametrize("tutorial", CASES, ids=lambda tutorial: tutorial.directory)
def test_as_on_libprecice(tutorial: Tutorial, tmp_path: Path) -> None:
    for backend in ("libprecice", "embedded"):
        lay_out(tutorial, tmp_path / backend)
        variables = {"PRECICE_LB_BACKEND": backend, "PRECICE_LB_RECORD": "0", "OMP_NUM_THREADS": "1"}
        ended = run(tutorial, tmp_path / backend, ["-m", "precice_lb", "run"], **variables)
        assert {code for code, _, _ in ended.values()} == {0}, ended
    names = [
        path.relative_to(tmp_path / "libprecice")
        for pattern in (*tutorial.writes, "precice-*-iterations.log")
        for path in (tmp_path / "libprecice").glob(f"*/{pattern}")
        if path.suffix != ".vtk"
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
            allowed = LIMITS[tutorial.directory] * np.abs(expected).max(axis=0) + 1e-12
            assert (np.abs(found - expected).max(axis=0) <= allowed).all()
