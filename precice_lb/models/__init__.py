"""Performance models: seconds per time window as a function of ranks.

Every learner has the words of a scikit-learn regressor (see `precice_lb.models.base`) and a name in `LEARNERS`.
Learners see arrays only; they do not know where measurements come from.
"""

from __future__ import annotations

from precice_lb.models.base import Learner, make_learner
from precice_lb.plugins import DEFAULT_LEARNER, LEARNERS

__all__ = ["DEFAULT_LEARNER", "LEARNERS", "Learner", "make_learner"]
