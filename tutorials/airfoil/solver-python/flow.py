"""Flow equations in two dimensions, and conservative finite differences of orders 3, 5 and 7 for them.

Everything is scaled with the chord of the airfoil and with density and speed of sound of the undisturbed flow.
Primitive variables are density, two velocities and pressure. The fluxes are split by Lax and Friedrichs and
interpolated upwind (Shu and Osher, Journal of Computational Physics 77, 1988); time steps are their third-order
Runge-Kutta steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from blocks import Domain
    from numpy.typing import NDArray

GAMMA = 1.4
PRANDTL = 0.72
UPWIND = {  # weights of the cells left of a face, and fewer right of it
    3: np.array([-1.0, 5.0, 2.0]) / 6.0,
    5: np.array([2.0, -13.0, 47.0, 27.0, -3.0]) / 60.0,
    7: np.array([-3.0, 25.0, -101.0, 319.0, 214.0, -38.0, 4.0]) / 420.0,
}


class LinearisedEuler:
    """Small disturbances of a uniform flow: sound, and what the flow carries along."""

    def __init__(self, background: NDArray[np.float64]) -> None:
        self.background = background  # primitive (4,)
        density, u, v, pressure = background
        sound = np.sqrt(GAMMA * pressure / density)
        self.speed = sound + max(abs(u), abs(v))
        self._matrices = []
        for axis, velocity in enumerate((u, v)):
            matrix = velocity * np.eye(4)
            matrix[0, 1 + axis], matrix[1 + axis, 3], matrix[3, 1 + axis] = density, 1.0 / density, GAMMA * pressure
            self._matrices.append(matrix)

    def from_primitive(self, primitive: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the unknowns (4, ...): here the disturbances of the primitive variables (4, ...)."""
        return (primitive.T - self.background).T

    def primitive(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the primitive variables (4, ...)."""
        return (state.T + self.background).T

    def fluxes(self, state: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the fluxes in x and in y (4, ...)."""
        flat = state.reshape(4, -1)
        x, y = (np.einsum("ij,jk->ik", matrix, flat).reshape(state.shape) for matrix in self._matrices)
        return x, y


class Euler:
    """Compressible flow without viscosity: density, momenta and total energy are conserved."""

    def __init__(self, speed: float) -> None:
        self.speed = speed  # an upper bound of |velocity| + sound

    def from_primitive(self, primitive: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the conserved variables (4, ...) of primitive ones (4, ...)."""
        density, u, v, pressure = primitive
        energy = pressure / (GAMMA - 1.0) + 0.5 * density * (u * u + v * v)
        return np.stack([density, density * u, density * v, energy])

    def primitive(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the primitive variables (4, ...) of conserved ones (4, ...)."""
        density, momentum_x, momentum_y, energy = state
        u, v = momentum_x / density, momentum_y / density
        pressure = (GAMMA - 1.0) * (energy - 0.5 * (momentum_x * u + momentum_y * v))
        return np.stack([density, u, v, pressure])

    def fluxes(self, state: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the fluxes in x and in y (4, ...)."""
        _, u, v, pressure = self.primitive(state)
        x, y = state * u, state * v
        x[1] += pressure
        y[2] += pressure
        x[3] += pressure * u
        y[3] += pressure * v
        return x, y


class NavierStokes(Euler):
    """Compressible flow with viscosity and heat conduction, both constant."""

    def __init__(self, speed: float, viscosity: float) -> None:
        super().__init__(speed)
        self.viscosity = viscosity

    def viscous_rate(self, state: NDArray[np.float64], size: float) -> NDArray[np.float64]:
        """Return viscous terms of the rate for blocks with a halo of one cell, at second order."""
        density, u, v, pressure = self.primitive(state)
        heat = GAMMA * pressure / density / ((GAMMA - 1.0) * PRANDTL)  # temperature times heat capacity over Pr
        along_x = self._viscous_flux(u, v, heat, size)
        # In y everything is the same with rows and columns, u and v exchanged.
        along_y = self._viscous_flux(*(np.swapaxes(field, -1, -2) for field in (v, u, heat)), size)
        x = np.diff(along_x, axis=-1)
        y = np.swapaxes(np.diff(along_y, axis=-1), -1, -2)
        zero = np.zeros_like(x[0])
        return (np.stack([zero, *x]) + np.stack([zero, y[1], y[0], y[2]])) * (self.viscosity / size)

    def _viscous_flux(
        self, normal: NDArray[np.float64], along: NDArray[np.float64], heat: NDArray[np.float64], size: float
    ) -> NDArray[np.float64]:
        """Return the flux over viscosity (3, blocks, rows, faces) of both momenta and energy through faces in x."""

        def slope(field: NDArray[np.float64]) -> NDArray[np.float64]:  # in y, at the faces
            centred = (field[:, 2:] - field[:, :-2]) / (2.0 * size)
            return 0.5 * (centred[..., 1:] + centred[..., :-1])

        normal_x, along_x, heat_x = (np.diff(field[:, 1:-1], axis=-1) / size for field in (normal, along, heat))
        stress = (4.0 * normal_x - 2.0 * slope(along)) / 3.0
        shear = along_x + slope(normal)
        mean = [0.5 * (field[:, 1:-1, 1:] + field[:, 1:-1, :-1]) for field in (normal, along)]
        return np.stack([stress, shear, stress * mean[0] + shear * mean[1] + heat_x])


class Scheme:
    """Finite differences of an odd order on the blocks of one rank."""

    def __init__(self, domain: Domain, equations: LinearisedEuler | Euler, order: int) -> None:
        self.domain, self.equations = domain, equations
        width, halo, size = domain.grid.width, domain.halo, domain.grid.size
        if halo != (order + 1) // 2:
            raise ValueError(f"order {order} needs a halo of {(order + 1) // 2} cells, found {halo}")
        # Row i of `left` interpolates what goes right through face i from cells with halo, `right` what goes left.
        left, right = np.zeros((2, width + 1, width + 2 * halo))
        for face in range(width + 1):
            left[face, face : face + order] = UPWIND[order]
            right[face, face + 1 : face + 1 + order] = UPWIND[order][::-1]
        self._of_flux = np.ascontiguousarray(-np.diff(0.5 * (left + right), axis=0).T / size)
        self._of_state = np.ascontiguousarray(-np.diff(0.5 * equations.speed * (left - right), axis=0).T / size)

    @property
    def stable_step(self) -> float:
        """Time step at about 0.8 of the stability limit of all orders."""
        return 0.55 * self.domain.grid.size / self.equations.speed

    def rate(self) -> NDArray[np.float64]:
        """Return the time derivative (4, blocks, rows, columns) of the domain's state."""
        halo = self.domain.halo
        cells = self.domain.exchange()
        x, y = self.equations.fluxes(cells)
        middle = slice(halo, -halo)
        # A product per block, so that rounding does not depend on the number of blocks.
        rate = x[:, :, middle] @ self._of_flux + cells[:, :, middle] @ self._of_state
        rate += self._of_flux.T @ y[..., middle] + self._of_state.T @ cells[..., middle]
        if isinstance(self.equations, NavierStokes):
            near = slice(halo - 1, 1 - halo)
            rate += self.equations.viscous_rate(cells[:, :, near, near], self.domain.grid.size)
        return rate

    def step(self, dt: float, prepare: Callable[[float], None]) -> None:
        """Advance the state by ``dt``; ``prepare`` sets the ghost cells for a stage at a share of the step."""
        state, before = self.domain.state, self.domain.state.copy()
        prepare(0.0)
        state += dt * self.rate()
        prepare(1.0)
        state[...] = 0.75 * before + 0.25 * (state + dt * self.rate())
        prepare(0.5)
        state[...] = before / 3.0 + 2.0 / 3.0 * (state + dt * self.rate())
