"""`precice-lb summary` on large profiling files: time and memory, beside precice-profiling-analyze.

    python benchmarks/profiling_summary.py --size 600 --peer PATH/TO/precice-profiling-merge

writes synthetic profiling files of the given size (MiB) as mode ``fundamental`` of preCICE 3.4 does, has the peer merge
them into a database (about twice as large), and sums up both, alternating. The peer analyses one participant at a time
and prints its first rank and those with the least and the most time in ``advance``. The figures of all ranks are
compared with sums by SQL, those of the ranks that the peer prints also with what it prints.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from profiling_import import CONFIGURATION, Used, run, write_run
from profiling_peer import differences, totals_of, totals_printed

PARTICIPANTS = ("Fluid", "Solid")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 1 if a figure differs from the peer's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=float, default=16.0, help="MiB of profiling files, all together")
    parser.add_argument("--files", type=int, default=24, help="number of files (ranks)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peer", type=Path, required=True, help="precice-profiling-merge of preCICE's own package")
    parser.add_argument("--directory", type=Path, help="where to write; a temporary directory by default")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=options.directory) as temporary:
        directory = Path(temporary)
        folder = write_run(directory, options.size, options.files)
        database = directory / "profiling.db"
        run(options.peer.name, [str(options.peer), str(folder), "--output", str(database)], directory)
        print(f"database: {database.stat().st_size / 2**30:.3f} GiB", flush=True)
        return measure(folder, database, options.peer.with_name("precice-profiling-analyze"), options.repeats)


def measure(folder: Path, database: Path, analyze: Path, repeats: int) -> int:
    """Sum files and their database up, print what that took, and compare."""
    directory = database.parent
    summary = [sys.executable, "-m", "precice_lb", "summary", str(folder), "--format", "json", "--per-rank"]
    ours, theirs = [], []
    for _ in range(repeats):
        ours.append(run("summary", [*summary, "--warmup", "0"], directory))
        found = json.loads((directory / "output.txt").read_text())
        each = []
        for name in PARTICIPANTS:
            command = [str(analyze), name, database.name, "--unit", "us", "--output", f"{name}.csv"]
            each.append(run(f"analyze {name}", command, directory))
        seconds, processors, mebibytes = zip(*each, strict=True)
        theirs.append(Used(sum(seconds), sum(processors), max(mebibytes)))
    for label, used in (("summary", ours), ("analyze, both", theirs)):
        seconds, processors, mebibytes = (median(column) for column in zip(*used, strict=True))
        print(f"median of {label:<16} {seconds:8.2f} s {processors:8.2f} s of processors {mebibytes:6.0f} MiB")
    totals = totals_of(database)
    printed = {
        key: value for name in PARTICIPANTS for key, value in totals_printed(name, directory / f"{name}.csv").items()
    }
    said = [line for each in (totals, printed) for line in differences(found[0], each, database, CONFIGURATION)]
    print(
        "\n".join(said) or f"all figures of {len(totals)} ranks agree, and of {len(printed)} with what analyze prints"
    )
    return 1 if said else 0


if __name__ == "__main__":
    raise SystemExit(main())
