"""What partitions of equal cost are worth on real MPI ranks: two solvers, before and after, both measured.

    python benchmarks/inside_real.py airfoil --repeats 5 --directory airfoil-balance
    FENICSX_PYTHON=PYTHON python benchmarks/inside_real.py laminate --repeats 5 --directory laminate-balance

Runs on one and two ranks tell what the features cost; `precice-lb inside` makes a partition of it; then runs with the
solver's own partition and with that one take turns. Busy seconds are without waiting, as `precice-lb inside` has them.
Where other programs run too, `--quiet` waits before each run until they leave enough of the processors, and repeats
runs during which they did not (other programs that are nice do not count); the cores that they had are told.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from precice_lb.case import patch_configuration
from precice_lb.dataset import CoupledRun, load_runs
from precice_lb.ingest.profiling import enrich
from precice_lb.inside.loads import loads_of_runs

ROOT = Path(__file__).parents[1]
FENICSX = os.environ.get("FENICSX_PYTHON", sys.executable)


@dataclass(frozen=True)
class Case:
    """A tutorial: directory and arguments of its solver that is out of balance, and of its partners on one rank."""

    tutorial: str
    participant: str
    solver: str
    mesh: str
    partners: tuple[str, ...]
    windows: int
    fenicsx: bool = False
    sections: tuple[str, ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        """Variables for its run.sh, with the Python that has the solver and its mpiexec on the path."""
        programs = Path(FENICSX if self.fenicsx else sys.executable).parent
        return {
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "PRECICE_LB_MPI_TIME": "0" if self.sections else "1",
        }

    def start(self, directory: Path, solver: str, ranks: int) -> subprocess.Popen[bytes]:
        """Start a solver, its directory and arguments, in a copy of the tutorial."""
        name, *arguments = solver.split()
        command = ["./run.sh", str(ranks), *arguments]
        return subprocess.Popen(command, cwd=directory / name, env=self.environment, stdout=subprocess.DEVNULL)


CASES = {
    "airfoil": Case("airfoil", "Inner", "inner-python --pores 8000", "--blocks", ("middle-python", "outer-python"), 40),
    "laminate": Case(
        "partitioned-heat",
        "Neumann",
        "neumann-laminate",
        "--mesh",
        ("dirichlet-fenicsx --order 1",),
        3,
        fenicsx=True,
        sections=("assembly",),
    ),
}


def busy_seconds() -> float:
    """Return what all processors have worked since the machine was started, but for programs that are nice."""
    times = psutil.cpu_times()
    return float(times.user + times.system)


def run(case: Case, directory: Path, ranks: int, partition: Path | None, quiet: float) -> float:
    """Run a copy of the tutorial, undisturbed; return the percentage of processors that other programs had."""
    while (others := try_run(case, directory, ranks, partition, quiet)) > quiet:
        print(f"{directory.name}: other programs had {others:.0f} % of the processors, once more", flush=True)
        shutil.rmtree(directory)
    return others


def try_run(case: Case, directory: Path, ranks: int, partition: Path | None, quiet: float) -> float:
    """Run a copy of the tutorial; return the percentage of processors that other programs had."""
    shutil.copytree(ROOT / "tutorials" / "tools", directory.parent / "tools", dirs_exist_ok=True)
    shutil.copytree(ROOT / "tutorials" / case.tutorial, directory, ignore=shutil.ignore_patterns("precice-[plr]*"))
    configuration = directory / "precice-config.xml"
    patch_configuration(configuration, configuration, max_time_windows=case.windows)
    while (used := psutil.cpu_times_percent(0.5)).user + used.system > quiet:
        pass
    own = f"{case.solver} --partition {partition}" if partition else case.solver
    start = time.perf_counter()
    before, children = busy_seconds(), resource.getrusage(resource.RUSAGE_CHILDREN)
    running = [case.start(directory, own, ranks), *(case.start(directory, partner, 1) for partner in case.partners)]
    if any(process.wait() for process in running):
        raise SystemExit(f"{directory}: a solver failed; see its logs")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    mine = after.ru_utime + after.ru_stime - children.ru_utime - children.ru_stime
    share = (busy_seconds() - before - mine) / (time.perf_counter() - start) / (psutil.cpu_count() or 1)
    return max(0.0, 100 * share)


def per_iteration(case: Case, directory: Path) -> tuple[np.ndarray, float]:
    """Busy seconds of each rank, and the seconds of a time window, per coupling iteration."""
    runs = load_runs([directory], complete=enrich)
    (load,) = loads_of_runs(runs, case.participant, sections=case.sections)
    iterations, window = steady(runs[0], case.participant)
    return load.seconds / iterations, window / iterations


def steady(run: CoupledRun, participant: str) -> tuple[float, float]:
    """Mean iterations and seconds of the windows after warm-up."""
    part, used = run.participants[participant], run.steady(participant)
    return float(part.iterations[used].mean()), float(part.window_seconds[used].mean())


def learn(case: Case, directory: Path, ranks: int, repeats: int, quiet: float) -> Path:
    """Record small runs and make a partition of what they say, as a user does."""
    stores = []
    for number in range(repeats):
        for count in (1, ranks):
            stores.append(directory / f"learn-{count}-{number}")
            run(case, stores[-1], count, None, quiet)
    mesh = directory.resolve() / "mesh.vtu"
    if case.start(stores[0], f"{case.solver} {case.mesh} {mesh}", 1).wait():
        raise SystemExit(f"{stores[0]}: writing the mesh failed; see its logs")
    command = [sys.executable, "-m", "precice_lb", "inside", *map(str, stores), "--participant", case.participant]
    command += ["--mesh", str(mesh), "--ranks", str(ranks), "-o", str(directory / "balanced")]
    command += ["--sections", ",".join(case.sections)] if case.sections else []
    subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    return (directory / "balanced" / "partition.txt").resolve()


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure one case and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--ranks", type=int, default=2, help="of the solver out of balance (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="runs before and after each (default: %(default)s)")
    parser.add_argument("--learn", type=int, default=2, help="runs to learn from, of each kind (default: %(default)s)")
    parser.add_argument("--quiet", type=float, default=100, help="most percent that others may use (default: 100)")
    parser.add_argument("--directory", type=Path, required=True, help="a new directory for runs and partition")
    options = parser.parse_args(arguments)
    case = CASES[options.case]
    options.directory.mkdir(parents=True)
    partition = learn(case, options.directory, options.ranks, options.learn, options.quiet)
    print("| partition | busy, by rank (ms) | imbalance | window (ms) | others |", flush=True)
    results: dict[str, list[tuple[np.ndarray, float]]] = {"own": [], "equal cost": []}
    for number in range(options.repeats):
        for name, given in (("own", None), ("equal cost", partition)):
            directory = options.directory / f"{name.replace(' ', '-')}-{number}"
            others = run(case, directory, options.ranks, given, options.quiet)
            results[name].append(per_iteration(case, directory))
            print(row(name, *results[name][-1], f"{others:.0f} %"), flush=True)
    for name, measured in results.items():
        print(row(f"{name}, medians", *(np.median(each, axis=0) for each in zip(*measured, strict=True)), ""))


def row(name: str, busy: np.ndarray, window: float, others: str) -> str:
    """Return a line of the table."""
    imbalance = (busy.max() - busy.min()) / busy.max()
    ranks = ", ".join(f"{1e3 * seconds:.1f}" for seconds in busy)
    return f"| {name} | {ranks} | {100 * imbalance:.1f} % | {1e3 * window:.1f} | {others} |"


if __name__ == "__main__":
    main()
