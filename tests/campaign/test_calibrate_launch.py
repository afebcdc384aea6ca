"""Launchers: the exact tokens everywhere, then the same commands for real where the MPI is there."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from calibrate_helpers import launcher_of
from pydantic import ValidationError

from precice_lb.campaign import RunPlan, Task
from precice_lb.campaign.launchers import keys_of, slurm
from precice_lb.campaign.launchers.local import (
    MpiexecLauncher,
    MPIFamily,
    available_cores,
    find_mpiexec,
    mpi_library,
    read_hosts,
)
from precice_lb.campaign.launchers.slurm import allocated_cores, cpus_of_nodes
from precice_lb.exceptions import CalibrationError, StudyError
from precice_lb.plugins import LAUNCHERS

# In one piece, since ranks share the output.
RANK = """\
import os
rank = os.environ.get("PMI_RANK", os.environ.get("OMPI_COMM_WORLD_RANK"))
cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
os.write(1, f"rank {rank} {os.environ['SEEN']} cores {cores}\\n".encode())
"""
HYDRA = "HYDRA build details:\n    Version: 5.0.2"
pytestmark = pytest.mark.launcher

OPEN_MPI_4 = "mpiexec.openmpi (OpenRTE) 4.1.4"
OPEN_MPI_5 = "mpirun (Open MPI) 5.0.3"
EIGHT = tuple(range(8))


def fake_program(directory: Path, version: str, name: str = "mpiexec") -> str:
    """A program that answers ``--version`` as an MPI does, to see the tokens without that MPI."""
    program = directory / name
    program.write_text(f"#!/bin/sh\necho '{version}'\n")
    program.chmod(0o755)
    return str(program)


def plan_of(directory: Path, per_node: int | None = None, **ranks: int) -> RunPlan:
    """A run whose participants start ``solver 'in put'``."""
    tasks = tuple(
        Task(name, ("solver", "in put"), count, directory, directory / f"{name}.log", per_node)
        for name, count in ranks.items()
    )
    return RunPlan("001", directory, tasks, "token", {"SEEN": "yes"}, 90.0)


def commands(
    program: str, directory: Path, cores: tuple[int, ...] = EIGHT, per_node: int | None = None, **options: object
) -> tuple[dict[str, list[str]], dict[str, str]]:
    """The tokens of A on 3 and B on 2 ranks behind the program, and the files they need."""
    made = launcher_of("mpiexec", program=program, **options)
    assert isinstance(made, MpiexecLauncher)
    made.cores = cores
    plan = plan_of(directory, per_node, A=3, B=2)
    made.check(plan.tasks)
    found = {each.participant: list(each.command) for each in made.starts(plan)}
    assert all(
        line[-4:] == ["-n", str(task.ranks), "solver", "in put"]
        for line, task in zip(found.values(), plan.tasks, strict=False)
    )
    files = {path.name: text for path, text in made.files(plan).items()}
    return {name: line[:-4] for name, line in found.items()}, files


def test_hydra_pins_every_rank_to_a_core_of_its_own(tmp_path: Path) -> None:
    program = fake_program(tmp_path, HYDRA)
    assert commands(program, tmp_path) == (
        {"A": [program, "-bind-to", "user:0,1,2"], "B": [program, "-bind-to", "user:3,4"]},
        {},
    )
    assert commands(program, tmp_path, arguments=("-l",), pin=False)[0] == {key: [program, "-l"] for key in "AB"}
    assert launcher_of("mpiexec", program=program).environment({}) == {}


def test_open_mpi_4_pins_by_rankfiles(tmp_path: Path) -> None:
    program = fake_program(tmp_path, OPEN_MPI_4)
    start = [program, "--mca", "rmaps_rank_file_physical", "1", "--rankfile"]
    assert commands(program, tmp_path, cores=(1, 3, 5, 7, 9)) == (
        {"A": [*start, str(tmp_path / "A.ranks")], "B": [*start, str(tmp_path / "B.ranks")]},
        {
            "A.ranks": "rank 0=localhost slot=1\nrank 1=localhost slot=3\nrank 2=localhost slot=5\n",
            "B.ranks": "rank 0=localhost slot=7\nrank 1=localhost slot=9\n",
        },
    )


@pytest.mark.parametrize(("version", "options"), [(OPEN_MPI_5, ["--bind-to", "none"]), ("Great MPI 1.0", [])])
def test_what_cannot_be_told_a_rank_s_core_gets_its_participant_s(
    tmp_path: Path, version: str, options: list[str]
) -> None:
    program = fake_program(tmp_path, version)
    taskset = shutil.which("taskset") or pytest.skip("no taskset on this machine")
    assert commands(program, tmp_path)[0] == {
        "A": [taskset, "-c", "0,1,2", program, *options],
        "B": [taskset, "-c", "3,4", program, *options],
    }


def test_intel_mpi_pins_by_a_variable(tmp_path: Path) -> None:
    program = fake_program(tmp_path, "Intel(R) MPI Library for Linux* OS, Version 2021.9 Build 20230307")
    assert commands(program, tmp_path)[0]["B"] == [program, "-genv", "I_MPI_PIN_PROCESSOR_LIST", "3,4"]


@pytest.mark.parametrize(
    ("version", "tokens"),
    [(HYDRA, []), (OPEN_MPI_4, ["--oversubscribe", "--bind-to", "none"]), ("Great MPI 1.0", [])],
)
def test_more_ranks_than_cores_only_where_asked_for(tmp_path: Path, version: str, tokens: list[str]) -> None:
    program = fake_program(tmp_path, version)
    with pytest.raises(CalibrationError, match=r"at most 4 cores for .* found 5: .*let mpiexec oversubscribe"):
        commands(program, tmp_path, cores=(0, 1, 2, 3))
    found = commands(program, tmp_path, cores=(0, 1, 2, 3), oversubscribe=True)
    launcher_of("mpiexec", program=program, oversubscribe=True).check_cores(10**6)
    assert found == ({key: [program, *tokens] for key in "AB"}, {})


def test_every_participant_gets_hosts_of_its_own(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("# four machines\nn0:4\nn1 slots=4\nn2 slots=2 max_slots=8\n\nn3\n")
    assert read_hosts(hosts) == (("n0", 4), ("n1", 4), ("n2", 2), ("n3", 1))
    program = fake_program(tmp_path, HYDRA)
    assert commands(program, tmp_path, hostfile=hosts) == (
        {
            "A": [program, "-f", str(tmp_path / "A.hosts"), "-bind-to", "core"],
            "B": [program, "-f", str(tmp_path / "B.hosts"), "-bind-to", "core"],
        },
        {"A.hosts": "n0:3\n", "B.hosts": "n1:2\n"},
    )
    program = fake_program(tmp_path, OPEN_MPI_4, "mpirun")
    lines, files = commands(program, tmp_path, hostfile=hosts, per_node=2)
    assert lines["A"] == [program, "--hostfile", str(tmp_path / "A.hosts"), "--bind-to", "core", "-x", "SEEN"]
    assert files == {"A.hosts": "n0 slots=2\nn1 slots=1\n", "B.hosts": "n2 slots=2\n"}
    launcher = launcher_of("mpiexec", program=program, hostfile=hosts)
    launcher.check_cores(11)
    with pytest.raises(CalibrationError, match="at most 11 cores for all ranks and their threads, found 12"):
        launcher.check_cores(12)
    with pytest.raises(CalibrationError, match=r"the 4 hosts of .* too few: B lacks 1 of its 2 ranks"):
        commands(program, tmp_path, hostfile=hosts, per_node=1)


@pytest.mark.parametrize(
    ("text", "expected"), [("n0 n1\n", r"line 1: expected 'name', .* found 'n0 n1'"), ("\n# none\n", r"names no host")]
)
def test_a_host_file_that_is_none(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "hosts").write_text(text)
    with pytest.raises(CalibrationError, match=expected):
        read_hosts(tmp_path / "hosts")


def test_open_mpi_may_run_as_root_where_that_is_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = launcher_of("mpiexec", program=fake_program(tmp_path, OPEN_MPI_5))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert made.environment({}) == {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert made.environment({}) == {}


def test_mpiexec_does_not_see_the_allocation_it_runs_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = launcher_of("mpiexec", program=fake_program(tmp_path, HYDRA))
    assert made.environment({"SLURM_NODELIST": "n[0-1]", "PBS_NODEFILE": "x", "HOME": "/"}) == {"HOME": "/"}
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    with pytest.raises(CalibrationError, match=r"this allocation has 2: use the launcher srun"):
        launcher_of("mpiexec", program=fake_program(tmp_path, HYDRA))


def test_one_processor_of_every_core(tmp_path: Path) -> None:
    for processor, (package, core) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1), (0, 0), (0, 1), (1, 0), (1, 1)]):
        place = tmp_path / f"cpu{processor}" / "topology"
        place.mkdir(parents=True)
        (place / "physical_package_id").write_text(f"{package}\n")
        (place / "core_id").write_text(f"{core}\n")
    assert available_cores(tmp_path, range(8)) == (0, 1, 2, 3)
    assert available_cores(tmp_path, [1, 4, 5, 6]) == (1, 4, 6)
    assert available_cores(tmp_path / "nothing", [2, 0]) == (0, 2)
    assert set(available_cores()) <= os.sched_getaffinity(0)


def start(directory: Path, options: dict[str, object], *, threads: int = 1, **ranks: int) -> dict[str, list[str]]:
    """Run RANK for each participant; return its sorted lines."""
    made = launcher_of("mpiexec", **options)
    plan = plan_of(directory, **ranks)
    plan = RunPlan(
        plan.name,
        directory,
        tuple(
            Task(t.participant, (sys.executable, "-c", RANK), t.ranks, directory, t.log, threads=threads)
            for t in plan.tasks
        ),
        "launch-test",
        plan.variables,
    )
    made.check(plan.tasks)
    outcome = made.run(plan, lambda job: None)
    logs = {task.participant: task.log.read_text() for task in plan.tasks}
    assert outcome.error is None, logs
    return {name: sorted(log.splitlines()) for name, log in logs.items()}


@pytest.fixture(params=["environment", pytest.param("mpiexec.openmpi", marks=pytest.mark.openmpi), "mpiexec.mpich"])
def real(request: pytest.FixtureRequest, mpiexec: str) -> str:
    """Every MPI launcher there is here."""
    if request.param == "environment":
        return mpiexec
    return shutil.which(request.param) or pytest.skip(f"no {request.param} on this machine")


@pytest.mark.mpi
def test_more_ranks_than_cores_for_real(tmp_path: Path, real: str) -> None:
    ranks = (os.cpu_count() or 1) + 1
    found = start(tmp_path, {"program": real, "oversubscribe": True}, A=ranks, B=2)
    every = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    assert found == {
        "A": sorted(f"rank {rank} yes cores {every}" for rank in range(ranks)),
        "B": [f"rank {rank} yes cores {every}" for rank in range(2)],
    }


@pytest.mark.mpi
def test_pinned_ranks_have_a_core_each_for_real(tmp_path: Path, real: str) -> None:
    cores = available_cores()
    if len(cores) < 2:
        pytest.skip("one core alone")
    found = start(tmp_path, {"program": real}, A=1, B=len(cores) - 1)
    assert found["A"] == [f"rank 0 yes cores {cores[0]}"]
    assert found["B"] == sorted(f"rank {rank} yes cores {core}" for rank, core in enumerate(cores[1:]))


@pytest.mark.mpi
def test_a_rank_with_threads_has_their_cores_for_real(tmp_path: Path, real: str) -> None:
    cores = available_cores()
    if len(cores) < 2:
        pytest.skip("one core alone")
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost:2\n")
    for options in ({"program": real}, {"program": real, "hostfile": hosts}):
        place = tmp_path / ("hosts-" if "hostfile" in options else "cores-")
        place.mkdir()
        found = start(place, options, threads=2, A=1)
        assert found["A"] == [f"rank 0 yes cores {cores[0]},{cores[1]}"]


@pytest.mark.mpi
def test_host_files_for_real(tmp_path: Path, real: str) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost:2\nlocalhost:3\n")
    found = start(tmp_path, {"program": real, "hostfile": hosts, "oversubscribe": True}, A=2, B=3)
    assert {name: len(lines) for name, lines in found.items()} == {"A": 2, "B": 3}
    assert found["B"][2].startswith("rank 2 yes")


def test_the_families_are_told_apart(tmp_path: Path) -> None:
    assert mpi_library(fake_program(tmp_path, HYDRA, "a")) == (MPIFamily.HYDRA, 5)
    assert mpi_library(fake_program(tmp_path, OPEN_MPI_4, "b")) == (MPIFamily.OPEN_MPI, 4)
    assert mpi_library(fake_program(tmp_path, "Great MPI 1.0", "c")) == (MPIFamily.OTHER, 1)


def test_the_mpiexec_beside_the_interpreter_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside, on_path = tmp_path / "env", tmp_path / "usr"
    for directory in (beside, on_path):
        directory.mkdir()
        fake_program(directory, HYDRA)
    monkeypatch.setenv("PATH", str(on_path))
    monkeypatch.setattr(sys, "executable", str(beside / "python"))
    assert find_mpiexec() == str(beside / "mpiexec")
    (beside / "mpiexec").unlink()
    assert find_mpiexec() == str(on_path / "mpiexec")
    (on_path / "mpiexec").unlink()
    with pytest.raises(CalibrationError, match=r"no mpiexec beside .*pip install mpich"):
        find_mpiexec()


@pytest.mark.parametrize("asked", ["sh", "/bin/sh"])
def test_a_program_in_bin_is_named_by_where_bin_is(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On machines with one directory for both, /bin links to usr/bin; the program's own name stays."""
    monkeypatch.setenv("PATH", "/bin:/usr/bin")
    assert find_mpiexec(asked) == os.path.join(os.path.realpath("/bin"), "sh")


@pytest.mark.mpi
@pytest.mark.openmpi
def test_open_mpi_starts_where_bin_comes_first_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open MPI refuses to be called as /bin/mpiexec: the prefix of its installation would be a slash."""
    if shutil.which("mpiexec.openmpi") is None or not os.access("/bin/mpiexec.openmpi", os.X_OK):
        pytest.skip("no /bin/mpiexec.openmpi on this machine")
    monkeypatch.setenv("PATH", f"/bin{os.pathsep}{os.environ['PATH']}")
    found = start(tmp_path, {"program": "mpiexec.openmpi", "oversubscribe": True}, A=1)
    assert [line.partition(" cores ")[0] for line in found["A"]] == ["rank 0 yes"]


def test_a_program_that_is_missing_or_broken_is_named(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match=r"launcher\.program: .*'no-such-mpi'"):
        launcher_of("mpiexec", program="no-such-mpi")
    broken = tmp_path / "mpiexec"
    broken.write_text("#!/bin/sh\necho libmpi.so is missing >&2\nexit 127\n")
    broken.chmod(0o755)
    with pytest.raises(CalibrationError, match=r"exit code 127: libmpi\.so is missing"):
        launcher_of("mpiexec", program=str(broken))


def test_a_launcher_in_another_module_has_the_keys_of_the_one_that_it_extends() -> None:
    @dataclass(kw_only=True)
    class Own(MpiexecLauncher):
        queue: str = "short"

    assert set(keys_of(Own).model_fields) == {*keys_of(MpiexecLauncher).model_fields, "queue"}
    with pytest.raises(ValidationError):
        keys_of(Own)(ranks_per_node=0)


def test_the_registry() -> None:
    assert tuple(sorted(LAUNCHERS)) == ("mpiexec", "slurm", "srun", "template")
    with pytest.raises(StudyError, match=r"expected one of mpiexec, slurm, .*, found 'mpirun'"):
        launcher_of("mpirun")
    with pytest.raises(ValueError, match=r"'mpiexec' is registered already"):
        LAUNCHERS.add("mpiexec", MpiexecLauncher)


def fake_slurm(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs of Slurm's names, of which only the names matter here."""
    place = directory / "slurm"
    place.mkdir()
    for name in ("srun", "sbatch", "squeue", "scancel"):
        fake_program(place, "slurm 22.05.8", name)
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}{os.environ['PATH']}")
    return place


def steps(
    directory: Path, options: dict[str, object], per_node: int | None = None, **ranks: int
) -> dict[str, list[str]]:
    started = launcher_of("srun", **options).starts(plan_of(directory, per_node, **ranks))
    found = {each.participant: list(each.command) for each in started}
    assert all(line[-2:] == ["solver", "in put"] for line in found.values())
    return {name: line[1:-2] for name, line in found.items()}


LAST = ["--cpus-per-task=1", "--threads-per-core=1", "--mem=0", "--exact", "--kill-on-bad-exit=1", "--export=ALL"]


def test_steps_on_cores_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_slurm(tmp_path, monkeypatch)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    last = [*LAST, "--immediate=300"]
    assert steps(tmp_path, {}, A=3, B=2) == {
        "A": ["--job-name=token", "--nodes=1-3", "--ntasks=3", *last, "--cpu-bind=cores"],
        "B": ["--job-name=token", "--nodes=1-2", "--ntasks=2", *last, "--cpu-bind=cores"],
    }
    found = steps(tmp_path, {"pin": False, "mpi": "pmi2", "arguments": ("-l",)}, A=3)
    assert found["A"] == ["--job-name=token", "--nodes=1-3", "--ntasks=3", *last, "--mpi=pmi2", "-l"]
    # Whole names: what an argument stands for is left out, and what Slurm takes only one of.
    found = steps(tmp_path, {"arguments": ("--mem-per-cpu", "2G", "--hint=nomultithread", "-I9")}, A=3)
    assert not {"--mem=0", "--threads-per-core=1", "--immediate=300", "--cpu-bind=cores"}.intersection(found["A"])
    assert "--cpus-per-task=1" in found["A"]


def test_steps_on_nodes_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_slurm(tmp_path, monkeypatch)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    found = steps(tmp_path, {}, 4, A=6, B=3, C=8)
    assert found["A"][1:-8] == [
        "--nodes=2",
        "--relative=0",
        "--ntasks=6",
        "--distribution=plane=4",
    ]
    assert found["B"][1:-8] == ["--nodes=1", "--relative=2", "--ntasks=3"]
    assert found["C"][1:-8] == [
        "--nodes=2",
        "--relative=3",
        "--ntasks=8",
        "--distribution=plane=4",
    ]
    assert not any("--overlap" in line for line in found.values())


def test_a_run_that_does_not_fit_into_the_allocation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_slurm(tmp_path, monkeypatch)
    with pytest.raises(CalibrationError, match=r"srun needs a Slurm allocation.*use the launcher slurm"):
        launcher_of("srun")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    monkeypatch.setenv("SLURM_JOB_CPUS_PER_NODE", "8,4")
    tasks = plan_of(tmp_path, A=9, B=4).tasks
    with pytest.raises(CalibrationError, match="at most 12 cores for all ranks and their threads, found 13"):
        launcher_of("srun").check(tasks)
    launcher_of("srun").check_cores(12)
    with pytest.raises(CalibrationError, match="at most 12 cores for all ranks and their threads, found 13"):
        launcher_of("srun").check_cores(13)
    with pytest.raises(CalibrationError, match=r"3 nodes are needed.*the allocation has 2"):
        launcher_of("srun").check(plan_of(tmp_path, 8, A=9, B=4).tasks)
    with pytest.raises(CalibrationError, match=r"heterogeneous allocation of as many components, this one has 1"):
        launcher_of("srun").check([Task("A", ("a",), 1, tmp_path, tmp_path, options=("--mem=1G",)), tasks[0]])
    assert cpus_of_nodes("8(x2),4") == [8, 8, 4]
    nodes = "NodeName=a CoresPerSocket=4 CPUTot=16 Sockets=2 X=1\nNodeName=b CoresPerSocket=4 CPUTot=4 Sockets=1\n"
    monkeypatch.setattr(slurm, "scontrol", lambda *words: nodes)
    monkeypatch.setenv("SLURM_JOB_NODELIST", "a,b")
    # Two hardware threads are one core, unless Slurm was told to count cores.
    assert allocated_cores() == [4, 4]
    monkeypatch.setenv("SLURM_HINT", "nomultithread")
    assert allocated_cores() == [8, 4]
    monkeypatch.setenv("SLURM_JOB_CPUS_PER_NODE", "16,4")
    assert allocated_cores() == [8, 4]
    assert cpus_of_nodes("") == []


@pytest.mark.parametrize("components", [None, "2"])
def test_gpus_of_a_step_take_no_component_of_an_allocation_that_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, components: str | None
) -> None:
    fake_slurm(tmp_path, monkeypatch)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    if components is not None:
        monkeypatch.setenv("SLURM_HET_SIZE", components)
    plan = plan_of(tmp_path, A=2, B=3)
    plan = replace(plan, tasks=(replace(plan.tasks[0], options=("--gpus-per-task=1",)), plan.tasks[1]))
    launcher = launcher_of("srun")
    launcher.check(plan.tasks)
    lines = [" ".join(launcher.command(plan, task)) for task in plan.tasks]
    assert ["--het-group" in line for line in lines] == [components is not None] * 2
    assert ["--gpus-per-task=1" in line for line in lines] == [True, False]


def test_steps_do_not_inherit_how_the_script_was_placed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_slurm(tmp_path, monkeypatch)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    environment = {"SLURM_JOB_ID": "7", "SLURM_NTASKS_PER_CORE": "1", "SLURM_CPU_BIND": "none", "SLURM_NTASKS": "9"}
    environment["SLURM_TRES_PER_TASK"] = "cpu=8"
    assert launcher_of("srun").environment(environment) == {"SLURM_JOB_ID": "7"}


@pytest.mark.parametrize("missing", ["srun", "slurm"])
def test_slurm_that_is_not_there_is_named(missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CalibrationError, match=r"no srun on the path: .*use mpiexec or a template"):
        launcher_of(missing)
