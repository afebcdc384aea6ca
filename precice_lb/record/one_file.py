"""One file that records with numpy alone, made of this package's modules: for clusters where little is installed."""

from __future__ import annotations

import re
from pathlib import Path

from precice_lb._version import VERSION
from precice_lb.exceptions import DataError

NAME = "precice_lb_recorder"
"""The module, and the package that its modules are in: an installed precice_lb is neither loaded nor in its way."""

_PACKAGE = Path(__file__).parents[1]
_PACKAGES = ("case", "record", "store")
_MODULES = (
    *("_version", "exceptions", "text", "rooms", "case.elements"),
    *("store.columns", "store.schema", "store.records", "store.spool"),
    *("record.recorder", "record.meshes", "record.solver", "record.launch", "record.participant"),
)

_HEAD = '''"""Recorder of precice_lb {version} in one file, made by `precice-lb export --recorder`.

It needs numpy and pyprecice. Put it beside a solver, or into a directory of PYTHONPATH, and write

    from precice_lb_recorder import Participant

in place of `from precice import Participant`. Every rank leaves a spool below precice-lb-store (or PRECICE_LB_DIR).
Copy that to where precice_lb is installed: `precice-lb summary precice-lb-store`. Recording changes no result.

Copyright (c) 2026 The precice_lb developers. SPDX-License-Identifier: MIT
"""

import sys
from importlib.abc import InspectLoader
from importlib.util import spec_from_loader

_SOURCES = {{}}

'''

_FOOT = '''
class _Finder(InspectLoader):
    """Loads the modules above."""

    def find_spec(self, name, path=None, target=None):
        return spec_from_loader(name, self) if name in _SOURCES else None

    def get_source(self, name):
        return _SOURCES[name]

    def is_package(self, name):
        return not _SOURCES[name]


def __getattr__(name):
    if name.startswith("_") and name != "__version__":
        raise AttributeError(name)
    return attribute(name)


__path__ = []
sys.meta_path.append(_Finder())
from precice_lb_recorder.rooms import ROOMS

# Nothing but recording is here.
ROOMS.clear()
from precice_lb_recorder.record.participant import attribute
'''


def write_recorder(path: Path) -> None:
    """Write the file; one that is there is replaced.

    Raises
    ------
    DataError
        If the file is not called as the module in it, or cannot be written.
    """
    if path.name != f"{NAME}.py":
        raise DataError(f"--output: expected a file called {NAME}.py, which solvers import, found {path}; rename it")
    parts = [f'_SOURCES["{NAME}.{name}"] = ""\n' for name in _PACKAGES]
    for name in _MODULES:
        source = (_PACKAGE / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8")
        # Where code of the package says its name.
        source = re.sub(r"\bprecice_lb\b", NAME, source)
        parts.append(f"_SOURCES[\"{NAME}.{name}\"] = r'''{source}'''\n")
    try:
        path.write_text(_HEAD.format(version=VERSION) + "\n".join(parts) + _FOOT, encoding="utf-8")
    except OSError as error:
        raise DataError(f"{path}: expected a file that can be written, found {error.strerror}") from error
