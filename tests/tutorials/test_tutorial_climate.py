"""The climate tutorial: its physics, its account of energy, and coupled runs that are the same on any ranks."""

from __future__ import annotations

import numpy as np
import pytest
from emulation import read_laws
from tutorial_helpers import (
    TUTORIALS,
    Coupled,
    CoupledRuns,
    assert_same_fields,
    couple_segments,
    tutorial_modules,
)

from precice_lb.dataset import load_runs
from precice_lb.ingest.profiling import enrich
from precice_lb.recommend import predictor_of_runs, traced_schedule
from precice_lb.schedule import Schedule

grid, constituents, coupler, plot = tutorial_modules("climate", "grid", "constituents", "coupler", "plot")
NAMES = ("Coupler", "Atmosphere", "Land", "Ice", "Ocean")
SOLVERS = tuple(f"{name.lower()}-python" for name in NAMES)
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


def test_the_daily_wave_in_the_soil_fades_with_depth_as_in_theory():
    """Under a flux that swings with a period, amplitudes fall by e over sqrt(2 k / (c omega)); on fine layers."""
    omega, dt = 2.0 * np.pi / 86400.0, 600.0
    column = constituents.Column(np.full(120, 0.01), 2.0e6, 1.0)
    layers, history = np.zeros((120, 1)), []
    for step in range(1, 12 * 144 + 1):
        layers = column.advance(layers, dt, np.array([100.0 * np.sin(omega * step * dt)]))
        if step > 11 * 144:
            history.append(layers[:, 0])
    amplitude = np.ptp(history, axis=0) / 2.0
    depth = np.sqrt(2.0 * 1.0 / (2.0e6 * omega))
    slope = np.polyfit(0.01 * np.arange(40), np.log(amplitude[:40]), 1)[0]
    assert -1.0 / slope == pytest.approx(depth, rel=0.03)
    assert amplitude[0] == pytest.approx(100.0 / np.sqrt(2.0e6 * 1.0 * omega), rel=0.06)


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


CASE = Coupled("climate", SOLVERS, DAYS)
KEPT = ("time", "energy", "temperature")
embedded = CASE.on_one_rank()


def kept(history):
    return [{key: part[key] for key in KEPT} for part in history]


class TestCoupledRuns(CoupledRuns):
    case = CASE
    others = (2, 2, 1, 2, 2), 1e-12, 1
    libprecice = (1, 2, 1, 1, 1), 1e-12
    emulated = (1, 1, 1, 1, 1), 1

    def kept(self, fields):
        return kept(fields)


@pytest.mark.mpi
def test_no_energy_is_lost(embedded):
    history = dict(zip(NAMES, embedded[1], strict=True))
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


def climate_in_segments(mpiexec, directory, backend, **options):
    """Histories of three days in three segments, no two of which have the same ranks, one after the other."""
    splits = [(2, 1, 1, 1, 2), (1, 2, 2, 1, 1), (1, 3, 1, 2, 2)]
    segments = [(1, dict(zip(SOLVERS, split, strict=True))) for split in splits]
    days = couple_segments(mpiexec, directory, "climate", segments, backend=backend, **options)
    return [
        {key: np.concatenate([days[0][place][key], *(day[place][key][1:] for day in days[1:])]) for key in KEPT}
        for place in range(len(NAMES))
    ], days[-1]


@pytest.mark.slow("three segments of five participants, beside those on libprecice and those of the pulse")
@pytest.mark.mpi
def test_three_segments_on_other_ranks_are_one_run(mpiexec, tmp_path, embedded):
    history, last = climate_in_segments(mpiexec, tmp_path / "with", "embedded")
    assert_same_fields(history, kept(embedded[1]), 1e-10)
    lost = plot.imbalance(dict(zip(NAMES, last, strict=True)))  # an account that begins with the segment
    assert np.abs(lost).max() < 1e-10 * np.abs(history[0]["energy"]).max()
    ocean = 'from="Coupler"\n      to="Ocean"'
    edit = (f'{ocean}\n      initialize="true"', ocean)
    without, _ = climate_in_segments(mpiexec, tmp_path / "without", "embedded", edit=edit)
    assert np.abs(without[-1]["temperature"] - embedded[1][-1]["temperature"]).max() > 1e-3


@pytest.mark.precice
@pytest.mark.mpi
def test_three_segments_on_libprecice_are_one_run(mpiexec, tmp_path, embedded):
    history, _ = climate_in_segments(mpiexec, tmp_path / "segments", "libprecice")
    one = CASE.run(mpiexec, tmp_path / "one", (1, 1, 1, 1, 1), backend="libprecice")
    assert_same_fields(history, kept(one), 1e-10)
    assert_same_fields(history, kept(embedded[1]), 1e-10)


def test_a_day_is_that_of_the_coupler_and_the_slowest_or_that_of_the_ocean():
    schedule = Schedule.from_config(TUTORIALS / "climate" / "precice-config.xml")
    own = {"Coupler": 1.0, "Atmosphere": 2.0, "Land": 0.5, "Ice": 1.5, "Ocean": 10.0}
    assert float(schedule.window_seconds(own)) == pytest.approx(24 * 3.0)
    assert float(schedule.window_seconds({**own, "Ocean": 100.0})) == pytest.approx(100.0)


@pytest.mark.slow("runs of three splits")
@pytest.mark.mpi
def test_traces_of_recorded_days_predict_those_of_another_split(mpiexec, tmp_path):
    """Kim's predictor from stores: fractions and alpha of two splits, the days of a third, its law and its run."""
    laws = read_laws(TUTORIALS / "climate" / "law.json")
    arguments = ("--load", "emulated")
    runs, splits = [], [(1, 2, 1, 1, 2), (2, 3, 1, 2, 3), (2, 4, 2, 2, 2)]
    for place, ranks in enumerate(splits):
        directory = tmp_path / str(place)
        CASE.run(mpiexec, directory, ranks, windows=4, arguments=arguments, record=True)
        runs += load_runs([directory], complete=enrich)
    predictor = predictor_of_runs(runs[:2])
    assert predictor.alpha == pytest.approx(1.0, rel=0.02)
    configured = Schedule.from_config(TUTORIALS / "climate" / "precice-config.xml")
    traced = traced_schedule(runs[:2])
    assert traced.windows == configured.windows
    law = {name: float(laws[name].seconds(count)) for name, count in zip(NAMES, splits[2], strict=True)}
    truth = float(configured.window_seconds(law))
    assert float(traced.window_seconds(law)) == pytest.approx(truth, rel=0.02)
    days = {name: law[name] * configured.windows[name] for name in NAMES}
    assert float(predictor.predict(days)) == pytest.approx(truth, rel=0.03)
    measured = runs[2].participants["Ocean"].window_seconds[1:-1]
    assert float(predictor.predict(days)) == pytest.approx(float(measured.mean()), rel=0.03)
