"""Jobs: a user's own templates and the scripts of runs, for real without any batch system."""

from __future__ import annotations

import os
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from calibrate_helpers import SOLVER, changed, launcher_of, plan_of, quiet, state_of, task_of, write_case, write_study

from precice_lb.campaign import CampaignResult, RunPlan, Scheduler, read_study, run_campaign
from precice_lb.campaign.launchers.local import job_number
from precice_lb.campaign.processes import run_processes
from precice_lb.campaign.schedulers import body, follow, read_exits
from precice_lb.exceptions import PreciceLBError

SCRIPT = """\
#!/bin/bash
# {name}: {total_ranks} ranks on {total_nodes} nodes of {ranks_per_node}, {walltime} or {minutes} min, ${HOME}
{participants}
"""
SUBMITTED = "script = 'job.in'\nsubmit = 'bash {script}'\nsetup = ['export GIVEN=yes']\nranks_per_node = 1"


def template_study(
    directory: Path, launcher: str, *, runs: str = "splits = [{Left=2, Right=1}]", solver: str = SOLVER
) -> Path:
    """Write a study with a template; its ranks are processes that a shell starts."""
    write_case(directory, solver)
    ranks = directory / "ranks.sh"
    ranks.write_text('#!/bin/sh\nexport PMI_SIZE=$1\nshift\nexec "$@"\n')
    ranks.chmod(0o755)
    (directory / "job.in").write_text(SCRIPT)
    start = f"name = 'template'\nparticipant = '{ranks} {{ranks}} {{command}}'\n"
    return write_study(directory, runs=runs, launcher=start + launcher, case='network = "lo"')


def finished(path: Path) -> tuple[CampaignResult, Path]:
    """Do the only run of a study, to its good end; return what came out, and where it ran."""
    result = run_campaign(read_study(path), path.parent / "campaign", report=quiet)
    assert [run.outcome for run in result.runs] == ["finished"]
    return result, path.parent / "campaign" / result.runs[0].directory


def failed(path: Path) -> str:
    """Do the runs of a study, none of which ends well; return what is said of that in one line."""
    with pytest.raises(PreciceLBError) as caught:
        run_campaign(read_study(path), path.parent / "campaign", report=quiet)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_template_for_a_job(tmp_path: Path) -> None:
    result, run = finished(template_study(tmp_path, SUBMITTED))
    assert result.runs[0].seconds > 0
    lines = (run / "job.sh").read_text().splitlines()
    assert lines[1] == f"# {run.name}: 3 ranks on 3 nodes of 1, 00:05:00 or 5 min, ${{HOME}}"
    assert lines[2] == "export GIVEN=yes"
    assert '"GIVEN": "yes"' in (run / "case" / "Left-seen.json").read_text()


def test_a_template_has_whole_minutes_and_leaves_variables_of_the_shell(tmp_path: Path) -> None:
    (tmp_path / "job.in").write_text(
        "#{minutes} {walltime} ${minutes} ${HOME} {unknown} {total_cores}\n{participants}\n"
    )
    keys = {
        "participant": "go -n {ranks} -d {threads} -c {cores} {command}",
        "script": tmp_path / "job.in",
        "submit": "sh -c 'echo ${HOME} $1 >home' sh {minutes}",
    }
    launcher, plan = launcher_of("template", **keys), plan_of(tmp_path, task_of("A"), task_of("B", threads=3))
    assert launcher.command(plan, plan.tasks[1]) == ["go", *["-n", "1", "-d", "3", "-c", "3"], "solve", "in put"]
    assert launcher.job_script(plan).splitlines()[0] == "#2 00:02:00 ${minutes} ${HOME} {unknown} 4"
    job = launcher.scheduler.submit(plan, tmp_path / "job.sh")
    while launcher.scheduler.poll(job) == ["RUNNING"]:
        time.sleep(0.01)
    assert (tmp_path / "home").read_text() == f"{os.environ['HOME']} 2\n"


def test_the_example_for_pbs_gives_every_participant_nodes_of_its_own(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "configs" / "README.md").read_text()
    example = re.search(r"```\n(#!/bin/bash\n#PBS .*?)```", text, flags=re.DOTALL)
    assert example is not None
    launcher = f"script = 'job.in'\nsubmit = 'env PBS_NODEFILE={tmp_path}/nodes bash {{script}}'\nranks_per_node = 2"
    path = template_study(tmp_path, launcher, runs="splits = [{Left=3, Right=1}]")
    (tmp_path / "job.in").write_text(example[1])
    (tmp_path / "nodes").write_text("n0\nn0\nn1\nn1\nn2\nn2\n")
    _, run = finished(path)
    hosts = {file.name: file.read_text().split() for file in run.glob("*.hosts")}
    assert hosts == {"Left.hosts": ["n0", "n1"], "Right.hosts": ["n2"]}
    assert "#PBS -l select=3:ncpus=2 -l walltime=00:05:00\n" in (run / "job.sh").read_text()


FAILS = SOLVER + "import time\nif name == 'Left':\n    sys.exit('no convergence')\ntime.sleep(300)\n"


def test_jobs_that_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = failed(template_study(tmp_path / "a", SUBMITTED, solver=FAILS))
    assert re.match(r"every run failed; .*Left ended with exit code 1; .*no convergence", text)
    # A submission that does not wait for the job.
    monkeypatch.setattr("precice_lb.campaign.schedulers._SETTLE_SECONDS", 0.5)
    text = failed(template_study(tmp_path / "b", SUBMITTED.replace("bash {script}", "true")))
    assert "job.log ended before its script did" in text


@pytest.mark.parametrize(
    ("printed", "number"),
    [
        ("4711.server\n", "4711.server"),
        ("qsub: project p0042\n4711[].server\n", "4711[].server"),
        ("p0042: 3 jobs waiting\nJob <4711> is submitted to queue <normal>.\n", "4711"),
        # Said of other jobs, or beside the number: none of them may be cancelled.
        ("this project's first job 17 of 300 has ended\n", None),
        ("files left:\n42\nSubmitted batch job 4711\n", None),
        ("Submitted batch job 4711\nSubmitted batch job 4711\n", "4711"),
        ('Your job 4711 ("x") has been submitted', "4711"),
        ("qsub: project p0042, 16 cores, since 2026-01-01\n", None),
    ],
)
def test_the_number_of_a_job_is_no_other_number_of_its_log(printed: str, number: str | None) -> None:
    assert job_number(printed) == number


@pytest.mark.parametrize(("printed", "number"), [("Job <4711> is submitted", "4711"), ("project p0042", None)])
def test_a_job_over_its_time_limit_is_cancelled_as_the_template_says(
    tmp_path: Path, printed: str, number: str | None
) -> None:
    submit = tmp_path / "submit.sh"
    submit.write_text(f'#!/bin/sh\necho "{printed}"\nexec bash "$1"\n')
    submit.chmod(0o755)
    launcher = SUBMITTED.replace("bash {script}", f"{submit} {{script}}")
    launcher += f"\ncancel = 'touch {tmp_path}/cancelled-{{job}}'"
    path = template_study(tmp_path, launcher, solver=SOLVER + "import time\ntime.sleep(300)\n")
    text = failed(changed(path, ("time_limit_seconds = 300", "time_limit_seconds = 1")))
    assert "Left and Right still ran at the time limit of 1 s" in text
    # Nothing is cancelled where the number is not known, and the user is told.
    assert [file.name for file in tmp_path.glob("cancelled-*")] == ([f"cancelled-{number}"] if number else [])
    assert ("not cancelled, do so by hand: expected the job's number in" in text) == (number is None)
    (record,) = state_of(tmp_path / "campaign").runs
    assert (record.outcome, record.job) == ("timeout", number)


def test_templates_that_cannot_work_are_refused(tmp_path: Path) -> None:
    for script, expected in (("none.sh", "none.sh cannot be read"), ("ranks.sh", "has no line {participants}")):
        path = template_study(tmp_path / script, f"submit = 'qsub'\nscript = '{script}'")
        assert expected in failed(path)


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


def exits_of(directory: Path, **commands: str) -> list[str]:
    """Run a job's script with a shell's line for each participant; return how they and the script ended."""
    tasks = [replace(task_of(name, directory=directory), command=("sh", "-c", line)) for name, line in commands.items()]
    text = body(tasks, exit_file=directory / "exits") + f'echo "status $status" >>{directory}/exits\n'
    script = replace(task_of("script", directory=directory), command=("bash", "-c", text))
    run_processes([script], dict(os.environ), f"script-{directory.name}", 250.0)
    return (directory / "exits").read_text().splitlines()


def test_participants_that_do_not_listen_are_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("precice_lb.campaign.schedulers._KILL_AFTER_SECONDS", 3)
    waits = "until test -e deaf; do sleep 0.05; done; exit 3"
    # It does not wait for the 300 seconds of A.
    exits = exits_of(tmp_path, A="trap '' TERM; touch deaf; sleep 300", B=waits)
    assert exits == ["exit 3 B", "exit 137 A", "status 3"]


def test_a_participant_that_somebody_terminates_stops_the_job(tmp_path: Path) -> None:
    exits = exits_of(
        tmp_path, A="until test -e well; do sleep 0.05; done; kill -TERM $$", B="touch well; exec sleep 300"
    )
    assert [line.rstrip() for line in exits] == ["exit 143 A", "stopped by a signal", "exit 143 B", "status 143"]
    (tmp_path / "exits").write_text("\n".join(["begin 1", *exits[:3], "end 2", ""]))
    plan = plan_of(tmp_path, task_of("A"), task_of("B"))
    outcome = read_exits(tmp_path / "exits").outcome(plan)
    assert (outcome.error, outcome.lost) == ("the job was cancelled, or lost its node", True)


def test_a_script_tells_what_srun_did_not_start(tmp_path: Path) -> None:
    # Of an earlier run, with the same words.
    (tmp_path / "B.log").write_text(f"{NOT_LAUNCHED}\n")
    said = f"until test -e well; do sleep 0.05; done; echo {NOT_LAUNCHED!r}"
    exits = exits_of(tmp_path, A=said, B="touch well", C="exec sleep 300")
    assert sorted(exits) == ["exit 0 B", "exit 1 A", "exit 143 C", "status 1"]
    assert (tmp_path / "script.log").read_text().startswith("A never started: task 0 launch failed: Slurmd could not ")
    (tmp_path / "exits").write_text("begin 1\nexit 1 A\nexit 0 B\nend 2\n")
    plan = plan_of(tmp_path, *(task_of(name, directory=tmp_path) for name in "ABC"))
    assert read_exits(tmp_path / "exits").outcome(plan).error == NEVER


def test_a_participant_that_srun_did_not_start_has_failed_whatever_its_exit_code_says(tmp_path: Path) -> None:
    tasks = [
        task_of("A", directory=tmp_path, command=f"echo {NOT_LAUNCHED}"),
        task_of("B", directory=tmp_path, command="sleep 300"),
    ]
    outcome = run_processes(tasks, dict(os.environ), f"started-{tmp_path.name}", 60.0)
    assert (outcome.error, outcome.participants, outcome.code) == (NEVER, ("A",), 1)


@pytest.mark.parametrize(("more", "lost"), [("", True), ("srun: Step created for job 7\n", False)])
def test_a_step_that_waits_at_the_time_limit_says_nothing_of_its_split(tmp_path: Path, more: str, lost: bool) -> None:
    busy = "srun: Job 7 step creation temporarily disabled, retrying (Requested nodes are busy)\n"
    waits = replace(task_of("A", directory=tmp_path), command=("sh", "-c", f"printf '{busy}{more}'; sleep 300"))
    outcome = run_processes([waits], dict(os.environ), f"waits-{tmp_path.name}", 1.0)
    assert (outcome.timed_out, outcome.lost) == (True, lost)


class Cancelled(Scheduler):
    """A batch system that takes a moment to end a job that somebody has cancelled, or has forgotten it."""

    def __init__(self, answers: list[list[str]]) -> None:
        self._answers = answers

    def submit(self, plan: RunPlan, script: Path) -> str:
        return "7"

    def poll(self, job: str) -> list[str]:
        return self._answers.pop(0)

    def cancel(self, job: str) -> None:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("code", "answers", "error"),
    [
        # As PETSc ends when it is terminated.
        (59, [["RUNNING"], ["RUNNING"], ["CANCELLED"]], "job 7 ended as CANCELLED"),
        (59, [[]], "A ended with exit code 59"),
    ],
)
def test_steps_may_be_cancelled_before_their_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, answers: list[list[str]], error: str
) -> None:
    monkeypatch.setattr("precice_lb.campaign.schedulers._SETTLE_SECONDS", 0.1)
    (tmp_path / "exits").write_text(f"begin 1\nexit {code} A\nexit {code} B\nend 2\n")
    plan = plan_of(tmp_path, task_of("A", directory=tmp_path), task_of("B", directory=tmp_path))
    outcome = follow(Cancelled(answers), plan, "7", lambda job: None, lambda text, why: None)
    assert (outcome.error, outcome.lost, answers) == (error, "ended with" not in error, [])
