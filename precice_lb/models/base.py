"""The contract of every learner, and what all of them share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin

from precice_lb.exceptions import ModelError
from precice_lb.models.formula import Expression

__all__ = ["CurveSampler", "Curves", "Learner"]

FORMAT_VERSION = 1


class Curves(Protocol):
    """Whole curves drawn from a posterior."""

    def __call__(self, ranks: ArrayLike) -> NDArray[np.float64]:
        """Seconds of every curve at every rank count, shape (curves, len(ranks))."""
        ...


class CurveSampler(Protocol):
    """A learner that says how sure it is by drawing curves."""

    def draw(self, n: int, random_state: int | np.random.Generator | None = None) -> Curves:
        """Draw n curves; the same seed draws the same curves.

        Parameters
        ----------
        n : int
            How many.
        random_state : int, generator or None
            Seed.

        Returns
        -------
        callable
            Takes rows and gives seconds, shape (n, rows).
        """
        ...


class Learner(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the learners: a scikit-learn regressor of seconds per time window over ranks.

    ``X`` has shape (n, d): the ranks, then parameters of the case such as the mesh's size (shape (n,) is taken as ranks
    alone); ``y`` shape (n,), positive seconds. A learner that knows only ranks refuses d > 1 with a `ModelError`.
    """

    #: Name in the registry and in stored models.
    learner_name: ClassVar[str]
    #: Earlier names of parameters, which studies and stored models may have.
    former_names: ClassVar[Mapping[str, str]] = {}
    #: Whether every curve is positive, finite and of a shape that run times have, by construction.
    always_valid: ClassVar[bool] = False

    def fit(self, X: ArrayLike, y: ArrayLike, spread: ArrayLike | None = None) -> Learner:
        """Learn from measurements and return self.

        Parameters
        ----------
        X : array of shape (n, d)
            Ranks, then parameters; rows may repeat.
        y : array of shape (n,)
            Seconds per time window.
        spread : array of shape (n,), optional
            Standard error of each row of ``y`` in seconds, NaN where unknown. A learner that weighs every measurement
            alike leaves it aside.

        Returns
        -------
        Learner
            Itself.
        """
        raise NotImplementedError

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Seconds at each row of X, shape (n,).

        Parameters
        ----------
        X : array of shape (n, d)
            Ranks, then parameters.

        Returns
        -------
        array of shape (n,)
            Seconds per time window.
        """
        raise NotImplementedError

    def predict_interval(self, X: ArrayLike, level: float = 0.8) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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
        raise NotImplementedError

    def formula(self) -> Expression:
        """Give the model as a formula, with the values of `predict` unless the learner says how near they are."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Give parameters and what was learned as plain JSON types."""
        self._require_fitted()
        return {
            "format": "precice-lb-model",
            "format_version": FORMAT_VERSION,
            "learner": self.learner_name,
            "parameters": {key: _plain(value) for key, value in self.get_params(deep=False).items()},
            "state": self._state(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Learner:
        """Make a fitted learner of what `to_dict` gave.

        Parameters
        ----------
        data : mapping
            JSON types.

        Returns
        -------
        Learner

        Raises
        ------
        ModelError
            Another learner's, of an unknown version, or incomplete.
        """
        if data.get("format") != "precice-lb-model" or data.get("format_version") != FORMAT_VERSION:
            raise ModelError(
                f"expected a precice-lb-model of format version {FORMAT_VERSION}, "
                f"found {data.get('format')!r} version {data.get('format_version')!r}"
            )
        if data.get("learner") != cls.learner_name:
            raise ModelError(f"expected a stored {cls.learner_name} model, found {data.get('learner')!r}")
        try:
            learner = cls(**{cls.former_names.get(name, name): value for name, value in data["parameters"].items()})
            learner._restore(data["state"])
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"a stored {cls.learner_name} model is incomplete: {error}") from error
        return learner

    def _state(self) -> dict[str, Any]:
        raise NotImplementedError

    def _restore(self, state: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def _require_fitted(self) -> None:
        if not hasattr(self, "formula_"):
            raise ModelError(f"expected a fitted {type(self).__name__}; call fit first")


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value
