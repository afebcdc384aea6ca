"""Time windows per second on the embedded backend and on libprecice, side by side.

Two participants of two ranks each exchange one scalar and one vector data of 10,000 vertices per participant, with
nearest-neighbour mapping, in an explicit and in an implicit scheme (with IQN-ILS). Runs of both backends alternate.

    python benchmarks/embedded_speed.py [--windows 100] [--repeats 3] [--vertices 10000] [--ranks 2]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONFIGURATION = """<precice-configuration>
<log enabled="false" />
<profiling mode="off" />
<data:scalar name="Heat" />
<data:vector name="Force" />
<mesh name="A-Mesh" dimensions="3"><use-data name="Heat" /><use-data name="Force" /></mesh>
<mesh name="B-Mesh" dimensions="3"><use-data name="Heat" /><use-data name="Force" /></mesh>
<participant name="A">
<provide-mesh name="A-Mesh" />
<receive-mesh name="B-Mesh" from="B" />
<write-data name="Heat" mesh="A-Mesh" />
<read-data name="Force" mesh="A-Mesh" />
<mapping:nearest-neighbor direction="read" from="B-Mesh" to="A-Mesh" constraint="consistent" />
</participant>
<participant name="B">
<provide-mesh name="B-Mesh" />
<receive-mesh name="A-Mesh" from="A" />
<write-data name="Force" mesh="B-Mesh" />
<read-data name="Heat" mesh="B-Mesh" />
<mapping:nearest-neighbor direction="read" from="A-Mesh" to="B-Mesh" constraint="consistent" />
</participant>
<m2n:sockets acceptor="A" connector="B" exchange-directory="." />
<coupling-scheme:{kind}>
<participants first="A" second="B" />
<time-window-size value="0.01" />
<max-time-windows value="{windows}" />
<exchange data="Heat" mesh="A-Mesh" from="A" to="B" />
<exchange data="Force" mesh="B-Mesh" from="B" to="A" />
{iteration}
</coupling-scheme:{kind}>
</precice-configuration>
"""
ITERATION = """<max-iterations value="20" />
<relative-convergence-measure limit="1e-4" data="Heat" mesh="A-Mesh" />
<relative-convergence-measure limit="1e-4" data="Force" mesh="B-Mesh" />
<acceleration:IQN-ILS><data name="Heat" mesh="A-Mesh" /><data name="Force" mesh="B-Mesh" /></acceleration:IQN-ILS>"""


def solver(backend: str, name: str, vertices: int, result: Path) -> None:
    """Couple, and write the seconds between the first and the last ``advance``."""
    import importlib

    import numpy as np
    from mpi4py import MPI

    precice = importlib.import_module("precice" if backend == "libprecice" else "precice_lb.embedded")
    rank, size = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()
    participant = precice.Participant(name, "precice-config.xml", rank, size)
    positions = np.random.default_rng(len(name) + rank).uniform(0, 1, (vertices // size, 3))
    positions[:, 0] = (positions[:, 0] + rank) / size
    mesh, writes, reads = f"{name}-Mesh", *(("Heat", "Force") if name == "A" else ("Force", "Heat"))
    ids = participant.set_mesh_vertices(mesh, positions)
    participant.initialize()
    begin, worked, now, kept = time.perf_counter(), time.process_time(), 0.0, 0.0
    while participant.is_coupling_ongoing():
        if participant.requires_writing_checkpoint():
            kept = now
        step = participant.get_max_time_step_size()
        read = participant.read_data(mesh, reads, ids, step)
        now += step
        if name == "A":
            values = np.sin(positions[:, 0] + now) + 0.3 * read[:, 0]
        else:
            values = np.cos(positions + now) + 0.3 * read[:, np.newaxis]
        participant.write_data(mesh, writes, ids, values)
        participant.advance(step)
        if participant.requires_reading_checkpoint():
            now = kept
    seconds = time.perf_counter() - begin
    worked = MPI.COMM_WORLD.reduce(time.process_time() - worked)
    participant.finalize()
    if rank == 0:
        result.write_text(json.dumps([seconds, worked]))


def seconds_of(backend: str, configuration: str, vertices: int, ranks: int) -> tuple[float, float]:
    """Run both participants; the longer of their times in the loop, and the processor time of all ranks."""
    mpiexec = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or "mpiexec"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "precice-config.xml").write_text(configuration)
        results = [Path(directory, f"{name}.json") for name in "AB"]
        processes = [
            subprocess.Popen(
                [
                    *(mpiexec, "-n", str(ranks), sys.executable, __file__, "--solver", backend),
                    *(name, str(vertices), str(result)),
                ],
                cwd=directory,
                env=environment,
                stdout=subprocess.DEVNULL,
            )
            for name, result in zip("AB", results, strict=True)
        ]
        if any(process.wait() for process in processes):
            raise SystemExit(f"{backend}: a solver failed")
        times = [json.loads(result.read_text()) for result in results]
        return max(wall for wall, _ in times), sum(worked for _, worked in times)


def main() -> None:
    """Measure and print a table."""
    if sys.argv[1:2] == ["--solver"]:
        solver(sys.argv[2], sys.argv[3], int(sys.argv[4]), Path(sys.argv[5]))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--windows", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--vertices", type=int, default=10_000)
    parser.add_argument("--ranks", type=int, default=2)
    options = parser.parse_args()
    print(f"{options.ranks} + {options.ranks} ranks, {options.vertices} vertices each, windows per second (median)")
    for kind in ("parallel-explicit", "serial-explicit", "parallel-implicit"):
        iteration = ITERATION if kind.endswith("implicit") else ""
        configuration = CONFIGURATION.format(kind=kind, windows=options.windows, iteration=iteration)
        found: dict[str, list[tuple[float, float]]] = {"libprecice": [], "embedded": []}
        for _ in range(options.repeats):
            for backend, times in found.items():
                times.append(seconds_of(backend, configuration, options.vertices, options.ranks))
        rate = {
            backend: options.windows / statistics.median(wall for wall, _ in times) for backend, times in found.items()
        }
        work = {
            backend: 1e3 * statistics.median(worked for _, worked in times) / options.windows
            for backend, times in found.items()
        }
        print(
            f"{kind:18} libprecice {rate['libprecice']:7.1f}  embedded {rate['embedded']:7.1f}  "
            f"ratio {rate['embedded'] / rate['libprecice']:.2f}  "
            f"processor ms per window {work['libprecice']:.2f} and {work['embedded']:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
