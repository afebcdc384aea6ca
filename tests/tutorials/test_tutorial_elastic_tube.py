"""The elastic-tube tutorial: its numerics against theory, and coupled runs that give the same waves on any ranks."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.special import jn_zeros
from tutorial_helpers import tutorial_modules

tube, flow, wall, exact = tutorial_modules("elastic-tube", "tube", "flow", "wall", "exact")
TUBE = tube.Tube()
WINDOWS = 30


def test_radial_friction_has_the_modes_of_bessel_functions():
    friction = flow.Friction(24)
    np.testing.assert_allclose(friction.rates[:3], jn_zeros(0, 3) ** 2, rtol=0.02)
    assert (friction.mean**2).sum() == pytest.approx(1.0)
    # Poiseuille: under a unit force the mean velocity is R^2 / (8 nu).
    assert (friction.mean**2 / friction.rates).sum() == pytest.approx(1.0 / 8.0, rel=0.01)
    # Womersley: the flow under an oscillating force.
    omega = np.array([1e2, 1e3, 1e4])
    decay = 1j * omega[:, None] + TUBE.viscosity / TUBE.radius**2 * friction.rates
    np.testing.assert_allclose(
        1j * omega * (friction.mean**2 / decay).sum(axis=1), exact.mobility(TUBE, omega), rtol=0.01
    )


def test_long_waves_without_friction_have_the_speed_of_korteweg():
    smooth = dataclasses.replace(TUBE, viscosity=0.0)
    omega = np.array([1.0, 10.0])
    np.testing.assert_allclose(omega / exact.wave_numbers(smooth, omega)[0].real, TUBE.wave_speed, rtol=1e-6)
    stiff = dataclasses.replace(TUBE, modulus=1e6 * TUBE.modulus)
    assert stiff.wave_speed == pytest.approx(np.sqrt(TUBE.bulk_modulus / TUBE.density), rel=1e-5)
    soft = dataclasses.replace(TUBE, bulk_modulus=1e6 * TUBE.bulk_modulus)
    moens = np.sqrt(TUBE.modulus * TUBE.thickness / (2.0 * TUBE.density * TUBE.radius))
    assert soft.wave_speed == pytest.approx(moens, rel=1e-5)


def together(cells, dt, seconds):
    """Solve flow and wall as one system, by Newton's method: pressure (times, cells) and where the cells are."""
    stretch = tube.Stretch(TUBE.length, cells)
    fluid, solid, inverse, history = flow.Flow(TUBE, stretch, 24), wall.Wall(TUBE, stretch), None, []
    displacement = np.zeros(cells)
    for step in range(1, round(seconds / dt) + 1):
        saved = fluid.checkpoint(), solid.checkpoint()

        def miss(guess, saved=saved, step=step):
            fluid.restore(saved[0])
            solid.restore(saved[1])
            fluid.advance(guess, float(TUBE.inflow(step * dt)), dt)
            solid.advance(fluid.pressure, dt)
            return solid.displacement - guess

        if inverse is None:  # the system is linear
            still = miss(displacement)
            slopes = [miss(displacement + 1e-6 * unit) - still for unit in np.eye(cells)]
            inverse = np.linalg.inv(np.stack(slopes, axis=1) / 1e-6)
        displacement = displacement - inverse @ miss(displacement)
        assert np.abs(miss(displacement)).max() < 1e-14
        history.append(fluid.pressure)
    return np.array(history), stretch.x


def test_the_error_falls_with_the_square_of_cell_and_step():
    errors = []
    for refinement in (1, 2):
        dt, seconds = 8e-6 / refinement, 7e-4
        pressure, x = together(75 * refinement, dt, seconds)
        theory = exact.exact_pressure(TUBE, x, dt * np.arange(1, len(pressure) + 1))
        errors.append(np.abs(pressure[-1] - theory[-1]).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.35)


@pytest.mark.mpi
def test_the_coupled_wave_is_that_of_one_system(on_one_rank):
    fluid, solid = on_one_rank("elastic-tube")[1]
    assert fluid["time"] == pytest.approx(5e-6 * np.arange(1, WINDOWS + 1))
    pressure, _ = together(200, 5e-6, WINDOWS * 5e-6)
    # The coupling iterates until successive ones differ by less than 1e-4.
    np.testing.assert_allclose(fluid["pressure"], pressure, rtol=0.0, atol=2e-3 * pressure.max())
    theory = exact.exact_pressure(TUBE, fluid["x"], fluid["time"])
    np.testing.assert_allclose(fluid["pressure"], theory, rtol=0.0, atol=0.04 * theory.max())
    # What has flowed in is in the wider tube and in the compressed fluid.
    stored = 2.0 * np.pi * TUBE.radius * solid["displacement"] + TUBE.area / TUBE.bulk_modulus * fluid["pressure"]
    entered = np.trapezoid(np.append(0.0, TUBE.inflow(fluid["time"])), np.append(0.0, fluid["time"]))
    assert stored[-1].sum() * TUBE.length / 200 == pytest.approx(entered, rel=0.01)
