"""Subcommands for a better first guess in implicit coupling, and what came of guesses in words."""

from __future__ import annotations

import difflib
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
from cyclopts import App

from precice_lb.cli.app import app
from precice_lb.cli.flow import OUTPUT
from precice_lb.report.blocks import or_dash
from precice_lb.text import plural, say, visible

if TYPE_CHECKING:
    from precice_lb.dataset.records import RecordedWindows

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


def run_facts(recorded: Sequence[RecordedWindows]) -> Iterator[tuple[str, str]]:
    """Say how many windows of each participant began with a guess of each predictor, and their mean iterations.

    The cost is that of the rank that guesses longest.
    """
    for stores, windows, iterations, walls in recorded:
        predictors, costs = np.full(len(windows), "", "U128"), np.zeros(len(windows))
        for store in stores:
            rows = store.rows("guesses")
            rows = rows[np.isin(rows["window"], windows)]
            places = np.searchsorted(windows, rows["window"])
            predictors[places] = np.array(["", *store.names("guesses")])[rows["name"] + 1]
            np.maximum.at(costs, places, rows["cost_ns"] * 1e-9)
        counts = Counter(predictors[predictors != ""].tolist())
        parts = [
            f"{visible(name)} in {plural(count, 'window')}, {iterations[predictors == name].mean():.3g} iterations"
            for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        ]
        if parts:
            cost = 100 * costs.sum() / walls[predictors != ""].sum()
            who = visible(str(stores[0].metadata["participant"]))
            yield f"first guess of {who}", "; ".join([*parts, f"cost {or_dash(cost, '.2g', ' %')} of the window"])
