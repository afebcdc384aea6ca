"""Merge and summary of a synthetic coupled run at scale: seconds and peak memory of the two commands.

    python benchmarks/merge_scale.py [--ranks 10000] [--windows 1000] [--cores 2] [--json FILE]

Two participants with half of the ranks each are written by the store's own writer, one file per rank. Then
``precice-lb merge`` and ``precice-lb summary`` run as processes of their own on the given number of cores. What the
summary says must be what was planted.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from precice_lb.store.schema import ADVANCE_DTYPE, INITIALIZE_DTYPE, case_fingerprint
from precice_lb.store.writer import StoreWriter

LIMIT_SECONDS = 120.0
LIMIT_GIB = 2.0
TOLERANCE = 0.01
START = 1_700_000_000_000_000_000
SOLVE, MAPPING, OVERHEAD, WINDOW = 50e-3, 1e-3, 2e-3, 60e-3
CONFIGURATION = """<?xml version="1.0"?>
<precice-configuration>
  <data:scalar name="Force"/>
  <data:scalar name="Displacement"/>
  <mesh name="Fluid-Mesh" dimensions="3"><use-data name="Force"/><use-data name="Displacement"/></mesh>
  <mesh name="Solid-Mesh" dimensions="3"><use-data name="Force"/><use-data name="Displacement"/></mesh>
  <participant name="Fluid">
    <provide-mesh name="Fluid-Mesh"/>
    <receive-mesh name="Solid-Mesh" from="Solid"/>
    <write-data name="Force" mesh="Fluid-Mesh"/>
    <read-data name="Displacement" mesh="Fluid-Mesh"/>
    <mapping:nearest-neighbor direction="write" from="Fluid-Mesh" to="Solid-Mesh" constraint="conservative"/>
    <mapping:nearest-neighbor direction="read" from="Solid-Mesh" to="Fluid-Mesh" constraint="consistent"/>
  </participant>
  <participant name="Solid">
    <provide-mesh name="Solid-Mesh"/>
    <write-data name="Displacement" mesh="Solid-Mesh"/>
    <read-data name="Force" mesh="Solid-Mesh"/>
  </participant>
  <m2n:sockets acceptor="Fluid" connector="Solid" exchange-directory=".."/>
  <coupling-scheme:parallel-explicit>
    <participants first="Fluid" second="Solid"/>
    <max-time value="1000"/>
    <time-window-size value="1"/>
    <exchange data="Force" mesh="Solid-Mesh" from="Fluid" to="Solid"/>
    <exchange data="Displacement" mesh="Solid-Mesh" from="Solid" to="Fluid"/>
  </coupling-scheme:parallel-explicit>
</precice-configuration>
"""


def write_rank(directory: Path, windows: int, size: int, index: int) -> None:
    """Write the store of one rank as the recorder does: rows in several flushes."""
    participant, rank = ("Fluid", "Solid")[index % 2], index // 2
    generator = np.random.default_rng(index)
    noise = generator.normal(1.0, 0.02, (3, windows))
    rows = np.zeros(windows, dtype=ADVANCE_DTYPE)
    rows["window"], rows["iteration"] = np.arange(1, windows + 1), 1
    rows["solve_ns"] = SOLVE * 1e9 * noise[0]
    rows["mapping_ns"] = MAPPING * 1e9 * noise[1]
    # What is left of a window is wait, so that all ranks end it together.
    rows["wait_ns"] = WINDOW * 1e9 - rows["solve_ns"] - rows["mapping_ns"] - OVERHEAD * 1e9 * noise[2]
    rows["advance_ns"] = WINDOW * 1e9 - rows["solve_ns"]
    rows["begin_ns"] = (rows["window"] - 1) * round(WINDOW * 1e9) + rows["solve_ns"] + 10**9
    rows["computed_dt"], rows["window_complete"] = 1.0, True
    metadata = {
        "participant": participant,
        "rank": rank,
        "size": size,
        "hostname": f"node{rank // 128:04d}",
        "cpu_model": "synthetic",
        "backend": "embedded",
        "precice_version": "3.4.1",
        "precice_lb_version": "0.1.0",
        "python_version": sys.version.split()[0],
        "configuration_path": "/case/precice-config.xml",
        "configuration_hash": hashlib.sha256(CONFIGURATION.encode()).hexdigest(),
        "case": case_fingerprint(CONFIGURATION),
        "clock": "clock_gettime(CLOCK_MONOTONIC)",
        "clock_resolution": 1e-9,
        "started_clock_ns": 10**9 - 10**6 + rank,
        "started_unix_ns": START + rank,
        "pid": 10_000 + rank,
        "working_directory": f"/case/{participant}",
        "command": "python solver.py",
    }
    writer = StoreWriter(directory, metadata, CONFIGURATION)
    writer.write_initialize(np.array([(10**9 - 10**6, 10**6, 0, 0)], dtype=INITIALIZE_DTYPE))
    for first in range(0, windows, 256):
        writer.append(rows[first : first + 256])
    writer.close(finished=True, ended_unix_ns=START + 10**7 + round(WINDOW * 1e9) * windows)


def measured(command: Sequence[str], cores: int, output: Path) -> dict[str, float]:
    """Run a command on some cores; its wall and processor seconds and its peak memory in GiB."""
    chosen = set(sorted(os.sched_getaffinity(0))[:cores])
    begin = time.perf_counter()
    with output.open("w") as file:
        process = subprocess.Popen(command, stdout=file, preexec_fn=lambda: os.sched_setaffinity(0, chosen))
        _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed with exit code {process.returncode}")
    return {
        "seconds": seconds,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_gib": usage.ru_maxrss / 2**20,
    }


def main() -> int:
    """Run the benchmark; the exit code says whether the limits hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=10_000)
    parser.add_argument("--windows", type=int, default=1_000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument(
        "--directory", type=Path, help="where the synthetic store is written, by default a temporary one"
    )
    parser.add_argument("--json", type=Path, help="write the figures here too")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        store = Path(folder) / "store"
        size = arguments.ranks // 2
        begin = time.perf_counter()
        write = functools.partial(write_rank, store, arguments.windows, size)
        with multiprocessing.get_context("spawn").Pool(arguments.cores) as pool:
            pool.map(write, range(2 * size), chunksize=50)
        print(
            f"wrote {2 * size} ranks x {arguments.windows} windows in {time.perf_counter() - begin:.1f} s", flush=True
        )
        bytes_before = sum(path.stat().st_size for path in store.rglob("*.h5"))
        tool, output = [sys.executable, "-m", "precice_lb"], Path(folder) / "output"
        result: dict[str, Any] = {"ranks": 2 * size, "windows": arguments.windows, "cores": arguments.cores}
        for name, options in (("merge", []), ("summary", ["--format", "json"])):
            figures = result[name] = measured([*tool, name, str(store), *options], arguments.cores, output)
            print(
                "{}: {seconds:.1f} s ({cpu_seconds:.1f} s of processor), peak memory {peak_gib:.2f} GiB".format(
                    name, **figures
                ),
                flush=True,
            )
        files = list(store.rglob("*.h5"))
        result["mib_before"] = bytes_before / 2**20
        result["mib_merged"] = sum(path.stat().st_size for path in files) / 2**20
        print(f"{result['mib_before']:.0f} MiB in {2 * size} files became {result['mib_merged']:.0f} in {len(files)}")
        (run,) = json.loads(output.read_text())
    result["planted_found"] = all(
        part["ranks"] == size
        and part["windows"] == arguments.windows - run["warmup_windows"]
        and all(
            abs(part[name]["mean_seconds"] / planted - 1) < TOLERANCE
            for name, planted in (("solve", SOLVE), ("mapping", MAPPING), ("overhead", OVERHEAD))
        )
        for part in run["participants"].values()
    )
    if not result["planted_found"]:
        print("the summary does not say what was planted")
    total = result["merge"]["seconds"] + result["summary"]["seconds"]
    peak = max(result["merge"]["peak_gib"], result["summary"]["peak_gib"])
    result["within_limits"] = total <= LIMIT_SECONDS and peak <= LIMIT_GIB
    print(
        f"together {total:.1f} s (limit {LIMIT_SECONDS:.0f} s), peak {peak:.2f} GiB (limit {LIMIT_GIB:.0f} GiB): "
        f"{'within' if result['within_limits'] else 'beyond'} the limits"
    )
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if result["within_limits"] and result["planted_found"] else 1


if __name__ == "__main__":
    sys.exit(main())
