"""Running an unchanged solver with the recording API in the place of preCICE's.

Imports the standard library only: everything else is loaded when the solver asks for ``precice``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import CodeType, ModuleType, TracebackType

from precice_lb.exceptions import PreciceLBError
from precice_lb.record.api import ImportHook
from precice_lb.record.programs import RunError, find_module, find_program

__all__ = ["USAGE", "run"]

USAGE = "usage: precice-lb run [-m MODULE | SCRIPT | COMMAND] [ARGUMENT ...]"


def run(arguments: Sequence[str]) -> int:
    """Run a solver as ``__main__``, as ``python`` would with the same arguments.

    Parameters
    ----------
    arguments : sequence of str
        ``SCRIPT ARGUMENT…``, ``-m MODULE ARGUMENT…``, or ``COMMAND ARGUMENT…`` with the name of a console script.

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
                raise RunError(f"run: expected the name of a module after -m, found nothing; {USAGE}")
            (code, module, first), rest = find_module(arguments[1]), arguments[2:]
        elif arguments[0].startswith("-"):
            raise RunError(f"run: expected a script, a command or -m, found the option {arguments[0]}; {USAGE}")
        else:
            (code, module, first), rest = find_program(arguments[0]), arguments[1:]
        sys.argv = [first, *rest]
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
