"""Subcommands that run solvers and what follows from runs; annotations and docstrings make their help."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import runpy
import shlex
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from precice_lb.cli.app import Settings, app
from precice_lb.cli.case import Asked, Measured, read_measured, recommend_case
from precice_lb.cli.flow import (
    OUTPUT,
    Format,
    Output,
    Verbose,
    evidence_of,
    name_files,
    print_answer,
    print_result,
    run_and_recommend,
)
from precice_lb.exceptions import DataError, PreciceLBError, StudyError
from precice_lb.text import plural, say

if TYPE_CHECKING:
    from precice_lb.report.page import Evidence


_DEMO_STUDY = Path("configs", "pulse.toml")


@app.command
def run(*arguments: Annotated[str, Parameter(allow_leading_hyphen=True)]) -> int:
    """Run an unchanged Python solver, or what starts it, with every time window recorded.

    Example: mpiexec -n 4 precice-lb run solver.py --mesh fine

    Parameters
    ----------
    arguments
        The solver's script (or -m and a module), or a program that starts it, and its own arguments.
    """
    from precice_lb.record.run import run as run_solver

    return run_solver(arguments)


@app.command
def init(directory: Path = Path()) -> None:
    """Write study.toml from what lies in a case: its configuration, what starts its solvers, earlier runs, the machine.

    A participant's command is that of its last recorded run, else of PARTICIPANT-SOLVER/run.sh as in preCICE's
    tutorials. What cannot be known is proposed and marked "please check". A study that is there is never overwritten.

    Example: precice-lb init mycase

    Parameters
    ----------
    directory
        The case: where precice-config.xml lies; by default the current directory.
    """
    from precice_lb.campaign.init import write_study

    path, marks = write_study(directory)
    name_files([path])
    for mark in marks:
        say(f"{path}:{mark}")
    say(f"look at it, then: precice-lb calibrate --dry-run {shlex.quote(str(path))}")


@app.command
def calibrate(
    study: Path,
    *,
    directory: Path | None = None,
    settings: Settings = None,
    seed: int = 0,
    dry_run: Annotated[bool, Parameter(negative=())] = False,
    verbose: Verbose = False,
) -> None:
    """Measure a study's splits with short runs, then recommend the split of its budget.

    A campaign that was stopped goes on where it was. Its directory also gets recommendation.json, launch scripts, and
    the report for people (report/report.html).

    Example: precice-lb calibrate configs/pulse.toml

    Parameters
    ----------
    study
        The study file (TOML): case, participants, runs and budget.
    directory
        Where the campaign lives; by default what the study says.
    seed
        Seed of whatever is random in the models.
    dry_run
        Print what would run: copies, commands, job scripts, splits, core-hours at most; start and write nothing.
    """
    from precice_lb.campaign import read_study

    read = read_study(study, settings or ())
    if dry_run:
        from precice_lb.campaign.campaign import dry_run as next_runs

        say("\n".join([*next_runs(read, directory or read.campaign_directory)]))
        return
    run_and_recommend(read, directory, seed=seed, verbose=verbose)


@app.command
def demo(*, directory: Path | None = None, verbose: Verbose = False) -> None:
    """Run the coupled pressure pulse of tutorials/pulse at a few splits and recommend one.

    The load is emulated: every rank sleeps for what a stated cost law says, and no hardware is measured. So the true
    optimum is known, and printed last, with what the recommended split loses against it. The case is copied into the
    demo's directory, below which everything is written.

    Example: precice-lb demo --directory /tmp/demo

    Parameters
    ----------
    directory
        Where to run; by default ``demo`` in the current directory. Finished runs are not repeated.
    """
    from precice_lb.campaign import read_study

    study_file = _demo_study()
    # The study's own default lies beside the study: with an editable installation that is the source tree.
    place = directory or Path("demo")
    case = _copied_case(read_study(study_file).case_directory, place)
    study = read_study(study_file, [f"case.directory={json.dumps(str(case.absolute()))}"])
    say(
        f"The load of this demo is emulated: every rank sleeps for what the cost law in {case / 'law.json'} says; no "
        "hardware is measured.",
    )
    run_and_recommend(study, place, verbose=verbose)
    runpy.run_path(str(case / "optimum.py"))["main"]([str(place)])


def _copied_case(case: Path, place: Path) -> Path:
    """Copy the demo's case into the demo's directory, over an earlier copy; return the copy's path."""
    from precice_lb.campaign.prepare import LEFT_OUT, copy_tree, entries_of

    copy = place / "case"
    try:
        copy_tree(case, copy, entries_of(case, without=place.resolve(), left_out=LEFT_OUT))
    except OSError as error:
        raise DataError(
            f"{copy}: expected a directory for the demo's case, found: {error}; name another one"
        ) from error
    return copy


def _demo_study() -> Path:
    """Find the study in the clone that this is run from or in, or beside the installed package."""
    places = [Path.cwd(), Path(__file__).resolve().parents[2]]
    with contextlib.suppress(metadata.PackageNotFoundError):
        shared = (
            file for file in metadata.files("precice_lb") or () if file.match(str("share/precice_lb" / _DEMO_STUDY))
        )
        places += [Path(str(file.locate())).resolve().parents[1] for file in shared]
    for place in places:
        if (place / _DEMO_STUDY).is_file():
            return place / _DEMO_STUDY
    raise StudyError(
        f"expected {_DEMO_STUDY} in a clone of this project or beside the installed package, found none in "
        f"{' and '.join(map(str, places))}; install the package again, or run the demo inside a clone"
    )


@app.command
def at_end(
    case_directory: Path, *, store: Path, participant: str, write: Literal["recommend", "summary"] = "recommend"
) -> None:
    """Write a recommendation or a summary if this participant is the last of a run to end; started by the recorder.

    PRECICE_LB_AT_END=recommend makes the recorder start this after a solver's last call. It writes recommendation.json
    into the case directory, from all runs found below it, for the total of ranks of the run that ended. With
    PRECICE_LB_AT_END=summary it writes summary.txt and summary.json, of that run alone.

    Example: precice-lb at-end . --store precice-lb-store --participant Fluid

    Parameters
    ----------
    case_directory
        Directory of the case.
    store
        Directory of the participant's stores.
    participant
        Name of the participant that ended.
    write
        What to write.
    """
    from precice_lb.ingest.profiling import enrich
    from precice_lb.recommend.result import RECOMMENDATION_FILE
    from precice_lb.report.at_end import SUMMARY_NAME, write_at_end

    result = SUMMARY_NAME if write == "summary" else RECOMMENDATION_FILE
    name_files(write_at_end(case_directory, store, participant, result, complete=enrich))


@app.command
def recommend(
    *sources: Path,
    case: Asked | None = None,
    format: Format = "table",
    output: Output = None,
    verbose: Verbose = False,
) -> None:
    """Recommend how to split ranks, cores or nodes, from recorded runs or a CSV file.

    Example: precice-lb recommend inner.csv outer.csv --ranks 336 --present Inner=168,Outer=168

    Example: precice-lb recommend stores --nodes 12 --cores-per-node 48 --set participants.Fluid.multiple=4

    Parameters
    ----------
    sources
        The directory of a campaign, directories of stores, or CSV files with the columns participant, ranks and seconds
        (compute seconds per window). A campaign brings its study's budget, machine, bounds, parameters and learner,
        where no option says otherwise, and its failed splits.
    case
        For what to recommend.
    output
        Also write recommendation.json into this directory, and which ranks will be partners, where that is known.
    """
    from precice_lb.report.render import write_recommendation

    if output is not None and output.suffix in (".json", ".csv", ".md", ".txt") and not output.exists():
        raise DataError(f"--output: expected a directory for several files, found {output}; --format json prints one")
    asked = case or Asked()
    measured = read_measured(sources, asked.warmup, runs=asked.coupling == "traces")
    recommendation = recommend_case(measured, asked)
    if format == "json":
        print_result(format, list, recommendation.to_dict)
    else:
        more = "" if verbose else "--verbose shows what it rests on and other splits; "
        advice = f"{more}precice-lb report makes a page of it, and says what to measure next"
        print_answer(recommendation, advice, verbose=verbose)
    if output is not None:
        name_files(write_recommendation(recommendation, output, sources), format)


@app.command
def report(
    *sources: Path,
    output: Annotated[Path, OUTPUT] = Path("precice-lb-report"),
    figures: Path | None = None,
    case: Asked | None = None,
) -> None:
    """Write a report: the recommended split, what it rests on, and what it gains, as one page for a browser.

    report.html needs no network and no script, prints well, and names what is missing.

    Example: precice-lb report demo --output demo-report --present Inner=8,Outer=8

    Parameters
    ----------
    sources
        The directory of a campaign or of a chain of jobs, directories of stores, or CSV files with the columns
        participant, ranks and seconds (compute seconds per window).
    output
        The directory to write it to.
    figures
        Also write every figure as SVG into this directory.
    case
        For what to recommend; by default a campaign's own budget, else what was last recommended for in the directory,
        else as many ranks as the largest run had.
    """
    from precice_lb.report.blocks import read_story
    from precice_lb.report.page import build_page, story_page
    from precice_lb.report.render import write_report

    story = read_story(sources[0]) if len(sources) == 1 else None
    try:
        evidence = _evidence(sources, case or Asked())
    except PreciceLBError as error:
        if story is None:
            raise
        page = story_page(story, str(error))
    else:
        page = build_page(dataclasses.replace(evidence, story=story))
    path, *drawn = write_report(page, output, figures)
    if drawn:
        say(f"wrote {plural(len(drawn), 'figure')} in {figures}")
    say(f"report: {path}")


def _evidence(sources: Sequence[Path], asked: Asked) -> Evidence:
    """Recommend a split, and gather what a report of it is made of.

    A single source that already has a recommendation in ranks gives the budget and the parameters.
    """
    from precice_lb.campaign.recommendation_file import read_recommendation

    measured = read_measured(sources, asked.warmup, runs=True)
    written = read_recommendation(sources[0]) if len(sources) == 1 else None
    if written is None or written.unit != "ranks":
        recommendation = recommend_case(measured, asked, _most_ranks(measured))
        return evidence_of(recommendation, measured, sources, asked.seed)
    recommendation = recommend_case(measured, asked, written.total_ranks, written.parameters)
    start_scripts: list[Path] = []
    if written.split == recommendation.split:
        scripts = (sources[0] / "launch" / name for name in ("run.sh", "job.sbatch"))
        start_scripts = [script for script in scripts if script.exists()]
    return evidence_of(recommendation, measured, sources, asked.seed, start_scripts)


def _most_ranks(measured: Measured) -> int:
    """Ranks of the largest run; without runs, the largest numbers of ranks that were measured together."""
    totals = [sum(part.cores for part in run.participants.values()) for run in measured.runs]
    return max(totals, default=int(sum(rows[:, 0].max() for rows in measured.measurements.samples.values())))
