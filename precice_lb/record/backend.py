"""Which coupling backend does the work: libprecice through pyprecice, or the embedded one."""

from __future__ import annotations

import functools
import importlib
import os
from dataclasses import dataclass
from types import ModuleType

from precice_lb.exceptions import BackendError

_CHOICES = ("libprecice", "embedded")


@dataclass(frozen=True)
class Backend:
    """A coupling backend, its Python API, its own ``Participant``, and why it stands in for another, if it does."""

    name: str
    module: ModuleType
    participant: type
    reason: str | None = None


def _libprecice() -> Backend | str:
    """Load pyprecice, or say why it is not there."""
    try:
        module = importlib.import_module("precice")
    except ModuleNotFoundError as error:
        # Not a module that pyprecice itself lacks.
        if error.name == "precice":
            return str(error)
        raise
    if getattr(module, "__file__", None) is None:
        # A directory of that name is imported as an empty namespace package.
        return f"{', '.join(module.__path__)} is no pyprecice"
    if not hasattr(module, "Participant"):
        raise ImportError(f"{module.__file__} has no Participant: expected pyprecice 3.2 or newer")
    return Backend("libprecice", module, module.Participant)


@functools.lru_cache(maxsize=1)
def load_backend() -> Backend:
    """Load the backend that ``PRECICE_LB_BACKEND`` names, else pyprecice, else the embedded one, once per process.

    A pyprecice that is installed and cannot be imported is a broken environment and refused: with another backend in
    its place the solver would couple with nobody else's.
    """
    choice = os.environ.get("PRECICE_LB_BACKEND", "")
    if choice not in ("", *_CHOICES):
        raise BackendError(
            f"PRECICE_LB_BACKEND: expected one of {', '.join(_CHOICES)}, found {choice!r}; correct or unset it"
        )
    reason = None
    if choice != "embedded":
        try:
            found = _libprecice()
        # Whatever an import may raise: mpi4py raises RuntimeError where it finds no MPI library.
        except Exception as error:
            raise BackendError(
                f"pyprecice is installed but cannot be imported: {type(error).__name__}: {error}; correct the "
                "environment (libprecice's directory in LD_LIBRARY_PATH, one MPI for libprecice, mpi4py and mpiexec), "
                "or say PRECICE_LB_BACKEND=embedded to couple without libprecice"
            ) from error
        if isinstance(found, Backend):
            return found
        reason = found
    if choice == "libprecice":
        raise BackendError(
            f"PRECICE_LB_BACKEND=libprecice: expected an importable pyprecice, found: {reason}; install libprecice and "
            "the extra precice, or use PRECICE_LB_BACKEND=embedded"
        )
    module = importlib.import_module("precice_lb.embedded")
    return Backend("embedded", module, module.Participant, reason)
