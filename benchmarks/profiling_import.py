"""Import of preCICE profiling files: time and peak memory, beside preCICE's own merge of the same files.

    python benchmarks/profiling_import.py --size 64 --peer PATH/TO/precice-profiling-merge

writes synthetic profiling files of the given size (MiB) as mode ``fundamental`` of preCICE 3.4 does, imports them and,
where the peer is given, has it merge the same files, one after the other in this run. Peak memory is the largest sum
of the resident set sizes of a command's processes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

CONFIGURATION = """<precice-configuration>
  <data:scalar name="Force"/><data:scalar name="Motion"/>
  <mesh name="Fluid-Mesh" dimensions="2"><use-data name="Force"/><use-data name="Motion"/></mesh>
  <mesh name="Solid-Mesh" dimensions="2"><use-data name="Force"/><use-data name="Motion"/></mesh>
  <participant name="Fluid">
    <provide-mesh name="Fluid-Mesh"/><receive-mesh name="Solid-Mesh" from="Solid"/>
    <write-data name="Force" mesh="Fluid-Mesh"/><read-data name="Motion" mesh="Fluid-Mesh"/>
    <mapping:nearest-neighbor direction="read" from="Solid-Mesh" to="Fluid-Mesh" constraint="consistent"/>
    <mapping:nearest-neighbor direction="write" from="Fluid-Mesh" to="Solid-Mesh" constraint="conservative"/>
  </participant>
  <participant name="Solid">
    <provide-mesh name="Solid-Mesh"/>
    <write-data name="Motion" mesh="Solid-Mesh"/><read-data name="Force" mesh="Solid-Mesh"/>
  </participant>
  <m2n:sockets acceptor="Fluid" connector="Solid"/>
  <coupling-scheme:parallel-explicit>
    <participants first="Fluid" second="Solid"/>
    <max-time-windows value="1000000000"/><time-window-size value="1.0"/>
    <exchange data="Motion" mesh="Solid-Mesh" from="Solid" to="Fluid"/>
    <exchange data="Force" mesh="Solid-Mesh" from="Fluid" to="Solid"/>
  </coupling-scheme:parallel-explicit>
</precice-configuration>
"""

HEAD = """N0:_GLOBAL
B0:0
N1:construction
B1:13
N2:configure
B2:23
E2:19352
E1:19633
N3:solver.initialize
B3:19634
E3:52034
N4:initialize
B4:52034
N5:meshSize%s-Mesh
D4:52036:5:101
N6:initalizeCouplingScheme
B6:57430
E6:58391
N7:mapping
B7:58392
E7:58496
E4:58528
N8:solver.advance
N9:advance
N10:advanceCoupling
N11:waitAndSendData
N12:waitAndReceiveData
N14:assembly
"""
STEP = "B8:%d\nB14:%d\nE14:%d\nE8:%d\nB9:%d\nB10:%d\nB11:%d\nE11:%d\nB12:%d\nE12:%d\nE10:%d\nB7:%d\nE7:%d\nE9:%d\n"
STEP_BYTES = 180
TAIL = "B8:%d\nE8:%d\nN13:finalize\nB13:%d\nE13:%d\nE0:%d\n"


class Used(NamedTuple):
    """What a command took: seconds of wall time and of processors, and mebibytes at most."""

    seconds: float
    processors: float
    mebibytes: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 1 if a total differs from the peer's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=float, default=16.0, help="MiB of profiling files, all together")
    parser.add_argument("--files", type=int, default=8, help="number of files (ranks)")
    parser.add_argument("--peer", type=Path, help="precice-profiling-merge of preCICE's own package")
    parser.add_argument("--directory", type=Path, help="where to write; a temporary directory by default")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=options.directory) as temporary:
        return measure(Path(temporary), options)


def measure(directory: Path, options: argparse.Namespace) -> int:
    """Write the files, run both, print what they took."""
    folder = write_run(directory, options.size, options.files)
    program = "import sys; from precice_lb.ingest.profiling import import_profiling as run; "
    program += "run([sys.argv[1]], sys.argv[2])"
    ours = [sys.executable, "-c", program, str(folder), str(directory / "store")]
    seconds = run("import_profiling", ours, directory).seconds
    if options.peer is None:
        return 0
    database = directory / "peer.db"
    peer = run(options.peer.name, [str(options.peer), str(folder), "--output", str(database)], directory)
    print(f"{options.peer.name} took {peer.seconds / seconds:.1f} times as long")
    return compare(folder, database)


def write_run(directory: Path, mebibytes: float, files: int) -> Path:
    """Write the configuration and the profiling files of a run, half of them of either participant; their folder."""
    folder = directory / "precice-profiling"
    folder.mkdir()
    (directory / "precice-config.xml").write_text(CONFIGURATION)
    ranks = {"Fluid": files - files // 2, "Solid": files // 2}
    for participant, size in ranks.items():
        for rank in range(size):
            path = folder / f"{participant}-{rank}-{size}.txt"
            write_profile(path, participant, rank, size, max(1, int(mebibytes * 2**20 / files / STEP_BYTES)))
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{files} files, {size / 2**20:.1f} MiB, {os.cpu_count()} processors", flush=True)
    return folder


def write_profile(path: Path, participant: str, rank: int, size: int, calls: int) -> None:
    """Write one rank's file with so many steps of random length, in the layout of preCICE's own."""
    random.seed(f"{participant} {rank}")
    header = {
        "name": participant,
        "rank": rank,
        "size": size,
        "unix_us": "1795172782572705",
        "tinit": "2026-11-20T11:06:22.572",
        "mode": "fundamental",
        "compression": False,
        "file_version": 2,
    }
    now = 58_537
    with path.open("w") as file:
        file.write(json.dumps(header, separators=(",", ":")) + "\n" + HEAD % participant)
        for first in range(0, calls, 1000):
            lines = []
            for _ in range(min(1000, calls - first)):
                solve, wait = random.randrange(500, 9000), random.randrange(10, 3000)
                end = now + solve
                done = end + 120 + wait
                begun = (
                    now,
                    now + 100,
                    end - 200,
                    end,
                    end + 1,
                    end + 5,
                    end + 7,
                    end + 110,
                    end + 112,
                    done,
                    done + 1,
                )
                lines.append(STEP % (*begun, done + 3, done + 50, done + 60))
                now = done + 60
            file.write("".join(lines))
        file.write(TAIL % (now, now + 900, now + 901, now + 1200, now + 1201))


def run(name: str, command: Sequence[str], directory: Path) -> Used:
    """Run a command; print and return its wall seconds, and processor seconds and peak memory of its processes."""
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with (directory / "output.txt").open("w") as output:
        process = subprocess.Popen(command, cwd=directory, stdout=output, stderr=subprocess.STDOUT)
        peak = [0]
        watcher = threading.Thread(target=_watch, args=(process, peak))
        watcher.start()
        code = process.wait()
    seconds = time.perf_counter() - begin
    watcher.join()
    if code:
        raise SystemExit(f"{' '.join(command)} failed:\n{(directory / 'output.txt').read_text()}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{name:<24} {seconds:8.2f} s {processor:8.2f} s of processors {peak[0] / 2**20:6.0f} MiB", flush=True)
    return Used(seconds, processor, peak[0] / 2**20)


def _watch(process: subprocess.Popen[bytes], peak: list[int]) -> None:
    while process.poll() is None:
        peak[0] = max(peak[0], sum(map(_resident, _family(process.pid))))
        time.sleep(0.05)


def _family(pid: int) -> list[int]:
    """Return a process and all below it."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return [pid]
    return [pid, *(member for child in children for member in _family(int(child)))]


def _resident(pid: int) -> int:
    """Resident memory of a process, in bytes."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def compare(folder: Path, database: Path) -> int:
    """Compare count and total of every event on every rank with the peer's database."""
    import sqlite3

    from profiling_peer import event_totals

    from precice_lb.ingest.profiling import read_profile

    query = "SELECT event, count(*), sum(dur) FROM full_events WHERE participant = ? AND rank = ? GROUP BY event"
    with sqlite3.connect(database) as connection:
        for path in sorted(folder.iterdir()):
            profile = read_profile(path)
            whose = (profile.header.participant, profile.header.rank)
            theirs = {name: (count, total) for name, count, total in connection.execute(query, whose)}
            if theirs != event_totals(profile):
                print(f"{path.name}: totals differ: {theirs} and {event_totals(profile)}")
                return 1
    print("count and total of every event agree to the microsecond")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
