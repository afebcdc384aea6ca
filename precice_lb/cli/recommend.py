"""The subcommand that recommends a split."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from precice_lb.cli.app import app
from precice_lb.cli.campaign import campaign_of, told_by_study
from precice_lb.cli.case import Case, recommend_case
from precice_lb.cli.flow import name_files, show
from precice_lb.cli.machine import Machine
from precice_lb.cli.options import required

if TYPE_CHECKING:
    from precice_lb.recommend.failed import FailedSplit

__all__ = ["recommend"]


@app.command
def recommend(
    *sources: Path,
    ranks: int | None = None,
    machine: Machine | None = None,
    case: Case | None = None,
    format: Literal["table", "json"] = "table",
    output: Path | None = None,
    verify: bool = False,
    ridge: float | None = None,
    folds: int | None = None,
    loss: Literal["smape", "mape", "mse"] | None = None,
    n_terms: int | None = None,
    constant: bool | None = None,
) -> None:
    """Recommend how to split ranks, cores or nodes, from recorded runs or a CSV file.

    Example: precice-lb recommend inner.csv outer.csv --ranks 336 --minimum-ranks Inner=2

    Example: precice-lb recommend stores --nodes 12 --cores-per-node 48 --whole-nodes --multiple Fluid=4

    Parameters
    ----------
    sources
        The directory of a campaign, directories of stores, or CSV files with the columns participant, ranks and seconds
        (compute seconds per window). A campaign brings its study's budget, bounds, parameters and learner, where no
        option says otherwise, and its failed splits.
    ranks
        Total number of ranks to split; or --cores, or --nodes.
    machine
        What the machine has and demands.
    case
        For what to recommend, and by whom.
    format
        A table to read, or JSON alone on standard output.
    output
        Also write recommendation.json, recommendation.md and the figure into this directory.
    verify
        Also compare the optimum for the mean curves with all splits, where they are at most a few millions.
    ridge
        pmnf: weight of the ridge penalty.
    folds
        pmnf: folds of the cross-validation; by default leave-one-out.
    loss
        pmnf: what the cross-validation minimises.
    n_terms
        pmnf: terms of a model beside its constant.
    constant
        pmnf: whether a model has a constant.
    """
    from precice_lb.recommend import load_sources

    given = case or Case()
    campaign = campaign_of(required(sources, "source"))
    failed: tuple[FailedSplit, ...] = ()
    if campaign is None:
        measurements = load_sources(sources, warmup=given.warmup)
    else:
        result, settings = campaign
        failed = result.failed_splits
        measurements = result.measurements(given.warmup)
        ranks, given = told_by_study(settings, ranks, machine, given, measurements)
    of_learner = {"ridge": ridge, "folds": folds, "loss": loss, "n_terms": n_terms, "constant": constant}
    recommendation, schedule = recommend_case(
        measurements,
        ranks,
        machine,
        given,
        learner_parameters={key: value for key, value in of_learner.items() if value is not None} or None,
        verify=verify,
        failed=failed,
    )
    show(recommendation, schedule, output, as_json=format == "json")
    if output is not None:
        from precice_lb.report.partners_files import write_partners_beside

        written = write_partners_beside(sources, recommendation.split, output)
        name_files(written, sys.stderr if format == "json" else sys.stdout)
