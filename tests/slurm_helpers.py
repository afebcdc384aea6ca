"""A real Slurm on this machine: one controller, four daemons with virtual nodes, all on loopback.

In configuration A nodes have eight CPUs; in B four cores with two hardware threads each, memory that steps use up, and
tasks that are bound.
"""

from __future__ import annotations

import getpass
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "scontrol", "munged")
NODES = ("n0", "n1", "n2", "n3")
# GPUs that the last node says it has.
GPUS = 2
CONFIGURATION = (Path(__file__).parent / "data" / "slurm.conf.in").read_text(encoding="utf-8")

# What A and B of the configurations differ in.
_PLAIN = {"task": "task/none", "select": "CR_CPU"}
_THREADED = {"task": "task/affinity", "select": "CR_Core_Memory\nDefMemPerCPU=500"}
_PLAIN_NODE = "CPUs=8 RealMemory=4000"
_THREADED_NODE = "CPUs=8 Sockets=1 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=4000"
# Of a machine with fewer processors than a virtual node: a step's mask is in SLURM_CPU_BIND_LIST all the same.
_NO_AFFINITY = """\
#define _GNU_SOURCE
#include <sched.h>
int sched_setaffinity(pid_t process, size_t size, const cpu_set_t *mask) { return 0; }
"""

_RANKS = "import os\nfrom mpi4py import MPI\nos.write(1, f'{MPI.COMM_WORLD.size} '.encode())\n"


def _free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)]
        return [one.getsockname()[1] for one in sockets]


def ask(*tokens: str) -> str:
    """Run one of Slurm's programs and return what it prints."""
    return subprocess.run(tokens, capture_output=True, text=True, timeout=300, check=True).stdout


def submit(script: Path, directory: Path | None = None) -> str:
    """Run a job from a directory, to its good end; what stands in the logs there, or beside the script."""
    tokens = ["sbatch", "--wait", "--time=5", str(script)]
    done = subprocess.run(tokens, cwd=directory, capture_output=True, text=True, timeout=300, check=False)
    logs = "\n".join(path.read_text() for path in sorted((directory or script.parent).glob("*.log")))
    assert done.returncode == 0, f"{done.stderr}{logs}"
    return logs


def wait_until(condition: Callable[[], object], seconds: float = 300.0, what: str = "a condition") -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(0.1)


def _said(*tokens: str) -> str:
    """Return what one of Slurm's programs prints, also where it fails."""
    return subprocess.run(tokens, capture_output=True, text=True, check=False).stdout.strip()


def _empty_queue() -> None:
    """Cancel all jobs, and give their steps a moment to end."""
    _said("scancel", f"--user={getpass.getuser()}")
    end = time.monotonic() + 8
    while _said("squeue", "--noheader") and time.monotonic() < end:
        time.sleep(0.2)


def _end_steps(conf: Path) -> None:
    """End what outlives its daemons: a step's own daemon, known by the configuration in its environment."""
    for process in psutil.process_iter(["environ", "cmdline"]):
        of_this = (process.info["environ"] or {}).get("SLURM_CONF") == str(conf)
        if of_this and "slurmstepd" in " ".join(process.info["cmdline"] or ()):
            with suppress(psutil.NoSuchProcess):
                process.kill()


def _last_words(root: Path) -> str:
    """Errors in the logs of the daemons."""
    lines = [line for log in sorted(root.glob("*.out")) for line in log.read_text(errors="replace").splitlines()]
    errors = [line for line in lines if "error" in line or "fatal" in line]
    return " | ".join((errors or lines or ["no output"])[-4:])


def _as_other_machine(root: Path) -> dict[str, str]:
    """Variables with which slurmd sees a machine of four cores with two hardware threads each, whatever this one is."""
    if (compiler := shutil.which("cc")) is None:
        pytest.skip("no C compiler (cc) for a stand-in of sched_setaffinity, which nodes of another topology need")
    source, library = root / "affinity.c", root / "affinity.so"
    source.write_text(_NO_AFFINITY)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return {"HWLOC_SYNTHETIC": "pack:1 core:4 pu:2", "LD_PRELOAD": str(library)}


@contextmanager
def running_slurm(root: Path, *, threaded: bool = False) -> Iterator[Path]:
    """Start it below a directory with a short path; set SLURM_CONF and UCX_TLS for this process and its children.

    Configuration B where it is ``threaded``, else A.
    """
    if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
        pytest.skip(f"no Slurm on this machine: {', '.join(missing)} missing (Debian: slurm-wlm, munge)")
    if os.geteuid() != 0:
        pytest.skip("Slurm's daemons need root rights here")
    node = _THREADED_NODE if threaded else _PLAIN_NODE
    ports = _free_ports(1 + len(NODES))
    host = socket.gethostname().partition(".")[0]
    nodes = "\n".join(
        f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} {node} State=UNKNOWN"
        + (f" Gres=gpu:{GPUS} Feature=gpu" if name == NODES[-1] else " Feature=cpu")
        for name, port in zip(NODES, ports[1:], strict=True)
    )
    (root / "state").mkdir()
    for name in NODES:
        (root / f"spool-{name}").mkdir()
        # PMIx of nodes that are one machine would meet in the same directory.
        (root / f"tmp-{name}").mkdir()
    conf = root / "slurm.conf"
    # MPICH names shared memory by the job's number: two of these at a time must not count alike, and what a killed job
    # left in /dev/shm must not come again.
    names = {"host": host, "user": getpass.getuser(), "first_job": 1000 * random.randrange(1, 67_000)}
    names |= _THREADED if threaded else _PLAIN
    machine = _as_other_machine(root) if threaded else {}
    conf.write_text(CONFIGURATION.format(**names, ports=ports, root=root, nodes=nodes))
    for number in range(GPUS):
        (root / f"gpu{number}").touch()
    (root / "gres.conf").write_text(f"NodeName={NODES[-1]} Name=gpu File={root}/gpu[0-{GPUS - 1}]\n")
    key = root / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    munge = ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={root}/munge.socket"]
    munge += [f"--pid-file={root}/munge.pid", f"--log-file={root}/munge.log", f"--seed-file={root}/munge.seed"]
    # Nodes share no memory; UCX would find that these do, through descriptors of processes that may have ended.
    settings = {"SLURM_CONF": str(conf), "UCX_TLS": "tcp,self", "UCX_UNIFIED_MODE": "y"}
    # Of long addresses, as of several devices, Slurm at times reads half. UCX does not use the loopback alone.
    if devices := sorted(psutil.net_if_addrs().keys() - {"lo"}):
        settings["UCX_NET_DEVICES"] = devices[0]
    os.environ |= settings
    started: list[subprocess.Popen[bytes]] = []

    def start(*tokens: str, **variables: str) -> None:
        with (root / f"{Path(tokens[0]).name}{len(started)}.out").open("wb") as log:
            streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            started.append(subprocess.Popen(tokens, env=os.environ | variables, start_new_session=True, **streams))

    try:
        start(*munge)
        start_up = time.monotonic() + 60
        while not (root / "munge.socket").exists() and time.monotonic() < start_up:
            time.sleep(0.1)
        start("slurmctld", "-c", "-D")
        for name in NODES:
            start("slurmd", "-D", "-N", name, **machine)
        while _said("sinfo", "--noheader", "--format=%T %D") != f"idle {len(NODES)}":
            if time.monotonic() > start_up:
                pytest.skip(f"Slurm does not start on this machine: {_last_words(root)}")
            time.sleep(0.1)
        yield conf
    finally:
        _empty_queue()
        _stop_controller(root)
        for process in reversed(started):
            process.terminate()
        for process in reversed(started):
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
            process.kill()
            process.wait()
        for name in settings:
            os.environ.pop(name, None)
        _end_steps(conf)


def _stop_controller(root: Path) -> None:
    with suppress(FileNotFoundError, psutil.NoSuchProcess):
        controller = psutil.Process(int((root / "slurmctld.pid").read_text()))
        controller.terminate()
        controller.wait(timeout=60)


def submitted() -> int:
    """Count the jobs that a running Slurm was ever given."""
    log = (Path(os.environ["SLURM_CONF"]).parent / "slurmctld.log").read_text(errors="replace")
    return log.count("_slurm_rpc_submit_batch_job: JobId=")


def mpi_plugin() -> str:
    """Name the plugin of a running Slurm's srun that this environment's MPI understands; skip where there is none."""
    for plugin in ("pmi2", "pmix"):
        tokens = ["srun", f"--mpi={plugin}", "--ntasks=2", sys.executable, "-c", _RANKS]
        done = subprocess.run(tokens, capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.split() == ["2", "2"]:
            return plugin
    pytest.skip("srun of this Slurm cannot start ranks of this environment's MPI")
