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
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, column_or_1d

from precice_lb.exceptions import ModelError
from precice_lb.plugins import DEFAULT_LEARNER, LEARNERS

Array = NDArray[np.float64]
Self = TypeVar("Self", bound="Learner")


class Learner(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the learners: a scikit-learn regressor of seconds per time window over ranks.

    ``X`` has shape (n, d): the ranks, then parameters of the case such as the mesh's size (shape (n,) is taken as ranks
    alone); ``y`` shape (n,), positive seconds. A learner gives `learner_name`, ``_fit``, which learns from checked
    arrays, and ``_predict``; where it knows how sure it is, ``_interval``; where it is a
    `precice_lb.models.published.formula.Formula`, the attribute ``formula_``, which predicts then.
    """

    #: Name in the registry.
    learner_name: ClassVar[str]
    #: Whether it models parameters of the case beside the ranks; others refuse them.
    several_parameters: ClassVar[bool] = False
    # What scikit-learn checks of its parameters.
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

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
        try:
            self._validate_params()
            points, seconds = _rows(X), column_or_1d(y, dtype=np.float64)
            errors = (
                np.zeros(len(seconds)) if standard_error is None else column_or_1d(standard_error, dtype=np.float64)
            )
            check_consistent_length(points, seconds, errors)
            if (bad := ~(np.isfinite(seconds) & (seconds > 0))).any():
                wrong = f"found {seconds[bad][0]:g} at {points[bad][0, 0]:g} ranks"
                raise ModelError(f"expected positive, finite seconds, {wrong}")
            if ((errors < 0) | np.isinf(errors)).any():
                raise ModelError("expected standard errors of at least 0 s, or NaN, found others")
            if points.shape[1] > 1 and not self.several_parameters:
                raise ModelError(
                    f"expected X of shape (n, 1), the ranks, found shape {points.shape}; this learner models one "
                    f"parameter: leave the other columns out or use {DEFAULT_LEARNER!r}"
                )
            self._fit(points, seconds, np.nan_to_num(errors))
        except ValueError as error:
            raise ModelError(str(error).splitlines()[0]) from error
        self.n_features_in_ = points.shape[1]
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

    @available_if(lambda learner: hasattr(learner, "_interval"))  # type: ignore[untyped-decorator]
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
        if not 0 < level < 1:
            raise ModelError(f"expected an interval's level between 0 and 1, found {level!r}")
        low, high = self._interval(self._points(X), level)
        return low, high

    def _fit(self, points: Array, seconds: Array, errors: Array) -> None:
        """Learn from points (n, d) and seconds (n,) with standard errors (n,), 0 where unknown."""
        raise NotImplementedError

    def _predict(self, points: Array) -> Array:
        return np.asarray(self.formula_(points))

    def _points(self, X: ArrayLike) -> Array:
        self._require_fitted()
        try:
            points = _rows(X)
        except ValueError as error:
            raise ModelError(str(error).splitlines()[0]) from error
        if points.shape[1] != self.n_features_in_:
            raise ModelError(
                f"expected X of shape (n, {self.n_features_in_}), as of the measurements, found shape {points.shape}"
            )
        return points

    def _require_fitted(self) -> None:
        try:
            check_is_fitted(self)
        except NotFittedError:
            raise ModelError(f"expected a fitted {type(self).__name__}; call fit first") from None


def _rows(X: ArrayLike) -> Array:
    """Ranks and parameters, shape (n, d), or (n,) for ranks alone; shape (n, d)."""
    values = np.asarray(X)
    points = check_array(values[:, None] if values.ndim == 1 else values, dtype=np.float64, input_name="X")
    if (bad := points[:, 0] < 1).any():
        raise ModelError(f"expected ranks of at least 1, found {points[bad][0, 0]:g}")
    return np.asarray(points)


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
