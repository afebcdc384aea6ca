"""preCICE's start-up measured and estimated: random cases on libprecice with both initialisation schemes.

    python benchmarks/start_up.py measure FILE.csv --first 1000 --cases 36 [--repeats 3] [--cores 1] [--most 24]
    python benchmarks/start_up.py measure FILE.csv --first 4000 --cases 16 --most 40 --delay 0.02
    python benchmarks/start_up.py measure FILE.csv --first 7100 --cases 20 --least 20 --most 44 --strips --delay 0.5
    python benchmarks/start_up.py judge [FILE.csv]

Two participants on 4 to 64 ranks in all, oversubscribed, map by nearest neighbour between meshes of 1e3 to 3e5
vertices, a unit square or a wavy surface, that are cut into strips, by bisection, or scattered, now and then with half
of the ranks off the interface. Each row of the file is a case in one scheme: what start-up has to do, as
`precice_lb.partners` counts it, and the seconds of ``initialize`` (mode ``all``, slowest rank) of each repeat; the two
schemes take turns. ``--delay`` sleeps where connection files are opened and renamed, as a slow file system would;
``--strips`` cuts both meshes into strips and gives the boxes a wide margin, so that two levels connect all ranks and
one level few.

``judge`` fits the constants to cases 1000 to 1999 and compares with all others; where files are delayed by 0.5 s it is
told so. It needs no libprecice, and by default reads the measurements that the tests keep.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.partners import (
    STYLES,
    CostModel,
    PartitionedMesh,
    StartUpCounts,
    fit_constants,
    make_mesh,
    measured_start_up,
)
from precice_lb.partners.analysis import analyse_link
from precice_lb.partners.links import links_of
from precice_lb.partners.spread import Spread
from precice_lb.partners.start_up import start_up
from precice_lb.precice_xml import parse_configuration

HERE = Path(__file__).parent
DATA = HERE.parent / "tests" / "data" / "start_up.csv"
COUNTS = ["most_own", "partners", "received", "most_received", "kept"]
COLUMNS = ["case", "cores", "delay", "two_level", "ranks_a", "ranks_b", "vertices_a", "vertices_b", *COUNTS, "seconds"]
CONFIGURATION = """<?xml version="1.0"?>
<precice-configuration>
  <log enabled="false"/>
  <profiling mode="all"/>
  <data:scalar name="Heat"/>
  <mesh name="A-Mesh" dimensions="{dimensions}"><use-data name="Heat"/></mesh>
  <mesh name="B-Mesh" dimensions="{dimensions}"><use-data name="Heat"/></mesh>
  <participant name="A"><provide-mesh name="A-Mesh"/><write-data name="Heat" mesh="A-Mesh"/></participant>
  <participant name="B">
    <provide-mesh name="B-Mesh"/>
    <receive-mesh name="A-Mesh" from="A" safety-factor="{safety}" geometric-filter="{filter}"/>
    <read-data name="Heat" mesh="B-Mesh"/>
    <mapping:nearest-neighbor direction="read" from="A-Mesh" to="B-Mesh" constraint="consistent"/>
  </participant>
  <m2n:sockets acceptor="A" connector="B" use-two-level-initialization="{two_level}"/>
  <coupling-scheme:parallel-explicit>
    <participants first="A" second="B"/><max-time-windows value="1"/><time-window-size value="1"/>
    <exchange data="Heat" mesh="A-Mesh" from="A" to="B" substeps="false"/>
  </coupling-scheme:parallel-explicit>
</precice-configuration>
"""


def scattered(points: NDArray[np.float64], ranks: int) -> NDArray[np.int64]:
    """Give every vertex to any rank."""
    return np.random.default_rng(len(points)).integers(0, ranks, len(points))


PARTITIONS = {"strips": STYLES["strips-x"], "bisection": STYLES["bisection"], "scattered": scattered}


@dataclasses.dataclass(frozen=True)
class Case:
    """One random case; its number is the seed."""

    number: int
    ranks: tuple[int, int]
    vertices: tuple[int, int]
    dimensions: int
    partitions: tuple[str, str]
    at_interface: tuple[float, float]
    filter: str
    safety: float

    @classmethod
    def draw(cls, number: int) -> Case:
        """Draw a case."""
        draw = np.random.default_rng([number, 21])
        total = round(float(np.exp(draw.uniform(np.log(4), np.log(64)))))
        first = int(draw.integers(2, total - 1))
        vertices = [round(float(10 ** draw.uniform(3, np.log10(3e5)))) for _ in "AB"]
        dimensions = int(draw.integers(2, 4))
        partitions = [str(draw.choice(list(PARTITIONS))) for _ in "AB"]
        shares = [float(draw.choice([1.0, 0.5], p=[0.75, 0.25])) for _ in "AB"]
        geometric = str(draw.choice(["on-secondary-ranks", "no-filter"], p=[0.7, 0.3]))
        safety = float(draw.choice([0.1, 0.5, 1.0]))
        pairs: Any = ((first, total - first), vertices, partitions, shares)
        ranks, sizes, cuts, used = (tuple(pair) for pair in pairs)
        return cls(number, ranks, sizes, dimensions, cuts, used, geometric, safety)

    def configuration(self, *, two_level: bool) -> str:
        """Write the configuration."""
        told = {"dimensions": self.dimensions, "safety": self.safety, "filter": self.filter}
        return CONFIGURATION.format(**told, two_level=str(two_level).lower())

    def meshes(self) -> dict[str, PartitionedMesh]:
        """Make both meshes."""
        made = {}
        for side, name in enumerate("AB"):
            points = np.random.default_rng([self.number, 22, side]).random((self.vertices[side], 2))
            if self.dimensions == 3:
                height = 0.2 * np.sin(4 * points[:, 0]) * np.cos(3 * points[:, 1])
                points = np.column_stack([points, height])
            ranks = self.ranks[side]
            used = max(round(ranks * self.at_interface[side]), 1)
            order = np.random.default_rng([self.number, 23, side]).permutation(ranks)
            rank_of = order[PARTITIONS[self.partitions[side]](points, used)]
            made[f"{name}-Mesh"] = make_mesh(f"{name}-Mesh", name, points, rank_of, ranks)
        return made


def count(case: Case, meshes: dict[str, PartitionedMesh], cores: int) -> dict[bool, StartUpCounts]:
    """Count what start-up has to do in either scheme."""
    (link,) = links_of(parse_configuration(case.configuration(two_level=True)))
    told = {"steps": 1, "iterations": 1.0, "model": CostModel(), "cores": cores, "spread": Spread()}
    return analyse_link(link, meshes, None, **told).counts


def compile_client(folder: Path, *, slow_files: bool = False) -> Path:
    """Compile the client, and beside it what delays connection files."""
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "libprecice"], capture_output=True, text=True, check=True
    ).stdout.split()
    binary = folder / "start_up"
    subprocess.run(["mpicxx", "-O2", "-std=c++17", HERE / "start_up.cpp", *flags, "-o", binary], check=True)
    if slow_files:
        sources = ["-shared", "-fPIC", HERE / "slow_files.c", "-o", folder / "slow_files.so", "-ldl"]
        subprocess.run(["mpicc", *sources], check=True)
    return binary


def write_meshes(meshes: dict[str, PartitionedMesh], folder: Path) -> None:
    """Write the meshes for the client."""
    for name, mesh in meshes.items():
        with (folder / name).open("wb") as file:
            file.write(np.array([mesh.dimensions, mesh.ranks, *mesh.counts], np.int64).tobytes())
            file.write(np.ascontiguousarray(mesh.points("to write them")).tobytes())


def run(case: Case, folder: Path, binary: Path, *, two_level: bool, cores: int, delay: float) -> float:
    """Run a case whose meshes lie in the folder; seconds of its slowest rank in ``initialize``."""
    (folder / "precice-config.xml").write_text(case.configuration(two_level=two_level))
    for left in ("precice-profiling", "precice-run"):
        shutil.rmtree(folder / left, ignore_errors=True)
    command: list[str | Path] = ["taskset", "-c", ",".join(map(str, range(cores))), "mpiexec"]
    for side, name in enumerate("AB"):
        command += [":"] if side else []
        command += ["-n", str(case.ranks[side]), binary, name, "precice-config.xml", f"{name}-Mesh"]
    environment = dict(os.environ)
    if delay:
        environment |= {"LD_PRELOAD": str(binary.parent / "slow_files.so"), "SLOW_FILES": f"{delay:g}"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        raise SystemExit(f"case {case.number} failed ({done.returncode}): {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return max(parts["initialize"] for parts in measured_start_up([folder]).values())


def measure(cases: Iterable[Case], target: Path, *, repeats: int, cores: int, delay: float) -> None:
    """Measure cases, and append each to the file as it comes."""
    begin = not target.exists()
    with tempfile.TemporaryDirectory() as place, target.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if begin:
            writer.writerow(COLUMNS)
        binary = compile_client(Path(place), slow_files=delay > 0)
        for case in cases:
            number, folder = case.number, Path(place) / str(case.number)
            folder.mkdir()
            meshes = case.meshes()
            write_meshes(meshes, folder)
            seconds: dict[bool, list[float]] = {False: [], True: []}
            for repeat, turn in itertools.product(range(repeats), range(2)):
                two_level = (number + repeat + turn) % 2 == 0
                found = run(case, folder, binary, two_level=two_level, cores=cores, delay=delay)
                seconds[two_level].append(found)
            for two_level, counts in count(case, meshes, cores).items():
                told = [getattr(counts, name) for name in COUNTS]
                shown = " ".join(f"{each:.4f}" for each in seconds[two_level])
                row = [number, cores, f"{delay:g}", int(two_level), *case.ranks, *case.vertices, *told, shown]
                writer.writerow(row)
                print(*row, flush=True)
            file.flush()
            shutil.rmtree(folder)


@dataclasses.dataclass(frozen=True)
class Row:
    """A case in one scheme as measured."""

    case: int
    cores: int
    delay: float
    counts: StartUpCounts
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """Median of the repeats."""
        return float(np.median(self.seconds))


def read_rows(path: Path) -> list[Row]:
    """Read measurements, of each case first that in one level, then that in two."""
    rows = []
    with path.open(newline="") as file:
        for told in csv.DictReader(file):
            counts = StartUpCounts(
                two_level=told["two_level"] == "1",
                ranks=(int(told["ranks_a"]), int(told["ranks_b"])),
                vertices=(int(told["vertices_a"]), int(told["vertices_b"])),
                **{name: int(told[name]) for name in COUNTS},
                cores=int(told["cores"]),
            )
            seconds = tuple(map(float, told["seconds"].split()))
            rows.append(Row(int(told["case"]), int(told["cores"]), float(told["delay"]), counts, seconds))
    return sorted(rows, key=lambda row: (row.case, row.counts.two_level))


def fit(rows: Sequence[Row]) -> CostModel:
    """Fit the constants to the medians."""
    return fit_constants([((row.counts,), row.median) for row in rows]).model


@dataclasses.dataclass(frozen=True)
class Verdict:
    """How estimates compare with measurements of whole cases."""

    cases: int
    ordered: int
    two_level_faster: int
    close: int
    ratios: NDArray[np.float64]

    def text(self) -> str:
        """Say it in a line."""
        off = np.exp(np.abs(np.log(self.ratios)))
        return (
            f"{self.cases} cases, two levels faster in {self.two_level_faster}; faster scheme right in {self.ordered} "
            f"({self.close} cases whose repeats overlap counted like all others); {(off <= 2).sum()} of {len(off)} "
            f"seconds within a factor of 2, median factor {np.median(off):.2f}, estimate over measurement "
            f"{self.ratios.min():.2f} to {self.ratios.max():.2f}"
        )


def judge(rows: Sequence[Row], model: CostModel) -> Verdict:
    """Compare estimates with measurements; a case is two rows."""
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    estimates = {id(row): start_up(row.counts, model).seconds for row in rows}
    faster = [one.median > two.median for one, two in pairs]
    expected = [estimates[id(one)] > estimates[id(two)] for one, two in pairs]
    close = sum(
        max(min(one.seconds), min(two.seconds)) <= min(max(one.seconds), max(two.seconds)) for one, two in pairs
    )
    ratios = np.array([estimates[id(row)] / row.median for row in rows])
    return Verdict(len(pairs), int(np.sum(np.equal(faster, expected))), sum(faster), close, ratios)


def main() -> int:
    """Measure, or fit and judge."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["measure", "judge"])
    parser.add_argument("file", type=Path, nargs="?", default=DATA)
    parser.add_argument("--first", type=int, default=5000)
    parser.add_argument("--cases", type=int, default=10)
    parser.add_argument("--least", type=int, default=4, help="pass over cases of fewer ranks in all")
    parser.add_argument("--most", type=int, default=64, help="and of more")
    parser.add_argument("--strips", action="store_true", help="strips on both sides, which two levels connect all")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    parser.add_argument("--delay", type=float, default=0.0)
    told = parser.parse_args()
    if told.what == "measure":
        drawn = (Case.draw(number) for number in itertools.count(told.first))
        if told.strips:
            drawn = (dataclasses.replace(case, partitions=("strips", "strips"), safety=1.0) for case in drawn)
        wanted = (case for case in drawn if told.least <= sum(case.ranks) <= told.most)
        some = itertools.islice(wanted, told.cases)
        measure(some, told.file, repeats=told.repeats, cores=told.cores, delay=told.delay)
        return 0
    rows = read_rows(told.file)
    model = fit([row for row in rows if 1000 <= row.case < 2000])
    print({name: float(f"{value:.3g}") for name, value in model.to_dict().items()})
    for title, some in (
        ("fitted to", [row for row in rows if 1000 <= row.case < 2000]),
        ("others", [row for row in rows if 2000 <= row.case < 3000]),
        ("others on one core", [row for row in rows if 3000 <= row.case < 4000]),
    ):
        print(f"{title}: {judge(some, model).text()}")
    slow = [row for row in rows if row.delay == 0.02]
    other = fit(slow)
    print(f"with files delayed by 0.02 s, fitted to: file {other.file:.3g} s; {judge(slow, other).text()}")
    slower = [row for row in rows if row.delay == 0.5]
    print(f"strips, files delayed by 0.5 s: {judge(slower, dataclasses.replace(model, file=0.5)).text()}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
