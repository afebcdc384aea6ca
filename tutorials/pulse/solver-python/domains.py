"""The two domains of the tutorial and the pulse they start from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from acoustics import COUPLED, OPEN, Mesh

if TYPE_CHECKING:
    from numpy.typing import NDArray

HALF_WIDTH = 0.25  # the pulse has fallen to a half here
ELEMENT_SIZE = {  # (real load, emulated load)
    "Inner": (1 / 32, 1 / 8),
    "Outer": (1 / 4, 1 / 2),
}


def build_mesh(name: str, *, emulated: bool = False, refine: int = 1) -> Mesh:
    """Mesh a participant's domain: third order in [-0.5, 0.5]^2, sixth order in the rest of [-2.5, 2.5]^2.

    No vertex of one mesh lies midway between two of the other, so that the nearest neighbour never hangs on rounding.
    """
    size = ELEMENT_SIZE[name][emulated] / refine
    if name == "Inner":
        return Mesh.box(0.5, size, 3, border=COUPLED)
    return Mesh.box(2.5, size, 6, hole=0.5, border=OPEN)


def initial_pressure(nodes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Gaussian pulse of height 1 around the origin at nodes (..., 2)."""
    return np.exp2(-(nodes**2).sum(axis=-1) / HALF_WIDTH**2)
