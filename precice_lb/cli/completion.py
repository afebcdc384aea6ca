"""The subcommand that prints what shells need to complete commands and options."""

from __future__ import annotations

from typing import Literal

from precice_lb.cli.app import app

__all__ = ["completion"]


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
