"""Subcommands for a better first guess in implicit coupling, and what came of guesses in words."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App

from precice_lb.cli.app import app
from precice_lb.cli.flow import OUTPUT
from precice_lb.report.blocks import or_dash
from precice_lb.text import plural, say, visible

if TYPE_CHECKING:
    from precice_lb.dataset import CoupledRun

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


def run_facts(run: CoupledRun) -> Iterator[tuple[str, str]]:
    """Say how many windows began with a guess of each predictor, their mean iterations, and what guessing took."""
    if run.predictors:
        first, *others = run.predictors
        words = f"{visible(first.name)} in {plural(first.windows, 'window')}, {first.iterations:.3g} iterations"
        parts = [words, *(f"{visible(other.name)} in {other.windows}, {other.iterations:.3g}" for other in others)]
        cost = sum(predictor.windows * predictor.cost_seconds for predictor in run.predictors)
        wall = sum(predictor.windows * predictor.window_seconds for predictor in run.predictors)
        label = f"first guess ({visible(run.guess)})" if run.guess else "first guess"
        yield label, "; ".join([*parts, f"cost {or_dash(100 * cost / wall, '.2g', ' %')} of the window"])
