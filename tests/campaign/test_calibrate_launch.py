"""``mpiexec``: the exact command lines everywhere, then the same for real where the MPI is there."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from calibrate_helpers import launcher_of, plan_of, program, refusals, task_of, tasks_of

from precice_lb.campaign.launchers.local import available_cores
from precice_lb.exceptions import CalibrationError

# In one piece, since ranks share the output. It ends when all ranks are there: an mpiexec of Open MPI that ends removes
# a directory which another one that begins at that moment is about to use.
RANK = """\
import os, pathlib, sys, time
name, all_ranks = sys.argv[1], int(sys.argv[2])
rank = os.environ.get("PMI_RANK", os.environ.get("OMPI_COMM_WORLD_RANK"))
cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
os.write(1, f"rank {rank} {os.environ['SEEN']} cores {cores}\\n".encode())
pathlib.Path(f"here.{name}.{rank}").touch()
while len(list(pathlib.Path().glob("here.*"))) < all_ranks:
    time.sleep(0.01)
"""
pytestmark = pytest.mark.launcher

# What answers ``--version`` as an MPI does, to see the tokens without that MPI.
MPIS = {
    "HYDRA": "echo 'HYDRA build details:\n    Version: 5.0.2'",
    "OPEN_MPI": "echo 'mpiexec.openmpi (OpenRTE) 4.1.4'",
    "INTEL": "echo 'Intel(R) MPI Library for Linux* OS, Version 2021.9 Build 20230307'",
    "OTHER": "echo Great MPI 1.0",
}


@pytest.mark.parametrize("block", refusals("mpiexec-lines.txt"))
def test_every_rank_is_pinned_to_cores_of_its_own(tmp_path: Path, block: str) -> None:
    """An MPI, how many cores there are and keys of the launcher; and the lines of A and B, whose ranks have threads."""
    about, *expected = block.split("\n")
    version, cores, keys = about.split(" ", 2)
    mpiexec = str(program(tmp_path / "mpiexec", MPIS[version]))
    launcher = launcher_of("mpiexec", program=mpiexec, **json.loads(keys))
    launcher.cores = tuple(range(int(cores)))
    plan = plan_of(tmp_path, *tasks_of("A=2 B=2x3"))
    launcher.check(plan.tasks)
    assert [shlex.join(task.command).replace(mpiexec, "mpiexec") for task in launcher.starts(plan)] == expected
    assert launcher.files(plan) == {}


def test_the_environment_of_mpiexec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hydra, open_mpi = (str(program(tmp_path / name / "mpiexec", MPIS[name])) for name in ("HYDRA", "OPEN_MPI"))
    inherited = {"SLURM_NODELIST": "n[0-1]", "PBS_NODEFILE": "x", "HOME": "/"}
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    for user, mpiexec, more in ((0, hydra, {}), (0, open_mpi, as_root), (1000, open_mpi, {})):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        assert launcher_of("mpiexec", program=mpiexec).environment(inherited) == {"HOME": "/"} | more
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    with pytest.raises(CalibrationError, match=r"one node, of 2 in this allocation: use srun"):
        launcher_of("mpiexec", program=hydra)


def test_one_processor_of_every_core(tmp_path: Path) -> None:
    for processor, (package, core) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1), (0, 0), (0, 1), (1, 0), (1, 1)]):
        place = tmp_path / f"cpu{processor}" / "topology"
        place.mkdir(parents=True)
        (place / "physical_package_id").write_text(f"{package}\n")
        (place / "core_id").write_text(f"{core}\n")
    assert available_cores(tmp_path, range(8)) == (0, 1, 2, 3)
    assert available_cores(tmp_path, [1, 4, 5, 6]) == (1, 4, 6)
    assert available_cores(tmp_path / "nothing", [2, 0]) == (0, 2)
    cores_of_this_machine = available_cores()
    assert len(cores_of_this_machine) >= 1
    assert set(cores_of_this_machine) <= os.sched_getaffinity(0)


def start(directory: Path, keys: dict[str, object], *, threads: int = 1, **ranks: int) -> dict[str, list[str]]:
    """Run RANK for each participant; return its sorted lines."""
    directory.mkdir(exist_ok=True)
    launcher = launcher_of("mpiexec", **keys)
    tasks = []
    for name, count in ranks.items():
        command = shlex.join((sys.executable, "-c", RANK, name, str(sum(ranks.values()))))
        tasks.append(task_of(name, count, directory=directory, command=command, threads=threads))
    plan = replace(plan_of(directory, *tasks), token="launch-test", variables={"SEEN": "yes"})
    launcher.check(plan.tasks)
    outcome = launcher.run(plan, lambda job: None)
    logs = {task.participant: task.log.read_text() for task in plan.tasks}
    assert outcome.error is None, logs
    return {name: sorted(log.splitlines()) for name, log in logs.items()}


@pytest.fixture(params=["environment", pytest.param("mpiexec.openmpi", marks=pytest.mark.openmpi)])
def real(request: pytest.FixtureRequest, mpiexec: str) -> str:
    """Path of the environment's MPI launcher, and of Debian's Open MPI."""
    if request.param == "environment":
        return mpiexec
    program = shutil.which(request.param)
    if program is None:
        pytest.skip(f"no {request.param} on this machine")
    return program


@pytest.mark.mpi
def test_more_ranks_than_cores_for_real(tmp_path: Path, real: str) -> None:
    ranks = (os.cpu_count() or 1) + 1
    lines = start(tmp_path, {"program": real, "oversubscribe": True}, A=ranks, B=2)
    every = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    counts = {"A": ranks, "B": 2}
    assert lines == {n: sorted(f"rank {rank} yes cores {every}" for rank in range(counts[n])) for n in counts}


@pytest.mark.mpi
def test_pinned_ranks_have_cores_of_their_own_for_real(tmp_path: Path, real: str) -> None:
    cores = available_cores()
    if len(cores) < 2:
        pytest.skip("one core alone")
    lines = start(tmp_path, {"program": real}, A=1, B=len(cores) - 1)
    assert lines["A"] == [f"rank 0 yes cores {cores[0]}"]
    assert lines["B"] == sorted(f"rank {rank} yes cores {core}" for rank, core in enumerate(cores[1:]))
    # Both ranks of one participant, and a rank with two threads.
    both = start(tmp_path / "both", {"program": real}, A=2)
    assert both["A"] == [f"rank {rank} yes cores {cores[rank]}" for rank in range(2)]
    lines = start(tmp_path / "threads", {"program": real}, threads=2, A=1)
    assert lines["A"] == [f"rank 0 yes cores {cores[0]},{cores[1]}"]


def test_which_mpiexec_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside, on_path = (str(program(tmp_path / name / "mpiexec", MPIS["HYDRA"])) for name in ("env", "usr"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'usr'}:/bin:/usr/bin")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "env" / "python"))
    assert launcher_of("mpiexec").mpiexec == beside
    Path(beside).unlink()
    assert launcher_of("mpiexec").mpiexec == on_path
    # On machines with one directory for both, /bin links to usr/bin; the program's own name stays.
    for name in ("echo", "/bin/echo"):
        assert launcher_of("mpiexec", program=name).mpiexec == os.path.join(os.path.realpath("/bin"), "echo")
    with pytest.raises(CalibrationError, match=r"launcher\.program: .*'no-such-mpi'"):
        launcher_of("mpiexec", program="no-such-mpi")
    broken = str(program(tmp_path / "mpiexec", "echo libmpi.so is missing >&2; exit 127"))
    with pytest.raises(CalibrationError, match=r"exit code 127: libmpi\.so is missing"):
        launcher_of("mpiexec", program=broken)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CalibrationError, match=r"no mpiexec beside .*pip install mpich"):
        launcher_of("mpiexec")
