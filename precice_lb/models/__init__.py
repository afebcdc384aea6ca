"""Performance models: seconds per time window as a function of ranks.

Every learner is a scikit-learn regressor (see `precice_lb.models.base`) and is known by its name in `LEARNERS`.
Learners see arrays only; they do not know where measurements come from.
"""

from __future__ import annotations

from precice_lb.models.base import Curves, CurveSampler, Learner
from precice_lb.models.formula import Formula, Term
from precice_lb.models.losses import LOSSES
from precice_lb.models.pmnf import PMNFRegressor
from precice_lb.models.pmnf_space import EQ_2_7_I, EQ_2_7_J, EQ_5_1_I, EQ_5_1_J
from precice_lb.models.registry import DEFAULT_LEARNER, LEARNERS, make_learner, model_from_dict, new_learner
from precice_lb.models.shape import ShapeRegressor
from precice_lb.models.validity import valid_range

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
    "make_learner",
    "model_from_dict",
    "new_learner",
    "valid_range",
]
