"""preCICE's Python API with ``Participant`` replaced, for this package and in place of ``precice``."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from precice_lb.record.backend import load_backend
from precice_lb.record.participant import participant_class

__all__ = ["ImportHook", "attribute", "names"]

_MODULES = ("precice", "cyprecice")


def attribute(name: str) -> Any:
    """Look up a name of preCICE's Python API.

    Parameters
    ----------
    name : str
        ``Participant``, ``get_version_information``, ``__version__`` or whatever else the backend offers.

    Returns
    -------
    object

    Raises
    ------
    AttributeError
        If the backend does not have it.
    BackendError
        If no backend can be loaded.
    """
    return participant_class() if name == "Participant" else getattr(load_backend().module, name)


def names() -> list[str]:
    """Return the public names of the backend's API.

    Returns
    -------
    list of str
    """
    module = load_backend().module
    return sorted({"__version__", *(getattr(module, "__all__", None) or [n for n in dir(module) if n[0] != "_"])})


class ImportHook(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers a solver's import of ``precice`` or ``cyprecice`` with the recording API.

    Nothing is loaded before the solver asks for it, so that it can set up its threads and its MPI first.
    """

    def __init__(self) -> None:
        self._busy = False
        self._real_spec: importlib.machinery.ModuleSpec | None = None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Take the two modules, unless it is the backend that is importing them."""
        if fullname not in _MODULES or self._busy:
            return None
        return importlib.machinery.ModuleSpec(fullname, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Load the backend and put the recording ``Participant`` in its place."""
        self._busy = True
        try:
            replacement = participant_class()
            backend = load_backend()
            if backend.name == "embedded":
                module = ModuleType(spec.name, backend.module.__doc__)
                for name in names():
                    setattr(module, name, getattr(backend.module, name))
                modules = [module]
            else:
                modules = [importlib.import_module(name) for name in _MODULES]
                module = sys.modules[spec.name]
                self._real_spec = module.__spec__
            for each in modules:
                each.Participant = replacement  # type: ignore[attr-defined]
        finally:
            self._busy = False
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the real module its own specification back; it has been executed when it was created."""
        if self._real_spec is not None:
            module.__spec__, self._real_spec = self._real_spec, None
