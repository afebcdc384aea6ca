"""Starting an unchanged solver so that all of its Python processes, however they are started, record.

The program takes this process's place: exit code, signals and terminal are its own. What makes Python record is
``startup/sitecustomize.py``, which the environment names and every Python process below loads.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Sequence

from precice_lb.exceptions import PreciceLBError
from precice_lb.text import say

USAGE = "usage: precice-lb run [SCRIPT | COMMAND | -m MODULE] [ARGUMENT ...]"

_STARTUP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "startup")


def run(arguments: Sequence[str]) -> int:
    """Replace this process by what ``arguments`` name: a script, a command, or options of Python such as ``-m MODULE``.

    Returns an exit code only where there is nothing to run.
    """
    if arguments and arguments[0] == "--":
        arguments = arguments[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        say(USAGE, sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 2
    try:
        _replace_process([*_program(arguments[0]), *arguments[1:]])
    except PreciceLBError as error:
        say(f"precice-lb: error: {error}", sys.stderr)
    return 2


def _program(name: str) -> list[str]:
    """Find what a shell, or Python where it is a script, would run under a name."""
    if name.startswith("-"):
        return [*_this_python(), name]
    is_here = os.path.isfile(name) or os.path.isfile(os.path.join(name, "__main__.py"))
    # As in a shell a program of the path comes first, as under Python a script that is here.
    if os.sep not in name and not (is_here and name.endswith(".py")):
        # A package of this environment is meant also where another environment's scripts come first.
        places = [os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)]
        program = shutil.which(name, path=os.pathsep.join(places))
        if program is not None:
            # Called by its name as in a shell: Open MPI's mpiexec takes the directory of a path for its installation's.
            return [name if shutil.which(name) == program else program]
    if not is_here:
        raise PreciceLBError(
            f"{name}: expected a Python script or a program, found none of that name here, beside {sys.executable} or "
            "on the path; check the path and the spelling"
        )
    if os.path.isdir(name) or name.endswith((".py", ".pyz")):
        return [*_this_python(), name]
    if os.access(name, os.X_OK):
        return [name if os.sep in name else os.path.join(os.curdir, name)]
    raise PreciceLBError(
        f"{name}: expected a program that can be executed, found one without the permission; chmod +x it, or put its "
        "interpreter in front"
    )


def _this_python() -> list[str]:
    """Name the Python that runs this, with the options that it was started with."""
    if sys.flags.ignore_environment or sys.flags.no_site:
        raise PreciceLBError(
            "run: expected a Python without the options -I, -E and -S, found one of them: with it a solver is not "
            "recorded; leave it out"
        )
    options = sys.orig_argv[1 : -len(sys.argv)]
    if options and options[-1].startswith("-") and options[-1][-1] in "cm":
        options[-1] = options[-1][:-1]
    return [sys.executable, *(option for option in options if option != "-")]


def _replace_process(command: list[str]) -> None:
    before = os.environ.get("PYTHONPATH")
    # What it names already comes first for a run within a run.
    if before is None or before.split(os.pathsep)[0] != _STARTUP:
        os.environ["PYTHONPATH"] = f"{_STARTUP}{os.pathsep}{before}" if before else _STARTUP
    # Python ignores these, and what it ignores stays ignored.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", error)
        raise PreciceLBError(
            f"{command[0]}: expected a program that can be executed, found: {reason}; see whether its first line is "
            "the path of its interpreter (#!) and whether that is there"
        ) from error
