"""The coupler: from the temperatures of all constituents and the sun to the heat that each gets from the others.

What one loses another gains, or it comes from the sun or goes to space.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from constituents import FREEZING
from grid import ICE, LAND, LATITUDE, LONGITUDE, Part

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

DAY = 86400.0  # s
SUN = 1361.0  # W/m^2
TILT = np.radians(23.44)
REFLECTED, ABSORBED = 0.2, 0.2  # by the air, of the sunlight
ALBEDO = np.where(LAND, 0.25, np.where(ICE, 0.6, 0.07))
TRANSFER = 20.0  # W/(m^2 K), between surface and air
OUTGOING, FEEDBACK = 210.0, 2.0  # W/m^2 and W/(m^2 K): heat to space from air at 0 degrees, and for each degree
ICE_TRANSFER = 20.0  # W/(m^2 K), between water and ice


def sunlight(latitude: NDArray[np.float64], longitude: NDArray[np.float64], seconds: float) -> NDArray[np.float64]:
    """Return the sunlight (W/m^2) above the air, so many seconds after midnight at 0 degrees, at an equinox."""
    declination = TILT * np.sin(2.0 * np.pi * seconds / (365.0 * DAY))
    hour_angle = longitude + 2.0 * np.pi * seconds / DAY - np.pi
    height = np.sin(latitude) * np.sin(declination) + np.cos(latitude) * np.cos(declination) * np.cos(hour_angle)
    return SUN * np.maximum(height, 0.0)


class Coupler:
    """The fluxes in this rank's cells, and the account of what came from space and what goes into the ocean."""

    state = ("gained", "into_ocean")

    def __init__(self, part: Part) -> None:
        self.part = part
        self.latitude, self.longitude = LATITUDE[part.own], LONGITUDE[part.own]
        self.land, self.ice, self.albedo = LAND[part.own], ICE[part.own], ALBEDO[part.own]
        self.gained = 0.0  # J, from space, since the start
        self.into_ocean = np.zeros(len(part.own))  # J/m^2, since midnight

    def fluxes(
        self, temperature: Mapping[str, NDArray[np.float64]], seconds: float, dt: float
    ) -> dict[str, NDArray[np.float64]]:
        """Return what to write from ``seconds`` on for ``dt`` seconds; the ocean's is the mean since midnight."""
        sun = (1.0 - REFLECTED) * sunlight(self.latitude, self.longitude, seconds + 0.5 * dt)
        air = temperature["Atmosphere"]
        open_water = np.where(self.ice, temperature["Ice"], temperature["Ocean"])
        rising = TRANSFER * (np.where(self.land, temperature["Land"], open_water) - air)
        surface = (1.0 - ABSORBED) * (1.0 - self.albedo) * sun - rising
        space = OUTGOING + FEEDBACK * air
        melting = np.where(self.ice, ICE_TRANSFER * (temperature["Ocean"] - FREEZING), 0.0)
        atmosphere = ABSORBED * sun + rising - space
        self.gained += dt * self.part.integral(atmosphere + surface)
        if seconds % DAY == 0.0:
            self.into_ocean = np.zeros_like(self.into_ocean)
        self.into_ocean = self.into_ocean + dt * np.where(self.land, 0.0, np.where(self.ice, -melting, surface))
        return {
            "Atmosphere-Flux": atmosphere,
            "Land-Flux": surface,
            "Ice-Flux": surface,
            "Ice-Base-Flux": melting,
            "Ocean-Flux": self.into_ocean / (seconds % DAY + dt),
        }
