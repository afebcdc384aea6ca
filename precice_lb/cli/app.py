"""The command line's root, to which every subcommand adds itself, completion for shells, and errors as one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Literal

from cyclopts import App, CycloptsError, Parameter

from precice_lb.exceptions import PreciceLBError, TooFewRunsError
from precice_lb.retired import refuse_retired
from precice_lb.text import say

_EXIT_CODES = (
    "Exit codes: 0 done; 1 something was found (check, guess check, inside), or too few runs ended well "
    "(calibrate, demo, chain); 2 refused, with one line on standard error; 3 a threshold was reached "
    "(watch); 130 interrupted. run passes on that of the solver, launch that of the first that failed."
)
# What options are called by the functions and studies behind a command.
_OF_CASE = {
    "expected budget as": "expected --ranks as",
    "expected seed as": "expected --seed as",
    "expected cores_per_node": "expected --cores-per-node",
}
_OPTIONS = {
    "recommend": _OF_CASE,
    "report": _OF_CASE,
    "launch": {
        "launcher.options": "--slurm",
        "launcher: options": "--slurm",
        "launcher.name": "--launcher",
        "launcher.": "--",
        "launcher: ": "--",
        "case.configuration": "--config",
    },
}


def as_typed(text: str, tokens: Sequence[str]) -> str:
    """Write an error's text with the options of the command that was typed."""
    for word, option in _OPTIONS.get("".join(tokens[:1]), {}).items():
        text = text.replace(word, option)
    return text


def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version("precice_lb")
    except metadata.PackageNotFoundError:
        return "unknown: not installed, imported from its source"


app = App(
    name="precice-lb",
    help="Find the split of ranks between the participants of a coupled preCICE simulation.",
    help_epilogue=_EXIT_CODES,
    help_format="plaintext",
    version=_version,
    default_parameter=Parameter(negative_iterable=()),
)


@app.command
def completion(shell: Literal["bash", "zsh", "fish"]) -> None:
    """Print a script that lets the shell complete commands, options and their values.

    Example: precice-lb completion bash > ~/.local/share/bash-completion/completions/precice-lb

    Example: precice-lb completion zsh > ~/.zfunc/_precice-lb

    Example: precice-lb completion fish > ~/.config/fish/completions/precice-lb.fish

    Parameters
    ----------
    shell
        Which one.
    """
    print(app.generate_completion(prog_name="precice-lb", shell=shell), end="")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv
        Arguments without the program's name; by default those of the process.

    Returns
    -------
    int
        The exit code, as the help of the command line says.
    """
    for stream in (sys.stdout, sys.stderr):
        # A name in another script must not end the program where the terminal cannot show it.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    tokens = sys.argv[1:] if argv is None else list(argv)
    try:
        return _dispatch(tokens)
    except KeyboardInterrupt as stopped:
        if stopped.args:
            say(f"precice-lb: interrupted: {stopped}", sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader has seen enough (| head); nothing may complain when the interpreter flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (PreciceLBError, CycloptsError, OSError) as error:
        if os.environ.get("PRECICE_LB_DEBUG") == "1":
            raise
        say(f"precice-lb: error: {' '.join(as_typed(str(error), tokens).split())}", sys.stderr)
        return 1 if isinstance(error, TooFewRunsError) else 2


def _dispatch(tokens: list[str]) -> int:
    refuse_retired(tokens)
    if tokens[:1] in (["import"], ["completion"]):
        # Each command needs its reader.
        from precice_lb.cli.stores import add_readers

        add_readers()
    command, bound, _ = app.parse_args(tokens, print_error=False, exit_on_error=False)
    code = command(*bound.args, **bound.kwargs)
    sys.stdout.flush()
    return code if isinstance(code, int) else 0
