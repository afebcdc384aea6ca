"""Subcommands for a better first guess in implicit coupling."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App

from precice_lb.cli.app import app
from precice_lb.cli.flow import OUTPUT
from precice_lb.text import say

guess_app = App(
    name="guess", help="Predict the values that implicit coupling starts from, to save coupling iterations."
)
app.command(guess_app)


@guess_app.command(name="patch")
def guess_patch(config: Path, *, output: Annotated[Path, OUTPUT]) -> None:
    """Write a copy of a configuration with fields for predictions, and print the difference.

    What stands in the way is refused. All participants then run with the copy, and with PRECICE_LB_GUESS=auto. Beside
    data that are predicted it has Shifted-…, their values less what is predicted, which is accelerated in their place,
    and Guess-of-…, the prediction. With aitken and constant relaxation the shifted values are also judged for
    convergence. All else stays as it is.

    Example: precice-lb guess patch precice-config.xml -o precice-config-guess.xml

    Parameters
    ----------
    config
        The precice-config.xml.
    output
        The file to write; one that is there is replaced.
    """
    from precice_lb.case.elements import load
    from precice_lb.guess.config import patch_guess

    patch_guess(config, output)
    before, after = (load(path)[0].splitlines() for path in (config, output))
    say("\n".join(difflib.unified_diff(before, after, str(config), str(output), n=1, lineterm="")))
    say(f"wrote {output}", sys.stderr)
