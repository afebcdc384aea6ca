"""preCICE's Python API with ``Participant`` replaced, for this package and in place of ``precice``."""

from __future__ import annotations

import importlib
import sys
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from precice_lb.record.participant import load_backend, participant_class


def attribute(name: str) -> Any:
    """Look up a name that the backend's API has; ``Participant`` is the recording one."""
    return participant_class() if name == "Participant" else getattr(load_backend().module, name)


def names() -> list[str]:
    """List the public names of the backend's API."""
    module = load_backend().module
    return sorted({"__version__", *(getattr(module, "__all__", None) or [n for n in dir(module) if n[0] != "_"])})


def recording_spec(name: str) -> ModuleSpec | None:
    """Specify what a solver gets that imports ``precice`` or ``cyprecice``; None while the backend imports them."""
    return None if _Loader.busy else ModuleSpec(name, _Loader())


class _Loader(Loader):
    """Puts the recording ``Participant`` into preCICE's modules, or makes them where the embedded backend stands in."""

    busy = False

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        _Loader.busy = True
        try:
            backend = load_backend()
            if backend.name == "embedded":
                module = ModuleType(spec.name, backend.module.__doc__)
                module.__dict__.update({name: attribute(name) for name in names()})
                return module
            for name in ("precice", "cyprecice"):
                importlib.import_module(name).Participant = participant_class()  # type: ignore[attr-defined]
        finally:
            _Loader.busy = False
        module = sys.modules[spec.name]
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give a real module its own specification back; it has been executed when it was created."""
        spec = module.__spec__
        module.__spec__ = (spec and spec.loader_state) or spec
