"""What two solvers that stream through memory cost each other on one machine, and what is predicted of it.

    python benchmarks/beside.py [--windows 60] [--repeats 9] [--megabytes 64]

Left and Right each add scaled arrays larger than the caches (as STREAM's triad does), on one core of their own each.
They are coupled by the embedded backend: in turns, so that each is alone, and at once. Right has half of Left's work,
or as much. The slow-down is learned from the pairs of equal work, and predicts what Left takes beside a partner that
is done half-way, from what it takes alone. Runs of all kinds alternate, and a number is the median over all windows of
a run, then over repeats: memory bandwidth varies from one second to the next. It needs two cores that nothing else
uses.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from precice_lb.dataset import CoupledRun, load_runs
from precice_lb.ingest.profiling import enrich
from precice_lb.recommend.beside import share_beside, slow_downs

SOLVER = """
import os, sys
import numpy as np
import precice

name, partner = sys.argv[1:3]
sweeps, megabytes, core = int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5])
os.sched_setaffinity(0, {core})
a, b, c = (np.full(int(megabytes * 1e6 / 24), value) for value in (0.0, 1.0, 2.0))
participant = precice.Participant(name, "precice-config.xml", 0, 1)
ids = participant.set_mesh_vertices(f"{name}-Mesh", [[0.0, 0.0]])
participant.initialize()
while participant.is_coupling_ongoing():
    dt = participant.get_max_time_step_size()
    participant.read_data(f"{name}-Mesh", f"{partner}-Data", ids, dt)
    for _ in range(sweeps):
        np.multiply(c, 3.0, out=a)
        np.add(a, b, out=a)
    participant.write_data(f"{name}-Mesh", f"{name}-Data", ids, a[:1])
    participant.advance(dt)
participant.finalize()
"""

CONFIGURATION = """<precice-configuration>
<log enabled="false" />
<data:scalar name="Left-Data" />
<data:scalar name="Right-Data" />
<mesh name="Left-Mesh" dimensions="2"><use-data name="Left-Data" /><use-data name="Right-Data" /></mesh>
<mesh name="Right-Mesh" dimensions="2"><use-data name="Left-Data" /><use-data name="Right-Data" /></mesh>
<participant name="Left">
<provide-mesh name="Left-Mesh" /><receive-mesh name="Right-Mesh" from="Right" />
<write-data name="Left-Data" mesh="Left-Mesh" /><read-data name="Right-Data" mesh="Left-Mesh" />
<mapping:nearest-neighbor direction="read" from="Right-Mesh" to="Left-Mesh" constraint="consistent" />
</participant>
<participant name="Right">
<provide-mesh name="Right-Mesh" /><receive-mesh name="Left-Mesh" from="Left" />
<write-data name="Right-Data" mesh="Right-Mesh" /><read-data name="Left-Data" mesh="Right-Mesh" />
<mapping:nearest-neighbor direction="read" from="Left-Mesh" to="Right-Mesh" constraint="consistent" />
</participant>
<m2n:sockets acceptor="Left" connector="Right" exchange-directory="." />
<coupling-scheme:{kind}-explicit>
<participants first="Left" second="Right" />
<max-time-windows value="{windows}" />
<time-window-size value="1" />
<exchange data="Left-Data" mesh="Left-Mesh" from="Left" to="Right" />
<exchange data="Right-Data" mesh="Right-Mesh" from="Right" to="Left" />
</coupling-scheme:{kind}-explicit>
</precice-configuration>
"""


@dataclass(frozen=True)
class Repeat:
    """Runs alone and beside of one repeat, with equal work and with half of it on the right."""

    alone: CoupledRun
    beside: CoupledRun
    half: CoupledRun


@dataclass(frozen=True)
class Finding:
    """What all repeats give for Left: its slow-down, and what it took beside half a partner, measured and predicted."""

    slow_down: float
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """Share by which the prediction is off."""
        return self.predicted / self.measured - 1.0


def run(directory: Path, kind: str, sweeps: tuple[int, int], windows: int, megabytes: float) -> CoupledRun:
    """Couple the two and read what was recorded."""
    directory.mkdir(parents=True)
    (directory / "solver.py").write_text(SOLVER)
    (directory / "precice-config.xml").write_text(CONFIGURATION.format(kind=kind, windows=windows))
    environment = {**os.environ, "PRECICE_LB_BACKEND": "embedded"}
    cores = sorted(os.sched_getaffinity(0))[:2]
    names = ("Left", "Right")
    commands = [
        [sys.executable, "-m", "precice_lb", "run", "solver.py", name, partner, str(work), str(megabytes), str(core)]
        for name, partner, work, core in zip(names, reversed(names), sweeps, cores, strict=True)
    ]
    with (directory / "log").open("wb") as log:
        running = [subprocess.Popen(each, cwd=directory, env=environment, stderr=log) for each in commands]
        codes = [each.wait() for each in running]
    if any(codes):
        raise SystemExit((directory / "log").read_text())
    (found,) = load_runs([directory], warmup=2, complete=enrich)
    return found


def repeat(directory: Path, windows: int, megabytes: float) -> Repeat:
    """Do the three kinds of runs one after the other."""
    kinds = {"alone": ("serial", (4, 4)), "beside": ("parallel", (4, 4)), "half": ("parallel", (4, 2))}
    return Repeat(
        **{name: run(directory / name, kind, sweeps, windows, megabytes) for name, (kind, sweeps) in kinds.items()}
    )


def seconds(run: CoupledRun, name: str = "Left") -> float:
    """Median compute seconds per window."""
    return float(np.median(run.participants[name].compute_seconds[run.steady(name)]))


def judge(repeats: Sequence[Repeat]) -> Finding:
    """Learn from equal work, and predict the runs with half of it on the right; medians over the repeats."""
    slow_down = slow_downs([run for each in repeats for run in (each.alone, each.beside)]).get("Left", 1.0)
    share = statistics.median(share_beside(each.half, "Left") for each in repeats)
    alone, measured = (
        statistics.median(seconds(run) for run in runs)
        for runs in ([each.alone for each in repeats], [each.half for each in repeats])
    )
    return Finding(slow_down, measured, alone / (1.0 - share + share / slow_down))


def measure(windows: int, repeats: int, megabytes: float) -> list[Repeat]:
    """Repeat all kinds of runs by turns."""
    with tempfile.TemporaryDirectory() as directory:
        return [repeat(Path(directory) / str(number), windows, megabytes) for number in range(repeats)]


def main() -> None:
    """Print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--windows", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--megabytes", type=float, default=64.0, help="of the three arrays of each solver")
    options = parser.parse_args()
    if len(os.sched_getaffinity(0)) < 2:
        parser.exit(2, "benchmarks/beside.py needs two cores\n")
    repeats = measure(options.windows, options.repeats, options.megabytes)
    print("| repeat | alone (s) | beside an equal partner (s) | beside half of it (s) |")
    print("|---|---|---|---|")
    for number, each in enumerate(repeats, 1):
        print(f"| {number} | {seconds(each.alone):.4f} | {seconds(each.beside):.4f} | {seconds(each.half):.4f} |")
    found = judge(repeats)
    print(
        f"slow-down {found.slow_down:.2f}; beside half of it {found.measured:.4f} s measured, {found.predicted:.4f} s "
        f"predicted: {found.error:+.1%}"
    )


if __name__ == "__main__":
    main()
