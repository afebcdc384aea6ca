"""The elastic-tube tutorial: the coupled wave against that of one system and of theory."""

from __future__ import annotations

import numpy as np
import pytest
from tutorial_helpers import tutorial_modules

tube, flow, wall, exact = tutorial_modules("elastic-tube", "tube", "flow", "wall", "exact")
TUBE = tube.Tube()
WINDOWS = 30


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
