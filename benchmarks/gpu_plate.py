"""Seconds per time window of the tutorial gpu-plate by version, mesh and cores, as Totounferoush's table 5.5 has them.

    python benchmarks/gpu_plate.py [--refine 8 16 32] [--cores 1 2] [--arrays numpy torch] [--windows 12] [--repeats 3]

Fluid and solid run at the same time, the solid on as many ranks as the fluid has cores or on ``--solid``. The speed-up
is over the first of the arrays, of the same mesh and cores. Repeats are by turns, and each number is the median over
repeats of the mean over a run's time windows after two of warm-up. It needs cores for both; PyTorch without a GPU is
measured as it is, and said to be on the CPU.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from precice_lb.case import patch_configuration
from precice_lb.dataset import load_runs
from precice_lb.ingest.profiling import enrich

TUTORIAL = Path(__file__).parents[1] / "tutorials" / "gpu-plate"
WARMUP = 2
WHERE = """
import sys
sys.path.insert(0, sys.argv[2])
from conduction import array_maker
import numpy as np
made = array_maker(sys.argv[1])(np.zeros(1))
print(getattr(made, "device", "cpu"))
"""

Key = tuple[int, int, str]


def run(refine: int, cores: int, solid: int, array: str, windows: int) -> tuple[float, float, float]:
    """Run once; return the seconds per window of fluid, solid and the coupled run."""
    with tempfile.TemporaryDirectory() as directory:
        case = Path(directory) / "case"
        shutil.copytree(TUTORIAL, case, ignore=shutil.ignore_patterns("precice-*", "__pycache__"))
        patch_configuration(TUTORIAL / "precice-config.xml", case / "precice-config.xml", max_time_windows=windows)
        mpiexec = str(Path(sys.executable).with_name("mpiexec"))
        start = [sys.executable, "-m", "precice_lb", "run", "../solver-python/plate.py"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        commands = {
            "fluid-python": [mpiexec, "-n", str(cores), *start, "Fluid", "--refine", str(refine), "--array", array],
            "solid-python": [mpiexec, "-n", str(solid), *start, "Solid", "--refine", str(refine)],
        }
        with (case / "log").open("wb") as log:
            running = [
                subprocess.Popen(command, cwd=case / place, env=environment, stdout=log, stderr=log)
                for place, command in commands.items()
            ]
            codes = [each.wait() for each in running]
        if any(codes):
            raise SystemExit((case / "log").read_text())
        (found,) = load_runs([case], warmup=WARMUP, complete=enrich)
        fluid, plate = (found.participants[name] for name in ("Fluid", "Solid"))
        # The first row is of the first window that counts.
        seconds = [float(each.mean()) for each in (fluid.compute_seconds, plate.compute_seconds, fluid.window_seconds)]
        return seconds[0], seconds[1], seconds[2]


def device_of(array: str) -> str:
    """Say where a library computes on this machine."""
    command = [sys.executable, "-c", WHERE, array, str(TUTORIAL / "solver-python")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"--arrays {array}: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout.strip()


def table(found: dict[Key, tuple[float, float, float]], devices: dict[str, str]) -> list[str]:
    """Lay out the rows in Markdown."""
    rows = [
        "| mesh | cores | version | Fluid (s) | Solid (s) | coupled (s) | Fluid's speed-up | coupled speed-up |",
        "|---|---|---|---|---|---|---|---|",
    ]
    first = next(iter(devices))
    for (refine, cores, array), (fluid, solid, window) in found.items():
        base = found[refine, cores, first]
        rows.append(
            f"| {96 * refine} x {16 * refine} | {cores} | {array} ({devices[array]}) | {fluid:.4g} | {solid:.4g} | "
            f"{window:.4g} | {base[0] / fluid:.2f} | {base[2] / window:.2f} |"
        )
    return rows


def main() -> None:
    """Run all, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--refine", type=int, nargs="+", default=[8, 16, 32])
    parser.add_argument("--cores", type=int, nargs="+", default=[1])
    parser.add_argument("--solid", type=int, help="ranks of the solid (default: as many as the fluid's)")
    parser.add_argument("--arrays", nargs="+", default=["numpy"])
    parser.add_argument("--windows", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    devices = {array: device_of(array) for array in options.arrays}
    keys = [(refine, cores, array) for refine in options.refine for cores in options.cores for array in devices]
    times: dict[Key, list[tuple[float, float, float]]] = {key: [] for key in keys}
    for _ in range(options.repeats):
        for key in keys:
            refine, cores, array = key
            times[key].append(run(refine, cores, options.solid or cores, array, options.windows))
    medians = {}
    for key, runs in times.items():
        fluid, solid, window = (statistics.median(column) for column in zip(*runs, strict=True))
        medians[key] = fluid, solid, window
    print("\n".join(table(medians, devices)))


if __name__ == "__main__":
    main()
