"""Running an unchanged solver with the recording API in the place of preCICE's.

Imports the standard library only: everything else is loaded when the solver asks for ``precice``.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import io
import os
import sys
from collections.abc import Sequence
from types import CodeType, ModuleType, TracebackType

from precice_lb.exceptions import PreciceLBError
from precice_lb.record.api import ImportHook

__all__ = ["USAGE", "run"]

USAGE = "usage: precice-lb run [-m MODULE | SCRIPT] [ARGUMENT ...]"


class _RunError(PreciceLBError):
    """There is nothing to run."""


def run(arguments: Sequence[str]) -> int:
    """Run a solver as ``__main__``, as ``python`` would with the same arguments.

    Parameters
    ----------
    arguments : sequence of str
        ``SCRIPT ARGUMENT…`` or ``-m MODULE ARGUMENT…``.

    Returns
    -------
    int
        0 when the solver has come to its end, 2 if there is nothing to run.

    Raises
    ------
    BaseException
        What the solver raises, its exit included. Its traceback has been shown already, without this module's frames.
    """
    try:
        if not arguments or arguments[0] in ("-h", "--help"):
            print(USAGE, file=sys.stdout if arguments else sys.stderr)
            return 0 if arguments else 2
        if arguments[0] == "-m":
            if len(arguments) < 2:
                raise _RunError(f"run: expected the name of a module after -m, found nothing; {USAGE}")
            code, module = _module(arguments[1])
            sys.argv = [str(module.__file__), *arguments[2:]]
        elif arguments[0].startswith("-"):
            raise _RunError(f"run: expected a script or -m, found the option {arguments[0]}; {USAGE}")
        else:
            code, module = _script(arguments[0])
            sys.argv = list(arguments)
    except SyntaxError as error:
        sys.excepthook(type(error), error.with_traceback(None), None)
        return 1
    except PreciceLBError as error:
        print(f"precice-lb: error: {error}", file=sys.stderr)
        return 2
    sys.meta_path.insert(0, ImportHook())
    sys.modules["__main__"] = module
    _execute(code, module)
    return 0


def _execute(code: CodeType, module: ModuleType) -> None:
    try:
        exec(code, module.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        # The frame above this one is the solver's: show what python itself would, then let python exit as it would.
        error.__traceback__ = error.__traceback__.tb_next if error.__traceback__ is not None else None
        sys.excepthook(type(error), error, error.__traceback__)
        sys.excepthook = _silent
        raise


def _silent(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Show nothing: it has been shown."""


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


def _script(script: str) -> tuple[CodeType, ModuleType]:
    path = os.path.abspath(script)
    try:
        with io.open_code(path) as file:
            source = file.read()
    except OSError as error:
        raise _RunError(f"{script}: expected a Python script, found: {error.strerror}; check the path") from error
    _set_first_path(os.path.dirname(os.path.realpath(script)))
    try:
        return compile(source, path, "exec", dont_inherit=True), _main_module(path, None)
    except ValueError as error:
        raise _RunError(f"{script}: expected the source of a Python script, found: {error}") from error


def _module(name: str) -> tuple[CodeType, ModuleType]:
    _set_first_path(os.getcwd())
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except (ImportError, ValueError) as error:
        raise _RunError(f"-m {name}: expected a module that can be run, found: {error}") from error
    loader = spec.loader if spec is not None else None
    if spec is None or not hasattr(loader, "get_code"):
        raise _RunError(f"-m {name}: expected a module that can be run, found none of that name; check the spelling")
    code = loader.get_code(spec.name)  # type: ignore[union-attr]
    if code is None:
        raise _RunError(f"-m {name}: expected a module written in Python, found one without code")
    return code, _main_module(spec.origin or name, spec)


def _set_first_path(directory: str) -> None:
    """Put in front of ``sys.path`` what python would have there for the solver, instead of what it has for us."""
    if not getattr(sys.flags, "safe_path", sys.flags.isolated):
        sys.path[0] = directory
