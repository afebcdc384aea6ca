"""The heated plate: its numerics, and coupled runs against one program, conservation, other ranks and libprecice."""

from __future__ import annotations

import numpy as np
import pytest
from tutorial_helpers import couple_copy, tutorial_modules

WINDOWS, SECONDS = 30, 0.2

case, heat, reference = tutorial_modules("heated-plate", "case", "heat", "reference")


def test_heat_goes_into_developed_flow_at_the_known_rate():
    height, wall = 1.0, 1.0
    size = height / 16
    material = heat.Material(conductivity=0.02, capacity=1.0)  # Peclet number 100
    fluid = heat.Fluid((0.0, 0.0), (240, 16), size, material, 0.0, velocity=1.0, inlet=0.0, plate=(0.0, 15.0))
    fluid.advance(30.0, np.full(len(fluid.plate), wall))
    mean = (fluid.velocity * fluid.temperature).sum(axis=0) / fluid.velocity.sum()
    flux = fluid.conductance * (wall - fluid.temperature[0])
    nusselt = flux * 2.0 * height / (material.conductivity * (wall - mean))
    assert nusselt[200:220] == pytest.approx(4.861, rel=0.01)
    assert nusselt[5] > 10.0  # where the wall begins


def test_a_slab_warms_up_as_the_series_says():
    errors = []
    for rows in (8, 16):
        slab = heat.Solid((0.0, 0.0), (3, rows), 1.0 / rows, heat.Material(1.0, 1.0), 0.0, bottom=1.0)
        slab.advance(0.2, np.zeros(3))
        waves = (np.arange(50) + 0.5) * np.pi
        decay = 2.0 / waves * np.exp(-(waves**2) * 0.2)
        exact = 1.0 - np.sin(np.outer(slab.y, waves)) @ decay
        errors.append(np.abs(slab.temperature - exact[:, None]).max())
    assert errors[1] < 1e-3
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.3)


@pytest.mark.mpi
def test_the_coupling_is_first_order_in_the_window_and_close_to_one_program(mpiexec, tmp_path, on_one_rank):
    edit = (f'size value="{SECONDS}"', f'size value="{SECONDS / 2}"')
    halved = couple_copy(mpiexec, tmp_path / "half", "heated-plate", (1, 1), windows=2 * WINDOWS, edit=edit)
    fluid, solid = case.build_fluid(coarsen=2), case.build_solid(coarsen=2)
    reference.march_together(fluid, solid, WINDOWS * SECONDS)
    for body, once, twice in zip((fluid, solid), on_one_rank("heated-plate")[1], halved, strict=True):
        errors = [np.sqrt(((run["temperature"] - body.temperature) ** 2).mean()) for run in (once, twice)]
        assert errors[0] < 0.02 < 1.0 < np.abs(body.temperature - case.COLD).max()
        assert errors[0] / errors[1] == pytest.approx(2.0, abs=0.3)


@pytest.mark.mpi
def test_no_heat_is_lost_at_the_surface(on_one_rank):
    fluid, solid = on_one_rank("heated-plate")[1]
    through = fluid["heat_rate"].sum() * SECONDS  # J per metre of depth
    size = np.diff(solid["x"])[0]
    kept = case.METALLIC.capacity * size**2 * (solid["temperature"] - case.COLD).sum()
    assert through > 100.0
    assert solid["heat_rate"].sum() * SECONDS == pytest.approx(kept + through, rel=1e-10)
    # Nothing warm has come to the outlet yet, so the fluid still has what the surface gave it, but for what has left.
    carried = case.WATERY.capacity * np.diff(fluid["x"])[0] ** 2 * (fluid["temperature"] - case.COLD).sum()
    assert carried == pytest.approx(through, rel=1e-6)
