"""The plate of which one solver computes on a GPU or not: its account of heat, and coupled runs on PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
from tutorial_helpers import assert_same_fields, couple_copy, kept

WINDOWS = 8
# Each side stops at its residual, the coupling at 1e-6 of a few hundred watts.
TOLERANCE = 1e-6


@pytest.mark.mpi
def test_only_conduction_is_inside_the_coupling_loop_and_no_heat_is_lost(on_one_rank):
    fluid, solid = on_one_rank("gpu-plate")[1]
    assert fluid["advections"] == WINDOWS
    assert fluid["solves"] == solid["solves"] > 2 * WINDOWS
    through = fluid["heat_rate"].sum()
    kept = 10_000.0 * np.diff(solid["x"])[0] ** 2 * (solid["temperature"] - 300.0).sum()
    assert through > 100.0
    assert solid["heat_rate"].sum() == pytest.approx(kept + through, rel=1e-5)


@pytest.mark.mpi
@pytest.mark.arrays
def test_torch_gives_the_same_fields(mpiexec, tmp_path, on_one_rank):
    pytest.importorskip("torch", reason="torch is not installed")
    solvers = ("fluid-python --array torch", "solid-python")
    fields = couple_copy(mpiexec, tmp_path / "run", "gpu-plate", (1, 1), solvers=solvers)
    assert_same_fields(kept("gpu-plate", fields), kept("gpu-plate", on_one_rank("gpu-plate")[1]), TOLERANCE)
