"""Sizes of cases: what parameters beside ranks, such as a mesh's level or unknowns, do to a run time.

The size is ln V = Σ γ_k t_k over the parameters, where t is a parameter's value or its logarithm: work grows with a
power of the number of unknowns, but exponentially with a refinement level. Which of the two is for the data to say; so
is γ, together with the curve over ranks, so that cheap runs on small meshes inform the large one (Totounferoush 2022,
section 3.4, scales a model by the ratio of mesh sizes and then corrects it by a few runs at the target).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import ModelError

__all__ = ["ONE_SIZE", "Sizes", "size_choices"]

Array = NDArray[np.float64]

#: How many variables z a member has without sizes; with them so many, and one for each parameter.
ONE_SIZE, SIZES = 4, 9
# A parameter that varies by more than this factor is not a level.
LARGEST_LEVEL_RANGE = 20.0


@dataclass(frozen=True, eq=False)
class Sizes:
    """ln V of points for given members; false where there is no parameter.

    Of each parameter, all of shape (k,): whether t is its logarithm, t where V = 1, the unit of t - reference, and the
    normal prior of γ in that unit.
    """

    logarithmic: NDArray[np.bool_]
    reference: Array
    width: Array
    centre: Array
    scale: Array

    @classmethod
    def of(cls, points: Array, seconds: Array, logarithmic: tuple[bool, ...]) -> Sizes:
        """Find the prior of γ from a plane through the logarithms of the times; it is kept wide."""
        chosen = np.asarray(logarithmic, dtype=np.bool_)
        t = _taken(points, chosen)
        reference, width = t.max(axis=0), np.ptp(t, axis=0)
        width = np.where(width > 0, width, 1.0)
        plane = np.column_stack([np.ones(len(t)), np.log(points[:, 0]), (t - reference) / width])
        centre = np.linalg.lstsq(plane, np.log(seconds), rcond=None)[0][2:]
        # What does not grow with the size flattens the plane, by up to half where small cases hardly scale.
        return cls(chosen, reference, width, centre, 0.5 + 0.5 * np.abs(centre))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Sizes:
        """Read what was stored; the scale was called spread."""
        data = {"scale": data.get("spread"), **data}
        values = (np.asarray(data[name], dtype=np.float64) for name in ("reference", "width", "centre", "scale"))
        return cls(np.asarray(data["logarithmic"], dtype=np.bool_), *values)

    def __len__(self) -> int:
        return len(self.centre)

    @property
    def dimensions(self) -> int:
        """How many variables z a member has."""
        return SIZES + len(self) if self else ONE_SIZE

    @property
    def parameters(self) -> Array:
        """Values of the parameters where V = 1, shape (k,)."""
        return np.where(self.logarithmic, np.exp(np.where(self.logarithmic, self.reference, 0.0)), self.reference)

    def __call__(self, z: Array, points: Array) -> Array:
        """Give ln V, shape (n, m), of members z, shape (n, dimensions), at points, shape (m, 1 + k)."""
        growth = self.centre + self.scale * z[:, SIZES:]
        return np.asarray(growth @ self.steps(points).T, dtype=np.float64)

    def steps(self, points: Array) -> Array:
        """Give t - reference of each parameter in units of its width, shape (m, k), at points, shape (m, 1 + k)."""
        bad = self.logarithmic & (points[:, 1:] <= 0).any(axis=0)
        if bad.any():
            column = int(np.argmax(bad)) + 1
            raise ModelError(f"expected positive values in column {column + 1} of X, found {points[:, column].min():g}")
        return (_taken(points, self.logarithmic) - self.reference) / self.width


def _taken(points: Array, logarithmic: NDArray[np.bool_]) -> Array:
    """Parameters or their logarithms."""
    values = points[:, 1:]
    return np.where(logarithmic, np.log(np.where(logarithmic, values, 1.0)), values)


def size_choices(points: Array) -> list[tuple[bool, ...]]:
    """Ways to take each parameter that the data may decide between: its logarithm or itself; the likelier one first.

    Two values of a parameter do not tell; a power law is assumed. So it is where values vary by a large factor.
    """
    options: list[tuple[bool, ...]] = []
    for column in points[:, 1:].T:
        if (column <= 0).any():
            options.append((False,))
        elif len(np.unique(column)) < 3 or column.max() > LARGEST_LEVEL_RANGE * column.min():
            options.append((True,))
        else:
            options.append((True, False))
    return options
