"""Writes the stores that lie here, with planted numbers; README.md says with which versions. For these only."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
from record_helpers import configuration
from store_helpers import START, metadata, row, rows

from precice_lb.store import schema
from precice_lb.store.merge import merge_stores
from precice_lb.store.records import RecordedMeshes
from precice_lb.store.writer import StoreWriter

SECTIONS = ("assemble", "solve: Ω")


def meshes(participant: str, rank: int) -> RecordedMeshes:
    """Four vertices of a rank, and a square of them, one unit above those of the rank before."""
    coordinates = np.array([[0.0, rank], [1.0, rank], [1.0, rank + 1], [0.0, rank + 1]])
    line = np.zeros(1, schema.MESH_DTYPE)
    for name in line.dtype.names or ():
        if line.dtype[name].kind == "f":
            line[name] = np.nan
    line["rank"], line["dimensions"], line["vertices"], line["edges"], line["coordinates"] = rank, 2, 4, 1, True
    for side, bounds in (("low", coordinates.min(axis=0)), ("high", coordinates.max(axis=0))):
        for axis, bound in zip("xy", bounds, strict=True):
            line[f"{side}_{axis}"] = bound
    return RecordedMeshes((f"{participant}-Mesh",), line, coordinates.ravel(), np.array([0, 1], "<i4"))


def write(directory: Path, participant: str, rank: int, size: int, *, newest: bool, closed: bool) -> None:
    """Write a rank: w/10 + rank/100 + i/1000 s of work in iteration i of window w, twice that as B; w/100 s of wait."""
    text, more = configuration("parallel-implicit"), {}
    if newest and participant == "B":
        more = {"threads": 2, "version": "gpu"}
    given = metadata(
        participant, rank, size, configuration=text, started_unix_ns=START, hostname=f"node{rank}", pid=10 + rank,
        run="planted", warmup_windows=1, degrees_of_freedom={"A": 1000, "B": 500}, parameters={"level": 3},
        working_directory="/planted", command="solver.py", timing_source="planted", receives_data=True, **more,
    )  # fmt: skip
    writer = StoreWriter(directory, given, text)
    writer.write_meshes(meshes(participant, rank))
    writer.write_initialize(np.array([(500, 10**9, 10**6, 10**8)], schema.INITIALIZE_DTYPE))
    factor = 2 if participant == "B" else 1
    table = [
        row(w, factor * (w / 10 + rank / 100 + i / 1000), w / 100 + 0.02, w / 100, 0.002, iteration=i, complete=i == 2)
        for w in range(1, 5)
        for i in (1, 2)
    ]
    sections = np.array([(n, w, w * 1000, (n + 1) * 10**7) for w in range(1, 5) for n in (0, 1)], schema.SECTION_DTYPE)
    tables = {}
    if newest:
        windows = range(1, 5)
        tables = {
            "guesses": np.array([(w, 0, 10**6, 0.25) for w in windows], schema.GUESS_DTYPE),
            "guess_names": ["linear"],
            "counts": np.array([(1, 0, 100.0 + rank), (1, 1, 7.0)], schema.COUNT_DTYPE),
            "count_names": ["cells", "porous"],
            "mpi": np.array([(w, 10**7) for w in windows], schema.MPI_DTYPE),
            "cpu": np.array([(w, 5 * 10**7) for w in windows], schema.CPU_DTYPE),
        }
    writer.append(rows(table), sections, SECTIONS, **tables)
    if closed:
        writer.close(finished=True, ended_unix_ns=START + 10**10)


def main(kind: str) -> None:
    """Write ``rank``, ``spool``, ``merged-1`` or ``merged-2``."""
    directory = Path(__file__).parent / kind
    for participant, size in (("A", 2), ("B", 1)):
        for rank in range(size):
            write(directory, participant, rank, size, newest=kind != "merged-1", closed=kind != "spool")
    if kind.startswith("merged"):
        merge_stores(directory, force=True)
    shutil.make_archive(str(directory), "zip", directory)
    shutil.rmtree(directory)


if __name__ == "__main__":
    main(sys.argv[1])
