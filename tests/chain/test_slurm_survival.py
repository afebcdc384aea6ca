"""Chains that outlive what a real Slurm does to them, in both configurations.

Each time nothing is left in the queue, nothing has run twice, and the split that is recommended is the best one by the
law of the solvers.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from calibrate_helpers import recording, runs_of, write_case, write_study
from clock_helpers import study_environment
from segment_helpers import SOLVER, following, page
from slurm_helpers import ask, mpi_plugin, submitted, wait_until

from precice_lb.campaign.state import RunRecord

pytestmark = [pytest.mark.mpi, pytest.mark.slurm]

FULL = pytest.mark.slow("many jobs of a real Slurm")
# Waits, outside of the emulated clock, for as long as it is asked to.
WAITS = """\
while os.path.exists("{place}/wait"):
    open(f"{place}/waits-{name}", "w").close()
    os.system("sleep 0.1")
participant = p"""
# By the law 0.6 / Left and 0.4 / Right seconds.
BEST = {"Left": 3, "Right": 2}


@pytest.fixture(scope="module")
def launcher(cluster: str) -> str:
    """Lines of a study; in B no participant spans nodes, where the pmi2 of Slurm 22.05 breaks MPICH's messages off."""
    lines = f'name = "slurm"\nmpi = "{mpi_plugin()}"\narguments = ["--immediate=20"]'
    return lines if cluster == "A" else f"{lines}\nranks_per_node = 4"


class Case:
    """A case below a directory whose solvers wait, and what runs it."""

    def __init__(self, place: Path, launcher: str) -> None:
        self.place, self.directory = place, place / "out"
        write_case(place, SOLVER.replace("participant = p", WAITS.replace("{place}", str(place))))
        extra = f"{study_environment()}\n{CHAIN}"
        path = write_study(place, runs="retries = 1", launcher=launcher, extra=extra, case='network = "lo"')
        path.write_text(path.read_text().replace("ranks = 4", "ranks = 5"))
        self.study = recording(path, Left=0.6, Right=0.4)
        (place / "wait").touch()
        self.jobs_before = submitted()

    def submit(self) -> None:
        following(self.study, "--submit", "--output", str(self.directory))

    def job(self) -> str:
        """Wait until both participants wait; the number of their job."""
        waits = [self.place / "waits-Left", self.place / "waits-Right"]
        wait_until(lambda: all(path.exists() for path in waits), 120, self.log() or "a run that has begun")
        job = runs_of(self.directory)[-1].job
        assert job is not None
        return job

    def go(self) -> None:
        (self.place / "wait").unlink(missing_ok=True)

    def stop(self) -> None:
        for name in ("Left", "Right"):
            (self.place / f"waits-{name}").unlink(missing_ok=True)
        (self.place / "wait").touch()

    def log(self) -> str:
        log = self.directory / "campaign.log"
        return log.read_text() if log.exists() else ""

    def check(self, jobs: int) -> list[RunRecord]:
        """Nothing is left, each run has run once, and the best split is recommended; return the runs."""
        wait_until(lambda: not ask("squeue", "--noheader").strip(), 60, "an empty queue")
        runs = runs_of(self.directory)
        assert submitted() - self.jobs_before == jobs, self.log()
        for run in runs:
            exits = self.directory / run.directory / "exits"
            assert not exits.exists() or exits.read_text().count("begin ") == 1
        tokens = [sys.executable, "-m", "precice_lb", "recommend", str(self.directory), "--format", "json"]
        done = subprocess.run(tokens, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout)
        assert (said["split"], said["failed_splits"]) == (BEST, []), self.log()
        return runs


def inflict(trouble: str, job: str) -> None:
    """Do to a running job what a cluster does, and wait for its end where that is one."""
    if trouble == "cancelled":
        ask("scancel", job)
    elif trouble == "time limit":
        ask("scontrol", "update", f"jobid={job}", "timelimit=0:01")
    elif trouble == "drained":
        (node,) = {line.split()[0] for line in ask("squeue", "--noheader", f"--jobs={job}", "--format=%N").splitlines()}
        ask("scontrol", "update", f"nodename={node}", "state=drain", "reason=test")
        return
    wait_until(lambda: has_ended(job), 240, "the job's end")


def has_ended(job: str) -> bool:
    done = subprocess.run(["squeue", "--noheader", f"--jobs={job}"], capture_output=True, text=True, check=False)
    return not done.stdout.strip()


def resume_nodes() -> None:
    for node in ask("sinfo", "--noheader", "--Node", "--states=drain", "--format=%N").split():
        ask("scontrol", "update", f"nodename={node}", "state=resume")


TROUBLES = ["cancelled", *(pytest.param(text, marks=FULL) for text in ("time limit", "drained"))]


CHAIN = '[chain]\nwindows = 3\ntotal = 12\nstart = {Left = 2, Right = 2}\ncarry = ["state-*.npy"]\n'


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_chain_of_jobs_survives(tmp_path: Path, launcher: str, trouble: str) -> None:
    case = Case(tmp_path, launcher)
    case.go()
    case.submit()
    wait_until(lambda: page(case.directory)["windows_done"] >= 3, 120, "the first segment's end")
    case.stop()
    try:
        job = case.job()
        number = len(runs_of(case.directory))
        inflict(trouble, job)
        if trouble == "cancelled":
            # That stops the chain.
            assert not ask("squeue", "--noheader").strip()
        case.go()
        if trouble in ("cancelled", "time limit"):
            case.submit()
        wait_until(lambda: page(case.directory)["windows_done"] == 12, 240, "the chain's end")
    finally:
        resume_nodes()
    runs = runs_of(case.directory)
    hit = {"cancelled": ["interrupted"], "time limit": ["timeout"]}.get(trouble, [])
    assert [run.outcome for run in runs][number - 1 :][: len(hit)] == hit, case.log()
    case.check(4 + len(hit))
    assert [run.outcome for run in runs].count("finished") == 4
