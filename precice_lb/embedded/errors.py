"""The error that every failed call of this backend raises."""

from __future__ import annotations

from precice_lb.exceptions import BackendError

__all__ = ["CouplingError"]


class CouplingError(BackendError, RuntimeError):
    """A call that preCICE would refuse, or a partner that is lost.

    pyprecice turns every error of preCICE into a ``RuntimeError``: solvers that catch it catch this one as well.
    """
