"""Draw what fluid.py and solid.py have written: python plot.py fluid.npz solid.npz --output elastic-tube.png."""

from __future__ import annotations

import argparse

import numpy as np
from exact import exact_pressure
from matplotlib.figure import Figure
from tube import Tube

EXAGGERATION = 600  # of the wall's displacement in the picture


def crest(x: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return where each row of values (times, cells) is highest, between cells by a parabola."""
    middle = np.clip(values.argmax(axis=1), 1, len(x) - 2)
    left, top, right = (values[np.arange(len(values)), middle + offset] for offset in (-1, 0, 1))
    curvature = left - 2.0 * top + right
    shift = np.where(curvature < 0.0, 0.5 * (left - right) / np.where(curvature < 0.0, curvature, 1.0), 0.0)
    return x[middle] + shift * (x[1] - x[0])


def speed(x: np.ndarray, time: np.ndarray, values: np.ndarray, tube: Tube) -> float:
    """Return the crest's speed (m/s), by least squares over the middle half of the tube."""
    place = crest(x, values)
    inside = (place > 0.25 * tube.length) & (place < 0.75 * tube.length)
    return float(np.polyfit(time[inside], place[inside], 1)[0])


def main() -> None:
    """Draw the tube with its moving wall above the pressure along it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fluid", help="output of fluid.py")
    parser.add_argument("solid", help="output of solid.py")
    parser.add_argument("--output", default="elastic-tube.png", help="picture to write (default: %(default)s)")
    options = parser.parse_args()
    tube = Tube()
    with np.load(options.fluid) as fluid, np.load(options.solid) as solid:
        x, time, pressure, displacement = fluid["x"], fluid["time"], fluid["pressure"], solid["displacement"]
    exact = exact_pressure(tube, x, time)
    shown = [round(share * len(time)) - 1 for share in (0.25, 0.5, 0.75, 1.0)]
    figure = Figure(figsize=(8.0, 5.2), layout="constrained")
    shape, profile = figure.subplots(2, 1, sharex=True, height_ratios=[1.0, 1.7])
    radius = 1e3 * (tube.radius + EXAGGERATION * displacement[shown[1]])
    cells = np.append(x - 0.5 * tube.length / len(x), tube.length)
    bar = pressure[shown[1]] * 1e-5
    limit = np.abs(bar).max()
    colours = shape.pcolormesh(
        np.stack([cells, cells]),
        np.stack([-np.append(radius, radius[-1]), np.append(radius, radius[-1])]),
        bar[None, :],
        cmap="RdBu_r",
        vmin=-limit,
        vmax=limit,
    )
    for side in (-1.0, 1.0):
        shape.plot(x, side * radius, color="black", lw=1.5)
    title = f"The tube at {1e3 * time[shown[1]]:.2f} ms, displacement of its wall {EXAGGERATION} times as large"
    shape.set(ylabel="radius in mm", title=title, ylim=(-14.0, 14.0))
    figure.colorbar(colours, ax=shape, label="pressure in bar")
    for index, color in zip(shown, ["tab:blue", "tab:orange", "tab:green", "tab:red"], strict=True):
        label = f"{1e3 * time[index]:.2f} ms"
        profile.plot(x, 1e-5 * pressure[index], color=color, lw=2.0, label=label)
        profile.plot(
            x, 1e-5 * exact[index], color="black", lw=1.0, ls="--", label="theory" if index == shown[-1] else None
        )
    error = np.abs(pressure - exact).max() / exact.max()
    measured, theory = speed(x, time, pressure, tube), speed(x, time, exact, tube)
    title = f"Crest at {measured:.0f} m/s, in theory {theory:.0f} m/s; largest error {100 * error:.1f} % of the crest"
    profile.set(xlabel="distance from the inlet in m", ylabel="pressure in bar", xlim=(0.0, tube.length), title=title)
    profile.legend(frameon=False, ncols=5, loc="upper right")
    profile.set_ylim(top=1.25 * 1e-5 * exact.max())
    figure.savefig(options.output, dpi=100)


if __name__ == "__main__":
    main()
