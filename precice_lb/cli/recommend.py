"""Subcommands that learn from measurements: recommend and report."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from precice_lb.cli.app import app
from precice_lb.cli.case import Asked, read_measured, recommend_case
from precice_lb.cli.flow import (
    OUTPUT,
    Format,
    Output,
    Verbose,
    command_line,
    remembered,
    show,
)
from precice_lb.cli.options import named_values
from precice_lb.exceptions import DataError, PreciceLBError
from precice_lb.layout import layout_from
from precice_lb.names import checked_name, say, without_versions
from precice_lb.plugins import close_match
from precice_lb.plural import plural

if TYPE_CHECKING:
    from precice_lb.dataset import CoupledRun, Measurements
    from precice_lb.report.page import Evidence


def split_values(
    texts: Sequence[str], names: Sequence[str], versions: dict[str, str] | None = None, option: str = "--split"
) -> dict[str, int | str]:
    """Read ``Fluid=24,Solid=1x8`` or a JSON object, given once or several times: numbers, and texts such as 1x8.

    With ``versions`` that of ``Fluid:gpu=24`` is put there, and ``Fluid`` is the key.
    """

    def read(name: str, value: Any) -> int | str:
        if isinstance(value, str) and "x" in value.lower():
            layout_from(value)
            return value
        if isinstance(value, bool) or (number := int(value)) < 1:
            raise ValueError(value)
        return number

    expected = (
        f"participant=a whole number above 0 for each participant, such as {names[0]}=2, or ranks x threads, such as "
        f"{names[0]}=1x8"
    )
    if versions is None:
        return dict(named_values(texts, option, expected, read, participants=names))
    found = named_values(texts, option, expected, read)
    for name, sign, version in (key.partition(":") for key in found):
        if sign:
            try:
                versions[name] = checked_name(version, "version")
            except ValueError as error:
                raise DataError(f"{option}: {name}: {error}") from None
    counts, _ = without_versions(found)
    if len(counts) < len(found):
        raise DataError(f"{option}: expected each participant once, found a participant twice")
    if unknown := [name for name in counts if name not in names]:
        raise DataError(
            f"{option}: expected one of the participants {', '.join(names)}, found {unknown[0]!r}"
            f"{close_match(unknown[0], list(names))}"
        )
    return counts


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
    if output is not None and output.suffix in (".json", ".csv", ".md", ".txt") and not output.exists():
        raise DataError(f"--output: expected a directory for several files, found {output}; --format json prints one")
    given = case or Asked()
    found = read_measured(sources, given.warmup, runs=given.coupling == "traces")
    recommendation, _ = recommend_case(found, given)
    show(recommendation, output, format, sources=sources, verbose=verbose)


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
    from precice_lb.chain.document import read_chain
    from precice_lb.report.page import build_page, chain_page
    from precice_lb.report.render import write_report

    chain = read_chain(sources[0]) if len(sources) == 1 else None
    try:
        evidence = _evidence(sources, case or Asked())
    except PreciceLBError as error:
        if chain is None:
            raise
        page = chain_page(chain, str(error))
    else:
        page = build_page(dataclasses.replace(evidence, chain=chain))
    path, *drawn = write_report(page, output, figures)
    if drawn:
        say(f"wrote {plural(len(drawn), 'figure')} in {figures}")
    say(f"report: {path}")


def _evidence(sources: Sequence[Path], given: Asked) -> Evidence:
    """Recommend, and gather what a report of that is made of."""
    from precice_lb.campaign.worth import TARGET_REGRET
    from precice_lb.report.page import Evidence

    found = read_measured(sources, given.warmup, runs=True)
    known = remembered(sources[0]) if len(sources) == 1 else {}
    known = known if known.get("unit") == "ranks" else {}
    ranks = known.get("total_ranks") or _most_ranks(found.runs, found.measurements)
    recommendation, _ = recommend_case(found, given, ranks, known.get("parameters"))
    target = None if found.asked is None else found.asked.runs.target_regret
    launch = sources[0] / "launch"
    return Evidence(
        recommendation,
        found.runs,
        tuple(sources),
        seed=given.seed,
        command=command_line(),
        launch=launch if known.get("split") == recommendation.split and launch.is_dir() else None,
        target_regret=TARGET_REGRET if target is None else target,
    )


def _most_ranks(runs: Sequence[CoupledRun], measurements: Measurements) -> int:
    """Ranks of the largest run; without runs, the largest numbers of ranks that were measured together."""
    totals = [sum(part.cores for part in run.participants.values()) for run in runs]
    return max(totals, default=int(sum(rows[:, 0].max() for rows in measurements.samples.values())))
