"""The plate of which one solver computes on a GPU or not: its systems, and coupled runs on numpy and PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
from tutorial_helpers import TUTORIALS, assert_same_fields, couple_copy, kept, tutorial_modules

PLATE = TUTORIALS / "gpu-plate"
WINDOWS = 8
# Each side stops at its residual, the coupling at 1e-6 of a few hundred watts.
TOLERANCE = 1e-6

conduction, case = tutorial_modules("gpu-plate", "conduction", "case")


@pytest.mark.parametrize("name", ["Fluid", "Solid"])
def test_conjugate_gradients_solve_the_system_that_was_set_up(name):
    body = case.build(name, 1.0)
    shape = body.temperature.shape
    matrix = np.stack([body.apply(unit.reshape(shape)).ravel() for unit in np.eye(np.prod(shape))], axis=1)
    np.testing.assert_array_equal(matrix, matrix.T)
    right_side = np.random.default_rng(1).random(shape)
    found = body.solve(right_side, np.zeros(shape))
    np.testing.assert_allclose(found.ravel(), np.linalg.solve(matrix, right_side.ravel()), rtol=1e-8)
    assert body.steps > 5
    # From the solution there is nothing to do.
    before = body.steps
    body.solve(right_side, found)
    assert body.steps <= before + 1


def test_what_enters_through_the_wall_is_what_the_fluid_gets():
    fluid = case.build("Fluid", 1.0)
    fluid.carry()
    found, flux = fluid.conduct(np.linspace(5.0, 10.0, 32), fluid.temperature)
    assert fluid.capacity * fluid.size**2 * found.sum() == pytest.approx(flux.sum() * fluid.size, rel=1e-9)
    fluid.temperature = found
    fluid.carry()
    # Nothing has come to the outlet yet, so that it was carried and none was lost.
    assert fluid._carried.sum() == pytest.approx(found.sum(), rel=1e-9)
    assert np.abs(fluid._carried - found).max() > 0.1


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
def test_torch_gives_the_same_fields(mpiexec, tmp_path, on_one_rank):
    pytest.importorskip("torch", reason="torch is not installed")
    solvers = ("fluid-python --array torch", "solid-python")
    fields = couple_copy(mpiexec, tmp_path / "run", "gpu-plate", (1, 1), solvers=solvers)
    assert_same_fields(kept("gpu-plate", fields), kept("gpu-plate", on_one_rank("gpu-plate")[1]), TOLERANCE)
