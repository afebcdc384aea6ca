"""The case: a channel over a plate that is hot at its bottom. Lengths in m, times in s, temperatures in K."""

from __future__ import annotations

from typing import TYPE_CHECKING

from heat import Fluid, Material, Solid

if TYPE_CHECKING:
    from mpi4py import MPI

PLATE = (0.0, 1.0)  # from where to where
THICKNESS = 0.25
CHANNEL = (-0.5, 2.5)
HEIGHT = 0.5
VELOCITY = 0.1  # mean over the height
COLD, HOT = 300.0, 310.0  # what flows in, and the start; the bottom of the plate
WATERY = Material(conductivity=5.0, capacity=5000.0)
METALLIC = Material(conductivity=50.0, capacity=10000.0)
SIZE = {"Fluid": 1 / 96, "Solid": 1 / 48}  # edges of cells


def build_fluid(comm: MPI.Comm | None = None, *, coarsen: int = 1, patient: bool = False) -> Fluid:
    """Return the channel at rest temperature."""
    size = SIZE["Fluid"] * coarsen
    cells = round((CHANNEL[1] - CHANNEL[0]) / size), round(HEIGHT / size)
    origin = CHANNEL[0], 0.0
    return Fluid(origin, cells, size, WATERY, COLD, comm, patient=patient, velocity=VELOCITY, inlet=COLD, plate=PLATE)


def build_solid(comm: MPI.Comm | None = None, *, coarsen: int = 1, patient: bool = False) -> Solid:
    """Return the plate, cold all over."""
    size = SIZE["Solid"] * coarsen
    cells = round((PLATE[1] - PLATE[0]) / size), round(THICKNESS / size)
    return Solid((PLATE[0], -THICKNESS), cells, size, METALLIC, COLD, comm, patient=patient, bottom=HOT)
