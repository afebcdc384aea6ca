"""Mapping with radial basis functions, solved directly on the primary rank.

preCICE's ``mapping/RadialBasisFctMapping.hpp`` and ``RadialBasisFctSolver.hpp``; the functions are those of
``mapping/impl/BasisFunctions.hpp``: H. Wendland, Piecewise polynomial, positive definite and compactly supported radial
functions of minimal degree, Advances in Computational Mathematics 4 (1995) 389; J. Duchon, Splines minimizing
rotation-invariant semi-norms in Sobolev spaces (1977).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from precice_lb.embedded.clock import TOLERANCE
from precice_lb.embedded.intracomm import IntraComm
from precice_lb.embedded.mapping import Mapping
from precice_lb.embedded.mesh import Mesh, gather

__all__ = ["KERNELS", "RadialBasis"]

Array = NDArray[np.float64]

#: Above this condition number of the polynomial's matrix, an axis is left out of the polynomial.
_WORST_CONDITION = 1e5
#: Vertices of a cluster of preCICE's partition of unity.
_CLUSTER = 100


def _wendland(power: int, *coefficients: float) -> Callable[[Array], Array]:
    def function(p: Array) -> Array:
        result: Array = np.where(p < 1.0, (1.0 - p) ** power * np.polyval(coefficients, p), 0.0)
        return result

    return function


def _thin_plate_spline(r: Array) -> Array:
    result: Array = np.log(np.maximum(r, TOLERANCE)) * r**2
    return result


#: Functions of the distance, divided by the support radius where there is one.
KERNELS: dict[str, Callable[[Array], Array]] = {
    "thin-plate-splines": _thin_plate_spline,
    "volume-splines": np.abs,
    "compact-polynomial-c0": _wendland(2, 1.0),
    "compact-polynomial-c2": _wendland(4, 4.0, 1.0),
    "compact-polynomial-c4": _wendland(6, 35.0, 18.0, 3.0),
    "compact-polynomial-c6": _wendland(8, 32.0, 25.0, 8.0, 1.0),
    "compact-polynomial-c8": _wendland(10, 1287.0, 1350.0, 630.0, 150.0, 15.0),
}


class RadialBasis(Mapping):
    """Interpolation with one radial basis function, and a linear polynomial that is fitted before.

    Both are linear in the values: one matrix maps them, transposed where the mapping is conservative (preCICE's
    ``solveConsistent`` and ``solveConservative``). It also stands for preCICE's partition of unity, which is the same
    as long as one cluster holds all vertices.
    """

    filters = False

    def __init__(
        self, source: Mesh, target: Mesh, kernel: str, radius: float, *, conservative: bool, one_cluster: bool
    ) -> None:
        super().__init__(source, target, conservative=conservative)
        self._function = KERNELS[kernel]
        self._radius = radius
        self._one_cluster = one_cluster

    def needed(self, vertices: Array) -> NDArray[np.int64]:
        """Return all vertices, or none on a rank without origins."""
        return np.arange(len(vertices) if self.origins.size else 0)

    def compute(self, intra: IntraComm) -> None:
        """Assemble and factorise the system at the primary rank."""
        self._intra = intra
        points, centres = self._gather(self.origins.coordinates), self._gather(self.searched.coordinates, received=True)
        intra.agree_all(self._assemble(centres, points) if intra.is_primary else None)

    def _assemble(self, centres: Array, points: Array) -> str | None:
        """Factorise; returns what is wrong."""
        between = f'the mapping from mesh "{self.source.name}" to mesh "{self.target.name}"'
        if self._one_cluster and (problem := _beyond_one_cluster(centres, points)):
            return f"{between} {problem}; libprecice does it, or take <mapping:rbf-global-direct>"
        weights = self._solve(self._kernel(centres, centres), self._kernel(centres, points))
        if weights is None:
            return (
                f"the interpolation matrix of {between} is not invertible: are vertices duplicated? Otherwise choose "
                "another basis function or a smaller support-radius"
            )
        axes = list(range(centres.shape[1]))
        while True:
            polynomial = _polynomial(centres, axes)
            singular = np.linalg.svd(polynomial, compute_uv=False)
            if singular[0] / max(singular[-1], TOLERANCE) <= _WORST_CONDITION or not axes:
                break
            axes.remove(min(axes, key=lambda axis: float(np.ptp(centres[:, axis]))))
        if len(centres) < polynomial.shape[1]:
            return f"{between} has a polynomial of more terms than there are vertices, which only libprecice does"
        # The functions interpolate what the polynomial leaves.
        left = _polynomial(points, axes) - weights.T @ polynomial
        matrix = weights.T + left @ np.linalg.pinv(polynomial)
        self._matrix: Array = matrix.T if self.conservative else matrix
        return None

    def _solve(self, matrix: Array, right: Array) -> Array | None:
        """Solve with a symmetric matrix as preCICE does; None if it is singular for it."""
        # scipy costs a tenth of a second and more: only participants that map so pay for it.
        from scipy.linalg import LinAlgError, cho_factor, cho_solve, qr, solve_triangular

        solved: Array = np.empty_like(right)
        if self._radius:
            try:
                solved = cho_solve(cho_factor(matrix, lower=True), right)
            except LinAlgError:
                return None
            return solved
        q, r, order = qr(matrix, pivoting=True)
        diagonal = np.abs(np.diag(r))
        # The rank of Eigen's ColPivHouseholderQR.
        if (diagonal <= np.finfo(float).eps * len(matrix) * diagonal.max()).any():
            return None
        solved[order] = solve_triangular(r, q.T @ right)
        return solved

    def _kernel(self, points: Array, centres: Array) -> Array:
        from scipy.spatial.distance import cdist

        values: Array = self._function(cdist(points, centres) / (self._radius or 1.0))
        return values

    def apply(self, values: Array) -> Array:
        """Map all ranks' values together: every rank has to call it."""
        whole = self._gather(values, received=not self.conservative)
        return self._scatter(self._matrix @ whole if self._intra.is_primary else whole)

    def _gather(self, local: Array, *, received: bool = False) -> Array:
        partition = (self.searched if received else self.origins).partition
        assert partition is not None
        return gather(self._intra, [partition], [local], add=False)[0] if self._intra.is_parallel else local

    def _scatter(self, whole: Array) -> Array:
        partition = self.target.partition
        assert partition is not None
        if not self._intra.is_parallel:
            return whole
        # Of a received mesh's vertices one rank gets the values: sending adds up those of all ranks.
        part = partition.part_of_owner if self.conservative else partition.part
        (local,) = self._intra.scatter(lambda rank: [part(whole, rank)])
        return local


def _beyond_one_cluster(centres: Array, points: Array) -> str | None:
    """Say what keeps preCICE's ``createClustering`` from one cluster, with which the partition of unity is global."""
    if len(centres) >= 2 * _CLUSTER:
        return (
            f"needs several clusters for {len(centres)} vertices, while the embedded backend knows "
            f"one cluster with less than {2 * _CLUSTER}"
        )
    low, high = centres.min(axis=0), centres.max(axis=0)
    radius = 2.0 * (float((high - low).max()) or 1.0)
    if (np.linalg.norm(points - (low + high) / 2.0, axis=1) >= radius).any():
        return "has vertices farther away than the cluster's radius, which the embedded backend does not know"
    return None


def _polynomial(points: Array, axes: list[int]) -> Array:
    return np.hstack([np.ones((len(points), 1)), points[:, axes]])
