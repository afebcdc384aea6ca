"""Performance models: seconds per time window as a function of ranks.

Every learner is a scikit-learn regressor (see `precice_lb.models.base`) and is known by its name in `LEARNERS`.
Learners see arrays only; they do not know where measurements come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.base import RegressorMixin, clone

from precice_lb.exceptions import ModelError
from precice_lb.models.base import Curves, CurveSampler, Learner
from precice_lb.models.formula import Formula, Term
from precice_lb.models.losses import LOSSES
from precice_lb.models.pmnf import EQ_2_7_I, EQ_2_7_J, EQ_5_1_I, EQ_5_1_J, PMNFRegressor
from precice_lb.models.shape import ShapeRegressor
from precice_lb.models.trust import believable_ranks

__all__ = [
    "DEFAULT_LEARNER",
    "EQ_2_7_I",
    "EQ_2_7_J",
    "EQ_5_1_I",
    "EQ_5_1_J",
    "LEARNERS",
    "LOSSES",
    "CurveSampler",
    "Curves",
    "Formula",
    "Learner",
    "PMNFRegressor",
    "ShapeRegressor",
    "Term",
    "believable_ranks",
    "make_learner",
    "model_from_dict",
    "new_learner",
]

LEARNERS: dict[str, type[Learner]] = {learner.learner_name: learner for learner in (ShapeRegressor, PMNFRegressor)}
DEFAULT_LEARNER = "shape"


def make_learner(name: str, **parameters: Any) -> Learner:
    """Make an unfitted learner by its name.

    Raises
    ------
    ModelError
        No such learner, or it has no such parameter.
    """
    kind = LEARNERS.get(name)
    if kind is None:
        raise ModelError(f"expected a learner out of {', '.join(LEARNERS)}, found {name!r}")
    known = kind._get_param_names()
    for parameter in parameters:
        if parameter not in known:
            raise ModelError(f"expected a parameter of {name} out of {', '.join(known)}, found {parameter!r}")
    return kind(**parameters)


def new_learner(learner: str | RegressorMixin | None, parameters: Mapping[str, Any] | None = None) -> RegressorMixin:
    """Make an unfitted learner of whatever a caller may give: a name, an estimator, or nothing for the default.

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
    """Make a fitted model of what a learner's ``to_dict`` gave.

    Raises
    ------
    ModelError
        Not a stored model, of an unknown learner or version, or incomplete.
    """
    kind = LEARNERS.get(str(data.get("learner")))
    if kind is None:
        raise ModelError(f"expected a stored model of one of {', '.join(LEARNERS)}, found {data.get('learner')!r}")
    return kind.from_dict(data)
