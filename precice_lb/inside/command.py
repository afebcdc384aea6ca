"""The subcommand for balance inside a participant."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from precice_lb.cli.app import app
from precice_lb.cli.flow import Format, Output, name_files, print_result
from precice_lb.exceptions import DataError
from precice_lb.text import say

if TYPE_CHECKING:
    from precice_lb.dataset import CoupledRun
    from precice_lb.inside import Balance


@app.command
def inside(
    *stores: Path,
    participant: str | None = None,
    features: str | None = None,
    sections: str | None = None,
    counts: Path | None = None,
    seconds: Path | None = None,
    mesh: Path | None = None,
    ranks: int | None = None,
    output: Output = None,
    format: Format = "table",
) -> int:
    """Show what each kind of cell costs a participant, how uneven its ranks are, and a partition of equal cost.

    From what ranks held and how long they were busy in a few small runs it fits seconds per feature and time window.
    With --mesh, cells are shared out so that all ranks are busy for equally long. Exit code 1 says that the features do
    not explain the seconds, or cannot be told apart: then nothing is recommended or written.

    Example: precice-lb inside --counts counts.csv --seconds seconds.csv --mesh fluid.vtu --ranks 16 -o balanced

    Example: precice-lb inside precice-lb-store --participant Fluid --features cells,porous

    Parameters
    ----------
    stores
        Directories of stores of recorded runs, searched with everything below them; or --counts and --seconds.
    participant
        Whose ranks; not needed where runs have one participant alone.
    features
        What was counted, apart by commas: cells,porous; by default all that was.
    sections
        Profiling sections of the solver, apart by commas, that are work without waiting.
    counts
        What each rank held: a CSV table with the columns rank, feature, count and, of several runs, run.
    seconds
        How long each rank was busy per time window, without waiting for others: columns rank, seconds and run.
    mesh
        A mesh file that meshio reads, whose cell arrays are the features: scalars, or material=1 for a value of one.
        Needs the extra meshio.
    ranks
        How many ranks share the mesh; by default those of the largest run.
    output
        Also write inside.json and, with --mesh, the partition and the weights of cells into this directory, and of
        stores samples.csv: what they would have measured with that partition, for recommend.
    """
    from precice_lb.inside import balance_of, partition_of, read_cells
    from precice_lb.inside.loads import loads_of_runs, loads_of_tables, read_counts, read_seconds
    from precice_lb.inside.view import inside_blocks, write_inside

    chosen = _names(features)
    runs: list[CoupledRun] = []
    if stores:
        if seconds is not None:
            raise DataError("--seconds: expected tables of counts and seconds or stores, found both; give one of them")
        runs, participant = _runs(stores, participant)
        held = None if counts is None else read_counts(counts)
        loads = loads_of_runs(runs, participant, chosen, sections=_names(sections) or (), counts=held)
    elif counts is None or seconds is None:
        options = "--counts alone" if counts else "--seconds alone" if seconds else "neither"
        raise DataError(
            f"expected directories of stores, or both --counts and --seconds, found {options}; give what is missing"
        )
    else:
        loads = loads_of_tables(read_counts(counts, chosen), read_seconds(seconds))
    result = balance_of(loads, participant or "")
    if mesh is not None and not result.costs.problem:
        cells = read_cells(mesh, result.costs.features)
        wanted = max(len(load.seconds) for load in loads) if ranks is None else ranks
        result = replace(result, partition=partition_of(result.costs, cells, wanted))
    print_result(format, lambda: inside_blocks(result), result.to_dict)
    if result.costs.problem:
        return 1
    if output is not None:
        name_files([*write_inside(result, output), *_samples(result, runs, output)], format)
    return 0


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name for part in text.split(",") if (name := part.strip())]


def _samples(balance: Balance, runs: Sequence[CoupledRun], directory: Path) -> list[Path]:
    """Write what the runs would have measured with the partition, as far as their participants can be compared."""
    from precice_lb.dataset import measurements_from_runs
    from precice_lb.ingest.csv import write_csv

    if balance.partition is None or not runs:
        return []
    try:
        write_csv(balance.samples(measurements_from_runs(runs)), directory / "samples.csv")
    except DataError as error:
        say(f"no samples.csv: {error}", sys.stderr)
        return []
    return [directory / "samples.csv"]


def _runs(stores: Sequence[Path], participant: str | None) -> tuple[list[CoupledRun], str]:
    """Read recorded runs, and say whose ranks are meant."""
    from precice_lb.dataset import load_runs
    from precice_lb.ingest.profiling import enrich

    runs = load_runs(stores, complete=enrich)
    names = list(dict.fromkeys(name for run in runs for name in run.participants))
    if participant is None and len(names) != 1:
        raise DataError(f"--participant: expected one of {', '.join(names)}, found none; name one")
    return runs, participant or names[0]
