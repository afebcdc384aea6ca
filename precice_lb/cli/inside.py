"""The subcommand for balance inside a participant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from precice_lb.cli.app import app
from precice_lb.cli.flow import Format, Output, Unit, name_files, print_result
from precice_lb.exceptions import DataError

if TYPE_CHECKING:
    from precice_lb.dataset import CoupledRun
    from precice_lb.inside import Cells, RankLoad
    from precice_lb.inside.loads import Counts


@app.command
def inside(
    *stores: Path,
    participant: str | None = None,
    features: str | None = None,
    sections: str | None = None,
    counts: Path | None = None,
    seconds: Path | None = None,
    mesh: Path | None = None,
    partition: str | None = None,
    ranks: int | None = None,
    partitioner: Literal["bisection", "hilbert", "metis"] = "bisection",
    output: Output = None,
    format: Format = "table",
    unit: Unit = None,
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
    partition
        Who had the cells of the mesh in recorded runs: a file with one rank per line (or .npy), or a cell array.
    ranks
        How many ranks share the mesh; by default those of the largest run.
    partitioner
        bisection (recursive, along coordinates), hilbert (pieces of the space-filling curve), or metis (needs the extra
        metis).
    output
        Also write inside.json and, with --mesh, the partition and the weights of cells into this directory.
    """
    from precice_lb.inside import balance_of, partition_of, read_cells
    from precice_lb.inside.loads import loads_of_runs
    from precice_lb.report.inside import inside_blocks, write_inside

    chosen = _names(features)
    if stores:
        if seconds is not None:
            raise DataError("--seconds: expected tables of counts and seconds or stores, found both; give one of them")
        runs, participant = _runs(stores, participant)
        given = _counted(runs, participant, chosen, counts, mesh, partition)
        loads = loads_of_runs(runs, participant, chosen, sections=_names(sections) or (), counts=given)
    elif counts is None or seconds is None:
        found = "--counts alone" if counts else "--seconds alone" if seconds else "neither"
        raise DataError(
            f"expected directories of stores, or both --counts and --seconds, found {found}; give what is missing"
        )
    else:
        loads = _given(counts, seconds, chosen)
    result = balance_of(loads, participant or "")
    if mesh is not None and not result.costs.problem:
        cells = read_cells(mesh, result.costs.features)
        wanted = max(len(load.seconds) for load in loads) if ranks is None else ranks
        result = replace(result, partition=partition_of(result.costs, cells, wanted, partitioner))
    print_result(format, lambda: inside_blocks(result), result.to_dict, unit=unit)
    if result.costs.problem:
        return 1
    if output is not None:
        name_files(write_inside(result, output), format)
    return 0


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name for each in text.split(",") if (name := each.strip())]


def _given(counts: Path, seconds: Path, features: Sequence[str] | None) -> list[RankLoad]:
    """Read tables; of the features, those that are asked for."""
    from precice_lb.inside.cost import counts_for
    from precice_lb.inside.loads import loads_of_tables, read_counts, read_seconds

    loads = loads_of_tables(read_counts(counts), read_seconds(seconds))
    if features is None:
        return loads
    unknown = [name for name in features if name not in loads[0].features]
    if unknown or not features:
        raise DataError(
            f"--features: expected features of {counts} ({', '.join(loads[0].features)}), found "
            f"{', '.join(unknown) or 'none'}; correct the names"
        )
    return [replace(load, features=tuple(features), counts=counts_for(load, features)) for load in loads]


def _runs(stores: Sequence[Path], participant: str | None) -> tuple[list[CoupledRun], str]:
    """Read recorded runs, and say whose ranks are meant."""
    from precice_lb.dataset import load_runs
    from precice_lb.ingest.profiling import enrich

    runs = load_runs(stores, complete=enrich)
    names = list(dict.fromkeys(name for run in runs for name in run.participants))
    if participant is None and len(names) != 1:
        raise DataError(f"--participant: expected one of {', '.join(names)}, found none; name one")
    return runs, participant or names[0]


def _counted(
    runs: Sequence[CoupledRun],
    participant: str,
    features: Sequence[str] | None,
    counts: Path | None,
    mesh: Path | None,
    partition: str | None,
) -> dict[str, Counts] | None:
    """Take counts from a table, or from a mesh with a partition, beside what was recorded."""
    from precice_lb.inside import read_cells
    from precice_lb.inside.loads import read_counts

    if partition is None:
        return read_counts(counts) if counts is not None else None
    if mesh is None or counts is not None:
        raise DataError("--partition: expected --mesh, whose cells it shares out, and no --counts; give these")
    return _partitioned(runs, participant, read_cells(mesh, features), partition)


def _partitioned(runs: Sequence[CoupledRun], participant: str, cells: Cells, partition: str) -> dict[str, Counts]:
    """Count what ranks of runs with the partition's number of ranks held; one rank alone has the whole mesh."""
    from precice_lb.inside import counts_of, rank_of_cells

    rank_of = rank_of_cells(cells, partition)
    several = int(rank_of.max()) + 1
    found = {}
    for run in runs:
        if participant in run.participants:
            ranks = run.participants[participant].ranks
            owners = rank_of * 0 if ranks == 1 else rank_of
            found[run.name] = (cells.features, counts_of(cells, owners, ranks if ranks == 1 else several))
    return found
