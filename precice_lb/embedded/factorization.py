"""The QR factorisation of the quasi-Newton least-squares system, and the filters that keep it well conditioned.

preCICE's ``acceleration/impl/QRFactorization.cpp``; Daniel, Gragg, Kaufman and Stewart, Reorthogonalization and stable
algorithms for updating the Gram-Schmidt QR factorization, Mathematics of Computation 30 (1976) 772.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from numpy.typing import NDArray

from precice_lb.embedded.convergence import Total

__all__ = ["Factorization"]

Array = NDArray[np.float64]

#: A column is orthogonalised again if that left less than this part of it.
_THETA = 1.0 / 0.7
_MOST_ROUNDS = 4


class Factorization:
    """Q and R of a matrix whose columns come and go, by filter ``QR1``, ``QR2`` or ``QR3``; rows lie on all ranks."""

    def __init__(self, filtering: str, limit: float, total: Total) -> None:
        self._filtering = filtering
        self._limit = limit
        self._total = total
        self._needs_filter = False
        self.global_rows = 0
        self.q: Array = np.zeros((0, 0))
        self.r: Array = np.zeros((0, 0))

    @property
    def columns(self) -> int:
        """Number of columns."""
        return len(self.r)

    def clear(self, local_rows: int, global_rows: int) -> None:
        """Start without columns."""
        self.q, self.r = np.zeros((local_rows, 0)), np.zeros((0, 0))
        self.global_rows = global_rows

    def require_filter(self) -> None:
        """Let the ``QR3`` filter look at every column again, since the weights have changed."""
        self._needs_filter = True

    def rebuild(self, matrix: Array, global_rows: int) -> list[int]:
        """Factorise a matrix; returns the columns that could not be orthogonalised and were left out."""
        self.clear(len(matrix), global_rows)
        return [k for k in range(matrix.shape[1]) if not self.insert(self.columns, matrix[:, k])]

    def insert(self, position: int, column: Array, limit: float = 0.0) -> bool:
        """Insert a column; False if it brings nothing new, less than `limit` of its norm, and was left out."""
        norm = self._norm(column) if limit > 0.0 else 0.0
        orthogonal, coefficients, rest = self._orthogonalize(column)
        if rest <= sys.float_info.min or norm * limit > rest:
            self._needs_filter = True
            return False
        count = self.columns + 1
        r = np.zeros((count, count))
        r[: count - 1, :position] = self.r[:, :position]
        r[: count - 1, position + 1 :] = self.r[:, position:]
        q = np.column_stack([self.q, orthogonal])
        for row in range(count - 2, position - 1, -1):
            gamma, sigma, coefficients[row] = _rotation(coefficients[row], coefficients[row + 1])
            coefficients[row + 1] = 0.0
            _rotate(gamma, sigma, r[row, row + 1 :], r[row + 1, row + 1 :])
            _rotate(gamma, sigma, q[:, row], q[:, row + 1])
        r[: position + 1, position] = coefficients[: position + 1]
        self.q, self.r = q, r
        return True

    def delete(self, position: int) -> None:
        """Remove a column."""
        q, r = self.q.copy(), self.r.copy()
        for row in range(position, self.columns - 1):
            gamma, sigma, r[row, row + 1] = _rotation(r[row, row + 1], r[row + 1, row + 1])
            r[row + 1, row + 1] = 0.0
            _rotate(gamma, sigma, r[row, row + 2 :], r[row + 1, row + 2 :])
            _rotate(gamma, sigma, q[:, row], q[:, row + 1])
        self.r = np.triu(np.delete(r, position, axis=1)[:-1])
        self.q = q[:, :-1]

    def delete_last(self) -> None:
        """Remove the oldest column; there may be none left, where columns could not be inserted."""
        if self.columns:
            self.delete(self.columns - 1)

    def filter(self, matrix: Array) -> list[int]:
        """Remove columns that depend on others; returns their positions in `matrix`, rising."""
        if self._filtering == "QR1":
            return self._filter_diagonal()
        if self._filtering == "QR3":
            norms = np.sqrt(self._total((matrix**2).sum(axis=0)))
            diagonal = np.abs(np.diag(self.r))
            for column in range(self.columns - 1, 0, -1):
                self._needs_filter = self._needs_filter or bool(diagonal[column] < norms[column] * self._limit)
            if not self._needs_filter:
                return []
        self.clear(len(matrix), self.global_rows)
        # The newest column is the first one: it is never left out.
        deleted = [k for k in range(matrix.shape[1]) if not self.insert(self.columns, matrix[:, k], self._limit)]
        self._needs_filter = False
        return deleted

    def _filter_diagonal(self) -> list[int]:
        originals = list(range(self.columns))
        deleted: list[int] = []
        found = True
        while found and self.columns > 1:
            found = False
            index = 0
            while index < self.columns:
                if abs(self.r[index, index]) < self._limit * float(np.linalg.norm(self.r)):
                    found = True
                    self.delete(index)
                    deleted.append(originals.pop(index))
                else:
                    index += 1
        return sorted(deleted)

    def solve(self, right: Array) -> Array:
        """Solve R x = `right` by back substitution, shape (columns,)."""
        result = np.zeros(self.columns)
        with np.errstate(divide="ignore", invalid="ignore"):
            for row in range(self.columns - 1, -1, -1):
                result[row] = (right[row] - self.r[row, row + 1 :] @ result[row + 1 :]) / self.r[row, row]
        return result

    def _norm(self, vector: Array) -> float:
        return math.sqrt(float(self._total(np.array([np.vdot(vector, vector)]))[0]))

    def _orthogonalize(self, column: Array) -> tuple[Array, Array, float]:
        """Take from a column what is in Q: the normalised rest, its coefficients, and the norm of the rest."""
        count = self.columns
        coefficients = np.zeros(count + 1)
        vector = column.copy()
        before = self._norm(vector)
        if self.global_rows == count:
            return np.zeros(len(column)), coefficients, 0.0
        for _ in range(_MOST_ROUNDS):
            products = self._total(self.q.T @ vector) if count else np.zeros(0)
            coefficients[:count] += products
            vector = vector - self.q @ products
            rest = self._norm(vector)
            if rest <= sys.float_info.min:
                return vector, coefficients, 0.0
            if rest * _THETA > before:
                coefficients[count] = rest
                return vector / rest, coefficients, rest
            before = rest
        return vector, coefficients, 0.0


def _rotation(x: float, y: float) -> tuple[float, float, float]:
    """Cosine and sine of the rotation that takes (x, y) to (z, 0), and z."""
    if y == 0.0:
        return 1.0, 0.0, x
    z = math.copysign(math.hypot(x, y), -1.0 if x < 0.0 else 1.0)
    return x / z, y / z, z


def _rotate(gamma: float, sigma: float, p: Array, q: Array) -> None:
    """Apply a rotation to two rows or columns, in place."""
    nu = sigma / (1.0 + gamma)
    rotated = p * gamma + q * sigma
    q[...] = (rotated + p) * nu - q
    p[...] = rotated
