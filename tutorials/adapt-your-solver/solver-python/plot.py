"""Draw the plate that two solvers have written: python plot.py left.npz right.npz --output plate.png."""

from __future__ import annotations

import argparse

import numpy as np
from matplotlib.figure import Figure


def exact(x: np.ndarray, y: np.ndarray, time: float) -> np.ndarray:
    """Return the temperature (y, x): two cosines of an insulated plate, each of which decays at a rate of its own."""
    return np.cos(np.pi * y[:, None]) * np.sin(0.5 * np.pi * x) * np.exp(-1.25 * np.pi**2 * time)


def main() -> None:
    """Draw both halves, and the temperature along the lowest row of cells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("left", help="output of plate.py Left")
    parser.add_argument("right", help="output of plate.py Right")
    parser.add_argument("--output", default="plate.png", help="picture to write (default: %(default)s)")
    options = parser.parse_args()
    figure = Figure(figsize=(9.0, 3.2), layout="constrained")
    plane, profile = figure.subplots(1, 2, width_ratios=[1.2, 1.0])
    error = 0.0
    for path, color in ((options.left, "tab:orange"), (options.right, "tab:blue")):
        with np.load(path) as file:
            x, temperature, time = file["x"], file["temperature"], float(file["time"])
        y = (np.arange(len(temperature)) + 0.5) / len(temperature)
        error = max(error, np.abs(temperature - exact(x, y, time)).max())
        shades = plane.pcolormesh(x, y, temperature, cmap="RdBu_r", vmin=-0.7, vmax=0.7)
        label = "left" if x[0] < 0.0 else "right"
        profile.plot(x, temperature[0], "o", ms=3, color=color, label=label)
    plane.axvline(0.0, color="black", lw=1.0)
    plane.set(
        aspect="equal",
        xlabel="x",
        ylabel="y",
        xticks=[-1.0, -0.5, 0.0, 0.5, 1.0],
        title=f"Temperature at t = {time:.2f}",
    )
    figure.colorbar(shades, ax=plane, shrink=0.7)
    fine = np.linspace(-1.0, 1.0, 200)
    profile.plot(fine, exact(fine, y[:1], time)[0], color="black", lw=1.0, label="exact")
    profile.set(xlabel="x", ylabel="temperature", title=f"Lowest row; largest error {error:.1e}")
    profile.legend(frameon=False)
    figure.savefig(options.output, dpi=90)


if __name__ == "__main__":
    main()
