"""Small least-squares problems by the thousand: elementwise over the problems, orthogonal inside each.

Problems lie along the last axis, so that every operation runs over contiguous memory. At most a handful of columns.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# A column is dependent when this share of its length or less is left after taking the other columns out of it.
DEPENDENT = 1e-11


@dataclass(frozen=True)
class Factors:
    """``columns = q @ r`` for each of h problems with k columns.

    ``q``, shape (k, rows, h), has orthonormal columns (zero for a dependent one), with ridge only the rows of the data;
    ``r``, shape (k, k, h), upper triangles, whose diagonal is infinite for a dependent column: its coefficient is zero.
    """

    q: Array
    r: Array

    def coefficients(self, projections: Array) -> Array:
        """Solve ``r c = projections`` for c; both of shape (k, h)."""
        k = len(self.r)
        result = np.zeros_like(projections)
        for row in range(k - 1, -1, -1):
            rest = projections[row].copy()
            for column in range(row + 1, k):
                rest -= self.r[row, column] * result[column]
            result[row] = rest / self.r[row, row]
        return result


def factorize(columns: Array, ridge: float = 0.0) -> Factors:
    """Orthogonalise k columns of each of h problems, shape (k, rows, h), by modified Gram-Schmidt done twice.

    The ridge, a penalty on the squared coefficients of the columns as given, enters as the rows ``sqrt(ridge) *
    identity`` below the columns, so that the normal equations, with their squared condition number, are never formed.
    ``q qᵀ y`` are then the fitted values also with a penalty, because its rows have zeros on the right-hand side.
    """
    k, rows, h = columns.shape
    extra = k if ridge > 0 else 0
    q = np.zeros((k, rows + extra, h))
    q[:, :rows] = columns
    if extra:
        for column in range(k):
            q[column, rows + column] = np.sqrt(ridge)
    r = np.zeros((k, k, h))
    for column in range(k):
        v = q[column]
        length = np.sqrt(np.einsum("rh,rh->h", v, v))
        for _ in range(2 if column else 0):
            for earlier in range(column):
                share = np.einsum("rh,rh->h", q[earlier], v)
                r[earlier, column] += share
                v -= share * q[earlier]
        left = np.sqrt(np.einsum("rh,rh->h", v, v))
        dependent = left <= DEPENDENT * length
        left[dependent] = np.inf
        r[column, column] = left
        v /= left
    return Factors(q[:, :rows], r)


def solve_nonnegative(columns: Array, targets: Array) -> tuple[Array, Array]:
    """Non-negative least squares of columns (k, rows, h) for targets (rows, h), exact.

    Coefficients, shape (k, h), and sums of squared residuals, shape (h,). The optimum is the unconstrained solution on
    its own active set (Karush-Kuhn-Tucker), so the best among the feasible solutions of all 2^k sets is the optimum.
    For k ≤ 3 that is faster than an active-set method per problem. A column of zeros is never used.
    """
    k, _, h = columns.shape
    best = np.zeros((k, h))
    residuals = np.einsum("rh,rh->h", targets, targets)
    for size in range(1, k + 1):
        for active in map(np.array, itertools.combinations(range(k), size)):
            chosen = columns[active]
            factors = factorize(chosen)
            found = factors.coefficients(np.einsum("krh,rh->kh", factors.q, targets))
            error = targets - np.einsum("krh,kh->rh", chosen, found)
            squares = np.einsum("rh,rh->h", error, error)
            better = (found > 0).all(axis=0) & (squares < residuals)
            residuals = np.where(better, squares, residuals)
            best[:, better] = 0.0
            best[np.ix_(active, np.flatnonzero(better))] = found[:, better]
    return best, residuals
