"""Finding what ``run`` is asked to run: a script, a directory or archive, a module, or a console script.

Imports the standard library only, and of that little: the solver has not set anything up yet.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import io
import os
import sys
from types import CodeType, ModuleType
from typing import Any

from precice_lb.exceptions import PreciceLBError

__all__ = ["Program", "RunError", "find_module", "find_program", "is_console_script"]

Program = tuple[CodeType, ModuleType, str]
"""The code to run, the module to run it in, and the first entry of ``sys.argv``."""

_LONGEST_HEAD = 4096
_OTHER_LANGUAGES = (
    "run it as it is and import its profiling files afterwards (precice-lb import precice-profiling); where it starts "
    "Python, put precice-lb run in there"
)


class RunError(PreciceLBError):
    """There is nothing to run."""


def find_program(name: str) -> Program:
    """Find what ``python NAME`` would run, or else the console script of that name.

    Parameters
    ----------
    name : str
        A Python script, a directory or archive with a ``__main__``, or the name of a command such as
        ``micro-manager-precice`` on ``PATH`` or of a package installed in this environment.

    Returns
    -------
    Program

    Raises
    ------
    RunError
        If there is none, or if it is not a Python program of this environment.
    SyntaxError
        If its source is not Python.
    """
    if not os.path.exists(name) and os.sep not in name:
        return _console_script(name)
    path = os.path.join(os.getcwd(), name)
    spec = importlib.machinery.PathFinder.find_spec("__main__", [path])
    if spec is not None:
        _set_first_path(path, always=True)
        return _loaded(spec, name)
    return _script(name)


def find_module(name: str) -> Program:
    """Find what ``python -m NAME`` would run.

    Parameters
    ----------
    name : str
        A module, or a package with a ``__main__``.

    Returns
    -------
    Program

    Raises
    ------
    RunError
        If there is none.
    SyntaxError
        If its source is not Python.
    """
    _set_first_path(os.getcwd())
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except (ImportError, ValueError) as error:
        raise RunError(f"-m {name}: expected a module that can be run, found: {error}") from error
    if spec is None:
        raise RunError(f"-m {name}: expected a module that can be run, found none of that name; check the spelling")
    code, module, _ = _loaded(spec, f"-m {name}")
    return code, module, str(module.__file__)


def _loaded(spec: importlib.machinery.ModuleSpec, name: str) -> Program:
    loader: Any = spec.loader
    if not hasattr(loader, "get_code"):
        raise RunError(f"{name}: expected a module that can be run, found none of that name; check the spelling")
    code = loader.get_code(spec.name)
    if code is None:
        raise RunError(f"{name}: expected a module written in Python, found one without code")
    return code, _main_module(spec.origin or name, spec), name


def _script(script: str) -> Program:
    path = os.path.join(os.getcwd(), script)
    try:
        with io.open_code(path) as file:
            source = file.read()
    except OSError as error:
        raise RunError(f"{script}: expected a Python script, found: {error.strerror}; check the path") from error
    if not script.endswith(".py"):
        _refuse_other_languages(script, source[:_LONGEST_HEAD])
    _set_first_path(os.path.dirname(os.path.realpath(script)))
    try:
        return compile(source, path, "exec", dont_inherit=True), _main_module(path, None), script
    except ValueError as error:
        raise RunError(f"{script}: expected the source of a Python script, found: {error}") from error


def is_console_script(name: str) -> bool:
    """Whether `find_program` would find a console script of this environment under a name.

    Parameters
    ----------
    name : str
        Of a command, such as ``micro-manager-precice``.
    """
    found, head = _command(name)
    return (found is not None and _is_our_script(head)) or bool(_entry_points(name))


def _command(name: str) -> tuple[str | None, bytes]:
    """Path and beginning of the command of that name: the one beside this Python first."""
    beside = os.path.join(os.path.dirname(sys.executable), name)
    found = beside if os.access(beside, os.X_OK) else _which(name)
    if found is None:
        return None, b""
    with open(found, "rb") as file:
        return found, file.read(_LONGEST_HEAD)


def _is_our_script(head: bytes) -> bool:
    interpreter = _interpreter(head)
    return interpreter is not None and _is_python(interpreter) and _is_ours(interpreter)


def _entry_points(name: str) -> list[Any]:
    import importlib.metadata

    return list(importlib.metadata.entry_points(group="console_scripts", name=name))


def _console_script(name: str) -> Program:
    found, head = _command(name)
    if found is not None and _is_our_script(head):
        return _script(found)
    # A package of this environment is meant also where another environment's scripts come first.
    for entry in _entry_points(name):
        beside = os.path.join(os.path.dirname(sys.executable), name)
        function = entry.attr.partition(".")[0]
        source = f"import sys\nfrom {entry.module} import {function}\nsys.exit({entry.attr}())\n"
        _set_first_path(os.path.dirname(beside))
        return compile(source, beside, "exec", dont_inherit=True), _main_module(beside, None), beside
    if found is None:
        raise RunError(
            f"{name}: expected a Python script or the console script of a package installed in this environment, found "
            "neither; check the path and the spelling"
        )
    interpreter = _interpreter(head)
    if interpreter is not None and _is_python(interpreter):
        raise RunError(
            f"{name}: expected a console script of this environment's Python {sys.executable}, found {found} of "
            f"{interpreter}; install precice_lb there, or the solver here"
        )
    _refuse_other_languages(found, head)
    return _script(found)


def _refuse_other_languages(path: str, head: bytes) -> None:
    interpreter = _interpreter(head)
    if head.startswith(b"\x7fELF") or (interpreter is not None and not _is_python(interpreter)):
        found = interpreter or "a compiled program"
        raise RunError(f"{path}: expected a Python program, found one for {found}; {_OTHER_LANGUAGES}")


def _interpreter(head: bytes) -> str | None:
    """Path of the program that runs a script, or None if its first line does not say."""
    lines = [os.fsdecode(line) for line in head.split(b"\n", 2)[:2]]
    if not lines[0].startswith("#!"):
        return None
    words = lines[0][2:].split()
    # Installers write this where the path is too long or has a space: a script for sh and for Python at once.
    if len(lines) > 1 and lines[1].startswith("'''exec' "):
        words = lines[1].removeprefix("'''exec' ").rpartition(' "$0"')[0].strip().strip('"').split("\n")
    elif words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return (_which(words[0]) or words[0]) if words else None


def _which(name: str) -> str | None:
    import shutil

    return shutil.which(name)


def _is_python(interpreter: str) -> bool:
    return os.path.basename(interpreter).startswith(("python", "pypy"))


def _is_ours(interpreter: str) -> bool:
    """Whether a Python belongs to the environment this one belongs to: links between them do not matter."""
    here, there = (os.path.realpath(os.path.dirname(path)) for path in (sys.executable, interpreter))
    if here == there:
        return True
    in_environment = sys.prefix != sys.base_prefix or os.path.exists(os.path.join(os.path.dirname(there), "pyvenv.cfg"))
    return not in_environment and os.path.realpath(sys.executable) == os.path.realpath(interpreter)


def _main_module(file: str, spec: importlib.machinery.ModuleSpec | None) -> ModuleType:
    module = ModuleType("__main__")
    module.__dict__.update(
        __builtins__=sys.modules["builtins"],
        __file__=file,
        __cached__=spec.cached if spec is not None else None,
        __spec__=spec,
        __package__=spec.parent if spec is not None else None,
        __loader__=spec.loader if spec is not None else importlib.machinery.SourceFileLoader("__main__", file),
        __annotations__={},
    )
    return module


def _set_first_path(directory: str, *, always: bool = False) -> None:
    """Put in front of ``sys.path`` what python would have there for the solver, instead of what it has for us."""
    if not getattr(sys.flags, "safe_path", sys.flags.isolated):
        sys.path[0] = directory
    elif always:
        sys.path.insert(0, directory)
