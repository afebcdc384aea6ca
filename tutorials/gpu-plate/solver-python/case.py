"""The case: a channel over a plate that is hot at its bottom. Lengths in m, times in s, temperatures in K."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from conduction import Fluid, Solid

if TYPE_CHECKING:
    from mpi4py import MPI

PLATE, THICKNESS = (0.0, 1.0), 0.25
CHANNEL, HEIGHT = (-0.5, 2.5), 0.5
VELOCITY = 0.1
COLD, HOT = 300.0, 310.0
WATERY, METALLIC = (5.0, 5000.0), (50.0, 10000.0)  # conductivity in W/(m K), capacity in J/(m^3 K)
SIZE = {"Fluid": 1 / 32, "Solid": 1 / 16}  # edges of cells


def build(name: str, seconds: float, refine: int = 1, array: Any = np.array, comm: MPI.Comm | None = None) -> Any:
    """Return the channel or the plate, all at the temperature of what flows in."""
    if refine < 1:
        raise ValueError(f"expected cells smaller by a factor of at least 1, found {refine}")
    size = SIZE[name] / refine
    (begin, end), height = (CHANNEL, HEIGHT) if name == "Fluid" else (PLATE, THICKNESS)
    cells = round((end - begin) / size), round(height / size)
    if name == "Fluid":
        lower = begin, 0.0
        return Fluid(lower, cells, size, *WATERY, seconds, array, comm, velocity=VELOCITY, plate=PLATE)
    return Solid((begin, -THICKNESS), cells, size, *METALLIC, seconds, array, comm, bottom=HOT - COLD)
