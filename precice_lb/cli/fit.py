"""The subcommand that fits learners and compares them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from precice_lb.cli.app import app
from precice_lb.cli.flow import name_files, print_result
from precice_lb.cli.options import LEARNER_HELP, required

__all__ = ["fit"]


@app.command
def fit(
    *sources: Path,
    learner: Annotated[
        list[str] | None, Parameter(help=f"{LEARNER_HELP}; several (give the option again), or all.")
    ] = None,
    test: list[str] | None = None,
    folds: int | None = None,
    level: float = 0.8,
    warmup: int | None = None,
    format: Literal["table", "json"] = "table",
    output: Path | None = None,
) -> None:
    """Compare learners on measurements: what each predicts for those that it has not seen.

    Every measurement is predicted by models that were fitted without it (cross-validation). With --test, rows that meet
    a condition are kept out altogether and predicted: how good is a model for a mesh that was never run? Errors are
    the symmetric mean absolute percentage error (SMAPE) and the mean squared error (MSE). What a recommendation
    needs is not the least error but the right split: the default learner is the one with the least regret.

    Example: precice-lb fit measurements.csv --learner all --test "level==8" --output models

    Parameters
    ----------
    sources
        Directories of stores, or CSV files with the columns participant, ranks, seconds and any parameters.
    learner
        Names of learners.
    test
        A condition on ranks or a parameter, such as "level==8" or "ranks>=128"; given again, all must be met.
    folds
        Folds of the cross-validation; by default every point alone, but at most 10.
    level
        Level of the intervals.
    warmup
        Time windows to leave out of each recorded run.
    format
        Tables to read, or JSON alone on standard output.
    output
        Also write fit.json, each model as JSON and the figures into this directory.
    """
    from precice_lb.exceptions import ModelError
    from precice_lb.models import DEFAULT_LEARNER, LEARNERS
    from precice_lb.recommend import load_sources
    from precice_lb.report.fit import compare_learners, fit_blocks, fit_dict, write_fits
    from precice_lb.report.terminal import console
    from precice_lb.report.text import visible

    wanted = list(dict.fromkeys(learner or [DEFAULT_LEARNER]))
    for name in wanted:
        if name not in LEARNERS and name != "all":
            raise ModelError(f"expected --learner as one of {', '.join(LEARNERS)} or all, found {name!r}")
    names = list(LEARNERS) if "all" in wanted else wanted
    measurements = load_sources(required(sources, "source"), warmup=warmup)
    conditions = test or []
    # Where many measurements are to be fitted again and again, neural networks take minutes.
    with console(sys.stderr).status("fitting") as status:
        fits = compare_learners(
            measurements, names, conditions=conditions, folds=folds, level=level, report=status.update
        )
    problems = [(one.participant, each) for one in fits for each in one.fits if each.problem]
    if len(problems) == sum(len(one.fits) for one in fits):
        name, first = problems[0]
        raise ModelError(f"{visible(name)}, {first.learner}: {first.problem}")
    print_result(format, lambda: fit_blocks(fits, level), lambda: fit_dict(fits, conditions))
    if output is not None:
        written = write_fits(fits, output, conditions, level)
        name_files(written, format)
