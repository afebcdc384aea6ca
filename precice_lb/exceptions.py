"""The one exception tree of the package.

Offline commands raise these; the command line turns them into one line on standard error and exit code 2.
"""

from __future__ import annotations


class PreciceLBError(Exception):
    """Base of every error that this package raises on purpose."""


class ConfigurationError(PreciceLBError):
    """A ``precice-config.xml`` is missing, malformed or contradicts itself."""


class UnsupportedConfigurationError(ConfigurationError):
    """A valid configuration asks for something this backend or schedule does not know."""


class BackendError(PreciceLBError):
    """The coupling backend cannot be loaded, was called out of order or lost its partner."""


class StoreError(PreciceLBError):
    """A store cannot be read: not ours, damaged, or of an unknown format version."""


class DataError(PreciceLBError):
    """Measurements are missing, not of one case, or not usable."""


class GuessError(PreciceLBError):
    """Participants of a coupling do not agree on a first guess, or cannot have one."""


class ModelError(PreciceLBError):
    """A performance model cannot be fitted or asked."""


class ScheduleError(PreciceLBError):
    """A coupling cannot be turned into a schedule."""


class InfeasibleError(PreciceLBError):
    """No split satisfies the constraints."""


class LayoutError(PreciceLBError, ValueError):
    """A text does not name ranks, or ranks and threads.

    It is a ValueError, too: pydantic collects those of all keys of a study into one error.
    """


class StudyError(PreciceLBError):
    """A study file is malformed or names something that does not exist."""


class CalibrationError(PreciceLBError):
    """A campaign cannot go on."""


class PluginError(PreciceLBError):
    """What another distribution adds cannot be used."""


class TooFewRunsError(CalibrationError):
    """Fewer runs of a campaign ended well than a recommendation needs; exit code 1."""
