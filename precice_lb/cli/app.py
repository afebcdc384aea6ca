"""The command line's root, options and values of several subcommands, completion for shells, errors as one line."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, CycloptsError, Parameter, UnknownOptionError

from precice_lb._version import VERSION
from precice_lb.exceptions import DataError, PreciceLBError, TooFewRunsError
from precice_lb.layout import layout_from
from precice_lb.plugins import close_match
from precice_lb.text import checked_list, checked_name, say, without_versions

_EXIT_CODES = (
    "Exit codes: 0 done; 1 something was found (check, inside), more time than --fail-above allows "
    "(compare), or too few runs ended well (calibrate, demo, chain); 2 refused, with one line on "
    "standard error; 3 a threshold was reached (watch); 130 interrupted. run passes on that of the "
    "solver, launch that of the first that failed."
)
# Arguments of functions behind the commands, as their errors name them, and the options of commands that give them.
_OPTIONS = {
    "expected budget as": ("expected --ranks as", ("recommend", "report")),
    "expected seed as": ("expected --seed as", ("recommend", "report", "calibrate")),
    "expected cores_per_node": ("expected --cores-per-node", ("recommend", "report")),
}
_WITH_KEYS = ("recommend", "report", "launch", "calibrate")


app = App(
    name="precice-lb",
    help="Find the split of ranks between the participants of a coupled preCICE simulation.",
    help_epilogue=_EXIT_CODES,
    help_format="plaintext",
    version=VERSION,
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
    script = app.generate_completion(prog_name="precice-lb", shell=shell)
    if shell == "zsh":
        # zsh calls the function that is named like the file, which is _precice-lb.
        script = script.replace("_cyclopts_precice-lb", "_precice-lb")
    print(script, end="")


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

    Raises
    ------
    DataError
        If ``argv`` is no list.
    """
    for stream in (sys.stdout, sys.stderr):
        # A name in another script must not end the program where the terminal cannot show it.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    tokens = sys.argv[1:] if argv is None else checked_list(argv, "argv", "texts", DataError)
    try:
        return _dispatch(tokens)
    except KeyboardInterrupt as stopped:
        if stopped.args:
            say(f"precice-lb: interrupted: {stopped}", sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader has seen enough (| head).
        _drop_output()
        return 0
    except (PreciceLBError, CycloptsError, OSError) as error:
        if os.environ.get("PRECICE_LB_DEBUG") == "1":
            raise
        text = " ".join(str(error).split())
        for argument_text, (option_text, commands) in _OPTIONS.items():
            if tokens[0] in commands:
                text = text.replace(argument_text, option_text)
        # The command has few options of its own: most settings are keys of a study.
        if isinstance(error, UnknownOptionError) and tokens[0] in _WITH_KEYS:
            text += " Keys of a study are set by --set KEY=VALUE; configs/README.md lists them."
        say(f"precice-lb: error: {text}", sys.stderr)
        try:
            sys.stdout.flush()
        except OSError:
            # A full disk.
            _drop_output()
        return 1 if isinstance(error, TooFewRunsError) else 2


def _drop_output() -> None:
    """Lead standard output into nothing: nothing may complain when the interpreter flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(tokens: list[str]) -> int:
    if tokens[:1] in (["import"], ["completion"]):
        # Each command needs its reader.
        from precice_lb.cli.stores import add_readers

        add_readers()
    command, bound, _ = app.parse_args(tokens, print_error=False, exit_on_error=False)
    code = command(*bound.args, **bound.kwargs)
    sys.stdout.flush()
    return code if isinstance(code, int) else 0


Stores = Annotated[Path, Parameter(help="Directories of stores, searched with everything below them.")]
"""Where recorded runs are."""
Warmup = Annotated[
    int | None,
    Parameter(
        help="Time windows to leave out of each run; by default what the run says, else 1, or more where more are "
        "unlike those that follow."
    ),
]
"""How much of a run is not learned from."""
Settings = Annotated[
    list[str] | None,
    Parameter(
        name="--set",
        help="Any key of a study, by its own name: machine.cores_per_node=48, participants.Fluid.maximum_ranks=96, "
        "case.parameter.level=8, runs.within=0.02; values as in TOML. configs/README.md lists the keys.",
    ),
]
"""Keys of a study that are given by themselves."""


def required(sources: Sequence[Path], what: str) -> Sequence[Path]:
    """Return the sources, or refuse if there is none of ``what``."""
    if not sources:
        raise DataError(f"expected at least one {what}, found none; precice-lb --help names the commands")
    return sources


def refuse_unknown(option: str, names: Iterable[str], participants: Sequence[str]) -> None:
    """Refuse the first name that is none of the participants."""
    for name in names:
        if name not in participants:
            raise DataError(
                f"{option}: expected one of the participants {', '.join(participants)}, found {name!r}"
                f"{close_match(name, participants)}"
            )


def named_values(
    texts: Sequence[str],
    option: str,
    expected: str,
    read: Callable[[str, str], Any],
    *,
    participants: Sequence[str] | None = None,
    single: bool = False,
) -> dict[str, Any]:
    """Read ``a=1,b=2`` (``single``: one pair), given once or several times, each value by ``read``."""
    values: dict[str, Any] = {}
    for text in texts:
        # A path may have an equals sign in it, and a participant too.
        parts = [text.partition("=")] if single else [part.rpartition("=") for part in text.split(",")]
        for name, value in ((name.strip(), value.strip()) for name, _, value in parts):
            if name in values:
                raise DataError(f"{option}: expected each name once, found {name!r} twice")
            try:
                if not name or not value:
                    raise ValueError(text)
                values[name] = read(name, value)
            except ValueError:
                raise DataError(f"{option}: expected {expected}, found {text!r}") from None
    if participants is not None:
        refuse_unknown(option, values, participants)
    return values


def by_participant(texts: Sequence[str], names: Sequence[str], option: str, kind: Callable[[str], float]) -> Any:
    """Read a number above 0 of each participant: ``Inner=2,Outer=4``."""

    def number(_: str, value: str) -> float:
        amount = kind(value)
        if not (math.isfinite(amount) and amount > 0):
            raise ValueError(value)
        return amount

    wanted = "a whole number" if kind is int else "a number"
    expected = f"participant={wanted} above 0 for each participant, such as {names[0]}=2"
    return named_values(texts, option, expected, number, participants=names)


def split_values(
    texts: Sequence[str], names: Sequence[str], versions: dict[str, str] | None = None, option: str = "--split"
) -> dict[str, int | str]:
    """Read ``Fluid=24,Solid=1x8``, given once or several times: numbers, and texts such as 1x8.

    With ``versions`` that of ``Fluid:gpu=24`` is put there, and ``Fluid`` is the key.
    """

    def read(_: str, value: str) -> int | str:
        if "x" in value.lower():
            layout_from(value)
            return value
        if (number := int(value)) < 1:
            raise ValueError(value)
        return number

    expected = (
        f"participant=a whole number above 0 for each participant, such as {names[0]}=2, or ranks x threads, such as "
        f"{names[0]}=1x8"
    )
    values = named_values(texts, option, expected, read, participants=names if versions is None else None)
    if versions is None:
        return values
    counts, _ = without_versions(values)
    if len(counts) < len(values):
        raise DataError(f"{option}: expected each participant once, found a participant twice")
    refuse_unknown(option, counts, names)
    for name, colon, version in (key.partition(":") for key in values):
        try:
            versions |= {name: checked_name(version, "version")} if colon else {}
        except ValueError as error:
            raise DataError(f"{option}: {name}: {error}") from None
    return counts
