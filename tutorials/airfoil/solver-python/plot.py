"""Draw what the solvers have written, in the order inner, middle, outer: python3 plot.py --help."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import numpy as np
from case import APPEARS, BACKGROUND, PARTS, Airfoil
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray


def draw(axes: Axes, cells: NDArray[np.float64], x: NDArray[np.float64], y: NDArray[np.float64], limit: float) -> None:
    """Paint the cells (blocks, rows, columns) of one domain."""
    size = x[0, 0, 1] - x[0, 0, 0]
    lower, upper = (np.array([pick(x), pick(y)]) for pick in (np.min, np.max))
    columns, rows = (np.rint((at - start) / size).astype(int) for at, start in zip((x, y), lower, strict=True))
    picture = np.full((rows.max() + 1, columns.max() + 1), np.nan)  # holes stay empty
    picture[rows, columns] = cells
    edges = np.stack([lower - 0.5 * size, upper + 0.5 * size], axis=1)
    axes.imshow(picture, extent=tuple(edges.ravel()), origin="lower", cmap="RdBu_r", vmin=-limit, vmax=limit)


def draw_body(axes: Axes, lower: tuple[float, float], upper: tuple[float, float]) -> None:
    """Paint the airfoil."""
    x, y = np.meshgrid(*(np.linspace(low, high, 800) for low, high in zip(lower, upper, strict=True)))
    axes.contourf(x, y, Airfoil.contains(x, y), [0.5, 1.5], colors="black")


def main() -> None:
    """Draw pressure in all domains, vorticity near the airfoil, and lift and drag over time."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in PARTS:
        parser.add_argument(name.lower(), help=f"output of {name}")
    parser.add_argument("--output", default="airfoil.png", help="picture to write (default: %(default)s)")
    options = parser.parse_args()
    fields = {name: np.load(getattr(options, name.lower())) for name in reversed(PARTS)}  # fine ones on top
    inner = fields["Inner"]
    figure = Figure(figsize=(10.5, 4.4), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1.05, 1.0])
    sound = left.subplots()
    near, history = right.subplots(2, 1, height_ratios=[1.25, 1.0])
    limit = 0.02
    for field in fields.values():
        draw(sound, field["pressure"] - BACKGROUND[3], field["x"], field["y"], limit)
    for name in ("Middle", "Inner"):
        field = fields[name]
        gradient = np.gradient(field["velocity"], field["x"][0, 0, 1] - field["x"][0, 0, 0], axis=(-2, -1))
        draw(near, gradient[1][1] - gradient[0][0], field["x"], field["y"], 6.0)
    for axes in (sound, near):
        for name in ("Middle", "Inner"):
            lower, upper = PARTS[name].grid().box
            axes.add_patch(Rectangle(tuple(lower), *(upper - lower), fill=False, lw=0.8))
        draw_body(axes, (-0.1, -0.3), (1.1, 0.3))
        axes.set(aspect="equal", xlabel="x in chords", ylabel="y in chords")
    lower, upper = PARTS["Outer"].grid().box
    sound.set(
        xlim=(lower[0], upper[0]), ylim=(lower[1], upper[1]), title=f"Pressure disturbance at t = {inner['time']:.1f}"
    )
    left.colorbar(sound.images[0], ax=sound, shrink=0.8, extend="both", label="density times speed of sound squared")
    lower, upper = PARTS["Inner"].grid().box
    near.set(xlim=(lower[0] - 0.2, upper[0] + 1.0), ylim=(lower[1] + 0.3, upper[1] - 0.3), title="Vorticity")
    right.colorbar(near.images[0], ax=near, extend="both", label="sound speeds per chord")
    time = np.linspace(0.0, float(inner["time"]), len(inner["lift"]) + 1)[1:]
    for name, color in (("lift", "tab:blue"), ("drag", "tab:orange")):
        history.plot(time, inner[name], color=color, label=name)
    history.axvline(APPEARS, color="gray", lw=0.8, ls=":")
    history.set(xlabel="time in chords over speed of sound", ylabel="coefficient", xlim=(0.0, time[-1]))
    history.legend(frameon=False, fontsize=9)
    figure.savefig(options.output, dpi=90)


if __name__ == "__main__":
    main()
