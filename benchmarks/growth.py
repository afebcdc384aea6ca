"""How cost grows with the work: CPU seconds and peak memory at growing sizes, beside a peer or floor of the same work.

    python benchmarks/growth.py [--only serial partners ...] [--small]

Every point is a process of its own, of at most 90 s of CPU, through the calls and commands that users make. CPU is user
and system time of that process and of what it starts; peak memory is that of the largest process. Imports count for
commands, of compiled modules as users have them, and not for calls of Python. The exponent is that of CPU between a
size and the one before. Peers: the exact dynamic programme and the bisection that a few lines of numpy do, one search
tree per mesh, h5py alone, and Python's own reading of lines.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PRECICE_LB_BACKEND": "embedded"}

import numpy as np
from kept_parts.measurements import ROOT, cpu_seconds, partners_of

sys.path.append(str(ROOT / "tests"))

LIMIT = 90
RANKS = 4096
#: Budgets drawn for the bisection that stands beside recommendations: as many as a posterior has draws.
DRAWS = 400
WINDOWS = 10_000


class Row(NamedTuple):
    """What is measured at which sizes, those of ``--small`` first; work and peer take size and a directory."""

    sizes: tuple[int, ...]
    unit: str
    work: Callable[[int, Path], Callable[[], object]]
    peer: Callable[[int, Path], Callable[[], object]] | None = None


def curves(participants: int) -> dict[str, np.ndarray]:
    """Seconds per window of participants of unlike size on 1 to `RANKS` ranks."""
    ranks = np.arange(1, RANKS + 1)
    return {f"P{i}": (1 + i % 7) * 1e2 / ranks + 1e-3 * np.log2(ranks) + 1e-6 * ranks for i in range(participants)}


def split(coupling: str, participants: int, _: Path) -> Callable[[], object]:
    """Best split of known times."""
    from precice_lb import optimize_split
    from precice_lb.schedule import Schedule

    times = curves(participants)
    schedule = (Schedule.serial if coupling == "serial" else Schedule.parallel)(tuple(times))
    return lambda: optimize_split(times, RANKS, coupling=schedule).window_seconds


def dynamic_programme(participants: int, _: Path) -> Callable[[], object]:
    """Least sum of curves, exactly: participants one by one, over all budgets."""

    def solve() -> float:
        best = np.zeros(RANKS + 1)
        for number, times in enumerate(curves(participants).values()):
            following = np.full(RANKS + 1, math.inf)
            for budget in range(number + 1, RANKS + 1):
                following[budget] = (best[number:budget][::-1] + times[: budget - number]).min()
            best = following
        return float(best.min())

    return solve


def bisection(times: np.ndarray, budget: int) -> float:
    """Least maximum of curves; times of shape (participants, ranks)."""
    best = np.minimum.accumulate(times, axis=1)
    levels = np.unique(best)
    low, high = 0, len(levels) - 1
    while low < high:
        middle = (low + high) // 2
        enough = best <= levels[middle]
        if enough[:, -1].all() and (enough.argmax(axis=1) + 1).sum() <= budget:
            high = middle
        else:
            low = middle + 1
    return float(levels[low])


def slowest(participants: int, _: Path) -> Callable[[], object]:
    """Bisection for the slowest participant."""
    return lambda: bisection(np.array(list(curves(participants).values())), RANKS)


def readings(participants: int, counts: int) -> dict[str, np.ndarray]:
    """Measurements with 2 % of noise at so many distinct numbers of ranks."""
    random = np.random.default_rng(0)
    measured = np.unique(np.geomspace(2, RANKS / 2, counts * 2).astype(int))
    measured = measured[np.linspace(0, len(measured) - 1, counts).astype(int)]
    return {
        name: np.column_stack([measured, seconds[measured - 1] * random.lognormal(0.0, 0.02, counts)])
        for name, seconds in curves(participants).items()
    }


def recommendation(participants: int, counts: int, budget: int) -> Callable[[], object]:
    """Recommend a split for a parallel coupling."""
    from precice_lb import recommend_split

    data = readings(participants, counts)
    return lambda: recommend_split(data, budget, coupling="parallel").window_seconds


def slowest_of_draws(participants: int, _: Path) -> Callable[[], object]:
    """Bisect as often as a posterior has draws."""
    times = np.array(list(curves(participants).values()))
    return lambda: [bisection(times * (1 + draw / 1e4), RANKS) for draw in range(DRAWS)]


def partners(ranks: int, _: Path) -> Callable[[], object]:
    """Report both levels of two meshes with five vertices per rank."""
    from partners_scale import make_case

    return partners_of(make_case(5 * ranks, (ranks, ranks), 1))


def search_tree(ranks: int, _: Path) -> Callable[[], object]:
    """Build one search tree over each mesh and ask it once for all vertices of the other."""
    from partners_scale import make_case
    from scipy.spatial import cKDTree

    first, second = (mesh.points("to search in it") for mesh in make_case(5 * ranks, (ranks, ranks), 1))
    return lambda: (cKDTree(first).query(second), cKDTree(second).query(first))


def stores(ranks: int, directory: Path) -> Path:
    """Write stores of two participants on so many ranks each, once for all that read them."""
    from store_helpers import PARALLEL, metadata, rows

    from precice_lb.store.spool import StoreWriter

    target = directory / f"stores-{ranks}"
    if not target.exists():
        random = np.random.default_rng(0)
        for participant in "AB":
            for rank in range(ranks):
                data = metadata(participant, rank, ranks)
                writer = StoreWriter(target, data, PARALLEL)
                seconds = random.lognormal(-4.0, 0.1, (WINDOWS, 3)) * 1e9
                table = rows((i + 1, 1, i * 1000, *map(int, row), 0, 0.1, True) for i, row in enumerate(seconds))
                writer.append(table)
                writer.close(finished=True, ended_unix_ns=data["started_unix_ns"] + 10**12)
    return target


def command(*arguments: str, directory: Path) -> Callable[[], object]:
    """Run the command line, as users do."""
    words = [sys.executable, "-m", "precice_lb", *arguments]
    return lambda: subprocess.run(words, cwd=directory, stdout=subprocess.DEVNULL, check=True)


def summary(ranks: int, directory: Path) -> Callable[[], object]:
    """Sum up stores."""
    return command("summary", str(stores(ranks, directory)), directory=directory)


def watch(ranks: int, directory: Path) -> Callable[[], object]:
    """Look once at a run."""
    return command("watch", str(stores(ranks, directory)), "--once", directory=directory)


def with_h5py(ranks: int, directory: Path) -> Callable[[], object]:
    """Read every dataset of every file."""
    program = (
        "import h5py, pathlib, sys\n"
        "for path in pathlib.Path(sys.argv[1]).rglob('*.h5'):\n"
        "    with h5py.File(path) as file:\n"
        "        file.visititems(lambda _, item: item[()] if isinstance(item, h5py.Dataset) else None)\n"
    )
    words = [sys.executable, "-c", program, str(stores(ranks, directory))]
    return lambda: subprocess.run(words, check=True)


def profiles(mebibytes: int, directory: Path) -> Path:
    """Write profiling files of 24 ranks."""
    from profiling_import import write_run

    target = directory / f"profiles-{mebibytes}"
    if not target.exists():
        target.mkdir()
        write_run(target, float(mebibytes), 24)
    return target


def profiling(mebibytes: int, directory: Path) -> Callable[[], object]:
    """Sum up profiling files."""
    return command("summary", str(profiles(mebibytes, directory)), directory=directory)


def lines(mebibytes: int, directory: Path) -> Callable[[], object]:
    """Count the lines of the same files."""
    program = (
        "import pathlib, sys; print(sum(sum(1 for _ in open(p)) for p in pathlib.Path(sys.argv[1]).rglob('*.txt')))"
    )
    words = [sys.executable, "-c", program, str(profiles(mebibytes, directory))]
    return lambda: subprocess.run(words, stdout=subprocess.DEVNULL, check=True)


def finalize(windows: int, directory: Path) -> Callable[[], object]:
    """Make an HDF5 store of a long run's spool."""
    from store_helpers import PARALLEL, metadata

    from precice_lb.store.columns import ADVANCES
    from precice_lb.store.spool import StoreWriter

    data = metadata("A")
    writer = StoreWriter(directory / f"long-{windows}-{os.getpid()}", data, PARALLEL)
    for begin in range(0, windows, WINDOWS):
        table = np.zeros(WINDOWS, ADVANCES.dtype)
        table["window"] = np.arange(begin + 1, begin + WINDOWS + 1)
        writer.append(table)
    return lambda: writer.close(finished=True, ended_unix_ns=data["started_unix_ns"] + 10**12)


def demo(_: int, directory: Path) -> Callable[[], object]:
    """Run the demo in this process, so that its CPU is the tool's and that of its children the runs'."""
    from precice_lb.cli import main

    def run() -> None:
        os.chdir(tempfile.mkdtemp(dir=directory))
        main(["demo"])

    return run


ROWS = {
    "serial": Row((8, 32, 60), "participants", lambda n, d: split("serial", n, d), dynamic_programme),
    "parallel": Row((8, 32, 60), "participants", lambda n, d: split("parallel", n, d), slowest),
    "recommend": Row((8, 32, 60), "participants", lambda n, _: recommendation(n, 5, RANKS), slowest_of_draws),
    "readings": Row((100, 400, 1000), "distinct counts", lambda n, _: recommendation(2, n, RANKS)),
    "partners": Row((1000, 10_000, 100_000), "ranks a side", partners, search_tree),
    "summary": Row((8, 64, 512), "ranks a side", summary, with_h5py),
    "watch": Row((8, 64, 512), "ranks a side", watch, with_h5py),
    "profiling": Row((16, 256, 1024), "MiB", profiling, lines),
    "finalize": Row((10_000, 100_000, 1_000_000), "rows", finalize),
    "demo": Row((1,), "demo", demo),
}


def measure(name: str, peer: bool, size: int, directory: Path) -> dict[str, float]:
    """Do the work of one point in this process."""
    row = ROWS[name]
    work = (row.peer if peer and row.peer else row.work)(size, directory)
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    before, begin = resource.getrusage(who[0]).ru_maxrss, [cpu_seconds(one) for one in who]
    work()
    own, children = (cpu_seconds(one) - start for one, start in zip(who, begin, strict=True))
    own_peak, peak = (resource.getrusage(one).ru_maxrss for one in who)
    # What a long run takes more, at its end.
    memory = own_peak - before if name == "finalize" else peak if children > own else own_peak
    return {"cpu": own if name == "demo" else own + children, "memory": memory / 1024}


def point(name: str, peer: bool, size: int, directory: Path) -> dict[str, float]:
    """Measure in a process of its own; infinite where it takes longer than `LIMIT`."""
    limited = f'ulimit -t {LIMIT + 60}; exec "$@"'
    words = [sys.executable, __file__, "--one", name, str(int(peer)), str(size), str(directory)]
    try:
        done = subprocess.run(
            ["bash", "-c", limited, "bash", *words], stdout=subprocess.PIPE, text=True, check=True, timeout=10 * LIMIT
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return {"cpu": math.inf, "memory": math.nan}
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=ROWS, default=list(ROWS), help="rows")
    parser.add_argument("--small", action="store_true", help="the smallest size of each row alone")
    parser.add_argument("--directory", type=Path, help="where to write; a temporary directory by default")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, peer, size, directory = options.one
        print("\n" + json.dumps(measure(name, bool(int(peer)), int(size), Path(directory))))
        return
    print(f"{'row':10} {'size':>9} {'':16} {'CPU (s)':>8} {'MiB':>6} {'peer (s)':>8} {'ratio':>6} {'exponent':>8}")
    with tempfile.TemporaryDirectory(dir=options.directory) as temporary:
        os.environ["PYTHONPYCACHEPREFIX"] = f"{temporary}/compiled"
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        for name in options.only:
            row, last = ROWS[name], None
            # Modules are compiled once.
            point(name, False, row.sizes[0], Path(temporary))
            for size in row.sizes[:1] if options.small else row.sizes:
                ours = point(name, False, size, Path(temporary))
                peer = point(name, True, size, Path(temporary))["cpu"] if row.peer else math.nan
                exponent = math.log(ours["cpu"] / last[1]) / math.log(size / last[0]) if last else math.nan
                ratio = ours["cpu"] / peer
                print(
                    f"{name:10} {size:9d} {row.unit:16} {ours['cpu']:8.2f} {ours['memory']:6.0f} {peer:8.2f} "
                    f"{ratio:6.2f} {exponent:8.2f}",
                    flush=True,
                )
                last = size, ours["cpu"]
                if not ours["cpu"] < LIMIT:
                    break


if __name__ == "__main__":
    main()
