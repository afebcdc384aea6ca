"""Slurm without Slurm: the exact lines of steps and job scripts, and what its answers are taken for."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from calibrate_helpers import launcher_of, plan_of, refusals, run_study, tasks_of, write_study
from fake_slurm import FakeSlurm

from precice_lb.campaign.launchers import slurm as slurm_launchers
from precice_lb.campaign.launchers.slurm import allocated_cores, resource_options
from precice_lb.exceptions import CalibrationError


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """Programs of Slurm's names, to see tokens and scripts where there is no Slurm."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    return FakeSlurm(tmp_path / "slurm", monkeypatch)


def steps(split: str, **keys: object) -> list[str]:
    """The lines of steps in an allocation, behind the program."""
    launcher, tasks = launcher_of("srun", **keys), tasks_of(split)
    plan = plan_of(Path(), *tasks)
    launcher.check(tasks)
    return [" ".join(launcher.command(plan, task)[1:]) for task in tasks]


@pytest.mark.parametrize("block", refusals("slurm-steps.txt"))
def test_the_steps_of_an_allocation(slurm: FakeSlurm, block: str) -> None:
    """A split, keys of the launcher, and the line of each step."""
    split, keys, *expected = block.split("\n")
    assert steps(split, **json.loads(keys)) == expected


def test_a_run_that_does_not_fit_into_the_allocation(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    monkeypatch.setenv("SLURM_JOB_CPUS_PER_NODE", "8,4")
    steps("A=8 B=4")
    for split, expected in (
        ("A=9 B=4", "at most 12 cores for all ranks and their threads, found 13"),
        ("A=8/4 B=4/4", "3 nodes are needed.*the allocation has 2"),
        ("A=1--mem=1G B=1", "expected options for GPUs alone in an allocation"),
    ):
        with pytest.raises(CalibrationError, match=expected):
            steps(split)
    monkeypatch.setenv("SLURM_HET_SIZE", "2")
    with pytest.raises(CalibrationError, match=r"this process is in a heterogeneous one: .*use the launcher slurm"):
        launcher_of("srun")
    monkeypatch.delenv("SLURM_JOB_ID")
    with pytest.raises(CalibrationError, match=r"srun needs a Slurm allocation .* in none"):
        launcher_of("srun")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CalibrationError, match=r"no srun on the path: .*use mpiexec or a template"):
        launcher_of("slurm")


@pytest.mark.parametrize(
    ("cpus", "hint", "cores"),
    [
        ("8(x2),4", "", [8, 8, 4]),
        # Two hardware threads are one core, unless Slurm was told to count cores.
        ("8,4", "", [4, 4]),
        ("8,4", "nomultithread", [8, 4]),
        ("16,4", "nomultithread", [8, 4]),
        ("", "", []),
    ],
)
def test_cores_of_an_allocation(cpus: str, hint: str, cores: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = "NodeName=a CoresPerSocket=4 CPUTot=16 Sockets=2 X=1\nNodeName=b CoresPerSocket=4 CPUTot=4 Sockets=1\n"
    monkeypatch.setattr(slurm_launchers, "scontrol", lambda *words: nodes)
    for name, value in (("JOB_NODELIST", "a,b"), ("JOB_CPUS_PER_NODE", cpus), ("HINT", hint)):
        monkeypatch.setenv(f"SLURM_{name}", value)
    assert allocated_cores() == cores


# --- jobs ----------------------------------------------------------------------------------------------------------


def job(directory: Path, split: str, **keys: object) -> list[str]:
    """The ``#SBATCH`` lines of a run behind the name, output and requeueing."""
    (script,) = launcher_of("slurm", **keys).files(plan_of(directory, *tasks_of(split))).values()
    return [line.removeprefix("#SBATCH ") for line in script.splitlines() if line.startswith("#SBATCH")][3:]


@pytest.mark.parametrize(
    ("split", "size"),
    [
        ("A=24 B=1", "--ntasks=25 --cpus-per-task=1"),
        # In blocks, each of which lies on one node, also where that takes some cores more.
        ("A=24 B=1x8", "--ntasks=4 --cpus-per-task=8"),
        ("A=3 B=1x2", "--ntasks=3 --cpus-per-task=2"),
        ("A=5x3 B=1x4", "--ntasks=6 --cpus-per-task=4"),
        ("A=6x2 B=5x2", "--ntasks=11 --cpus-per-task=2"),
        ("A=24/12 B=2x8/12", "--nodes=3 --ntasks-per-node=2 --cpus-per-task=8"),
        ("A=9/9 B=2x2/1", "--nodes=3 --ntasks-per-node=9 --cpus-per-task=1"),
    ],
)
def test_a_job_is_asked_for_the_cores_of_its_ranks(split: str, size: str) -> None:
    assert resource_options(tasks_of(split), ()) == [size.split()]


@pytest.mark.parametrize(
    "own",
    ["--exclusive", "--nodes=4", "--ntasks-per-node=48", "--ntasks-per-core=1", "--hint=nomultithread", "--mem=180G"],
)
def test_the_user_s_options_of_a_job_come_first(tmp_path: Path, slurm: FakeSlurm, own: str) -> None:
    threads = [] if "hint" in own else ["--threads-per-core=1"]
    last = ["--ntasks=96", "--cpus-per-task=1", *threads]
    assert job(tmp_path, "A=80 B=16", options=(own,)) == ["--time=2", own, *last]
    # As options of a participant, in place of the study's.
    both = job(tmp_path, f"A=80 B=96{own}", options=("--mem=1G",))
    assert both[6:] == ["--time=2", *([] if "mem" in own else ["--mem=1G"]), own, *last]


@pytest.mark.parametrize(
    ("own", "refused"),
    [("-n 95", "--ntasks=95"), ("--nodes=1 --exclusive", "--nodes=1"), ("-O", "--overcommit")]
    + [(word, word) for word in ("--cpus-per-task=2", "--ntasks-per-core=2", "--threads-per-core=2")]
    + [("--hint=multithread", "--hint=multithread")],
)
def test_options_that_say_the_size_of_a_job_are_refused(slurm: FakeSlurm, own: str, refused: str) -> None:
    launcher = launcher_of("slurm", options=tuple(re.split(" (?=-)", own)))
    with pytest.raises(CalibrationError) as caught:
        launcher.check(tasks_of("A=80/48 B=16/48" if "exclusive" in own else "A=80 B=16"))
    assert str(caught.value) == f"options of the job: found {refused}, which follows from the split: leave it out"


@pytest.mark.parametrize(
    ("line", "stuck"),
    [
        *((f"PENDING {reason}", True) for reason in ("BadConstraints", "QOSMaxCpuPerJobLimit", "JobHeldUser")),
        *((line, False) for line in ("PENDING QOSMaxJobsPerUserLimit", "PENDING Dependency", "RUNNING BadConstraints")),
    ],
)
def test_reasons_that_pass_are_told_from_those_that_do_not(slurm: FakeSlurm, line: str, stuck: bool) -> None:
    launcher, told = launcher_of("slurm"), list[str]()
    launcher.warn = told.append
    slurm.answer("squeue", f"echo '{line}'")
    state, _, reason = line.partition(" ")
    assert launcher.scheduler.poll("1") == [state]
    assert [reason in text for text in told] == [True] * stuck


def test_what_slurm_refuses_for_every_split_is_tried_for_two_of_them(tmp_path: Path, slurm: FakeSlurm) -> None:
    slurm.answer("sbatch", f"echo >>{tmp_path}/asked\necho 'sbatch: error: Invalid account or partition' >&2\nexit 1")
    splits = "splits = [{Left=2, Right=1}, {Left=1, Right=2}, {Left=1, Right=1}]"
    path = write_study(tmp_path, runs=splits, launcher='name = "slurm"', case='network = "lo"')
    with pytest.raises(CalibrationError, match=r"every run failed; .*Slurm refuses the job: .*Invalid account"):
        run_study(path)
    assert (tmp_path / "asked").read_text() == "\n\n"
