"""Which coupling backend does the work: libprecice through pyprecice, or the embedded one."""

from __future__ import annotations

import functools
import importlib
import os
from dataclasses import dataclass
from types import ModuleType

from precice_lb.exceptions import BackendError

__all__ = ["Backend", "load_backend"]

_CHOICES = ("libprecice", "embedded")


@dataclass(frozen=True)
class Backend:
    """A coupling backend.

    Attributes
    ----------
    name : str
        ``libprecice`` or ``embedded``.
    module : module
        Its Python API.
    participant : type
        Its own ``Participant``.
    reason : str or None
        Why the embedded backend stands in, if nobody asked for it.
    """

    name: str
    module: ModuleType
    participant: type
    reason: str | None = None


@functools.lru_cache(maxsize=1)
def load_backend() -> Backend:
    """Load the backend that ``PRECICE_LB_BACKEND`` names, else pyprecice, else the embedded one.

    Returns
    -------
    Backend
        The same one for the whole process.

    Raises
    ------
    BackendError
        If ``PRECICE_LB_BACKEND`` has an unknown value, or asks for libprecice where pyprecice cannot be imported.
    """
    choice = os.environ.get("PRECICE_LB_BACKEND", "")
    if choice not in ("", *_CHOICES):
        raise BackendError(
            f"PRECICE_LB_BACKEND: expected one of {', '.join(_CHOICES)}, found {choice!r}; correct or unset it"
        )
    reason = None
    if choice != "embedded":
        try:
            module = importlib.import_module("precice")
            # A directory of that name would import as an empty namespace package.
            return Backend("libprecice", module, module.Participant)
        except (ImportError, AttributeError) as error:
            reason = str(error) or type(error).__name__
            if choice == "libprecice":
                raise BackendError(
                    f"PRECICE_LB_BACKEND=libprecice: expected an importable pyprecice, found: {reason}; install "
                    "libprecice and the extra precice, or use PRECICE_LB_BACKEND=embedded"
                ) from error
    module = importlib.import_module("precice_lb.embedded")
    return Backend("embedded", module, module.Participant, reason)
