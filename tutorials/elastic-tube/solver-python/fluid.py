"""Solver of the oil in the tube: python fluid.py --help."""

from __future__ import annotations

from typing import TYPE_CHECKING

import coupled
from flow import Flow

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RINGS = 24


class Fluid(Flow):
    """The flow as a participant: reads the wall's displacement, writes the pressure."""

    reads, writes = "Displacement", "Pressure"

    def step(self, read: NDArray[np.float64], reached: float, dt: float) -> NDArray[np.float64]:
        self.advance(read, float(self.tube.inflow(reached + dt)), dt)
        return self.pressure


if __name__ == "__main__":
    coupled.run(
        "Fluid",
        lambda tube, stretch: Fluid(tube, stretch, RINGS),
        lambda fluid: {"pressure": fluid.pressure, "flow": fluid.flow},
    )
