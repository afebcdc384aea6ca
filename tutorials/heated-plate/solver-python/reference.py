"""Fluid and plate in one program, without coupling: python reference.py --output reference.npz."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import numpy as np
from case import build_fluid, build_solid
from heat import STAGES

if TYPE_CHECKING:
    from heat import Fluid, Solid


def march_together(fluid: Fluid, solid: Solid, seconds: float) -> None:
    """Step both at once; what flows through the surface follows from the temperatures on both sides at that moment."""
    faces = len(fluid.plate) // len(solid.x)  # of the fluid per face of the solid
    conductance = 1.0 / (1.0 / fluid.conductance + 1.0 / solid.conductance)
    steps = max(1, int(np.ceil(seconds / min(fluid.stable_step, solid.stable_step) - 1e-9)))
    dt = seconds / steps
    for _ in range(steps):
        before = fluid.temperature.copy(), solid.temperature.copy()
        for new, old in STAGES:
            flux = conductance * (np.repeat(solid.temperature[-1], faces) - fluid.temperature[0, fluid.plate])
            below = np.zeros(len(fluid.x))
            below[fluid.plate] = flux
            fluid_rate = fluid.rate(below, np.zeros(len(fluid.x)))
            into_solid = solid.conductance * (solid.bottom - solid.temperature[0])
            solid_rate = solid.rate(into_solid, flux.reshape(-1, faces).mean(axis=1))
            for body, start, rate in zip((fluid, solid), before, (fluid_rate, solid_rate), strict=True):
                body.temperature[...] = old * start + new * (body.temperature + dt * rate)


def main() -> None:
    """Solve as long as asked for."""
    parser = argparse.ArgumentParser(description="Flow over a heated plate in one program, without coupling.")
    parser.add_argument("--coarsen", type=int, choices=[1, 2], default=1, help="2: cells twice as large")
    parser.add_argument("--seconds", type=float, default=50.0, help="default: %(default)s")
    parser.add_argument("--output", metavar="FILE.npz", default="reference.npz", help="default: %(default)s")
    options = parser.parse_args()
    fluid, solid = build_fluid(coarsen=options.coarsen), build_solid(coarsen=options.coarsen)
    march_together(fluid, solid, options.seconds)
    np.savez_compressed(options.output, fluid=fluid.temperature, solid=solid.temperature, time=options.seconds)


if __name__ == "__main__":
    main()
