"""The theory of waves in an elastic tube without end: Korteweg (1878) with the friction of Womersley (1955)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import jve

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tube import Tube


def mobility(tube: Tube, omega: NDArray[np.float64]) -> NDArray[np.complex128]:
    """Return what part of the frictionless flow friction leaves: 1 - 2 J1(z) / (z J0(z)), z = R sqrt(-i omega / nu)."""
    if tube.viscosity == 0.0:
        return np.ones_like(omega, dtype=complex)
    z = tube.radius * np.sqrt(-1j * omega / tube.viscosity)
    return 1.0 - 2.0 * jve(1, z) / (z * jve(0, z))


def wave_numbers(tube: Tube, omega: NDArray[np.float64]) -> NDArray[np.complex128]:
    """Return the wave numbers k (2, frequencies) in 1/m of waves exp(i omega t - i k x) that decay downstream.

    Flow and wall give omega^2 rho (2 / (R W) + 1 / K) = k^2 M with W = stiffness + shear k^2 - inertia omega^2, the
    bulk modulus K and the mobility M: a quadratic equation for k^2. The first wave travels, the second only decays.
    """
    m, ring = mobility(tube, omega), tube.stiffness - tube.inertia * omega**2
    load = omega**2 * tube.density
    linear = ring * m - tube.shear * load / tube.bulk_modulus
    constant = load * (ring / tube.bulk_modulus + 2.0 / tube.radius)
    larger = linear + np.sqrt(linear**2 + 4.0 * tube.shear * m * constant)
    k = np.sqrt(np.stack([2.0 * constant / larger, -larger / (2.0 * tube.shear * m)]))
    return np.where(k.imag > 0.0, -k, k)


def exact_pressure(tube: Tube, x: NDArray[np.float64], time: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the pressure (times, cells) in Pa that the inflow drives, by Fourier transform in time.

    At the inlet both waves together have the given flow, and the slope of a free end of the wall, which is zero.
    """
    period, samples = 40.0 * tube.pulse, 4096  # long enough for the slow part of the wave to have left
    omega = 2.0 * np.pi / period * np.arange(1, samples // 4)  # the pulse is smooth: higher frequencies have no part
    flow = np.fft.rfft(tube.inflow(np.arange(samples) * period / samples))[1 : samples // 4] / samples
    k = wave_numbers(tube, omega)
    wall = tube.stiffness + tube.shear * k**2 - tube.inertia * omega**2
    share = np.stack([wall[0], -wall[1]]) / (wall[0] - wall[1])
    pressure = share * flow * tube.density * omega / (tube.area * mobility(tube, omega) * k)
    waves = (np.exp(-1j * k[:, :, None] * x) * pressure[:, :, None]).sum(axis=0)
    history: NDArray[np.float64] = 2.0 * (np.exp(1j * np.outer(time, omega)) @ waves).real
    return history - 2.0 * pressure.sum().real  # nothing moves at the inlet before the pulse
