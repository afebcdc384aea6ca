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
from conftest import FULL_COUNTS
from segment_helpers import assert_state, assert_whole, page, write_chain
from slurm_helpers import ask, wait_until

pytestmark = [pytest.mark.mpi, pytest.mark.slurm, pytest.mark.usefixtures("slurm")]

TWO = '[chain]\nwindows = 6\ntotal = 12\nstart = {Left = 1, Right = 3}\ncarry = ["state-*.npy"]\n'
LIVE = "PENDING RUNNING COMPLETING CONFIGURING"


def write_slurm_chain(directory: Path, mpi: str) -> Path:
    """Write the study of a chain of Slurm's jobs."""
    launcher = f'name = "slurm"\nmpi = "{mpi}"'
    return write_chain(directory, chain=TWO, launcher=launcher, case='network = "lo"')


def jobs() -> list[str]:
    """Numbers of all jobs that have not ended."""
    rows = [line.split() for line in ask("squeue", "--noheader", "--format=%i %T").splitlines()]
    return [row[0] for row in rows if row[1] in LIVE.split()]


def test_chains_killed_at_any_moment_go_on_and_run_no_segment_twice(tmp_path: Path, mpi: str) -> None:
    """Whatever runs of the chain is killed: the call that decides, wherever it runs, or the job."""
    random, kills, wanted, number = Random(5), 0, 40 if FULL_COUNTS else 1, 0
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
        assert_state(directory / assert_whole(directory, 6)[-1].directory, 12)
        assert {run.outcome for run in runs_of(directory)} <= {"finished", "interrupted", "failed"}
