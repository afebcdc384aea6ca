"""Draw what the solvers have written: python plot.py fluid.npz solid.npz --output heated-plate.png."""

from __future__ import annotations

import argparse

import numpy as np
from case import CHANNEL, COLD, HEIGHT, HOT, PLATE, THICKNESS
from matplotlib.figure import Figure


def main() -> None:
    """Draw the temperature in both domains, and the heat rates over time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fluid", help="output of Fluid")
    parser.add_argument("solid", help="output of Solid")
    parser.add_argument("--output", default="heated-plate.png", help="picture to write (default: %(default)s)")
    options = parser.parse_args()
    fluid, solid = np.load(options.fluid), np.load(options.solid)
    figure = Figure(figsize=(9.5, 5.2), layout="constrained")
    plane, history = figure.subplots(2, 1, height_ratios=[1.5, 1.0])
    levels = np.linspace(COLD, HOT, 41)
    for field in (fluid, solid):
        shades = plane.contourf(field["x"], field["y"], field["temperature"], levels, cmap="inferno", extend="both")
        plane.contour(field["x"], field["y"], field["temperature"], levels[4::4], colors="white", linewidths=0.4)
    plane.plot([*CHANNEL, *CHANNEL[::-1], CHANNEL[0]], [0, 0, HEIGHT, HEIGHT, 0], color="black", lw=0.8)
    plane.plot(np.repeat(PLATE, 2), [0, -THICKNESS, -THICKNESS, 0], color="black", lw=0.8)
    plane.annotate(f"hot bottom, {HOT:.0f} K", (PLATE[1], -THICKNESS), (PLATE[1] + 0.1, -THICKNESS), va="bottom")
    plane.annotate("flow", (CHANNEL[0] + 0.25, 0.25), (CHANNEL[0] + 0.02, 0.25), color="white", va="center")
    plane.annotate(
        "", (CHANNEL[0] + 0.4, 0.25), (CHANNEL[0] + 0.2, 0.25), arrowprops={"arrowstyle": "->", "color": "white"}
    )
    plane.set(aspect="equal", xlabel="x in m", ylabel="y in m", title=f"Temperature at {fluid['time']:.0f} s")
    figure.colorbar(shades, ax=plane, ticks=np.linspace(COLD, HOT, 6), label="K")
    time = np.linspace(0.0, float(fluid["time"]), len(fluid["heat_rate"]) + 1)[1:]
    history.plot(time, solid["heat_rate"], color="tab:red", label="into the bottom of the plate")
    history.plot(time, fluid["heat_rate"], color="tab:blue", label="from the plate into the fluid")
    history.set(xlabel="time in s", ylabel="heat rate in W/m", xlim=(0.0, time[-1]), ylim=(0.0, 1600.0))
    history.legend(frameon=False)
    figure.savefig(options.output, dpi=90)


if __name__ == "__main__":
    main()
