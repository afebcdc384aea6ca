"""The climate tutorial: its account of energy, and how long its day is."""

from __future__ import annotations

import numpy as np
import pytest
from tutorial_helpers import TUTORIALS, tutorial_modules

from precice_lb.schedule import Schedule

(plot,) = tutorial_modules("climate", "plot")
NAMES = ("Coupler", "Atmosphere", "Land", "Ice", "Ocean")
DAYS = 3


@pytest.mark.mpi
@pytest.mark.slow("three days of five participants")
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
