"""Solver of the tube's wall: python solid.py --help."""

from __future__ import annotations

from typing import TYPE_CHECKING

import coupled
from wall import Wall

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Solid(Wall):
    """The wall as a participant: reads the pressure, writes the wall's displacement."""

    reads, writes = "Pressure", "Displacement"

    def step(self, read: NDArray[np.float64], reached: float, dt: float) -> NDArray[np.float64]:
        self.advance(read, dt)
        return self.displacement


if __name__ == "__main__":
    coupled.run("Solid", Solid, lambda solid: {"displacement": solid.displacement})
