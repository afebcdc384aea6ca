"""Simulate MPI programs on clusters by SimGrid's SMPI, and write what a time window takes them.

    apt-get install libsimgrid-dev
    python benchmarks/simulated_parts/simulate.py

Rows that `benchmarks/data/simulated.csv` has are not simulated again: remove those of a solver that you change. SimGrid
3.32 of Debian 12 was used. Nothing depends on the machine that simulates.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
CURVES = HERE.parent / "data" / "simulated.csv"
COUPLED = HERE.parent / "data" / "simulated_coupled.csv"
COLUMNS = ("solver", "cores_per_node", "selector", "ranks", "nodes", "seconds")
COUPLED_COLUMNS = (
    "first", "second", "cores_per_node", "selector", "coupling", "first_ranks", "second_ranks",
    "first_seconds", "second_seconds", "window_seconds",
)  # fmt: skip

#: By name: the program and its numbers, in the order of the enumeration at its top.
SOLVERS = {
    "cg-256": "halo 256 256 256 3 1 20 80 64 1 2 0",
    "cg-112": "halo 112 112 112 3 2 20 80 64 1 2 1.5e6",
    "shallow-2400": "halo 2400 1600 1 2 3 90 160 96 3 1 0",
    "multigrid-256": "multigrid 256 1 2 15 80 4096",
    "multigrid-144": "multigrid 144 1 2 15 80 2048",
    "unstructured-4m": "unstructured 4e6 3 60 200 0.03 0.3 2",
    "unstructured-600k": "unstructured 6e5 4 80 300 0.06 0.8 3",
    "pencils-256": "fft 256 1 1 20",
    "pencils-120": "fft 120 1 1 30",
    "slabs-192": "fft 192 0 1 20",
    "droplet-400k": "particles 4e5 0.03 4000 4 0.1",
    "droplet-80k": "particles 8e4 0.05 5000 4 0.5",
}
#: Algorithms of collectives as of MPICH and of Open MPI; one of the latter wants a power of two of ranks in SimGrid.
SELECTORS = {"mpich": (), "ompi": ("--cfg=smpi/alltoallv:ring",)}
#: Every rank count up to the first; up to the second, the largest budget that is judged, every third, every fourth and
#: those around full nodes; beyond it, some that are full nodes of both clusters.
EVERY, JUDGED = 128, 240
BEYOND = (288, 384, 480)
#: Seconds after which a simulation counts as hung.
PATIENCE = 300


@dataclass(frozen=True)
class Cluster:
    """Nodes of one kind, for `struct machine` of common.h, and their network."""

    cores: int
    # Per core and second; a third of the cores draws all of the node's bandwidth.
    flops: float
    core_bandwidth: float
    node_bandwidth: float
    core_cache: float
    node_cache: float
    # Of a node's link to the switch, and between ranks of a node.
    bandwidth: str
    latency: str
    within_bandwidth: str
    within_latency: str

    @property
    def numbers(self) -> list[str]:
        """Return what the programs are told."""
        figures = (self.flops, self.core_bandwidth, self.node_bandwidth, self.core_cache, self.node_cache)
        return [str(self.cores), *(f"{figure:g}" for figure in figures)]

    def platform(self, nodes: int) -> str:
        """Describe so many nodes to SimGrid; the speed is SPEED of common.h."""
        return (
            "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
            '<platform version="4.1">\n'
            f'  <cluster id="cluster" prefix="node-" suffix="" radical="0-{nodes - 1}" speed="1Gf" core="{self.cores}"'
            f' bw="{self.bandwidth}" lat="{self.latency}" loopback_bw="{self.within_bandwidth}"'
            f' loopback_lat="{self.within_latency}"/>\n</platform>\n'
        )


CLUSTERS = (
    Cluster(32, 8e9, 15e9, 150e9, 1e6, 64e6, "12.5GBps", "600ns", "6GBps", "400ns"),
    Cluster(48, 10e9, 14e9, 224e9, 1.25e6, 72e6, "25GBps", "450ns", "7GBps", "300ns"),
)
#: Nothing is computed or copied; latency and bandwidth as of a network of high performance, not of SimGrid's Ethernet.
OPTIONS = (
    "-no-privatize", "--cfg=smpi/simulate-computation:no", "--cfg=smpi/shared-malloc:global",
    "--cfg=network/crosstraffic:no", "--cfg=smpi/lat-factor:0:1", "--cfg=smpi/bw-factor:0:0.5;1024:0.8;65536:0.97",
    "--log=root.thres:warning",
)  # fmt: skip

#: Pairs that are also run coupled, on the first cluster: solvers, selector, bytes either way per window, splits.
PAIRS = (
    ("cg-256", "droplet-400k", "mpich", 4e6, ((20, 44), (32, 32), (96, 32), (64, 64), (32, 96), (152, 88))),
    ("unstructured-4m", "pencils-256", "ompi", 1e6, ((44, 20), (32, 32), (96, 32), (64, 64), (32, 96), (152, 88))),
)


class Simulator:
    """The programs, compiled into a directory, and a way to run them.

    Parameters
    ----------
    directory
        For the executable, platforms and lists of hosts.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        sources = sorted(map(str, HERE.glob("*.c")))
        subprocess.run(["smpicc", "-O2", "-Wall", "-o", str(directory / "solvers"), *sources, "-lm"], check=True)

    def run(
        self, cluster: Cluster, selector: str, ranks: Sequence[int], windows: int, words: Sequence[str]
    ) -> list[tuple[float, float]]:
        """Run programs with so many ranks each, on nodes of their own that are filled one after the other.

        Returns
        -------
        list of (float, float)
            For each program, seconds of solving, and seconds in all, per window.
        """
        hosts = []
        for count in ranks:
            full, rest = divmod(count, cluster.cores)
            hosts += [cluster.cores] * full + [rest] * (rest > 0)
        platform, listed = self.directory / "platform.xml", self.directory / "hosts"
        platform.write_text(cluster.platform(len(hosts)), encoding="ascii")
        listed.write_text("".join(f"node-{at}:{count}\n" for at, count in enumerate(hosts)), encoding="ascii")
        command = [
            "smpirun", "-np", str(sum(ranks)), "-platform", str(platform), "-hostfile", str(listed), *OPTIONS,
            f"--cfg=smpi/coll-selector:{selector}", *SELECTORS[selector],
            str(self.directory / "solvers"), *cluster.numbers, str(windows), *words,
        ]  # fmt: skip
        done = subprocess.run(
            command, cwd=self.directory, stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE
        )
        rows = sorted(line.split() for line in done.stdout.splitlines() if line[:1] in ("0", "1"))
        if [row[0] for row in rows] != [str(which) for which in range(len(ranks))]:
            raise RuntimeError(f"{' '.join(words)}: no times in {done.stdout!r}")
        return [(float(row[1]), float(row[2])) for row in rows]


def main(argv: Sequence[str] | None = None) -> None:
    """Simulate what the files do not have."""
    parser = argparse.ArgumentParser(description="Simulate solvers by SimGrid.")
    parser.add_argument("--solvers", nargs="+", choices=SOLVERS, default=tuple(SOLVERS))
    parser.add_argument("--skip-coupled", action="store_true", help="single solvers alone")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as directory:
        simulator = Simulator(Path(directory))
        for which, cluster in enumerate(CLUSTERS):
            for name in options.solvers:
                # Each cluster and each solver has both selectors.
                selector = list(SELECTORS)[(list(SOLVERS).index(name) + which) % 2]
                _curve(simulator, name, cluster, selector)
        if not options.skip_coupled:
            _coupled(simulator)


def rank_counts(cores: int) -> list[int]:
    """List what is simulated on nodes of so many cores."""
    around = [ranks for full in range(cores, JUDGED + 1, cores) for ranks in (full, full + 1)]
    return sorted({*range(1, EVERY + 1), *range(EVERY, JUDGED, 3), *range(EVERY, JUDGED, 4), *around, JUDGED, *BEYOND})


def _curve(simulator: Simulator, name: str, cluster: Cluster, selector: str) -> None:
    known = {tuple(row[key] for key in COLUMNS[:4]) for row in _rows(CURVES)}
    start = time.monotonic()
    rows = []
    for ranks in rank_counts(cluster.cores):
        key = (name, str(cluster.cores), selector, str(ranks))
        if key not in known:
            ((seconds, _),) = simulator.run(cluster, selector, [ranks], 1, ["alone", *SOLVERS[name].split()])
            rows.append((*key, str(-(-ranks // cluster.cores)), f"{seconds:.6g}"))
    _add(CURVES, COLUMNS, rows)
    if rows:
        print(f"{name} {cluster.cores} {selector}: {len(rows)} in {time.monotonic() - start:.0f} s", flush=True)


def _coupled(simulator: Simulator) -> None:
    cluster, windows = CLUSTERS[0], 4
    known = {tuple(row[key] for key in COUPLED_COLUMNS[:7]) for row in _rows(COUPLED)}
    for first, second, selector, size, splits in PAIRS:
        for coupling in ("parallel", "serial"):
            for split in splits:
                key = (first, second, str(cluster.cores), selector, coupling, *map(str, split))
                if key in known:
                    continue
                words = [coupling, f"{size:g}", str(split[0]), *SOLVERS[first].split(), *SOLVERS[second].split()]
                rows = simulator.run(cluster, selector, split, windows, words)
                figures = (rows[0][0], rows[1][0], max(whole for _, whole in rows))
                _add(COUPLED, COUPLED_COLUMNS, [(*key, *(f"{figure:.6g}" for figure in figures))])


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _add(path: Path, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    every = [tuple(row.values()) for row in _rows(path)] + list(map(tuple, rows))
    every.sort(key=lambda row: [(value.zfill(9) if value.isdigit() else value) for value in row])
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(every)


if __name__ == "__main__":
    main()
