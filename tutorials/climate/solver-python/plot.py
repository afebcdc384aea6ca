"""Draw what climate.py has written, in the tutorial's directory: python3 solver-python/plot.py --help."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from constituents import CONSTITUENTS
from grid import COLUMNS, EDGES, ICE, LAND, ROWS
from matplotlib.figure import Figure

DAY = 86400.0
COLOURS = {"Atmosphere": "tab:purple", "Land": "tab:brown", "Ice": "tab:cyan", "Ocean": "tab:blue"}


def imbalance(history: dict[str, dict[str, np.ndarray]]) -> np.ndarray:
    """Return, after each day, the energy (J) that all constituents have gained but nobody has given."""
    coupler, midnights = history["Coupler"], history["Ocean"]["time"][1:]
    came, under_way = (coupler["energy"] - coupler["energy"][0])[np.searchsorted(coupler["time"], midnights)].T
    gained = sum(
        np.interp(midnights, history[name]["time"], history[name]["energy"] - history[name]["energy"][0])
        for name in CONSTITUENTS
    )
    return gained + under_way - came


def main() -> None:
    """Draw the surface and the air, temperatures over time, and the account of energy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, help="the tutorial's, with <participant>-python/<participant>.npz")
    parser.add_argument("--output", default="climate.png", help="picture to write (default: %(default)s)")
    options = parser.parse_args()
    history = {}
    for name in ("Coupler", *CONSTITUENTS):
        with np.load(options.directory / f"{name.lower()}-python" / f"{name.lower()}.npz") as file:
            history[name] = dict(file)
    figure = Figure(figsize=(9.6, 6.4), layout="constrained")
    (surface, air), (over_time, account) = figure.subplots(2, 2)
    longitude, latitude = np.linspace(0.0, 360.0, COLUMNS + 1), np.degrees(EDGES)
    ground = np.full(ROWS * COLUMNS, np.nan)
    for name in ("Ocean", "Land", "Ice"):  # ice on top of the water
        ground[history[name]["cells"]] = history[name]["temperature"][-1]
    for axes, values, title in (
        (surface, ground, "Surface"),
        (air, history["Atmosphere"]["temperature"][-1], "Atmosphere"),
    ):
        map_ = axes.pcolormesh(longitude, latitude, values.reshape(ROWS, COLUMNS), cmap="RdBu_r", vmin=-40, vmax=40)
        for cover, style in ((LAND, "solid"), (ICE, "dotted")):
            edge = cover.reshape(ROWS, COLUMNS).astype(float)
            middle = 0.5 * (longitude[1:] + longitude[:-1]), 0.5 * (latitude[1:] + latitude[:-1])
            axes.contour(*middle, edge, levels=[0.5], colors="black", linewidths=0.8, linestyles=style)
        axes.set(title=f"{title} after {history['Coupler']['time'][-1] / DAY:.0f} days", xlabel="longitude in degrees")
        axes.set(ylabel="latitude in degrees", xticks=range(0, 361, 60), yticks=range(-90, 91, 30))
    figure.colorbar(map_, ax=[surface, air], label="temperature in °C")
    tropics = {"Land": (20.0, 3.75), "Atmosphere": (20.0, 3.75), "Ocean": (180.0, 3.75)}
    for name, place in tropics.items():
        row, column = int((place[1] + 90.0) / 7.5), int(place[0] / 7.5)
        cell = np.searchsorted(history[name]["cells"], row * COLUMNS + column)
        label = f"{name}, {place[0]:.0f}° E"
        over_time.plot(
            history[name]["time"] / DAY, history[name]["temperature"][:, cell], color=COLOURS[name], label=label
        )
    over_time.set(xlabel="days", ylabel="temperature in °C", title="At the equator")
    over_time.legend(frameon=False, fontsize=8, ncols=3, loc="upper left", columnspacing=0.7, handlelength=1.0)
    over_time.set_ylim(top=55.0)
    for name in CONSTITUENTS:
        energy = history[name]["energy"]
        account.plot(history[name]["time"] / DAY, 1e-21 * (energy - energy[0]), color=COLOURS[name], label=name)
    coupler = history["Coupler"]
    came = coupler["energy"][:, 0] - coupler["energy"][0, 0]
    account.plot(coupler["time"] / DAY, 1e-21 * came, color="black", ls="--", label="from space")
    lost = np.abs(imbalance(history)).max() / np.abs(came).max()
    account.set(
        xlabel="days", ylabel="energy gained in 10²¹ J", title=f"Energy lost: {lost:.0e} of what came from space"
    )
    account.legend(frameon=False, fontsize=9)
    figure.savefig(options.output, dpi=75)


if __name__ == "__main__":
    main()
