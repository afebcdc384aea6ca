"""Mappings of data between two meshes of a participant: nearest neighbours and radial basis functions.

preCICE's ``mapping/``. Of vertices at the same distance the one with the lowest index is taken; preCICE takes any,
depending on its search tree (``query/Index.cpp``). The radial basis functions are those of
``mapping/impl/BasisFunctions.hpp``: H. Wendland, Piecewise polynomial, positive definite and compactly supported radial
functions of minimal degree, Advances in Computational Mathematics 4 (1995) 389; J. Duchon, Splines minimizing
rotation-invariant semi-norms in Sobolev spaces (1977).
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from precice_lb.case.config import MeshMapping
from precice_lb.embedded.communication import IntraComm
from precice_lb.embedded.mesh import Field, LocalMesh, gather
from precice_lb.embedded.timeline import TOLERANCE, Array

Indices = NDArray[np.int64]

#: Relative distance within which two neighbours count as equally near.
_TIE = 1e-12

#: So many pairs are compared one by one: importing scipy takes longer, and longer than importing all the rest.
_FEW_PAIRS = 250_000
#: Above this condition number of the polynomial's matrix, an axis is left out of the polynomial.
_WORST_CONDITION = 1e5
#: Vertices of a cluster of preCICE's partition of unity.
_CLUSTER = 100


def _wendland(power: int, *coefficients: float) -> Callable[[Array], Array]:
    return lambda p: np.where(p < 1.0, (1.0 - p) ** power * np.polyval(coefficients, p), 0.0)


#: Functions of the distance, divided by the support radius where there is one.
KERNELS: dict[str, Callable[[Array], Array]] = {
    "thin-plate-splines": lambda r: np.log(np.maximum(r, TOLERANCE)) * r**2,
    "volume-splines": np.abs,
    "compact-polynomial-c0": _wendland(2, 1.0),
    "compact-polynomial-c2": _wendland(4, 4.0, 1.0),
    "compact-polynomial-c4": _wendland(6, 35.0, 18.0, 3.0),
    "compact-polynomial-c6": _wendland(8, 32.0, 25.0, 8.0, 1.0),
    "compact-polynomial-c8": _wendland(10, 1287.0, 1350.0, 630.0, 150.0, 15.0),
}


def nearest_neighbours(origins: Array, candidates: Array) -> Indices:
    """Index of the nearest candidate, shape (m, dimensions), for each origin, shape (n, dimensions)."""
    if len(origins) == 0:
        return np.empty(0, dtype=np.int64)
    if len(origins) * len(candidates) <= _FEW_PAIRS:
        distances = np.sqrt(((origins[:, None] - candidates) ** 2).sum(axis=2))
        first: Indices = (distances <= distances.min(axis=1, keepdims=True) * (1.0 + _TIE)).argmax(axis=1)
        return first
    from scipy.spatial import cKDTree

    tree = cKDTree(candidates)
    distances, indices = tree.query(origins, k=1)
    nearest: Indices = indices.astype(np.int64)
    if len(candidates) > 1:
        second = tree.query(origins, k=2)[0][:, 1]
        for row in np.flatnonzero(second <= distances * (1.0 + _TIE)):
            ball = tree.query_ball_point(origins[row], distances[row] * (1.0 + _TIE))
            nearest[row] = min(ball, default=nearest[row])
    return nearest


class Mapping(ABC):
    """A linear mapping from one mesh to another, one of them provided and the other one received.

    Each vertex of one mesh, an origin, finds vertices of the other one, which is searched: a consistent mapping's
    target finds where its value comes from, a conservative mapping's source where its value goes to.
    """

    def __init__(self, described: MeshMapping, source: LocalMesh, target: LocalMesh) -> None:
        self.source = source
        self.target = target
        self.conservative = described.constraint == "conservative"
        #: The mesh whose vertices look for others, and the one in which they look.
        self.origins, self.searched = (source, target) if self.conservative else (target, source)

    @abstractmethod
    def needed(self, vertices: Array) -> Indices:
        """Return indices of what this rank needs of (a part of) the searched mesh, where that is a received one."""

    @abstractmethod
    def compute(self, intra: IntraComm) -> None:
        """Prepare, once both meshes are known on this rank; a `CouplingError` on all ranks if it is not possible."""

    @abstractmethod
    def apply(self, values: Array) -> Array:
        """Values at the targets, from values at the sources, shape (vertices, components)."""


class NearestNeighbour(Mapping):
    """Each origin takes from, or adds to, its nearest vertex."""

    def needed(self, vertices: Array) -> Indices:
        """Return the nearest vertices."""
        return nearest_neighbours(self.origins.coordinates, vertices)

    def compute(self, intra: IntraComm) -> None:
        """Find the neighbours."""
        self._nearest = nearest_neighbours(self.origins.coordinates, self.searched.coordinates)

    def apply(self, values: Array) -> Array:
        """Pick, or add up."""
        if not self.conservative:
            return values[self._nearest]
        result = np.zeros((self.target.size, values.shape[1]))
        np.add.at(result, self._nearest, values)
        return result


class RadialBasis(Mapping):
    """Interpolation with one radial basis function, and a linear polynomial that is fitted before.

    Both are linear in the values: one matrix maps them, transposed where the mapping is conservative (preCICE's
    ``solveConsistent`` and ``solveConservative``). It also stands for preCICE's partition of unity, which is the same
    as long as one cluster holds all vertices.
    """

    def __init__(self, described: MeshMapping, source: LocalMesh, target: LocalMesh) -> None:
        super().__init__(described, source, target)
        (function,) = described.element.children
        self._function = KERNELS[function.kind]
        self._radius = function.number("support-radius", "0")
        self._one_cluster = described.kind == "rbf"

    def needed(self, vertices: Array) -> NDArray[np.int64]:
        """Return all vertices, or none on a rank without origins."""
        return np.arange(len(vertices) if self.origins.size else 0)

    def compute(self, intra: IntraComm) -> None:
        """Assemble and factorise the system at the primary rank."""
        self._intra = intra
        points, centres = (self._gather(mesh.coordinates, mesh) for mesh in (self.origins, self.searched))
        intra.agree(self._assemble(centres, points) if intra.is_primary else None)

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
        """Solve with a symmetric matrix; None if it is singular, within rounding."""
        # scipy costs a tenth of a second and more: only participants that map so pay for it.
        from scipy.linalg import LinAlgError, LinAlgWarning, solve

        with warnings.catch_warnings():
            warnings.simplefilter("error", LinAlgWarning)
            try:
                return np.asarray(solve(matrix, right, assume_a="pos" if self._radius else "sym"))
            except (LinAlgError, LinAlgWarning):
                return None

    def _kernel(self, points: Array, centres: Array) -> Array:
        from scipy.spatial.distance import cdist

        values: Array = self._function(cdist(points, centres) / (self._radius or 1.0))
        return values

    def apply(self, values: Array) -> Array:
        """Map all ranks' values together: every rank has to call it."""
        whole = self._gather(values, self.source)
        if self._intra.is_primary:
            whole = self._matrix @ whole
        # Of a received mesh's vertices one rank gets the values: sending adds up those of all ranks.
        part = self.target.partition.part_of_owner if self.conservative else self.target.partition.part
        (local,) = self._intra.scatter(lambda rank: [part(whole, rank)])
        return local

    def _gather(self, local: Array, mesh: LocalMesh) -> Array:
        return gather(self._intra, [mesh.partition], [local], add=False)[0]


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


class MappedField(NamedTuple):
    """One data that a mapping carries from one mesh to another (``precice/impl/DataContext.cpp``)."""

    mapping: Mapping
    source: Field
    target: Field

    def run(self, after: float | None = None) -> None:
        """Map all samples that the target does not have yet, and only those after a time if one is given."""
        target = self.target.waveform
        for time, sample in self.source.waveform.samples:
            has_it = any(abs(known - time) <= TOLERANCE for known in target.times)
            if not has_it and (after is None or time - after > TOLERANCE):
                target.put(time, self.mapping.apply(sample))
