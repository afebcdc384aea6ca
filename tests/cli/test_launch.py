"""``precice-lb launch``: a coupled run from its configuration and commands alone."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from calibrate_helpers import program, write_case
from report_helpers import precice_lb, refused
from slurm_helpers import wait_until

from precice_lb.campaign.launchers.local import available_cores
from precice_lb.case import patch_configuration
from precice_lb.cli import main
from precice_lb.text import plural

PULSE = Path(__file__).parents[2] / "tutorials" / "pulse"
CORES = available_cores()
# One rank each, which fit on two cores, or on one.
SHARE = ("--set", "launcher.oversubscribe=true")
ONE_EACH = ("--split", "Left=1,Right=1", *(SHARE if len(CORES) < 2 else ()))
# A script's arguments tell which participant it is and what it is to do.
SOLVER = """\
import os, sys, time
name, *what = sys.argv[1:]
print(name, "in", os.path.basename(os.getcwd()), "cores", sorted(os.sched_getaffinity(0)), flush=True)
if what[:1] == ["fail"]:
    sys.exit(f"{name} does not converge" if len(what) == 1 else int(what[1]))
if what:
    time.sleep(float(what[0]))
"""

pytestmark = [pytest.mark.launcher, pytest.mark.usefixtures("mpiexec", "activated")]


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A case of Left and Right, in which the command is called, outside of any batch system."""
    for name in [name for name in os.environ if name.startswith("SLURM")]:
        monkeypatch.delenv(name)
    directory = write_case(tmp_path, SOLVER)
    monkeypatch.chdir(directory)
    return directory


def solvers(left: str = "", right: str = "") -> list[str]:
    """What stands behind the options."""
    return shlex.split(f"-- python solver.py Left {left} : python solver.py Right {right}")


# --- runs ----------------------------------------------------------------------------------------------------------


@pytest.mark.mpi
def test_a_coupled_run_of_three_ranks(case: Path) -> None:
    shutil.copytree(PULSE, case / "pulse", ignore=shutil.ignore_patterns("__pycache__"))
    configuration = case / "pulse" / "precice-config.xml"
    patch_configuration(configuration, configuration, max_time_windows=3)
    room = () if len(CORES) >= 3 else SHARE
    (case / "pulse" / "Inner.log").write_text("of an earlier run\n")
    started = (
        "sh -c 'grep allowed_list /proc/$$/status && exec python -m precice_lb run ../solver-python/pulse.py {name}'"
    )
    commands = " : ".join(started.format(name=name) for name in ("Inner", "Outer"))
    done = precice_lb(
        "launch", "--split", "Inner=2,Outer=1", "--directory", "Inner=inner-python,Outer=outer-python", *room,
        "--", *shlex.split(commands),
        cwd=case / "pulse", PRECICE_LB_BACKEND="embedded", PRECICE_LB_DIR=str(case / "pulse" / "stores"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    logs = {name: (case / "pulse" / f"{name}.log").read_text() for name in ("Inner", "Outer")}
    *started_lines, last_line = done.stdout.splitlines()
    assert [line.split(":")[0] for line in started_lines] == ["Inner", "Outer"]
    assert re.fullmatch(r"ended after \d+\.\d s; precice-lb summary says where they went", last_line)
    assert "of an earlier run" not in logs["Inner"]
    cores = [line.split()[1] for log in logs.values() for line in log.splitlines() if "Cpus_allowed_list" in line]
    assert len(cores) == 3
    if not room:
        assert sorted(map(int, cores)) == sorted(CORES[:3])
    # What MPI and the coupling themselves saw, out of the stores.
    assert {path.name for path in (case / "pulse" / "stores").iterdir()} == {"Inner-2", "Outer-1"}
    said = precice_lb("summary", "stores", cwd=case / "pulse")
    assert "Run Inner:2 Outer:1" in said.stdout


@pytest.mark.mpi
def test_the_first_failure_ends_the_others_and_is_the_exit_code(case: Path) -> None:
    # Longer than anybody waits here.
    done = precice_lb("launch", *ONE_EACH, *solvers("900", "fail 7"), cwd=case)
    assert done.returncode == 7
    assert "precice-lb: Right ended with exit code 7 after " in done.stderr
    assert "Right: Right in case" in done.stderr
    assert not of_this_case(case)


def of_this_case(case: Path) -> list[int]:
    return [
        process.pid
        for process in psutil.process_iter(["cmdline", "cwd"])
        if "solver.py" in (process.info["cmdline"] or ()) and process.info["cwd"] == str(case)
    ]


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("number", "code", "seconds", "under"),
    [(signal.SIGINT, 130, "900", []), (signal.SIGTERM, 130, "900", []), (signal.SIGHUP, 0, "2", ["nohup"])],
)
def test_a_signal_ends_all_ranks_but_not_under_nohup(
    case: Path, number: signal.Signals, code: int, seconds: str, under: list[str]
) -> None:
    command = [*under, sys.executable, "-m", "precice_lb", "launch", *ONE_EACH, *solvers(seconds, seconds)]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        logs = [case / f"{name}.log" for name in ("Left", "Right")]
        wait_until(lambda: all(log.exists() and log.read_text() for log in logs))
        running.send_signal(number)
        _, error_text = running.communicate(timeout=300)
        assert running.returncode == code
    finally:
        running.kill()
    assert not of_this_case(case)
    assert ("logs and what was recorded are kept; launch starts anew" in error_text) == (code == 130)


# --- scripts -------------------------------------------------------------------------------------------------------


@pytest.mark.mpi
def test_the_written_script_runs_it(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", *ONE_EACH, "--write", "scripts", *solvers(right="fail 3")]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "nothing was started; start it: ./scripts/run.sh"
    # Variables of a batch system would lead every mpiexec to the first nodes of an allocation, here of none.
    batch = {"PBS_ENVIRONMENT": "1", "PBS_JOBID": "1", "PBS_NODEFILE": "none"}
    done = subprocess.run(["scripts/run.sh"], env={**os.environ, **batch}, check=False, timeout=300)
    assert done.returncode == 3
    assert (case / "Left.log").read_text().startswith("Left in case")


def test_on_a_login_node_scripts_are_written(
    case: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program(case.parent / "bin" / "sbatch", "exit 1")
    monkeypatch.setenv("PATH", str(case.parent / "bin"), prepend=os.pathsep)
    for answer, written in (("echo 'Slurmctld(primary) at head is DOWN'; exit 1", True), ("exit 1", False)):
        program(case.parent / "bin" / "scontrol", answer)
        assert main(["launch", *ONE_EACH, *solvers()]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert (lines[-1] == "nothing was started; start it: sbatch ./launch/job.sbatch") == written
        assert (case / "Left.log").exists() != written
        assert (case / "launch" / "job.sbatch").exists() == written
        shutil.rmtree(case / "launch", ignore_errors=True)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--slurm", "time=01:00:00"], "#SBATCH --time=01:00:00"),
        (["--slurm", "Right:partition=gpu"], "#SBATCH --partition=gpu"),
        (["--mpi", "pmi2"], "--mpi=pmi2 "),
        (["--set", "launcher.setup=['module load mpich']"], "module load mpich"),
        (["--launcher", "slurm"], "srun "),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_options_of_a_job_write_its_script_and_start_nothing(
    options: list[str], line: str, case: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where there is no Slurm: the script may be for another machine."""
    monkeypatch.setattr("precice_lb.campaign.launch.on_login_node", lambda: False)

    assert main(["launch", *ONE_EACH[:2], *options, *solvers()]) == 0

    assert capsys.readouterr().out.splitlines()[-1] == "nothing was started; start it: sbatch ./launch/job.sbatch"
    assert line in (case / "launch" / "job.sbatch").read_text()
    assert list(case.glob("*.log")) == []


@pytest.mark.parametrize(
    ("options", "script", "command"),
    [
        (["--slurm", "time=01:00:00"], "job.sbatch", "sbatch ./here/job.sbatch"),
        ([], "run.sh", "./here/run.sh"),
    ],
    ids=["options of a job", "none"],
)
def test_in_an_allocation_scripts_of_a_job_are_written_where_its_options_are_said(
    options: list[str],
    script: str,
    command: str,
    case: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", str(program(case.parent / "bin" / "srun", "exit 1").parent), prepend=os.pathsep)
    monkeypatch.setenv("SLURM_JOB_ID", "7")

    assert main(["launch", *ONE_EACH[:2], *options, "--write", "here", *solvers()]) == 0

    assert capsys.readouterr().out.splitlines()[-1] == f"nothing was started; start it: {command}"
    assert (case / "here" / script).exists()
    assert list(case.glob("*.log")) == []


# --- refusals ------------------------------------------------------------------------------------------------------


def test_no_script_is_announced_where_its_launcher_is_missing(
    case: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(program(case.parent / "bin" / "python", "exit 1").parent))
    monkeypatch.setenv("SLURM_JOB_ID", "7")

    error = refused(capsys, "launch", *ONE_EACH[:2], "--write", "here", *solvers())

    assert "expected srun on this machine, so that run.sh can start ranks, found none; install it" in error


@pytest.mark.parametrize(
    "more",
    [
        ["--directory", "Left=."],
        ["--launcher", "mpiexec"],
        ["--mpi", "pmix"],
        ["--slurm", "partition=cpu"],
        ["--", "python", "solver.py"],
    ],
)
def test_what_a_study_says_already_is_refused_beside_it(
    more: list[str], case: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = "--study: expected --split, --set and --write alone beside it, found more; use --set"
    assert expected in refused(capsys, "launch", "--study", "study.toml", *more)


def test_more_ranks_than_cores_are_refused(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    error = refused(capsys, "launch", "--split", "Left=500,Right=500", *solvers())
    assert f"expected at most {plural(len(CORES), 'core')} for all ranks and their threads, found 1000:" in error
    assert not list(case.glob("*.log"))


def test_sockets_on_loopback_are_refused_on_several_nodes(
    case: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(program(case.parent / "bin" / "srun", "exit 1").parent), prepend=os.pathsep)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    expected = "precice-lb: error: precice-config.xml, line 22: expected network= "
    assert refused(capsys, "launch", "--split", "Left=1,Right=1", *solvers()).startswith(expected)
