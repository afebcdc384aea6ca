"""The atmosphere, the land, the sea ice and the ocean: heat in cells of the globe, driven by fluxes from the coupler.

Temperatures are in degrees Celsius, fluxes in W/m^2 and positive where they heat the constituent. Each keeps its own
account: its energy changes by exactly what the fluxes bring. ``state`` names what a restart needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from grid import LATITUDE, Diffusion, Part
from scipy.linalg import solve_banded

if TYPE_CHECKING:
    from numpy.typing import NDArray

FREEZING = -1.8  # of sea water


class Atmosphere:
    """One layer of air that mixes sideways."""

    fluxes = ("Atmosphere-Flux",)
    state = ("temperature",)
    capacity = 1.0e7  # J/(m^2 K)
    diffusivity = 1.5e6  # m^2/s

    def __init__(self, part: Part) -> None:
        self.part, self.diffusion = part, Diffusion(part, self.diffusivity)
        self.temperature = 20.0 - 42.0 * np.sin(LATITUDE[part.own]) ** 2

    def advance(self, dt: float, flux: NDArray[np.float64]) -> None:
        """Heat and mix for ``dt`` seconds."""
        self.temperature = self.diffusion.advance(self.temperature + dt / self.capacity * flux, dt)

    def energy(self) -> NDArray[np.float64]:
        """Return the heat (own cells,) in J/m^2, zero at 0 degrees."""
        return self.capacity * self.temperature


class Column:
    """Layers one above the other with a conductivity between them, solved by the implicit Euler method."""

    def __init__(self, thickness: NDArray[np.float64], capacity: float, conductivity: float) -> None:
        self.heat = capacity * thickness  # J/(m^2 K) of each layer
        distance = 0.5 * (thickness[1:] + thickness[:-1])
        self.between = conductivity / distance  # W/(m^2 K)

    def advance(self, layers: NDArray[np.float64], dt: float, flux: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the temperatures (layers, cells) after ``dt`` seconds of a flux (cells,) into the first layer."""
        banded = np.zeros((3, len(self.heat)))
        banded[0, 1:] = banded[2, :-1] = -self.between
        banded[1] = self.heat / dt + np.append(self.between, 0.0) + np.append(0.0, self.between)
        right = self.heat[:, None] / dt * layers
        right[0] += flux
        result: NDArray[np.float64] = solve_banded((1, 1), banded, right)
        return result


class Land:
    """Soil that conducts heat down to 3 m, finer towards the surface."""

    fluxes = ("Land-Flux",)
    state = ("layers",)
    thickness = 0.02 * 1.5 ** np.arange(11)  # m
    capacity, conductivity = 2.0e6, 1.0  # J/(m^3 K), W/(m K)

    def __init__(self, part: Part) -> None:
        self.part = part
        self.column = Column(self.thickness, self.capacity, self.conductivity)
        self.layers = np.tile(28.0 - 45.0 * np.sin(LATITUDE[part.own]) ** 2, (len(self.thickness), 1))

    @property
    def temperature(self) -> NDArray[np.float64]:
        """Temperature (own cells,) of the surface."""
        return self.layers[0]

    def advance(self, dt: float, flux: NDArray[np.float64]) -> None:
        """Heat from above and conduct for ``dt`` seconds."""
        self.layers = self.column.advance(self.layers, dt, flux)

    def energy(self) -> NDArray[np.float64]:
        """Return the heat (own cells,) in J/m^2, zero at 0 degrees."""
        return self.column.heat @ self.layers


class Ocean:
    """A mixed layer on top of a deep ocean; the layers exchange heat, and each mixes sideways."""

    fluxes = ("Ocean-Flux",)
    state = ("layers",)
    thickness = np.array([50.0, 75.0, 125.0, 250.0, 500.0])  # m
    capacity, conductivity, diffusivity = 4.1e6, 400.0, 1.0e4  # J/(m^3 K), W/(m K), m^2/s

    def __init__(self, part: Part) -> None:
        self.part, self.diffusion = part, Diffusion(part, self.diffusivity)
        self.column = Column(self.thickness, self.capacity, self.conductivity)
        top = np.maximum(28.0 - 36.0 * np.sin(LATITUDE[part.own]) ** 2, FREEZING + 0.2)
        depth = np.cumsum(self.thickness) - 0.5 * self.thickness
        self.layers = 2.0 + (top - 2.0) * np.exp(-depth / 300.0)[:, None]
        self.layers[0] = top

    @property
    def temperature(self) -> NDArray[np.float64]:
        """Temperature (own cells,) of the mixed layer."""
        return self.layers[0]

    def advance(self, dt: float, flux: NDArray[np.float64]) -> None:
        """Heat from above, conduct and mix for ``dt`` seconds."""
        layers = self.column.advance(self.layers, dt, flux)
        self.layers = np.stack([self.diffusion.advance(layer, dt) for layer in layers])

    def energy(self) -> NDArray[np.float64]:
        """Return the heat (own cells,) in J/m^2, zero at 0 degrees."""
        return self.column.heat @ self.layers


class Ice:
    """Sea ice that conducts heat from the water to the air; it melts on top and freezes or melts at its base."""

    fluxes = ("Ice-Flux", "Ice-Base-Flux")
    state = ("temperature", "thickness")
    capacity = 5.0e5  # J/(m^2 K), of what follows the air's temperature
    conductivity, latent_heat = 2.1, 3.0e8  # W/(m K), J/m^3
    thinnest = 0.1  # m, conducts no better below

    def __init__(self, part: Part) -> None:
        self.part = part
        self.temperature = np.full(len(part.own), -8.0)
        self.thickness = np.full(len(part.own), 2.0)

    def advance(self, dt: float, flux: NDArray[np.float64], base_flux: NDArray[np.float64]) -> None:
        """Heat from above and from the water for ``dt`` seconds."""
        conductance = self.conductivity / np.maximum(self.thickness, self.thinnest)
        rising = conductance * (FREEZING - self.temperature)
        warmed = self.temperature + dt / self.capacity * (flux + rising)
        melting = np.maximum(warmed, 0.0)  # ice cannot be warmer: the rest melts it
        self.temperature = warmed - melting
        self.thickness = self.thickness + (dt * (rising - base_flux) - self.capacity * melting) / self.latent_heat

    def energy(self) -> NDArray[np.float64]:
        """Return the heat (own cells,) in J/m^2, zero for no ice at 0 degrees."""
        return self.capacity * self.temperature - self.latent_heat * self.thickness


CONSTITUENTS = {"Atmosphere": Atmosphere, "Land": Land, "Ice": Ice, "Ocean": Ocean}
