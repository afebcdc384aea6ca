"""Sizes of cases: what parameters beside ranks, such as a mesh's level or unknowns, do to a run time.

The size is ln V = Σ γ_k t_k over the parameters, where t is a parameter's value or its logarithm: work grows with a
power of the number of unknowns, but exponentially with a refinement level. Which of the two is for the data to say; so
is γ, together with the curve over ranks, so that cheap runs on small meshes inform the large one (Totounferoush 2022,
section 3.4, scales a model by the ratio of mesh sizes and then corrects it by a few runs at the target).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.exceptions import ModelError
from precice_lb.models.bayes_shapes import ONE_SIZE, SIZES

__all__ = ["Sizes", "check_rows", "size_choices"]

Array = NDArray[np.float64]

# A parameter that varies by more than this factor is not a level.
LARGEST_LEVEL_RANGE = 20.0


class Sizes:
    """ln V of rows for given members.

    Parameters
    ----------
    logarithmic : sequence of bool
        Of each parameter, whether t is its logarithm.
    reference, width, centre, spread : arrays of shape (k,)
        Of each parameter: t where V = 1, the unit of t - reference, and the normal prior of γ in that unit.
    """

    def __init__(
        self, logarithmic: ArrayLike, reference: ArrayLike, width: ArrayLike, centre: ArrayLike, spread: ArrayLike
    ) -> None:
        self.logarithmic = np.asarray(logarithmic, dtype=np.bool_)
        self.reference = np.asarray(reference, dtype=np.float64)
        self.width = np.asarray(width, dtype=np.float64)
        self.centre = np.asarray(centre, dtype=np.float64)
        self.spread = np.asarray(spread, dtype=np.float64)

    @classmethod
    def of(cls, rows: Array, seconds: Array, logarithmic: tuple[bool, ...]) -> Sizes:
        """Find the prior of γ from a plane through the logarithms of the times; it is kept wide."""
        values = rows[:, 1:]
        t = np.where(logarithmic, np.log(np.where(logarithmic, values, 1.0)), values)
        reference, width = t.max(axis=0), np.ptp(t, axis=0)
        width = np.where(width > 0, width, 1.0)
        plane = np.column_stack([np.ones(len(t)), np.log(rows[:, 0]), (t - reference) / width])
        centre = np.linalg.lstsq(plane, np.log(seconds), rcond=None)[0][2:]
        # What does not grow with the size flattens the plane, by up to half where small cases hardly scale.
        return cls(logarithmic, reference, width, centre, 0.5 + 0.5 * np.abs(centre))

    @property
    def dimensions(self) -> int:
        """How many variables z a member has."""
        return SIZES + len(self.centre) if len(self.centre) else ONE_SIZE

    def __call__(self, z: Array, rows: Array) -> Array:
        """Give ln V, shape (n, m), of members z, shape (n, dimensions), at rows, shape (m, 1 + k).

        Raises
        ------
        ModelError
            As of `steps`.
        """
        growth = self.centre + self.spread * z[:, SIZES:]
        return np.asarray(growth @ self.steps(rows).T, dtype=np.float64)

    def steps(self, rows: Array) -> Array:
        """Give t - reference of each parameter in units of its width, shape (m, k), at rows, shape (m, 1 + k).

        Raises
        ------
        ModelError
            A parameter whose logarithm is needed is not positive.
        """
        values = rows[:, 1:]
        bad = self.logarithmic & (values <= 0).any(axis=0)
        if bad.any():
            column = int(np.argmax(bad)) + 1
            raise ModelError(
                f"expected positive values in column {column + 1} of X, found {values[:, column - 1].min():g}"
            )
        t = np.where(self.logarithmic, np.log(np.where(self.logarithmic, values, 1.0)), values)
        return np.asarray((t - self.reference) / self.width, dtype=np.float64)

    def to_dict(self) -> dict[str, list[float] | list[bool]]:
        """Give plain JSON types, the arguments of the constructor."""
        names = ("logarithmic", "reference", "width", "centre", "spread")
        return {name: getattr(self, name).tolist() for name in names}


def size_choices(rows: Array) -> list[tuple[bool, ...]]:
    """Ways to take each parameter that the data may decide between: its logarithm or itself; the likelier one first.

    Two values of a parameter do not tell; a power law is assumed. So it is where values vary by a large factor.
    """
    options: list[tuple[bool, ...]] = []
    for column in rows[:, 1:].T:
        if (column <= 0).any():
            options.append((False,))
        elif len(np.unique(column)) < 3 or column.max() > LARGEST_LEVEL_RANGE * column.min():
            options.append((True,))
        else:
            options.append((True, False))
    return options


def check_rows(X: ArrayLike, columns: int | None = None) -> Array:
    """Take ranks and parameters out of X.

    Parameters
    ----------
    X : array of shape (n, d), or (n,)
        Ranks, then parameters.
    columns : int, optional
        d that is expected.

    Returns
    -------
    array of shape (n, d)
        As floats.

    Raises
    ------
    ModelError
        Another shape, not numbers, not finite, or ranks below 1.
    """
    try:
        rows = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise ModelError("expected numbers of ranks, found something else") from None
    if rows.ndim == 1 and columns in (None, 1):
        rows = rows[:, None]
    if rows.ndim != 2 or not rows.shape[1] or columns not in (None, rows.shape[1]):
        wanted = f"(n, {columns})" if columns else "(n, d)"
        raise ModelError(f"expected X of shape {wanted}, ranks and then parameters, found shape {rows.shape}")
    bad = ~(np.isfinite(rows[:, 0]) & (rows[:, 0] >= 1))
    if bad.any():
        raise ModelError(f"expected ranks of at least 1, found {rows[bad][0, 0]:g}")
    if not np.isfinite(rows).all():
        raise ModelError("expected finite parameters, found one that is not")
    return rows
