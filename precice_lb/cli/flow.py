"""What several subcommands do: measure and recommend, and show what they found."""

from __future__ import annotations

import io
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from precice_lb.cli.case import Asked, Measured, measured_by, recommend_case
from precice_lb.exceptions import DataError
from precice_lb.text import say, script_command

if TYPE_CHECKING:
    from precice_lb.campaign import Study
    from precice_lb.recommend import Recommendation
    from precice_lb.report.blocks import Block
    from precice_lb.report.page import Evidence

Format = Annotated[Literal["table", "json"], Parameter(help="A table to read, or JSON alone on standard output.")]
"""How a result is printed."""
OUTPUT = Parameter(name=["--output", "-o"])
"""Where a command writes."""
Output = Annotated[Path | None, OUTPUT]
"""The same where it need not be said."""
ResultFile = Annotated[
    Path | None,
    OUTPUT,
    Parameter(help="Write the result to this file in place of the screen; one that is there is replaced."),
]
"""Where a result goes that is else only printed."""
Verbose = Annotated[
    bool,
    Parameter(negative=(), help="Print all of it: what the answer rests on, other splits and budgets, files written."),
]
"""Whether more is printed than the answer."""

# Characters of a line where nobody reads it on a screen.
_ENDLESS = 10_000


def run_and_recommend(study: Study, directory: Path | None, *, seed: int = 0, verbose: bool = False) -> None:
    """Measure what a study asks for, recommend, and write the report."""
    from precice_lb.campaign import run_campaign
    from precice_lb.campaign.launch import write_scripts
    from precice_lb.report.page import build_page, next_text
    from precice_lb.report.render import attempted, write_recommendation, write_report

    result = run_campaign(study, directory or study.campaign_directory)
    result.require_runs(study)
    place, measured = result.directory, measured_by(result)
    recommendation = recommend_case(measured, Asked(seed=seed))
    # Results first: whatever becomes of what is shown of them, the runs were not in vain.
    written = write_recommendation(recommendation, place, [place])
    chosen = study.chosen(recommendation.versions)
    longest_window = recommendation.interval[1]
    scripts = write_scripts(chosen, recommendation.split, place / "launch", window_seconds=longest_window)
    written += scripts
    start_script = start_script_of(scripts, study)
    start_scripts = () if start_script is None else (start_script,)
    evidence = evidence_of(recommendation, measured, (place, *result.existing), seed, start_scripts)
    pages = attempted("the report", lambda: write_report(build_page(evidence), place / "report")) or []
    advice = attempted("what to measure next", lambda: next_text(evidence)) or ""
    if verbose:
        name_files(written)
    print_answer(recommendation, advice, verbose=verbose)
    if start_script is not None:
        name_missing_limit(start_script)
        say(f"start it: {script_command(start_script)}")
    say(f"all results: {place}{f'; page: {pages[0]}' if pages else ''}")


def name_missing_limit(script: Path) -> None:
    """Say that a job script asks for no time limit, and why, where that is so."""
    from precice_lb.campaign.time_limit import missing_limit

    problem = missing_limit(script)
    if problem:
        say(problem)


def start_script_of(scripts: Sequence[Path], study: Study) -> Path | None:
    """Return the script that starts a split as the study's launcher does, or None if none could be written."""
    preferred_suffix = ".sbatch" if study.launcher.name == "slurm" else ".sh"
    for script in scripts:
        if script.suffix == preferred_suffix:
            return script
    return None


def evidence_of(
    recommendation: Recommendation,
    measured: Measured,
    sources: Sequence[Path],
    seed: int,
    start_scripts: Sequence[Path] = (),
) -> Evidence:
    """Gather what a report of a recommendation is made of; each of ``start_scripts`` starts its split."""
    from precice_lb.campaign.worth import TARGET_REGRET
    from precice_lb.report.page import Evidence

    return Evidence(
        recommendation,
        measured.runs,
        tuple(sources),
        seed=seed,
        command=command_line(),
        start_scripts=tuple(start_scripts),
        target_regret=TARGET_REGRET if measured.asked is None else measured.asked.runs.target_regret,
    )


def print_result(
    format: str | None,
    blocks: Callable[[], Sequence[Block]],
    values: Callable[[], Any] = dict,
    *,
    output: Path | None = None,
    whole_lines: bool = False,
) -> None:
    """Print blocks as a table or Markdown, or values as JSON; or write a file, the end of whose name may say which.

    ``whole_lines``: for programs that search what is no screen.
    """
    from precice_lb.report.render import console, markdown, rendered, write_files
    from precice_lb.text import json_text

    if output is not None and (output.is_dir() or output.suffix == ".csv"):
        raise DataError(f"--output: expected the name of a file ending in .json or .txt, found {output}; name one")
    stream = sys.stdout if output is None else io.StringIO()
    form = format or (output.suffix if output else "")
    if form.endswith("json"):
        stream.write(json_text(values()))
    elif form in ("markdown", ".md"):
        stream.write(markdown(blocks()))
    else:
        screen = console(stream)
        if whole_lines and not screen.is_terminal:
            screen.width = _ENDLESS
        screen.print(rendered(blocks()))
    if output is not None and isinstance(stream, io.StringIO):
        name_files(write_files(output.parent, {output.name: stream.getvalue().encode()}, "the result"))


def print_answer(recommendation: Recommendation, advice: str, *, verbose: bool = False) -> None:
    """Print what people decide by, the answer last."""
    from precice_lb.report.blocks import short_names
    from precice_lb.report.recommendation import screen_blocks
    from precice_lb.report.render import attempted

    names = short_names(recommendation.split, 24)
    attempted(
        "the screen",
        lambda: print_result("table", lambda: screen_blocks(recommendation, names, advice=advice, verbose=verbose)),
    )


def command_line() -> str:
    """Write the command that is running, to be repeated."""
    return shlex.join(["precice-lb", *sys.argv[1:]])


def name_files(paths: Sequence[Path], format: str = "table") -> None:
    """Say which files were written, one per line; JSON has standard output for itself."""
    for path in paths:
        say(f"wrote {path}", sys.stderr if format == "json" else sys.stdout)
