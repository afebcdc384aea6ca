"""Learners by name; a learner's module is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.base import RegressorMixin, clone

from precice_lb.exceptions import ModelError
from precice_lb.models.base import Learner
from precice_lb.plugins import DEFAULT_LEARNER, LEARNERS

__all__ = ["DEFAULT_LEARNER", "LEARNERS", "make_learner", "model_from_dict", "new_learner"]


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
    """Give an unfitted learner of whatever a caller may give: a name, an estimator, or nothing for the default.

    Parameters
    ----------
    learner : str, estimator or None
        An estimator is cloned and not changed.
    parameters : mapping, optional
        Parameters of a learner given by name.

    Raises
    ------
    ModelError
        As in `make_learner`; not an estimator; an estimator and parameters.
    """
    if learner is None or isinstance(learner, str):
        return make_learner(DEFAULT_LEARNER if learner is None else learner, **(parameters or {}))
    if not (hasattr(learner, "fit") and hasattr(learner, "predict") and hasattr(learner, "get_params")):
        raise ModelError(f"expected the name of a learner or a scikit-learn regressor, found {learner!r:.60}")
    if parameters:
        raise ModelError(f"expected no parameters beside a learner that has its own, found {', '.join(parameters)}")
    return clone(learner)


def model_from_dict(data: Mapping[str, Any]) -> Learner:
    """Give a fitted model of what a learner's ``to_dict`` gave.

    Parameters
    ----------
    data : mapping
        JSON types.

    Raises
    ------
    ModelError
        Not a stored model, of an unknown learner or version, or incomplete.
    """
    name = data.get("learner")
    if name not in LEARNERS:
        raise ModelError(f"expected a stored model of one of {', '.join(LEARNERS)}, found {name!r}")
    model: Learner = LEARNERS[str(name)].from_dict(data)
    return model
