"""Running the command line: exit codes, and errors as one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cyclopts import CycloptsError

from precice_lb.cli.app import app
from precice_lb.cli.imports import add_readers
from precice_lb.exceptions import DataError, PreciceLBError, TooFewRunsError

__all__ = ["main"]

# What options of `recommend` and `report` were called before, and those that were of one learner.
_EARLIER = {
    "--config": "--coupling",
    "--dofs": "--degrees-of-freedom",
    "--share": "--shared",
    "--share-overhead": "--shared-overhead",
    "--spent": "--spent-core-hours",
}
_OF_PMNF = ("--ridge", "--folds", "--loss", "--n-terms", "--constant", "--no-constant")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv
        Arguments without the program's name; by default those of the process.

    Returns
    -------
    int
        The exit code, as `precice_lb.cli.app` says.
    """
    for stream in (sys.stdout, sys.stderr):
        # A name in another script must not end the program where the terminal cannot show it.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        return _dispatch(sys.argv[1:] if argv is None else list(argv))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader has seen enough (| head); nothing may complain when the interpreter flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (PreciceLBError, CycloptsError, OSError) as error:
        if os.environ.get("PRECICE_LB_DEBUG") == "1":
            raise
        print(f"precice-lb: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 1 if isinstance(error, TooFewRunsError) else 2


def _present_names(tokens: list[str]) -> list[str]:
    """Exchange what options of ``recommend`` and ``report`` were called before, and say so."""
    if tokens[:1] not in (["recommend"], ["report"]):
        return tokens
    found = []
    for token in tokens:
        name, sign, value = token.partition("=")
        if name in _OF_PMNF:
            word = name.removeprefix("--").removeprefix("no-").replace("-", "_")
            raise DataError(f"{name}: expected --learner-parameters {word}=…, found this earlier option; exchange it")
        if name in _EARLIER:
            print(f"precice-lb: {name} is called {_EARLIER[name]} now", file=sys.stderr)
        found.append(f"{_EARLIER.get(name, name)}{sign}{value}")
    return found


def _dispatch(tokens: list[str]) -> int:
    tokens = _present_names(tokens)
    if tokens[:1] in (["import"], ["completion"]):
        # Each command needs its reader.
        add_readers()
    command, bound, _ = app.parse_args(tokens, print_error=False, exit_on_error=False)
    code = command(*bound.args, **bound.kwargs)
    sys.stdout.flush()
    return code if isinstance(code, int) else 0
