"""Jobs of campaigns on Slurm: what interrupts and kills leave of them, and whose time counts."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from calibrate_helpers import DRIVER, SOLVER, launcher_of, quiet, run_study, task_of, write_study
from fake_slurm import FakeSlurm, hasty_fake_slurm
from slurm_helpers import wait_until

from precice_lb.campaign import RunPlan, read_study, run_campaign

ONE = "splits = [{Left=1, Right=1}]"
TWO = "splits = [{Left=1, Right=1}, {Left=2, Right=1}]"


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """A Slurm of files and processes, which is asked again at once."""
    return hasty_fake_slurm(tmp_path / "slurm", monkeypatch)


def study_of_jobs(directory: Path, runs: str = ONE) -> Path:
    """Write a study whose runs are jobs."""
    return write_study(directory, solver=SOLVER, runs=runs, launcher='name = "slurm"', case='network = "lo"')


@pytest.fixture
def waiting(tmp_path: Path, slurm: FakeSlurm) -> Iterator[subprocess.Popen[bytes]]:
    """A campaign, as a process, whose first job waits in the queue."""
    slurm.set("held")
    path = study_of_jobs(tmp_path)
    command = [sys.executable, "-c", DRIVER, str(path), str(tmp_path / "campaign")]
    campaign = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: '"job": "1"' in text_of(tmp_path / "campaign" / "campaign.json"), 300)
        yield campaign
    finally:
        campaign.kill()
        campaign.wait()


def text_of(path: Path) -> str:
    """Read a file, which may not be there yet."""
    return path.read_text(encoding="utf-8") if path.exists() else ""


@pytest.mark.usefixtures("mpiexec")
def test_an_interrupt_cancels_the_job_of_the_run(
    tmp_path: Path, slurm: FakeSlurm, waiting: subprocess.Popen[bytes]
) -> None:
    waiting.send_signal(signal.SIGINT)
    waiting.wait(300)
    wait_until(lambda: slurm.states() == ["CANCELLED"])

    (slurm.root / "held").unlink()
    result = run_campaign(read_study(tmp_path / "study.toml"), tmp_path / "campaign", report=quiet)

    assert [(run.outcome, run.job) for run in result.runs] == [("interrupted", "1"), ("finished", "2")]


@pytest.mark.usefixtures("mpiexec")
def test_the_job_of_a_killed_campaign_goes_on_and_is_waited_for(
    tmp_path: Path, slurm: FakeSlurm, waiting: subprocess.Popen[bytes]
) -> None:
    waiting.kill()
    waiting.wait(300)
    assert slurm.states() == ["PENDING"]

    (slurm.root / "held").unlink()
    result = run_campaign(read_study(tmp_path / "study.toml"), tmp_path / "campaign", report=quiet)

    assert [(run.outcome, run.job) for run in result.runs] == [("finished", "1")]


@pytest.mark.usefixtures("mpiexec")
def test_a_split_whose_jobs_were_lost_is_measured_when_the_campaign_is_started_again(
    tmp_path: Path, slurm: FakeSlurm
) -> None:
    slurm.set("no step", "2")
    path = study_of_jobs(tmp_path, TWO)
    first = run_study(path)
    assert [run.outcome for run in first.runs] == ["lost", "lost", "finished"]

    again = run_study(path)

    assert [run.outcome for run in again.runs] == ["lost", "lost", "finished", "finished"]
    assert again.runs[3].split == again.runs[0].split


@pytest.mark.parametrize(
    ("run_seconds", "error", "states"),
    [(9.0, None, ["RUNNING"]), (600.0, "Left still ran at the time limit of 10 s", ["CANCELLED"])],
    ids=["within its time limit", "over its time limit"],
)
def test_time_in_the_queue_does_not_count_as_that_of_the_run(
    run_seconds: float, error: str | None, states: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    slurm: FakeSlurm,
) -> None:  # fmt: skip
    """A job that waits for an hour, on a clock that is set."""
    begins = 3600.0
    clock = SimpleNamespace(now=0.0)
    said: dict[str, Any] = {"states": ["PENDING"]}
    exits = tmp_path / "exits"

    def sleep(seconds: float) -> None:
        clock.now += seconds
        if clock.now >= begins:
            lines = [f"begin {begins}"]
            said["states"] = ["RUNNING"]
            if clock.now >= begins + run_seconds:
                lines += ["exit 0 Left", f"end {begins + run_seconds}"]
            exits.write_text("\n".join(lines) + "\n")

    time = SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep)
    monkeypatch.setattr("precice_lb.campaign.schedulers.time", time)
    scheduler = launcher_of("slurm", tmp_path).slurm
    monkeypatch.setattr(scheduler, "poll", lambda job: said["states"])
    monkeypatch.setattr(scheduler, "cancel", lambda job: said.update(states=["CANCELLED"]))
    plan = RunPlan("001-Left1", tmp_path, (task_of("Left", directory=tmp_path),), time_limit_seconds=10.0)

    outcome = scheduler.follow(plan, "1")

    assert outcome.error == error
    # The solver's own clock, or up to when it was stopped.
    assert outcome.seconds == pytest.approx(min(run_seconds, 10.0), abs=1.0)
    assert said["states"] == states
