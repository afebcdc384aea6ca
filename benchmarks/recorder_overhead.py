"""What recording costs, measured on libprecice beside the same solver unrecorded, in one run.

    python benchmarks/recorder_overhead.py advance | ranks | memory | import | elastic-tube [--json FILE]

Every figure compares runs that alternate, so that a machine that is busy with other things disturbs both alike.
PRECICE_LB_BACKEND=embedded measures advance, ranks and memory on the embedded backend.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CONFIGURATION = """<?xml version="1.0"?>
<precice-configuration>
  <log enabled="false"/>
  <profiling mode="{profiling}"/>
  <data:scalar name="A-Data"/>
  <data:scalar name="B-Data"/>
  <mesh name="A-Mesh" dimensions="2"><use-data name="A-Data"/><use-data name="B-Data"/></mesh>
  <mesh name="B-Mesh" dimensions="2"><use-data name="A-Data"/><use-data name="B-Data"/></mesh>
  <participant name="A">
    <provide-mesh name="A-Mesh"/>
    <receive-mesh name="B-Mesh" from="B"/>
    <write-data name="A-Data" mesh="A-Mesh"/>
    <read-data name="B-Data" mesh="A-Mesh"/>
    <mapping:nearest-neighbor direction="read" from="B-Mesh" to="A-Mesh" constraint="consistent"/>
  </participant>
  <participant name="B">
    <provide-mesh name="B-Mesh"/>
    <receive-mesh name="A-Mesh" from="A"/>
    <write-data name="B-Data" mesh="B-Mesh"/>
    <read-data name="A-Data" mesh="B-Mesh"/>
    <mapping:nearest-neighbor direction="read" from="A-Mesh" to="B-Mesh" constraint="consistent"/>
  </participant>
  <m2n:sockets acceptor="A" connector="B" exchange-directory="."/>
  <coupling-scheme:parallel-explicit>
    <participants first="A" second="B"/>
    <max-time-windows value="{windows}"/>
    <time-window-size value="0.001"/>
    <exchange data="A-Data" mesh="A-Mesh" from="A" to="B"/>
    <exchange data="B-Data" mesh="B-Mesh" from="B" to="A"/>
  </coupling-scheme:parallel-explicit>
</precice-configuration>
"""
RECORDED = ["-m", "precice_lb", "run"]
FLUSH_LIMIT_MS = 5.0
WAYS = ("recorded", "bare", "bare again")
BLOCK = 25
BACKEND = os.environ.get("PRECICE_LB_BACKEND", "libprecice")


def solver(name: str, ranks: int, mode: str, module: str) -> None:
    """Couple a few vertices with nothing to solve; modes: plain, ``alternate`` advances in blocks of `WAYS`."""
    import numpy as np

    precice = importlib.import_module(module)
    rank = 0
    if ranks > 1:
        from mpi4py import MPI

        rank = MPI.COMM_WORLD.Get_rank()
    participant = precice.Participant(name, "precice-config.xml", rank, ranks)
    mesh, other = f"{name}-Mesh", "B" if name == "A" else "A"
    x = np.linspace(0.0, 1.0, 8)[rank::ranks]
    ids = participant.set_mesh_vertices(mesh, np.stack([x, np.zeros_like(x)], axis=1))
    participant.initialize()
    recorder = getattr(participant, "_precice_lb_recorder", None)
    bare = [base for base in type(participant).__mro__ if "advance" in vars(base)][-1]
    ways = [type(participant).advance, *[bare.advance] * 2]
    # In blocks, as a run has them, and not strictly in turn: something else that is regular would meet one way only.
    choice = np.random.default_rng(1).integers(0, len(WAYS) if mode == "alternate" else 1, 2_000_000 // BLOCK)
    chosen = np.repeat(choice, BLOCK).tolist()
    times, flushed, memory, window, following = [], [], [], 0, 1
    clock = time.perf_counter_ns
    while participant.is_coupling_ongoing():
        dt = participant.get_max_time_step_size()
        values = participant.read_data(mesh, f"{other}-Data", ids, dt)
        participant.write_data(mesh, f"{name}-Data", ids, values + 1.0)
        advance = ways[chosen[window]]
        begin = clock()
        advance(participant, dt)
        end = clock()
        window += 1
        if mode == "memory":
            if window % 20_000 == 0:
                memory.append(_memory())
        elif mode != "plain":
            times.append(end - begin)
            if recorder is not None and recorder._taken.window != following:
                following = recorder._taken.window
                flushed.append(window)
    result = {"times": times, "chosen": chosen[:window], "flushed": flushed, "memory": memory}
    Path(f"{name}-{rank}.json").write_text(json.dumps(result))


def _memory() -> dict[str, float]:
    """Memory of this process in MiB: resident, and what no other rank of the node shares."""
    text = Path("/proc/self/smaps_rollup").read_text()
    kib = {line.split()[0]: int(line.split()[1]) for line in text.splitlines()[1:]}
    return {"resident": kib["Rss:"] / 1024, "own": kib["Private_Dirty:"] / 1024}


def couple(
    directory: Path, windows: int, options: Sequence[str], mode: str, *, ranks: int = 1, profiling: str = "fundamental"
) -> dict[str, list[dict[str, Any]]]:
    """Run A with python's ``options`` and B unrecorded; return what A's ranks measured and the seconds it took."""
    directory.mkdir(parents=True)
    (directory / "precice-config.xml").write_text(CONFIGURATION.format(windows=windows, profiling=profiling))
    launch = [str(Path(sys.executable).parent / "mpiexec"), "-n", str(ranks)] if ranks > 1 else []
    script = [str(Path(__file__).resolve()), "solver"]
    unrecorded = "precice" if BACKEND == "libprecice" else "precice_lb.embedded"
    measured = ["A", str(ranks), mode, "precice" if options else unrecorded]
    run_together(
        [
            ([*launch, sys.executable, *options, *script, *measured], directory),
            ([sys.executable, *script, "B", "1", "plain", unrecorded], directory),
        ]
    )
    return {"A": [json.loads((directory / f"A-{rank}.json").read_text()) for rank in range(ranks)]}


def run_together(commands: Sequence[tuple[list[str], Path]]) -> tuple[float, float]:
    """Run commands at the same time; return wall seconds and the CPU seconds of all of them."""
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        # Bytecode as an installed package has it, wherever the sources lie.
        "PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir()) / "recorder-overhead-bytecode"),
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "PRECICE_LB_BACKEND": BACKEND,
        "MPLBACKEND": "Agg",
        # Threads of the linear algebra library that compete for two cores would drown everything else.
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        # Otherwise glibc's threshold depends on what was freed before, such as our imports: that alone moves the CPU
        # time of elastic-tube-1d by 5 %, in our favour.
        "MALLOC_MMAP_THRESHOLD_": str(2**25),
        "MALLOC_TRIM_THRESHOLD_": str(2**26),
    }
    begin = time.perf_counter()
    started = [
        subprocess.Popen(command, cwd=directory, env=environment, stdout=subprocess.DEVNULL)
        for command, directory in commands
    ]
    cpu = 0.0
    for process in started:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        cpu += usage.ru_utime + usage.ru_stime
        if process.returncode != 0:
            raise SystemExit(f"{process.args} ended with exit code {process.returncode}")
    return time.perf_counter() - begin, cpu


def bench_advance(work: Path, windows: int) -> dict[str, Any]:
    """Time that recording adds to a call of ``advance``, on one rank, blocks of calls alternating in one process."""
    import numpy as np

    (found,) = couple(work / "advance", windows, RECORDED, "alternate")["A"]
    store = _store(work / "advance")
    times, way = np.array(found["times"], dtype=float), np.array(found["chosen"])
    result: dict[str, Any] = {"windows": windows}
    for index, name in enumerate(WAYS):
        result[f"{name}, median (us)"] = np.median(times[way == index]) / 1e3
        result[f"{name}, mean (us)"] = times[way == index].mean() / 1e3
    for name in WAYS[::2]:
        result[f"{name} over bare, difference of the medians (us)"] = (
            result[f"{name}, median (us)"] - result["bare, median (us)"]
        )
    # What the recorded calls took beyond the backend's own time, which is in the store.
    added = (times[way == 0] - store.advances["advance_ns"]) / 1e3
    flushed = np.isin(np.arange(1, windows + 1)[way == 0], found["flushed"])
    for name, values in (("with flushes", added), ("without flushes", added[~flushed])):
        result[f"added per call, median {name} (us)"] = np.median(values)
        result[f"added per call, mean {name} (us)"] = values.mean()
        result[f"added per call, 99.9th percentile {name} (us)"] = np.percentile(values, 99.9)
    result |= {
        "recorded over bare, difference of the medians (us)": result["recorded, median (us)"]
        - result["bare, median (us)"],
        "bare again over bare, difference of the medians (us)": result["bare again, median (us)"]
        - result["bare, median (us)"],
        **_flushes(added[flushed] / 1e3),
    }
    result["pass"] = result["added per call, median with flushes (us)"] <= 3.0 and _flushes_pass(result)
    return result


def _flushes(milliseconds: Any) -> dict[str, float]:
    import numpy as np

    return {
        "flush, median (ms)": float(np.median(milliseconds)),
        "flush, 99th percentile (ms)": float(np.percentile(milliseconds, 99)),
        "flush, longest (ms)": float(np.max(milliseconds)),
    }


def _flushes_pass(figures: dict[str, Any]) -> bool:
    # The longest one belongs to the machine: any step of a process may be interrupted for as long.
    return bool(figures["flush, 99th percentile (ms)"] <= FLUSH_LIMIT_MS)


def bench_ranks(work: Path, windows: int, ranks: int) -> dict[str, Any]:
    """Whether all ranks flush after the same windows, and how long it takes them."""
    import numpy as np

    found = couple(work / "ranks", windows, RECORDED, "recorded", ranks=ranks)["A"]
    flushes = []
    for rank, values in enumerate(found):
        store = _store(work / "ranks", rank)
        added = np.array(values["times"], dtype=float) - store.advances["advance_ns"]
        flushes.append(added[np.array(values["flushed"]) - 1] / 1e6)
    same = all(values["flushed"] == found[0]["flushed"] for values in found)
    result = {
        "ranks": ranks,
        "windows": windows,
        "same windows on all ranks": same,
        **_flushes(flushes),
    }
    return {**result, "pass": same and _flushes_pass(result)}


def bench_memory(work: Path, windows: int) -> dict[str, Any]:
    """Memory of a recorded and of an unrecorded rank over many windows."""
    result: dict[str, Any] = {"windows": windows}
    last = {}
    for name, options in (("bare", []), ("recorded", RECORDED)):
        samples = couple(work / name, windows, options, "memory", profiling="off")["A"][0]["memory"]
        last[name] = samples[-1]
        warm = samples[max(0, len(samples) // 10 - 1)]
        for kind, value in last[name].items():
            result[f"{name}, {kind} (MiB)"] = value
            result[f"{name}, {kind}, growth after a tenth (MiB)"] = value - warm[kind]
    for kind in ("own", "resident"):
        result[f"recorded over bare, {kind} (MiB)"] = last["recorded"][kind] - last["bare"][kind]
    result["pass"] = result["recorded over bare, resident (MiB)"] <= 8.0
    return result


def bench_import(repeats: int) -> dict[str, Any]:
    """CPU time of importing everything that recording needs, over the libraries it stands on."""
    needed = (
        "import precice_lb; precice_lb.Participant\n"
        "import precice_lb.record.recorder, precice_lb.record.launch, precice_lb.store.spool"
    )
    codes = {
        "bare": "import precice, h5py, mpi4py",
        "recording": f"import precice, h5py, mpi4py\n{needed}",
        "precice alone": "import precice",
        "recording over precice alone": f"import precice\n{needed}",
    }
    with tempfile.TemporaryDirectory() as directory:
        measured = alternate({k: [([sys.executable, "-c", c], Path(directory))] for k, c in codes.items()}, repeats)
    cpu = {name: statistics.median(seconds for _, seconds in values) * 1e3 for name, values in measured.items()}
    added = cpu["recording"] - cpu["bare"]
    return {
        "repeats": repeats,
        **{f"{name} (ms CPU)": value for name, value in cpu.items()},
        "added (ms CPU)": added,
        "pass": added <= 150.0,
    }


def bench_elastic_tube(work: Path, repeats: int) -> dict[str, Any]:
    """Run the tutorial elastic-tube-1d of preCICE, unmodified, both participants recorded or both not."""
    import shutil

    tutorials = os.environ.get("PRECICE_TUTORIALS")
    if not tutorials:
        raise SystemExit("elastic-tube: set PRECICE_TUTORIALS to a copy of preCICE's tutorials")
    commands: dict[str, list[tuple[list[str], Path]]] = {}
    for name, options in (("bare", []), ("recorded", RECORDED)):
        case = work / name
        shutil.copytree(Path(tutorials) / "elastic-tube-1d", case)
        commands[name] = [
            (
                [sys.executable, *options, f"{solver}Solver.py", "../precice-config.xml"],
                case / f"{solver.lower()}-python",
            )
            for solver in ("Fluid", "Solid")
        ]
    measured = alternate(commands, repeats)
    result: dict[str, Any] = {"pairs": repeats}
    for kind, index in (("wall", 0), ("CPU", 1)):
        for name, values in measured.items():
            result[f"{name}, median ({kind} s)"] = statistics.median(value[index] for value in values)
        pairs = zip(measured["recorded"], measured["bare"], strict=True)
        ratios = sorted(ours[index] / bare[index] for ours, bare in pairs)
        result[f"median of the pairs' ratios ({kind})"] = statistics.median(ratios)
        result[f"ratio of the medians ({kind})"] = (
            result[f"recorded, median ({kind} s)"] / result[f"bare, median ({kind} s)"]
        )
        result[f"ratio of the smallest ({kind})"] = min(value[index] for value in measured["recorded"]) / min(
            value[index] for value in measured["bare"]
        )
        result[f"smallest and largest ratio of a pair ({kind})"] = [ratios[0], ratios[-1]]
    result["pass"] = result["ratio of the medians (CPU)"] <= 1.005
    return result


def alternate(commands: dict[str, list[tuple[list[str], Path]]], repeats: int) -> dict[str, list[tuple[float, float]]]:
    """Run each set of commands ``repeats`` times, in turn and every other time the other way round."""
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for repeat in range(repeats + 1):
        for name in list(commands)[:: 1 if repeat % 2 else -1]:
            seconds = run_together(commands[name])
            # The first round fills the file cache.
            if repeat:
                measured[name].append(seconds)
    return measured


def _store(directory: Path, rank: int = 0) -> Any:
    sys.path.insert(0, str(ROOT))
    from precice_lb.store.reader import find_stores, read_store

    stores = [read_store(path) for path in find_stores([directory / "precice-lb-store"])]
    return next(store for store in stores if store.metadata["rank"] == rank)


def main() -> int:
    """Run one benchmark; the exit code says whether its bound holds."""
    if sys.argv[1:2] == ["solver"]:
        solver(sys.argv[2], int(sys.argv[3]), *sys.argv[4:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmark", choices=["advance", "ranks", "memory", "import", "elastic-tube"])
    parser.add_argument("--windows", type=int, help="time windows (advance 100000, ranks 5000, memory 1000000)")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--repeats", type=int, help="alternating runs (import 15, elastic-tube 9)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        benchmarks: dict[str, Callable[[], dict[str, Any]]] = {
            "advance": lambda: bench_advance(work, arguments.windows or 100_000),
            "ranks": lambda: bench_ranks(work, arguments.windows or 5_000, arguments.ranks),
            "memory": lambda: bench_memory(work, arguments.windows or 1_000_000),
            "import": lambda: bench_import(arguments.repeats or 15),
            "elastic-tube": lambda: bench_elastic_tube(work, arguments.repeats or 9),
        }
        figures = benchmarks[arguments.benchmark]()
    for name, value in figures.items():
        print(f"{name:58} {value if not isinstance(value, float) else format(value, '.4g')}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({arguments.benchmark: figures}, indent=2) + "\n")
    return 0 if figures["pass"] else 1


if __name__ == "__main__":
    sys.exit(main())
