"""The command line's root, to which every subcommand adds itself, and completion for shells."""

from __future__ import annotations

from typing import Literal

from cyclopts import App, Parameter

__all__ = ["app", "completion"]


def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version("precice_lb")
    except metadata.PackageNotFoundError:
        return "unknown: not installed, imported from its source"


_EXIT_CODES = (
    "Exit codes: 0 done; 1 something was found (check), or too few runs ended well (calibrate, demo); 2 refused, with "
    "one line on standard error; 3 a threshold was reached (watch); 130 interrupted. run passes on that of the solver."
)

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
