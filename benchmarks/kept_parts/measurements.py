"""What `kept.py` measures: each function is called in a process of its own, at full or small scale."""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

#: Two mappings from quantity to value: ``answers`` and ``costs``.
Figures = dict[str, dict[str, Any]]


def cpu_seconds(who: int = resource.RUSAGE_SELF) -> float:
    """User and system time of this process, or of its children that have ended."""
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def with_costs(call: Callable[[], Any], calls: int = 1) -> tuple[Any, dict[str, float]]:
    """Return what a call returns, its CPU seconds (the median of several calls) and the peak memory of this process."""
    seconds = []
    for _ in range(calls):
        begin = cpu_seconds()
        result = call()
        seconds.append(cpu_seconds() - begin)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return result, {"CPU (s)": statistics.median(seconds), "peak memory (MiB)": peak}


def measure_advance(scale: str) -> Figures:
    """Measure what recording adds to a call of ``advance``."""
    from recorder_overhead import bench_advance

    with tempfile.TemporaryDirectory() as work:
        figures = bench_advance(Path(work), {"full": 10_000, "small": 2_000}[scale])
    quantities = (
        "added per call, median with flushes (us)",
        "added per call, mean with flushes (us)",
        "recorded over bare, difference of the medians (us)",
        "flush, median (ms)",
    )
    return {"answers": {}, "costs": {name: float(figures[name]) for name in quantities}}


def measure_memory(_scale: str) -> Figures:
    """Measure what recording adds to the memory of a rank."""
    from recorder_overhead import bench_memory

    with tempfile.TemporaryDirectory() as work:
        figures = bench_memory(Path(work), 20_000)
    quantities = ("recorded, resident (MiB)", "recorded over bare, resident (MiB)")
    return {"answers": {}, "costs": {name: figures[name] for name in quantities}}


def measure_tutorial(name: str, windows: int, ranks: dict[str, int]) -> Figures:
    """Compare what a tutorial writes with and without recording, byte by byte."""
    sys.path[:0] = [str(ROOT / place) for place in ("tests", "tests/tutorials", "tutorials/tools")]
    from tutorial_helpers import copy_tutorial, run_together, script_environment

    mpiexec = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
    if mpiexec is None:
        raise SystemExit(f"{name}: no mpiexec: install the extra mpich or an MPI of the system")
    commands = {directory: ["./run.sh", str(count)] for directory, count in ranks.items()}
    results, stores, cpu = [], [], []
    with tempfile.TemporaryDirectory() as work:
        # Without us `import precice` gives the backend itself.
        Path(work, "precice.py").write_text("from precice_lb.embedded import *\n")
        environment = script_environment(mpiexec)
        environment["PYTHONPATH"] += f"{os.pathsep}{work}"
        for start in ("python3", "python3 -m precice_lb run"):
            case = Path(work, start.replace(" ", "-"), name)
            copy_tutorial(name, case, windows=windows)
            script = case.parent / "tools" / "solver.sh"
            text = script.read_text()
            assert "python3 -m precice_lb run" in text
            script.write_text(text.replace("python3 -m precice_lb run", start))
            begin = cpu_seconds(resource.RUSAGE_CHILDREN)
            run_together(commands, case, environment)
            cpu.append(cpu_seconds(resource.RUSAGE_CHILDREN) - begin)
            paths = sorted([*case.glob("*/*.npz"), *case.glob("*/precice-*.log")])
            results.append({path.relative_to(case): path.read_bytes() for path in paths})
            stores.append(len(list(case.rglob("precice-lb-store/**/*.h5"))))
    same = "the same" if results[0] == results[1] else "other"
    return {
        "answers": {
            "results recorded and not": f"{same} bytes in {len(results[0])} files",
            "files of ranks recorded and not": f"{stores[1]} and {stores[0]}",
        },
        "costs": {"CPU not recorded (s)": cpu[0], "CPU recorded (s)": cpu[1]},
    }


def measure_pulse(scale: str) -> Figures:
    """Compare the pulse on two ranks and one."""
    return measure_tutorial("pulse", {"full": 20, "small": 3}[scale], {"inner-python": 2, "outer-python": 1})


def measure_tube(scale: str) -> Figures:
    """Compare the elastic tube on one rank and two."""
    return measure_tutorial("elastic-tube", {"full": 10, "small": 2}[scale], {"fluid-python": 1, "solid-python": 2})


def partners_of(meshes: list[Any]) -> Callable[[], Any]:
    """Prepare the report on partners of two participants that receive each other's mesh."""
    from recorder_overhead import CONFIGURATION

    from precice_lb.case import parse_configuration
    from precice_lb.partners import partners_report

    text = CONFIGURATION.format(profiling="off", windows=1).replace('dimensions="2"', 'dimensions="3"')
    configuration = parse_configuration(text)
    return lambda: partners_report(configuration, {mesh.name: mesh for mesh in meshes})


def measure_partners(meshes: list[Any]) -> Figures:
    """Report partners, and take what came out."""
    report, costs = with_costs(partners_of(meshes))
    answers: dict[str, Any] = {}
    for link in report.links:
        for level, pairs in (("level 1", link.level_1), ("level 2", link.level_2)):
            if pairs is not None:
                answers[f"{link.link.mesh}, {level}, pairs"] = len(pairs)
                answers[f"{link.link.mesh}, {level}, SHA-256"] = hashlib.sha256(pairs.astype("<i8")).hexdigest()[:16]
        if link.vertices is not None:
            answers[f"{link.link.mesh}, vertices exchanged"] = int(link.vertices.sum())
    return {"answers": answers, "costs": costs}


def measure_boxes(scale: str) -> Figures:
    """Report partners by bounding boxes alone: level 1."""
    import numpy as np
    from partners_scale import patches

    from precice_lb.partners import PartitionedMesh

    ranks = {"full": 1_000_000, "small": 10_000}[scale]
    counts = np.ones(ranks, dtype=np.int64)
    return measure_partners(
        [PartitionedMesh(f"{name}-Mesh", name, counts, patches(ranks, seed)) for seed, name in enumerate("AB", 1)]
    )


def measure_coordinates(scale: str) -> Figures:
    """Report partners by coordinates: both levels, and what pairs exchange."""
    from partners_scale import make_case

    ranks = {"full": 10_000, "small": 500}[scale]
    return measure_partners(make_case(20 * ranks, (ranks, ranks), 1))


def tables(names: str, ranks: int) -> dict[str, Any]:
    """Seconds per window of each participant at 1, 2, ... ranks."""
    import numpy as np

    p = np.arange(1, ranks + 1)
    return {name: (i + 1) * 1e4 / p + 1e-3 * np.log2(p) + 1e-7 * p for i, name in enumerate(names)}


def measure_optimum(names: str, coupling: str, scale: str) -> Figures:
    """Find the best split of known times."""
    from precice_lb import optimize_split
    from precice_lb.schedule import Schedule

    ranks = {"full": 1_000_000, "small": 10_000}[scale]
    schedule = {"parallel": Schedule.parallel, "serial": Schedule.serial}[coupling](list(names))
    times = tables(names, ranks)
    # The first call imports modules and gets its memory from the system.
    best, costs = with_costs(lambda: optimize_split(times, ranks, coupling=schedule), calls=5)
    return {"answers": {"window time (s)": float(best.window_seconds), "gap": float(best.gap)}, "costs": costs}


def measure_recommended(names: str, coupling: str, scale: str) -> Figures:
    """Recommend a split from five noisy measurements of each participant."""
    import numpy as np

    from precice_lb import recommend_split

    ranks = {"full": 1_000_000, "small": 10_000}[scale]
    random = np.random.default_rng(0)
    measured = (np.geomspace(1 / 64, 1 / 2, 5) * ranks / len(names)).astype(np.int64)
    data = {
        name: np.column_stack([measured, seconds[measured - 1] * random.lognormal(0.0, 0.02, 5)])
        for name, seconds in tables(names, ranks).items()
    }
    best, costs = with_costs(lambda: recommend_split(data, ranks, coupling=coupling))
    # Draws follow rounding, so that this is not the same to the last digit on every machine.
    return {"answers": {}, "costs": costs | {"window time (s)": float(best.window_seconds)}}


#: By name: what measures, and in how many processes at full and at small scale.
MEASUREMENTS: dict[str, tuple[Callable[[str], Figures], dict[str, int]]] = {
    "recorder, advance": (measure_advance, {"full": 5, "small": 1}),
    "recorder, memory": (measure_memory, {"full": 1, "small": 0}),
    "results, pulse": (measure_pulse, {"full": 3, "small": 1}),
    "results, elastic-tube": (measure_tube, {"full": 3, "small": 1}),
    "partners, boxes": (measure_boxes, {"full": 3, "small": 1}),
    "partners, coordinates": (measure_coordinates, {"full": 3, "small": 1}),
    **{
        f"splits, {coupling}, {len(names)} participants": (
            partial(measure_optimum, names, coupling),
            {"full": 3, "small": 1},
        )
        for names, coupling in product(("AB", "ABCDEFGH"), ("parallel", "serial"))
    },
    "recommended, serial, 2 participants": (partial(measure_recommended, "AB", "serial"), {"full": 3, "small": 1}),
    "recommended, parallel, 8 participants": (
        partial(measure_recommended, "ABCDEFGH", "parallel"),
        {"full": 3, "small": 0},
    ),
}
