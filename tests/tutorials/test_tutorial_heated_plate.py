"""The heated plate: its numerics, and coupled runs against one program, conservation, other ranks and libprecice."""

from __future__ import annotations

import numpy as np
import pytest
from emulation import read_laws
from tutorial_helpers import (
    MESSAGES,
    TUTORIALS,
    assert_same_fields,
    copy_tutorial,
    couple,
    draw,
    tutorial_modules,
)

from precice_lb.dataset import load_runs
from precice_lb.ingest.profiling import enrich

PLATE = TUTORIALS / "heated-plate"
WINDOWS, SECONDS = 30, 0.2
COARSE = ("--coarsen", "2")

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


def test_what_flows_in_flows_out_at_the_same_temperature():
    fluid = case.build_fluid(coarsen=2)
    assert fluid.velocity.mean() == pytest.approx(case.VELOCITY, rel=1e-14)
    none = np.zeros(len(fluid.x))
    assert np.abs(fluid.rate(none, none)).max() < 1e-12


SMALL = ((0.0, 0.0), (12, 8), 1 / 96)  # lower left corner, cells, edge


@pytest.mark.parametrize(
    "body",
    [
        heat.Fluid(*SMALL, case.WATERY, 0.0, velocity=case.VELOCITY, inlet=0.0, plate=(0.0, 1.0)),
        heat.Fluid(*SMALL, case.WATERY, 0.0, velocity=5.0, inlet=0.0, plate=(0.0, 1.0)),  # advection alone, nearly
        heat.Solid(*SMALL, case.METALLIC, 0.0, bottom=0.0),
    ],
    ids=["fluid", "fast-fluid", "solid"],
)
def test_the_step_is_inside_the_stability_limit_and_not_far(body):
    columns = []
    for unit in np.eye(body.temperature.size):
        body.temperature[...] = unit.reshape(body.temperature.shape)
        columns.append(body.rate(-body.conductance * body.temperature[0], np.zeros(len(body.x))).ravel())
    eigenvalues = np.linalg.eigvals(np.stack(columns, axis=1))

    def growth(step):
        z = eigenvalues * step
        return np.abs(1.0 + z + z**2 / 2.0 + z**3 / 6.0).max()

    assert growth(body.stable_step) < 1.0 + 1e-9
    assert growth(3.0 * body.stable_step) > 1.0 + 1e-6


def couple_plate(
    mpiexec, directory, ranks, *, backend, windows=WINDOWS, seconds=SECONDS, arguments=COARSE, record=False
):
    """Run a copy of the tutorial in ``directory`` and return what fluid and solid have written."""
    copy_tutorial("heated-plate", directory, windows=windows)
    configuration = directory / "precice-config.xml"
    text = configuration.read_text()
    assert '<time-window-size value="0.2" />' in text
    configuration.write_text(text.replace('size value="0.2"', f'size value="{seconds}"'))
    solvers = dict(zip(("fluid-python", "solid-python"), ranks, strict=True))
    return couple(mpiexec, directory, solvers, backend=backend, arguments=arguments, record=record)


@pytest.fixture(scope="module")
def embedded(mpiexec, tmp_path_factory):
    """The directory of a coupled run on one rank each, and what it wrote."""
    directory = tmp_path_factory.mktemp("plate") / "1-1"
    return directory, couple_plate(mpiexec, directory, (1, 1), backend="embedded")


@pytest.mark.mpi
def test_coupled_fields_do_not_depend_on_the_ranks(mpiexec, tmp_path, embedded):
    fields = couple_plate(mpiexec, tmp_path / "5-2", (5, 2), backend="embedded")
    assert_same_fields(fields, embedded[1], 1e-9)
    for mine, theirs in zip(fields, embedded[1], strict=True):
        np.testing.assert_array_equal(mine["temperature"], theirs["temperature"])


@pytest.mark.precice
@pytest.mark.mpi
def test_libprecice_gives_the_same_fields(mpiexec, tmp_path, embedded):
    fields = couple_plate(mpiexec, tmp_path / "3-2", (3, 2), backend="libprecice")
    assert_same_fields(fields, embedded[1], 1e-9)


@pytest.mark.mpi
def test_the_coupling_is_first_order_in_the_window_and_close_to_one_program(mpiexec, tmp_path, embedded):
    halved = couple_plate(
        mpiexec, tmp_path / "half", (1, 1), backend="embedded", windows=2 * WINDOWS, seconds=SECONDS / 2
    )
    fluid, solid = case.build_fluid(coarsen=2), case.build_solid(coarsen=2)
    reference.march_together(fluid, solid, WINDOWS * SECONDS)
    for body, once, twice in zip((fluid, solid), embedded[1], halved, strict=True):
        errors = [np.sqrt(((run["temperature"] - body.temperature) ** 2).mean()) for run in (once, twice)]
        assert errors[0] < 0.02 < 1.0 < np.abs(body.temperature - case.COLD).max()
        assert errors[0] / errors[1] == pytest.approx(2.0, abs=0.3)


@pytest.mark.mpi
def test_no_heat_is_lost_at_the_surface(embedded):
    fluid, solid = embedded[1]
    through = fluid["heat_rate"].sum() * SECONDS  # J per metre of depth
    size = np.diff(solid["x"])[0]
    kept = case.METALLIC.capacity * size**2 * (solid["temperature"] - case.COLD).sum()
    assert through > 100.0
    assert solid["heat_rate"].sum() * SECONDS == pytest.approx(kept + through, rel=1e-10)
    # Nothing warm has come to the outlet yet, so the fluid still has what the surface gave it, but for what has left.
    carried = case.WATERY.capacity * np.diff(fluid["x"])[0] ** 2 * (fluid["temperature"] - case.COLD).sum()
    assert carried == pytest.approx(through, rel=1e-6)


@pytest.mark.mpi
def test_the_plot_shows_the_fields(embedded):
    assert 10_000 < draw("heated-plate", embedded[0], "fluid-python/fluid.npz", "solid-python/solid.npz") < 200_000


@pytest.mark.mpi
@pytest.mark.slow("compares real times with a law's")
def test_the_emulated_load_costs_what_its_law_says(mpiexec, tmp_path):
    arguments = ("--load", "emulated")
    couple_plate(mpiexec, tmp_path / "run", (4, 2), backend="embedded", windows=5, arguments=arguments, record=True)
    (run,) = load_runs([tmp_path / "run"], complete=enrich)
    window = 0.0
    for name, law in read_laws(PLATE / "law.json").items():
        participant = run.participants[name]
        expected = np.array([law.seconds(participant.ranks) * law.factor(each, participant.ranks) for each in range(5)])
        np.testing.assert_allclose(participant.compute_seconds, expected, atol=MESSAGES)
        window = window + expected
    np.testing.assert_allclose(run.participants["Fluid"].window_seconds[1:-1], window[1:-1], atol=MESSAGES)
