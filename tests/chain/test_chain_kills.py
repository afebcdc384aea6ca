"""Chains killed at random moments and started again: no segment is lost or run twice, and the end is the same."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
from calibrate_helpers import alive, finished_runs, runs_of
from conftest import FULL_COUNTS
from segment_helpers import assert_whole, write_copies

from precice_lb.campaign import RunRecord

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("mpiexec")]

# As the chain's command, with decisions that do not depend on this machine's clock.
DRIVER = """\
import sys
from pathlib import Path
from segment_helpers import planned, run_with
from precice_lb.campaign import read_study
plan = ({"Left": 2, "Right": 2}, {"Left": 3, "Right": 1})
run_with(planned(*plan), read_study(sys.argv[1]), Path(sys.argv[2]), report=None)
"""
SPLITS = [{"Left": 1, "Right": 3}, {"Left": 2, "Right": 2}, {"Left": 3, "Right": 1}]


def drive(study: Path, directory: Path, kill_after: float | None) -> bool:
    """Run or go on with a chain; whether it came to its end before it was killed, so many seconds after it began."""
    path = os.pathsep.join([*(str(Path(__file__).parents[up]) for up in (0, 1)), *filter(None, sys.path)])
    command = [sys.executable, "-c", DRIVER, study, directory]
    chain = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path})
    if kill_after is not None:
        lock = directory / "campaign.lock"
        while chain.poll() is None and not (lock.exists() and f"process {chain.pid} on" in lock.read_text()):
            time.sleep(0.01)
        try:
            chain.wait(timeout=kill_after)
        except subprocess.TimeoutExpired:
            chain.kill()
    _, output = chain.communicate(timeout=300)
    assert chain.returncode in (0, -9), output
    return chain.returncode == 0


def assert_as_planned(directory: Path, before: list[RunRecord]) -> RunRecord:
    """Every window was done once, in order, as planned; return the last run."""
    finished = assert_whole(directory)
    assert finished[: len(before)] == before
    assert [run.split for run in finished] == SPLITS
    assert {run.outcome for run in runs_of(directory)} <= {"finished", "interrupted"}
    assert alive(directory) == []
    return finished[-1]


def test_chains_killed_at_random_moments_lose_and_repeat_nothing(tmp_path: Path) -> None:
    study = write_copies(tmp_path)
    began = time.monotonic()
    assert drive(study, tmp_path / "undisturbed", None)
    whole = time.monotonic() - began
    assert_as_planned(tmp_path / "undisturbed", [])
    random = Random(3)
    kills, wanted, number = 0, 50 if FULL_COUNTS else 1, 0
    while kills < wanted:
        directory = tmp_path / f"chain-{number}"
        number += 1
        before: list[RunRecord] = []
        while not drive(study, directory, random.uniform(0.0, 0.5) * whole if kills < wanted else None):
            kills += 1
            now = finished_runs(directory)
            assert now[: len(before)] == before
            before = now
        last = directory / assert_as_planned(directory, before).directory / "case"
        for at, name in enumerate(("Left", "Right")):
            ranks = [tuple(split.values())[at] for split in SPLITS]
            lines = [f"{segment + 1} {4 * segment} {ranks[segment]}" for segment in range(3)]
            assert (last / f"state-{name}.npy").read_text().splitlines() == lines
