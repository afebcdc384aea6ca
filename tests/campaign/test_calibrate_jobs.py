"""The job that a campaign is, by a template inside; scripts of runs and what they leave, without a batch system."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from calibrate_helpers import (
    WAITS_FOR_GO,
    WAITS_FOR_SIGNAL,
    launcher_of,
    plan_of,
    program,
    run_study,
    task_of,
    write_case,
    write_study,
)
from clock_helpers import Clock
from fake_slurm import FakeSlurm

from precice_lb.campaign import run_processes
from precice_lb.campaign.processes import Outcome
from precice_lb.campaign.schedulers import body, read_exits


def test_the_words_of_a_template_stay_apart(tmp_path: Path) -> None:
    launcher = launcher_of("template", participant="go -n {ranks} -d {threads} -c {cores} ${HOME} {command}")
    plan = plan_of(tmp_path, task_of("A"), task_of("B", threads=3))
    words = ["go", *["-n", "1", "-d", "3", "-c", "3"], "${HOME}", "solve", "in put"]
    assert launcher.command(plan, plan.tasks[1]) == words


def test_a_template_is_told_the_run_and_the_participant_and_where_its_ranks_and_nodes_begin(tmp_path: Path) -> None:
    words = "go {first_node} {nodes} {first_rank} {ranks} {ranks_per_node} {name} {run} {participant} {directory}"
    launcher = launcher_of("template", participant=f"{words} {{command}}")
    left = task_of("Left", 6, ranks_per_node=4)
    right = task_of("Right", 2, ranks_per_node=1, directory=tmp_path / "case", command="solve")

    command = launcher.command(plan_of(tmp_path, left, right), right)

    expected = ["go", "2", "2", "6", "2", "1", "001-x", f"{tmp_path}", "Right", f"{tmp_path}/case", "solve"]
    assert command == expected


def test_the_example_for_pbs_gives_every_participant_nodes_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "cluster.md").read_text()
    example = re.search(r"```bash\n(#!/bin/bash\n# on-nodes\.sh .*?)```", text, flags=re.DOTALL)
    assert example is not None
    case = write_case(tmp_path)
    program(tmp_path / "mpiexec", 'echo "$2" >hosts\nexport PMI_SIZE=$6\nshift 6\nexec "$@"')
    program(tmp_path / "on-nodes.sh").write_text(example[1])
    for side in ("left", "right"):
        (case / side).mkdir()
        shutil.copy(case / "solver.py", case / side)
    (tmp_path / "nodes").write_text("n0\nn0\nn1\nn1\nn2\nn2\n")
    monkeypatch.setenv("PBS_NODEFILE", str(tmp_path / "nodes"))
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    start = f"env PATH={path} {tmp_path}/on-nodes.sh {{first_node}} {{nodes}} {{ranks}} {{command}}"
    launcher = f"name = 'template'\nparticipant = '{start}'\nranks_per_node = 2"
    sides = {side: f'directory = "{side}"' for side in ("left", "right")}
    runs = "splits = [{Left=3, Right=1}]"
    study = write_study(tmp_path, runs=runs, launcher=launcher, case='network = "lo"', **sides)
    (run,) = run_study(study).finished
    made = tmp_path / "campaign" / run.directory / "case"
    assert [(made / side / "hosts").read_text() for side in ("left", "right")] == ["n0,n1\n", "n2\n"]


# --- scripts and exits ---------------------------------------------------------------------------------------------


def test_exit_codes_of_a_job_are_read_whatever_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "exits"
    assert not read_exits(file).ended
    file.write_text("begin 10.5\nexit 137 A 1\nexit 0 B\nend 12.0\nexit 1")
    exits = read_exits(file)
    assert (exits.codes, exits.begun, exits.seconds) == ({"A 1": 137, "B": 0}, 10.5, 1.5)
    assert exits.outcome(plan_of(tmp_path, task_of("A 1"), task_of("B"))).error == "A 1 was ended by signal 9"
    file.write_text("begin 10.5\nexit 0 A\nend 12")
    assert not read_exits(file).ended


NOT_LAUNCHED = "srun: error: task 0 launch failed: Slurmd could not execve job"
NEVER = "A never started: task 0 launch failed: Slurmd could not execve job"


def exits_of(shell: str, directory: Path, **commands: str) -> list[str]:
    """Run a job's script by a shell, with a line for each participant; return how they and the script ended.

    Programs in ``bin`` come first on the path.
    """
    tasks = [replace(task_of(name, directory=directory), command=("sh", "-c", line)) for name, line in commands.items()]
    text = body(tasks, exit_file=directory / "exits") + f'echo "status $status" >>{directory}/exits\n'
    script = replace(task_of("script", directory=directory), command=(shell, "-c", text))
    environment = {**os.environ, "PATH": f"{directory / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    run_processes([script], environment, str(directory), 250.0)
    return (directory / "exits").read_text().splitlines()


def write_clock(directory: Path, stands_at: int) -> None:
    """Let `date` count the seconds by how often it is asked, from 0, until it stands still and there is a file "go"."""
    lines = f"""\
seconds=$(cat {directory}/seconds 2>/dev/null || echo -1)
[ "$seconds" -ge {stands_at} ] || seconds=$((seconds + 1))
[ "$seconds" -lt {stands_at} ] || touch {directory}/go
echo "$seconds" >{directory}/seconds
echo "$seconds"
"""
    program(directory / "bin" / "date", lines)


@pytest.mark.parametrize(
    ("command", "stands_at", "log", "code"),
    [
        # A partner has 2 s to find out and to say so, then is asked to end, and killed 10 s later.
        (f"touch ready; {WAITS_FOR_GO}; test -e go && echo ended by itself", 1, "ended by itself\n", 0),
        (f"trap 'echo ended when asked; exit 1' TERM; touch ready; {WAITS_FOR_SIGNAL}", 2, "ended when asked\n", 1),
        (
            f"trap '{WAITS_FOR_GO}; test -e go && echo cleaned up; exit 1' TERM; touch ready; {WAITS_FOR_SIGNAL}",
            11,
            "cleaned up\n",
            1,
        ),
        ("trap '' TERM; touch ready; sleep 60", 12, "", 137),
    ],
    ids=["ends by itself", "ends when asked", "cleans up", "does not listen"],
)
def test_the_partner_of_a_participant_that_failed_is_asked_to_end_after_2_seconds_and_killed_after_12(
    command: str, stands_at: int, log: str, code: int, shell: str, tmp_path: Path
) -> None:
    write_clock(tmp_path, stands_at)

    exits = exits_of(shell, tmp_path, A=command, B="until test -e ready; do sleep 0.05; done; exit 3")

    assert exits == ["exit 3 B", f"exit {code} A", "status 3"]
    assert (tmp_path / "A.log").read_text() == log


def test_a_participant_that_somebody_terminates_stops_the_job(shell: str, tmp_path: Path) -> None:
    told = "until test -e well; do sleep 0.05; done; kill -TERM $$"
    exits = exits_of(shell, tmp_path, A=told, B="touch well; exec sleep 300")
    assert [line.rstrip() for line in exits] == ["exit 143 A", "stopped by a signal", "exit 143 B", "status 143"]
    (tmp_path / "exits").write_text("\n".join(["begin 1", *exits[:3], "end 2", ""]))
    plan = plan_of(tmp_path, task_of("A"), task_of("B"))
    outcome = read_exits(tmp_path / "exits").outcome(plan)
    assert (outcome.error, outcome.lost) == ("the job was cancelled, or lost its node", True)


def test_a_script_tells_what_srun_did_not_start(shell: str, tmp_path: Path) -> None:
    # Of an earlier run, with the same words.
    (tmp_path / "B.log").write_text(f"{NOT_LAUNCHED}\n")
    said = f"until test -e well; do sleep 0.05; done; echo {NOT_LAUNCHED!r}"
    exits = exits_of(shell, tmp_path, A=said, B="touch well", C="exec sleep 300")
    assert sorted(exits) == ["exit 0 B", "exit 1 A", "exit 143 C", "status 1"]
    assert (tmp_path / "script.log").read_text().startswith("A never started: task 0 launch failed: Slurmd could not ")
    (tmp_path / "exits").write_text("begin 1\nexit 1 A\nexit 0 B\nend 2\n")
    plan = plan_of(tmp_path, *(task_of(name, directory=tmp_path) for name in "ABC"))
    assert read_exits(tmp_path / "exits").outcome(plan).error == NEVER


def test_a_participant_that_srun_did_not_start_has_failed_whatever_its_exit_code_says(tmp_path: Path) -> None:
    commands = {"A": f"echo {NOT_LAUNCHED}", "B": "sleep 300"}
    tasks = [task_of(name, directory=tmp_path, command=command) for name, command in commands.items()]
    outcome = run_processes(tasks, dict(os.environ), str(tmp_path), 60.0)
    assert (outcome.error, outcome.participants, outcome.code) == (NEVER, ("A",), 1)


@pytest.mark.parametrize(("more", "lost"), [("", True), ("srun: Step created for job 7\n", False)])
def test_a_step_that_waits_at_the_time_limit_says_nothing_of_its_split(tmp_path: Path, more: str, lost: bool) -> None:
    busy = "srun: Job 7 step creation temporarily disabled, retrying (Requested nodes are busy)\n"
    waits = replace(task_of("A", directory=tmp_path), command=("sh", "-c", f"printf '{busy}{more}'; sleep 300"))
    outcome = run_processes([waits], dict(os.environ), str(tmp_path), 1.0)
    assert (outcome.timed_out, outcome.lost) == (True, lost)


class ScriptedJob:
    """Job 7 of a Slurm whose answers are written down, one for each question; the last one stays. No time passes."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch, answers: Sequence[list[str] | None]) -> None:
        FakeSlurm(directory / "slurm", monkeypatch)
        self.clock = Clock()
        monkeypatch.setattr("precice_lb.campaign.schedulers.time", self.clock)
        self._answers = list(answers)
        self._scheduler = launcher_of("slurm").scheduler
        self.cancelled: list[str] = []
        monkeypatch.setattr(self._scheduler, "poll", self._poll)
        monkeypatch.setattr(self._scheduler, "cancel", self.cancelled.append)
        self.plan = plan_of(directory, task_of("A", directory=directory), task_of("B", directory=directory))

    def _poll(self, job: str) -> list[str] | None:
        assert job == "7"
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    def follow(self, **changes: Any) -> Outcome:
        """Wait for its end, with changes to the plan."""
        outcome: Outcome = self._scheduler.follow(replace(self.plan, **changes), "7")
        return outcome


@pytest.mark.parametrize(
    ("answers", "error", "is_lost", "least_seconds", "most_seconds"),
    [
        # As PETSc ends when it is terminated.
        ([["RUNNING"], ["RUNNING"], ["CANCELLED"]], "job 7 ended as CANCELLED", True, 0.0, 1.0),
        # Slurm has forgotten the job.
        ([[]], "A ended with exit code 59", False, 0.0, 1.0),
        # Slurm has a minute to end the job.
        ([["COMPLETING"]], "A ended with exit code 59", False, 60.0, 80.0),
    ],
)
def test_a_job_whose_participant_failed_may_be_one_that_was_cancelled_which_slurm_tells_within_60_seconds(
    answers: list[list[str]], error: str, is_lost: bool, least_seconds: float, most_seconds: float, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    job = ScriptedJob(tmp_path, monkeypatch, answers)
    (tmp_path / "exits").write_text("begin 1\nexit 59 A\nexit 59 B\nend 2\n")

    outcome = job.follow()

    assert (outcome.error, outcome.lost) == (error, is_lost)
    assert least_seconds <= job.clock.now <= most_seconds


@pytest.mark.parametrize("end", [["CANCELLED"], []])
def test_a_job_that_has_measured_enough_is_cancelled_and_is_no_failure(
    end: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = ScriptedJob(tmp_path, monkeypatch, [["RUNNING"], end])
    (tmp_path / "exits").write_text("begin 1\n")

    outcome = job.follow(enough=lambda: "known")

    assert (outcome.error, outcome.lost, outcome.enough) == (None, False, "known")
    assert job.cancelled == ["7"]


@pytest.mark.parametrize(
    ("written_after_seconds", "error"), [(4.0, None), (1000.0, "job 7 ended before its script did")]
)
def test_the_last_words_of_a_job_may_be_late_by_5_seconds(
    written_after_seconds: float, error: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = ScriptedJob(tmp_path, monkeypatch, [["COMPLETED"]])

    def sleep(seconds: float) -> None:
        job.clock.now += seconds
        if job.clock.now >= written_after_seconds:
            (tmp_path / "exits").write_text("begin 1\nexit 0 A\nexit 0 B\nend 2\n")

    monkeypatch.setattr(job.clock, "sleep", sleep)

    assert job.follow().error == error
    assert job.clock.now < 6.0


def test_a_job_of_a_slurm_that_is_silent_for_half_an_hour_is_cancelled_and_says_nothing_of_its_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = ScriptedJob(tmp_path, monkeypatch, [["RUNNING"], None])

    outcome = job.follow()

    assert (outcome.error, outcome.lost) == ("job 7: no answer from the batch system for 1800 s", True)
    assert job.cancelled == ["7"]
    assert job.clock.now == pytest.approx(1800, abs=20)
