"""Subcommands that run solvers or recommend; annotations and docstrings make their help."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from precice_lb.cli.app import app
from precice_lb.cli.flow import name_files, run_and_recommend, show
from precice_lb.cli.options import by_participant, required, schedule_of
from precice_lb.exceptions import StudyError

__all__ = ["at_end", "calibrate", "demo", "recommend", "run"]

_DEMO_STUDY = Path("configs", "pulse.toml")


@app.command
def run(*arguments: Annotated[str, Parameter(allow_leading_hyphen=True)]) -> int:
    """Run an unchanged Python solver with every time window recorded, also as ranks of mpiexec.

    Example: mpiexec -n 4 precice-lb run solver.py --mesh fine

    Parameters
    ----------
    arguments
        The solver's script (or -m and a module) and its own arguments.
    """
    from precice_lb.record.run import run as run_solver

    return run_solver(arguments)


@app.command
def calibrate(study: Path, *, directory: Path | None = None, learner: str | None = None, seed: int = 0) -> None:
    """Measure a study's splits with short runs, then recommend the split of its budget.

    A campaign that was stopped goes on where it was. Its directory also gets recommendation.json, report.md and the
    figure.

    Example: precice-lb calibrate configs/pulse.toml

    Parameters
    ----------
    study
        The study file (TOML): case, participants, runs and budget.
    directory
        Where the campaign lives; by default what the study says.
    learner
        The learner of the performance models; by default the package's.
    seed
        Seed of whatever is random in the models.
    """
    from precice_lb.calibrate import read_study

    run_and_recommend(read_study(study), directory, learner=learner, seed=seed)


@app.command
def recommend(
    *sources: Path,
    ranks: int,
    format: Literal["table", "json"] = "table",
    output: Path | None = None,
    coupling: Literal["parallel", "serial"] | None = None,
    config: Path | None = None,
    minimum_ranks: list[str] | None = None,
    maximum_ranks: list[str] | None = None,
    dofs: list[str] | None = None,
    warmup: int | None = None,
    learner: str | None = None,
    ridge: float | None = None,
    folds: int | None = None,
    loss: Literal["smape", "mape", "mse"] | None = None,
    n_terms: int | None = None,
    constant: bool | None = None,
    seed: int = 0,
) -> None:
    """Recommend how to split a total of ranks, from recorded runs or a CSV file.

    Example: precice-lb recommend inner.csv outer.csv --ranks 336 --minimum-ranks Inner=2

    Parameters
    ----------
    sources
        Directories of stores, or CSV files with the columns participant, ranks and seconds (own seconds per window).
    ranks
        Total number of ranks to split.
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
    warmup
        Time windows to leave out of each run; by default what the run says, else 1.
    learner
        shape or pmnf; by default the package's.
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
    parameters = {"ridge": ridge, "folds": folds, "loss": loss, "n_terms": n_terms, "constant": constant}
    schedule = schedule_of(measurements, coupling, config)
    recommendation = recommend_measured(
        measurements,
        ranks,
        schedule=schedule,
        minimum_ranks=by_participant(minimum_ranks, names, "--minimum-ranks", int) if minimum_ranks else 1,
        maximum_ranks=by_participant(maximum_ranks, names, "--maximum-ranks", int) if maximum_ranks else None,
        learner=learner,
        learner_parameters={key: value for key, value in parameters.items() if value is not None} or None,
        random_state=seed,
    )
    show(recommendation, schedule, output, as_json=format == "json")


@app.command
def demo(*, directory: Path | None = None) -> None:
    """Run the coupled pressure pulse of tutorials/pulse at a few splits and recommend one.

    The load is emulated: every rank sleeps for what a stated cost law says, and no hardware is measured. So the true
    optimum is known, and printed beside the recommendation.

    Example: precice-lb demo --directory /tmp/demo

    Parameters
    ----------
    directory
        Where to run; by default what the study configs/pulse.toml says. Finished runs are not repeated.
    """
    from precice_lb.calibrate import read_study

    places = [Path.cwd(), Path(__file__).resolve().parents[2]]
    found = next((place / _DEMO_STUDY for place in places if (place / _DEMO_STUDY).is_file()), None)
    if found is None:
        looked = " and ".join(str(place) for place in places)
        raise StudyError(
            f"expected {_DEMO_STUDY} of a clone of this project, found none in {looked}; run the demo inside a clone"
        )
    study = read_study(found)
    if study.law_path is not None:
        print(
            "The load of this demo is emulated: every rank sleeps for what the cost law in "
            f"{study.law_path} says; no hardware is measured.",
            flush=True,
        )
    run_and_recommend(study, directory, evidence=True)


@app.command
def at_end(case_directory: Path, *, store: Path, participant: str) -> None:
    """Write a recommendation if this participant is the last of a run to end; started by the recorder.

    PRECICE_LB_AT_END=recommend makes the recorder start this after a solver's last call. It writes
    recommendation.json, report.md and the figure into the case directory, from all runs found below it, for the
    total of ranks of the run that ended.

    Example: precice-lb at-end . --store precice-lb-store --participant Fluid

    Parameters
    ----------
    case_directory
        Directory of the case.
    store
        Directory of the participant's stores.
    participant
        Name of the participant that ended.
    """
    from precice_lb.ingest.profiling import enrich
    from precice_lb.report.at_end import recommend_at_end

    name_files(recommend_at_end(case_directory, store, participant, complete=enrich), sys.stdout)
