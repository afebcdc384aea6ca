"""The contract of every learner, what all of them share, and learners by name.

A learner's module is imported when it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from precice_lb.exceptions import ModelError
from precice_lb.models.measurements import check_level, check_measurements, check_points
from precice_lb.models.published.formula import Expression
from precice_lb.plugins import DEFAULT_LEARNER, LEARNERS

Array = NDArray[np.float64]
Self = TypeVar("Self", bound="Learner")


class Learner(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the learners: a scikit-learn regressor of seconds per time window over ranks.

    ``X`` has shape (n, d): the ranks, then parameters of the case such as the mesh's size (shape (n,) is taken as ranks
    alone); ``y`` shape (n,), positive seconds. A learner gives `learner_name`, ``_fit``, which learns from checked
    arrays and sets ``formula_``, and ``_interval``; or, where it is no formula, ``_predict`` and `formula` too.
    """

    #: Name in the registry.
    learner_name: ClassVar[str]
    #: Earlier names of parameters.
    former_names: ClassVar[Mapping[str, str]] = {}
    #: Whether it models parameters of the case beside the ranks; others refuse them.
    several_parameters: ClassVar[bool] = False

    formula_: Any

    def fit(self: Self, X: ArrayLike, y: ArrayLike, standard_error: ArrayLike | None = None) -> Self:
        """Return itself, having learned from measurements.

        Parameters
        ----------
        X : array of shape (n, d)
            Ranks, then parameters; rows may repeat.
        y : array of shape (n,)
            Seconds per time window.
        standard_error : array of shape (n,), optional
            Of each row of ``y`` in seconds, NaN where unknown. A learner that weighs every measurement alike leaves it
            aside.

        Raises
        ------
        ModelError
            Bad input or parameters of the learner, or too few measurements for it.
        """
        points, seconds, errors = check_measurements(X, y, standard_error)
        self._check_columns(points)
        self._fit(points, seconds, errors)
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Seconds at each row of X; of some learners not positive or not finite outside of the measured range.

        Parameters
        ----------
        X : array of shape (n, d)
            Ranks, then parameters.

        Returns
        -------
        array of shape (n,)
            Seconds per time window.
        """
        return self._predict(self._points(X))

    def predict_interval(self, X: ArrayLike, level: float = 0.8) -> tuple[Array, Array]:
        """Bounds that hold the true mean seconds with a given probability.

        Parameters
        ----------
        X : array of shape (n, d)
            Ranks, then parameters.
        level : float
            Probability, from 0 to 1.

        Returns
        -------
        low, high : array of shape (n,)
            Seconds.
        """
        return self._interval(self._points(X), check_level(level))

    def formula(self) -> Expression:
        """Give the model as a formula, with the values of `predict` unless the learner says how near they are.

        Raises
        ------
        ModelError
            It is not fitted, or is no formula.
        """
        self._require_fitted()
        formula: Expression | None = getattr(self, "formula_", None)
        if formula is None:
            raise ModelError(f"expected a learner that is a formula, found {self.learner_name}")
        return formula

    def _fit(self, points: Array, seconds: Array, errors: Array) -> None:
        """Learn from points (n, d) and seconds (n,) with standard errors (n,), 0 where unknown."""
        raise NotImplementedError

    def _predict(self, points: Array) -> Array:
        return np.asarray(self.formula_(points if points.shape[1] > 1 else points[:, 0]), dtype=np.float64)

    def _interval(self, points: Array, level: float) -> tuple[Array, Array]:
        raise NotImplementedError

    def _positive_for(self) -> str:
        """Say what parameters have to be positive for, if they have to."""
        return ""

    def _n_columns(self) -> int:
        return len(self.formula_.names)

    def _points(self, X: ArrayLike) -> Array:
        self._require_fitted()
        points = check_points(X)
        self._check_columns(points)
        if points.shape[1] != self._n_columns():
            raise ModelError(
                f"expected X of shape (n, {self._n_columns()}), as of the measurements, found shape {points.shape}"
            )
        return points

    def _check_columns(self, points: Array) -> None:
        if points.shape[1] > 1 and not self.several_parameters:
            raise ModelError(
                f"expected X of shape (n, 1), the ranks, found shape {points.shape}; this learner models one "
                f"parameter: leave the other columns out or use one of {', '.join(learners_of_parameters())}"
            )
        if self._positive_for() and not (points > 0).all():
            raise ModelError(
                f"expected parameters above 0 for {self._positive_for()}, found {points[points <= 0][0]:g}; count them "
                "from 1, or use the learner 'neural' without log_inputs"
            )

    def _require_fitted(self) -> None:
        try:
            check_is_fitted(self)
        except NotFittedError:
            raise ModelError(f"expected a fitted {type(self).__name__}; call fit first") from None


def learners_of_parameters() -> list[str]:
    """Name the learners that model parameters beside the ranks."""
    return sorted(name for name in LEARNERS if LEARNERS[name].several_parameters)


def make_learner(name: str, **parameters: Any) -> Learner:
    """Give an unfitted learner by its name.

    Parameters
    ----------
    name : str
        One of `LEARNERS`.
    **parameters
        Of that learner.

    Raises
    ------
    ModelError
        No such learner, or it has no such parameter.
    """
    if name not in LEARNERS:
        raise ModelError(f"expected a learner out of {', '.join(LEARNERS)}, found {name!r}")
    kind: type[Learner] = LEARNERS[name]
    parameters = {kind.former_names.get(name, name): value for name, value in parameters.items()}
    known = kind._get_param_names()
    for parameter in parameters:
        if parameter not in known:
            raise ModelError(f"expected a parameter of {name} out of {', '.join(known)}, found {parameter!r}")
    return kind(**parameters)


def new_learner(learner: str | RegressorMixin | None, parameters: Mapping[str, Any] | None = None) -> RegressorMixin:
    """Give an unfitted learner: by its name and parameters, a clone of an estimator, or the default."""
    if learner is None or isinstance(learner, str):
        return make_learner(DEFAULT_LEARNER if learner is None else learner, **(parameters or {}))
    if not (hasattr(learner, "fit") and hasattr(learner, "predict") and hasattr(learner, "get_params")):
        raise ModelError(f"expected the name of a learner or a scikit-learn regressor, found {learner!r:.60}")
    if parameters:
        raise ModelError(f"expected no parameters beside a learner that has its own, found {', '.join(parameters)}")
    return clone(learner)
