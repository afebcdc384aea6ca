"""The subcommand that recommends a split."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Literal

from precice_lb.cli.app import app
from precice_lb.cli.flow import name_files, show
from precice_lb.cli.machine import Machine, machine_constraints
from precice_lb.cli.options import (
    by_participant,
    parallel_of,
    parameter_values,
    preference,
    required,
    schedule_of,
)

__all__ = ["recommend"]


@app.command
def recommend(
    *sources: Path,
    ranks: int | None = None,
    machine: Machine | None = None,
    format: Literal["table", "json"] = "table",
    output: Path | None = None,
    coupling: Literal["parallel", "serial"] | None = None,
    config: Path | None = None,
    minimum_ranks: list[str] | None = None,
    maximum_ranks: list[str] | None = None,
    dofs: list[str] | None = None,
    present: list[str] | None = None,
    parameter: list[str] | None = None,
    prefer: str | None = None,
    within: float = 5.0,
    verify: bool = False,
    spent: float | None = None,
    warmup: int | None = None,
    learner: str | None = None,
    ridge: float | None = None,
    folds: int | None = None,
    loss: Literal["smape", "mape", "mse"] | None = None,
    n_terms: int | None = None,
    constant: bool | None = None,
    seed: int = 0,
) -> None:
    """Recommend how to split ranks, cores or nodes, from recorded runs or a CSV file.

    Example: precice-lb recommend inner.csv outer.csv --ranks 336 --minimum-ranks Inner=2

    Example: precice-lb recommend stores --nodes 12 --cores-per-node 48 --whole-nodes --multiple Fluid=4

    Parameters
    ----------
    sources
        Directories of stores, or CSV files with the columns participant, ranks and seconds (own seconds per window).
    ranks
        Total number of ranks to split; or --cores, or --nodes.
    machine
        What the machine has and demands.
    format
        A table to read, or JSON alone on standard output.
    output
        Also write recommendation.json, report.md and the figure into this directory.
    coupling
        How participants without a configuration are coupled; by default parallel.
    config
        A precice-config.xml to read the coupling from; stores carry their own.
    minimum_ranks
        Fewest ranks per participant: Inner=2,Outer=4, or a JSON object where a name has a comma.
    maximum_ranks
        Most ranks per participant, likewise.
    dofs
        Degrees of freedom per participant, likewise, for the comparison with the proportional split.
    present
        The split in use, likewise: how likely is the recommended one faster, and by how much?
    parameter
        The case to recommend for, where measurements have columns for further parameters, such as level=8 of a mesh: a
        value for each that varies, or any where it makes no difference. Learners of several parameters (bayes, epmnf,
        neural, factorized, gaussian-process) learn from all rows, the others from those of that value.
    prefer
        time (default: the whole budget, where it helps), cost (fewest core-hours), or the weight of time from 0 to 1:
        at 0.5 one percent of time is worth one percent of core-hours.
    within
        List splits whose window is at most so many percent longer than the best one's.
    verify
        Also compare the optimum for the mean curves with all splits, where they are at most a few millions.
    spent
        Core-hours that measuring took; by default what recorded runs say.
    warmup
        Time windows to leave out of each run; by default what the run says, else 1.
    learner
        bayes (default), shape, pmnf, epmnf, piecewise, neural, factorized or gaussian-process; precice-lb fit compares
        them.
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
    seed
        Seed of whatever is random in the models.
    """
    from precice_lb.recommend import load_sources
    from precice_lb.recommend import recommend as recommend_measured

    measurements = load_sources(required(sources, "source"), warmup=warmup)
    names = list(measurements.samples)
    if dofs:
        given = by_participant(dofs, names, "--dofs", float)
        measurements = dataclasses.replace(measurements, degrees_of_freedom=measurements.degrees_of_freedom | given)
    of_learner = {"ridge": ridge, "folds": folds, "loss": loss, "n_terms": n_terms, "constant": constant}
    budget, constraints = machine_constraints(ranks, machine, names)
    schedule = schedule_of(measurements, coupling, config)
    recommendation = recommend_measured(
        measurements,
        budget,
        schedule=schedule,
        minimum_ranks=by_participant(minimum_ranks, names, "--minimum-ranks", int) if minimum_ranks else 1,
        maximum_ranks=by_participant(maximum_ranks, names, "--maximum-ranks", int) if maximum_ranks else None,
        learner=learner,
        learner_parameters={key: value for key, value in of_learner.items() if value is not None} or None,
        random_state=seed,
        constraints=constraints,
        prefer=preference(prefer) if prefer else None,
        within=within / 100,
        verify=verify,
        instead=parallel_of(measurements, coupling, config),
        spent_core_hours=spent,
        present=by_participant(present, names, "--present", int) if present else None,
        parameters=parameter_values(parameter or []),
    )
    show(recommendation, schedule, output, as_json=format == "json")
    if output is not None:
        from precice_lb.report.partners_files import write_partners_beside

        written = write_partners_beside(sources, recommendation.split, output)
        name_files(written, sys.stderr if format == "json" else sys.stdout)
