"""The climate tutorial: its physics, its account of energy, and coupled runs that are the same on any ranks."""

from __future__ import annotations

import numpy as np
import pytest
from tutorial_helpers import TUTORIALS, tutorial_modules

from precice_lb.schedule import Schedule

grid, constituents, coupler, plot = tutorial_modules("climate", "grid", "constituents", "coupler", "plot")
NAMES = ("Coupler", "Atmosphere", "Land", "Ice", "Ocean")
DAYS = 3


def test_cells_cover_the_globe_once():
    assert grid.AREA.sum() == pytest.approx(4.0 * np.pi * grid.RADIUS**2)
    assert not (grid.LAND & grid.ICE).any()
    sizes = {name: int(cover.sum()) for name, cover in grid.COVER.items()}
    assert sizes == {"Atmosphere": 1152, "Land": 424, "Ice": 174, "Ocean": 728, "Coupler": 1152}
    beside, conductance = grid.neighbours()
    for cell, side in zip(*np.nonzero(beside >= 0), strict=True):  # every edge is seen alike from both sides
        other = beside[cell, side]
        back = int(np.flatnonzero(beside[other] == cell)[0])
        assert conductance[other, back] == pytest.approx(conductance[cell, side])


def test_diffusion_keeps_heat_and_slows_a_spherical_harmonic_as_it_should():
    part = grid.Part("Atmosphere")
    diffusion = grid.Diffusion(part, 1.5e6)
    values = np.sin(grid.LATITUDE)  # l = 1: decays with 2 D / R^2
    seconds = 10 * 86400.0
    later = diffusion.advance(values, seconds)
    expected = np.exp(-2.0 * 1.5e6 / grid.RADIUS**2 * seconds)
    assert (grid.AREA * later * values).sum() / (grid.AREA * values**2).sum() == pytest.approx(expected, rel=0.01)
    random = np.random.default_rng(1).normal(size=len(values))
    ocean = grid.Diffusion(grid.Part("Ocean"), 1e6)
    later = ocean.advance(random[ocean.part.cells], 86400.0)
    areas = grid.AREA[ocean.part.cells]
    assert areas @ later == pytest.approx(areas @ random[ocean.part.cells], rel=1e-9)
    assert later.std() < random.std()


@pytest.mark.parametrize("name", ["Atmosphere", "Land", "Ice", "Ocean"])
def test_a_constituent_gains_what_the_fluxes_bring(name):
    part = grid.Part(name)
    solver = constituents.CONSTITUENTS[name](part)
    random = np.random.default_rng(2)
    before = part.integral(solver.energy())
    brought = 0.0
    for _ in range(30):
        fluxes = random.uniform(-300.0, 500.0, size=(len(solver.fluxes), len(part.own)))
        solver.advance(3600.0, *fluxes)
        brought += 3600.0 * part.integral(fluxes[0] + (fluxes[1] if len(fluxes) > 1 else 0.0))
    assert part.integral(solver.energy()) - before == pytest.approx(brought, rel=1e-9)


@pytest.mark.mpi
def test_no_energy_is_lost(on_one_rank):
    history = dict(zip(NAMES, on_one_rank("climate")[1], strict=True))
    assert len(history["Coupler"]["time"]) == 24 * DAYS + 1
    assert len(history["Ocean"]["time"]) == DAYS + 1
    lost = plot.imbalance(history)
    assert lost.shape == (DAYS,)
    assert np.abs(lost).max() < 1e-10 * np.abs(history["Coupler"]["energy"]).max()
    land = history["Land"]["temperature"]
    assert np.ptp(land[24:], axis=0).max() > 10.0  # day and night
    assert np.ptp(history["Ocean"]["temperature"], axis=0).max() < 1.0
    assert (history["Ice"]["temperature"] <= 0.0).all()
    assert all(np.abs(history[name]["temperature"]).max() < 60.0 for name in NAMES[1:])


def test_a_day_is_that_of_the_coupler_and_the_slowest_or_that_of_the_ocean():
    schedule = Schedule.from_config(TUTORIALS / "climate" / "precice-config.xml")
    own = {"Coupler": 1.0, "Atmosphere": 2.0, "Land": 0.5, "Ice": 1.5, "Ocean": 10.0}
    assert float(schedule.window_seconds(own)) == pytest.approx(24 * 3.0)
    assert float(schedule.window_seconds({**own, "Ocean": 100.0})) == pytest.approx(100.0)
