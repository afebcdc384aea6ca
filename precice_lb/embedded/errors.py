"""The errors that failed calls of this backend raise: of the kinds that pyprecice raises at the same calls."""

from __future__ import annotations

from precice_lb.exceptions import BackendError, ConfigurationError, UnsupportedConfigurationError


class CouplingError(BackendError, RuntimeError):
    """A call that preCICE would refuse, or a partner that is lost.

    pyprecice turns every error of preCICE into a ``RuntimeError``: solvers that catch it catch this one as well.
    """


class ShapeError(CouplingError, AssertionError):
    """An array of another shape than the call takes; pyprecice asserts it."""


class RefusedConfigurationError(ConfigurationError, RuntimeError):
    """A configuration that preCICE would refuse as well."""


class UnknownToBackendError(UnsupportedConfigurationError, RefusedConfigurationError):
    """A configuration that libprecice takes and this backend does not."""


def refused(error: ConfigurationError) -> RefusedConfigurationError:
    """Return the same error as one that solvers may catch as a ``RuntimeError``."""
    kind = UnknownToBackendError if isinstance(error, UnsupportedConfigurationError) else RefusedConfigurationError
    return kind(str(error))
