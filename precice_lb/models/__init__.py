"""Performance models: seconds per time window as a function of ranks.

Every learner is a scikit-learn regressor (see `precice_lb.models.base`) and is known by its name in `LEARNERS`.
Learners see arrays only; they do not know where measurements come from.
"""

from __future__ import annotations

from precice_lb.models.base import Learner, make_learner
from precice_lb.models.published.formula import Formula, Term
from precice_lb.models.published.hypotheses import LOSSES
from precice_lb.models.published.pmnf import EQ_2_7_I, EQ_2_7_J, EQ_5_1_I, EQ_5_1_J, PMNFRegressor
from precice_lb.plugins import DEFAULT_LEARNER, LEARNERS

__all__ = [
    "DEFAULT_LEARNER",
    "EQ_2_7_I",
    "EQ_2_7_J",
    "EQ_5_1_I",
    "EQ_5_1_J",
    "LEARNERS",
    "LOSSES",
    "Formula",
    "Learner",
    "PMNFRegressor",
    "Term",
    "make_learner",
]
