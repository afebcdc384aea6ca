"""Draw the pressure that Inner and Outer have written: python3 plot.py inner.npz outer.npz --output pulse.png."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import numpy as np
from domains import HALF_WIDTH
from matplotlib.figure import Figure
from matplotlib.tri import Triangulation
from scipy.special import j0

if TYPE_CHECKING:
    from numpy.typing import NDArray


def exact_pressure(radius: NDArray[np.float64], time: float) -> NDArray[np.float64]:
    """Return the pressure of the pulse in the unbounded plane, by its Hankel transform."""
    k = np.linspace(0.0, 60.0, 1501)
    square = HALF_WIDTH**2 / np.log(2.0)
    spectrum = 0.5 * square * np.exp(-0.25 * square * k**2) * np.cos(k * time) * k
    fine = np.linspace(0.0, radius.max(), 1000)
    return np.interp(radius, fine, (j0(np.outer(fine, k)) @ spectrum) * (k[1] - k[0]))  # it vanishes at both ends


def main() -> None:
    """Draw the fields beside the profile over the distance from the centre."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("inner", help="output of Inner")
    parser.add_argument("outer", help="output of Outer")
    parser.add_argument("--output", default="pulse.png", help="picture to write (default: %(default)s)")
    options = parser.parse_args()
    figure = Figure(figsize=(9.0, 3.9), layout="constrained")
    plane, profile = figure.subplots(1, 2, width_ratios=[1.0, 1.15])
    fields = {"inner": np.load(options.inner), "outer": np.load(options.outer)}
    time = float(fields["inner"]["time"])
    limit = np.ceil(50.0 * max(np.abs(field["pressure"]).max() for field in fields.values())) / 50.0
    for (name, field), marker, color in zip(fields.items(), ["o", "s"], ["tab:orange", "tab:blue"], strict=True):
        x, y, pressure = (field[key].ravel() for key in ("x", "y", "pressure"))
        mesh = Triangulation(x, y)
        middle = np.abs(np.stack([x, y])[:, mesh.triangles].mean(axis=2)).max(axis=0)
        mesh.set_mask((middle < 0.5) != (name == "inner"))
        shades = plane.tricontourf(mesh, pressure, np.linspace(-limit, limit, 41), cmap="RdBu_r")
        radius = np.hypot(x, y)
        error = np.abs(pressure - exact_pressure(radius, time)).max()
        label = f"{name}, error {error:.4f}"
        profile.plot(radius, pressure, marker, ms=1.5, color=color, label=label, rasterized=True)
    plane.plot([-0.5, 0.5, 0.5, -0.5, -0.5], [-0.5, -0.5, 0.5, 0.5, -0.5], color="black", lw=0.8)
    plane.set(aspect="equal", title=f"Pressure at t = {time:.2f}", xlabel="x", ylabel="y")
    figure.colorbar(shades, ax=plane, ticks=np.linspace(-limit, limit, 5), format="%.2f", shrink=0.8)
    radius = np.linspace(0.0, 2.5 * np.sqrt(2.0), 400)
    profile.plot(radius, exact_pressure(radius, time), color="black", lw=1.0, label="exact")
    profile.set(xlabel="distance from the centre", ylabel="pressure", title="All nodes against the exact solution")
    profile.legend(loc="upper right", frameon=False, markerscale=4, handlelength=1.0, fontsize=9)
    figure.savefig(options.output, dpi=100)


if __name__ == "__main__":
    main()
