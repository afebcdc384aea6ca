"""Chains of jobs on a real Slurm: jobs that submit each other, kills, time limits, nodes that disappear."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
from calibrate_helpers import runs_of
from segment_helpers import page, write_chain
from slurm_helpers import ask, wait_until
from test_chain_next import assert_whole, following

pytestmark = [pytest.mark.mpi, pytest.mark.slurm, pytest.mark.usefixtures("slurm")]

FOUR = '[chain]\nwindows = 3\ntotal = 12\nstart = {Left = 1, Right = 3}\ncarry = ["state-*.npy"]\n'
# The clock is emulated.
STUCK = "__import__('signal').pause()"
LIVE = "PENDING RUNNING COMPLETING CONFIGURING"


def write_slurm_chain(directory: Path, mpi: str) -> Path:
    """Write the study of a chain of Slurm's jobs."""
    launcher = f'name = "slurm"\nmpi = "{mpi}"'
    return write_chain(directory, chain=FOUR, launcher=launcher, case='network = "lo"')


def jobs() -> list[str]:
    """Numbers of all jobs that have not ended."""
    rows = [line.split() for line in ask("squeue", "--noheader", "--format=%i %T").splitlines()]
    return [row[0] for row in rows if row[1] in LIVE.split()]


def start(study: Path, *more: str) -> None:
    done = following(study, "--submit", *more)
    assert done.returncode == 0, done.stderr


def has_ended(directory: Path) -> bool:
    return page(directory)["windows_done"] == 12 and not jobs()


@pytest.mark.slow("many jobs of a real Slurm")
def test_four_jobs_submit_each_other(tmp_path: Path, mpi: str) -> None:
    study, directory = write_slurm_chain(tmp_path, mpi), tmp_path / "study-chain"
    start(study)
    wait_until(lambda: has_ended(directory), 240, "the chain's end")
    runs = runs_of(directory)
    assert [run.outcome for run in runs] == ["finished"] * 4
    assert len({run.job for run in runs}) == 4
    assert_whole(directory, 3)


@pytest.mark.slow("many jobs of a real Slurm")
@pytest.mark.parametrize("loss", ["node", "time", "cancelled"])
def test_a_segment_that_is_lost_leaves_the_state_and_the_chain_goes_on(tmp_path: Path, mpi: str, loss: str) -> None:
    study, directory = write_slurm_chain(tmp_path, mpi), tmp_path / "study-chain"
    case = tmp_path / "case" / "solver.py"
    quick = case.read_text()
    start(study)
    wait_until(lambda: page(directory)["windows_done"] >= 3, 120, "the first segment's end")
    case.write_text(quick.replace("    participant.read_data", f"    {STUCK}\n    participant.read_data"))
    wait_until(lambda: _stuck(directory), 120, "a segment that does not end")
    lost = runs_of(directory)[-1]
    done = following(study, "--submit")
    assert done.returncode == 2
    assert f"as Slurm's job {lost.job}: its last line goes on" in done.stderr
    assert lost.job is not None
    try:
        if loss == "node":
            node = ask("squeue", "--noheader", f"--jobs={lost.job}", "--format=%N").strip()
            ask("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
        elif loss == "time":
            ask("scontrol", "update", f"jobid={lost.job}", "timelimit=0:01")
        else:
            ask("scancel", lost.job)
        wait_until(lambda: lost.job not in jobs(), 150, "the job's end")
    finally:
        if loss == "node":
            subprocess.run(["scontrol", "update", f"nodename={node}", "state=resume"], check=False)
    case.write_text(quick)
    before = [run.name for run in runs_of(directory) if run.outcome == "finished"]
    done = following(study, "--submit")
    if "ended as TIMEOUT" in done.stderr:
        # For its time limit a segment answers, and the chain waits for somebody to see to it.
        assert (loss, done.returncode) == ("time", 1)
        start(study)
    else:
        # Where a job's script outlives its node, it has gone on already.
        assert done.returncode == 0 or (loss == "node" and "waits or runs as" in done.stderr), done.stderr
    wait_until(lambda: has_ended(directory), 240, "the chain's end")
    assert_whole(directory, 3)
    runs = runs_of(directory)
    assert [run.name for run in runs if run.outcome == "finished"][: len(before)] == before
    (ended,) = (run for run in runs if run.name == lost.name)
    assert ended.outcome in ("interrupted", "timeout" if loss == "time" else "failed")
    assert ended.outcome == "interrupted" or loss != "cancelled"


def _stuck(directory: Path) -> bool:
    """Whether the last segment waits in the solver that was edited behind the chain's back."""
    last = runs_of(directory)[-1]
    place = directory / last.directory
    started = (place / "exits").is_file()
    return last.outcome == "running" and started and STUCK in (place / "case" / "solver.py").read_text()


@pytest.mark.slow("many jobs of a real Slurm")
def test_chains_killed_at_any_moment_go_on_and_run_no_segment_twice(tmp_path: Path, mpi: str) -> None:
    """Whatever runs of the chain is killed: the call that decides, wherever it runs, or the job."""
    random, kills, wanted, number = Random(5), 0, 100, 0
    while kills < wanted:
        place = tmp_path / str(number)
        place.mkdir()
        study, directory = write_slurm_chain(place, mpi), place / "study-chain"
        number += 1
        done: list[str] = []
        end = time.monotonic() + 600
        while not ((directory / "chain.json").is_file() and page(directory)["windows_done"] == 12):
            assert time.monotonic() < end, (directory / "campaign.log").read_text()
            tokens = [sys.executable, "-m", "precice_lb", "chain", "next", str(study), "--submit"]
            call = subprocess.Popen(tokens, stderr=subprocess.PIPE, text=True, start_new_session=True)
            if random.random() < 0.4 and kills < wanted:
                try:
                    call.wait(timeout=random.uniform(0.0, 6.0))
                except subprocess.TimeoutExpired:
                    os.killpg(call.pid, signal.SIGKILL)
                    kills += 1
            _, said = call.communicate(timeout=300)
            assert call.returncode in (0, -signal.SIGKILL) or "waits or runs as" in said, said
            begun = time.monotonic()
            wait = random.uniform(0.0, 12.0) if kills < wanted else 300.0
            while jobs() and time.monotonic() - begun < wait:
                time.sleep(0.1)
            for job in jobs():
                # It may have ended since.
                killed = subprocess.run(["scancel", "--signal=KILL", "--full", job], capture_output=True, check=False)
                kills += killed.returncode == 0
            wait_until(lambda: not jobs(), 60, "the end of what was killed")
            finished = [run.name for run in runs_of(directory) if run.outcome == "finished"]
            assert finished[: len(done)] == done
            done = finished
        assert_whole(directory, 3)
        assert {run.outcome for run in runs_of(directory)} <= {"finished", "interrupted", "failed"}
