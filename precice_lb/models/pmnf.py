"""Performance model normal form: exhaustive search over given exponents, as in the papers.

Schröder 2019, section 2.1, and Calotoiu et al. 2013: f(p) = c + Σ c_k p^(i_k) log(p)^(j_k) with n terms out of I × J;
the hypothesis with the least cross-validated loss wins and is fitted to all measurements.

The learner repeats the papers' method for comparison. Nothing keeps such a model positive or falling beyond its data:
see `precice_lb.models.validity` for what is done about that before anything is recommended.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import ModelError
from precice_lb.models.formula import term_values
from precice_lb.models.hypotheses import CrossValidation, make_folds, search
from precice_lb.models.normal_form import EQ_5_1_I, EQ_5_1_J, NormalFormLearner
from precice_lb.models.validity import falls_then_rises

__all__ = ["PMNFRegressor"]

Array = NDArray[np.float64]

# Rank counts at which a hypothesis' shape is looked at.
SHAPE_POINTS = 64


@dataclass(kw_only=True, eq=False, repr=False)
class PMNFRegressor(NormalFormLearner):
    """Exhaustive search for the best sum of terms p^i log(p)^j.

    Parameters
    ----------
    n_terms : int
        Terms of a hypothesis beside the constant, 1 to 3; with ``refine`` at most so many.
    exponents, log_exponents : sequences of float
        I and J; the terms are their Cartesian product in this order. Default: equation 5.1 of Schröder 2019.
    folds : int or None
        Cross-validation: None for leave-one-out, else that many folds of measurements that follow each other in the
        order given (scikit-learn's ``KFold`` without shuffling).
    loss : {"smape", "mape", "mse"}
        What is compared; mean over the folds of each fold's loss.
    ridge : float
        Penalty on the squared coefficients; the constant is not penalised and the terms are not scaled, as in
        scikit-learn's ``Ridge(alpha=ridge)``.
    constant : bool
        Whether each hypothesis has a constant.
    log_base : float
        Base of the logarithm. It matters with ``ridge`` only (and for the printed coefficients).
    shape_range : (int, int) or None
        Candidate rank counts, lowest and highest. A hypothesis may then win only if, fitted to all measurements, it is
        positive there and falls, then rises (either part may be missing).
    refine : bool
        Begin with one term and add terms as long as that raises the adjusted R² of the winner (Calotoiu et al. 2016,
        section II-B), or until the measurements do not suffice.

    Notes
    -----
    Of hypotheses with the same loss the first wins. Least squares is done by orthogonalisation, so terms that differ by
    many orders of magnitude do not spoil each other; where scikit-learn's ``LinearRegression`` cuts small
    singular values off (features of very different size without ridge) it can come to another result.
    """

    learner_name: ClassVar[str] = "pmnf"
    learned: ClassVar[Mapping[str, Callable[[Any], Any]]] = {
        **NormalFormLearner.learned,
        # Share of the variance that the winner explains, less what as many terms explain by chance; NaN where no
        # measurement is left over.
        "adjusted_r2": lambda stored: math.nan if stored is None else float(stored),
    }

    n_terms: int = 2
    exponents: Sequence[float] = EQ_5_1_I
    log_exponents: Sequence[float] = EQ_5_1_J
    folds: int | None = None
    loss: str = "smape"
    ridge: float = 0.0
    constant: bool = True
    log_base: float = 2.0
    shape_range: tuple[int, int] | None = None
    refine: bool = False

    def _fit(self, points: Array, seconds: Array, errors: Array) -> None:
        self._check_parameters()
        pairs = np.array(list(itertools.product(self.exponents, self.log_exponents)), dtype=np.float64)
        features = term_values(points, pairs, self.log_base)
        usable = np.isfinite(features).all(axis=1)
        pairs, features = pairs[usable], features[usable]
        smallest = 1 if self.refine else self.n_terms
        if len(pairs) < smallest:
            raise ModelError(f"expected at least {smallest} usable terms, found {len(pairs)}; give more exponents")
        learned = self._learn(points, seconds, pairs, features, smallest)
        for n_terms in range(smallest + 1, min(self.n_terms, len(pairs)) + 1):
            try:
                larger = self._learn(points, seconds, pairs, features, n_terms)
            except ModelError:
                # Too few measurements for so many terms.
                break
            if not larger["adjusted_r2_"] > learned["adjusted_r2_"]:
                break
            learned = larger
        self.__dict__.update(learned)

    def _learn(self, points: Array, seconds: Array, pairs: Array, features: Array, n_terms: int) -> dict[str, Any]:
        """Search with a given number of terms and give what is learned, by attribute."""
        m, constant = len(seconds), int(self.constant)
        needed = n_terms + constant if self.ridge == 0 else 1
        folds = make_folds(points, self.folds, needed, f"a PMNF of {n_terms} terms")
        validation = CrossValidation(seconds, folds, self.loss, float(self.ridge), bool(constant), np.ones(m))
        accept = None
        if self.shape_range is not None:
            first, last = self.shape_range
            values = term_values(np.unique(np.rint(np.geomspace(first, last, SHAPE_POINTS))), pairs, self.log_base)

            def accept(sets: NDArray[np.intp]) -> NDArray[np.bool_]:
                constants, coefficients, _ = validation.fit(features[sets.T].transpose(0, 2, 1))
                return falls_then_rises(np.einsum("kh,khp->ph", coefficients, values[sets.T]) + constants)

        with np.errstate(all="ignore"):
            winner = search(features, n_terms, validation, accept)
        if winner is None:
            raise ModelError(
                "no hypothesis could be cross-validated on these measurements"
                + (" with a curve of the shape asked for" if self.shape_range else "")
                + "; measure at more rank counts"
            )
        learned = self._fit_winner(pairs[winner.terms, None], features[winner.terms], validation)
        squares = float(np.square(seconds - learned["formula_"](points[:, 0])).sum())
        total = float(np.square(seconds - constant * seconds.mean()).sum())
        left = m - n_terms - constant
        adjusted = 1 - squares / total * (m - constant) / left if left > 0 < total else math.nan
        return {**learned, "loss_": winner.loss, "n_hypotheses_": winner.n_hypotheses, "adjusted_r2_": adjusted}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.shape_range is not None:
            first, last = self.shape_range
            if not 1 <= first < last < math.inf:
                raise ModelError(f"expected shape_range as two ascending rank counts, found {self.shape_range!r}")
