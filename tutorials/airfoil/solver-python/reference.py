"""The same flow in one domain, without coupling: python reference.py --help."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from blocks import Domain, Grid
from case import BACKGROUND, FASTEST, MACH, PARTS, REYNOLDS, Airfoil, advance, save
from flow import NavierStokes, Scheme

if TYPE_CHECKING:
    from mpi4py import MPI


def build_reference(comm: MPI.Comm | None = None, *, coarsen: int = 1, box: str = "Outer") -> Scheme:
    """Return the inner domain's equations and cells in the box of another domain."""
    part, inner = PARTS[box], PARTS["Inner"].grid(coarsen)
    width = 36 // coarsen
    shape = tuple(round(blocks * part.width * part.size / (width * inner.size)) for blocks in part.shape)
    domain = Domain(Grid(part.lower, shape, inner.size, width), PARTS["Inner"].halo, comm)
    equations = NavierStokes(FASTEST, MACH / REYNOLDS)
    domain.values[...] = equations.from_primitive(BACKGROUND[:, None])
    return Scheme(domain, equations, PARTS["Inner"].order)


def main() -> None:
    """Solve as many time windows as asked for."""
    parser = argparse.ArgumentParser(description="The flow around the airfoil in one domain, without coupling.")
    parser.add_argument("--coarsen", type=int, choices=[1, 2], default=1, help="2: cells twice as large")
    parser.add_argument("--windows", type=int, default=240, help="time windows of 0.02 (default: %(default)s)")
    parser.add_argument("--output", metavar="FILE.npz", default="reference.npz", help="default: %(default)s")
    options = parser.parse_args()
    from mpi4py import MPI

    scheme = build_reference(MPI.COMM_WORLD, coarsen=options.coarsen)
    airfoil = Airfoil(scheme.domain, scheme.equations)
    forces = []
    for window in range(options.windows):
        advance(scheme, [airfoil], 0.02 * window, 0.02)
        forces.append(airfoil.force)
    save(options.output, scheme, 0.02 * options.windows, forces)


if __name__ == "__main__":
    main()
