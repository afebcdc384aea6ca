"""What `pmnf` and `epmnf` share: exponents to choose from, the fit of the winner, and its interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from precice_lb.exceptions import ModelError
from precice_lb.models.base import Learner, array
from precice_lb.models.formula import Formula, Term, names_of, term_of, term_values
from precice_lb.models.hypotheses import CrossValidation
from precice_lb.models.losses import get_loss

__all__ = ["EQ_2_7_I", "EQ_2_7_J", "EQ_5_1_I", "EQ_5_1_J", "NormalFormLearner"]

Array = NDArray[np.float64]

#: Search space of Schröder 2019, equation 5.1: 100 terms, 4,950 hypotheses of two terms.
EQ_5_1_I: tuple[float, ...] = tuple(k / 4 for k in range(-8, 12))
EQ_5_1_J: tuple[float, ...] = (-2.0, -1.0, 0.0, 1.0, 2.0)
#: Search space of Calotoiu et al., equation 2.7 of Schröder 2019; rising terms only.
EQ_2_7_I: tuple[float, ...] = tuple(k / 4 for k in range(13))
EQ_2_7_J: tuple[float, ...] = (0.0, 1.0, 2.0)


def _triangle(stored: Any) -> Array:
    """Read a triangle; a dependent term has an infinite diagonal, which is null in JSON (0 in earlier models)."""
    triangle = array(stored)
    diagonal = np.diag(triangle)
    np.fill_diagonal(triangle, np.where(np.isnan(diagonal) | (diagonal == 0), np.inf, diagonal))
    return triangle


class NormalFormLearner(Learner):
    """A sum of few terms that won a search; its interval is that of least squares given the terms.

    The search is not accounted for, nor is noise that grows with the time: intervals are too narrow, above all beyond
    the measured range.
    """

    learned: ClassVar[Mapping[str, Callable[[Any], Any]]] = {
        # The winner, the constant first; its cross-validated loss; and how many were compared.
        "formula": Formula.from_dict,
        "loss": float,
        "n_hypotheses": int,
        # Of its fit: the centre holds the constant's share of each term.
        "degrees_of_freedom": float,
        "variance": float,
        "level_variance": float,
        "centre": array,
        "triangle": _triangle,
    }

    n_terms: int
    exponents: Sequence[float]
    log_exponents: Sequence[float]
    loss: str
    ridge: float
    log_base: float

    formula_: Formula
    loss_: float
    n_hypotheses_: int

    def _fit_winner(self, exponents: Array, features: Array, validation: CrossValidation) -> dict[str, Any]:
        """Fit terms with exponents (k, d, 2) and values (k, n); what is learned, by attribute."""
        base = validation.base
        constants, coefficients, factors = validation.fit((features * base)[:, :, None])
        terms = [term_of(c, pairs) for c, pairs in zip(coefficients[:, 0], exponents, strict=True)]
        if validation.constant:
            terms.insert(0, Term(float(constants[0])))
        residuals = validation.seconds - constants[0] * base - coefficients[:, 0] @ (features * base)
        free = len(base) - float(np.square(factors.q).sum()) - float(validation.constant)
        # The constant's share of each term, and what is known of the level itself.
        centre = features @ base**2 / (base @ base) if validation.constant else np.zeros(len(features))
        return {
            "formula_": Formula(tuple(terms), self.log_base, names_of(exponents.shape[1])),
            "degrees_of_freedom_": free,
            "variance_": float(residuals @ residuals) / max(free, 1e-9),
            "level_variance_": 1 / float(base @ base) if validation.constant else 0.0,
            "centre_": centre,
            "triangle_": factors.r[:, :, 0],
        }

    def _interval(self, points: Array, level: float) -> tuple[Array, Array]:
        mean, exponents = self._predict(points), self.formula_.exponents()
        values = term_values(points, exponents[len(exponents) - len(self.triangle_) :], self.log_base)
        # Terms can be infinite at 1 rank; nothing is known there.
        with np.errstate(invalid="ignore"):
            away = np.linalg.solve(self.triangle_.T, values - self.centre_[:, None])
            error = np.sqrt(self.variance_ * (np.square(away).sum(axis=0) + self.level_variance_))
            half = float(student.ppf((1 + level) / 2, max(self.degrees_of_freedom_, 1.0))) * error
            return mean - half, mean + half

    def _check_parameters(self) -> None:
        if self.n_terms not in (1, 2, 3):
            raise ModelError(f"expected n_terms of 1, 2 or 3, found {self.n_terms!r}")
        if not (self.ridge >= 0 and math.isfinite(self.ridge)):
            raise ModelError(f"expected a ridge of at least 0, found {self.ridge!r}")
        if not (self.log_base > 0 and self.log_base != 1 and math.isfinite(self.log_base)):
            raise ModelError(f"expected a positive log_base other than 1, found {self.log_base!r}")
        for name in ("exponents", "log_exponents"):
            values = np.asarray(getattr(self, name), dtype=np.float64)
            if values.ndim != 1 or not values.size or not np.isfinite(values).all():
                raise ModelError(f"expected {name} as a sequence of numbers, found {getattr(self, name)!r:.60}")
        get_loss(self.loss)
