"""Jobs: the exact scripts and submissions, and a user's own templates run for real without any batch system."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from calibrate_helpers import SOLVER, changed, launcher_of, quiet, state_of, write_case, write_study

from precice_lb.campaign import RunPlan, Task, read_study, run_campaign
from precice_lb.campaign.launchers.slurm import SlurmLauncher
from precice_lb.campaign.launchers.template import job_number
from precice_lb.campaign.processes import run_processes
from precice_lb.campaign.schedulers import read_exits
from precice_lb.campaign.schedulers.slurm import outside_of_jobs
from precice_lb.exceptions import CalibrationError, PreciceLBError, StudyError

ONE_SPLIT = "splits = [{Left=2, Right=1}]"


def plan_of(directory: Path, *tasks: Task) -> RunPlan:
    """A run of at most 90 s."""
    return RunPlan("001-x", directory, tasks, "token", {"PRECICE_LB_DIR": "/s t", "OMP_NUM_THREADS": "1"}, 90.0)


def task(directory: Path, name: str, ranks: int, *, per_node: int | None = None, options: tuple[str, ...] = ()) -> Task:
    """A participant that starts ``solve 'in put'``."""
    return Task(name, ("solve", "in put"), ranks, directory / name, directory / f"{name}.log", per_node, options)


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs of Slurm's names, to see tokens and scripts where there is no Slurm."""
    place = tmp_path / "bin"
    place.mkdir()
    for name in ("srun", "sbatch", "squeue", "scancel"):
        (place / name).write_text("#!/bin/sh\nexit 1\n")
        (place / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}{os.environ['PATH']}")
    return place


def made(label: str = "lb", **options: object) -> SlurmLauncher:
    found = launcher_of("slurm", **options)
    assert isinstance(found, SlurmLauncher)
    found.label = label
    return found


def held(largest: list[Task], cores: int, **options: object) -> str:
    """The script of the job that holds a campaign's allocation."""
    launcher = made(allocation="campaign", **options)  # type: ignore[arg-type]
    launcher.reserve(largest, cores)
    return launcher.holder()


def sbatch_lines(script: str) -> list[str]:
    return [line.removeprefix("#SBATCH ") for line in script.splitlines() if line.startswith("#SBATCH")]


def test_the_script_of_a_job(tmp_path: Path, slurm: Path) -> None:
    launcher = made(options=("--partition=main",), setup=("module load mpi",), mpi="pmi2", label="lb-1")
    plan = plan_of(tmp_path, task(tmp_path, "A", 3), task(tmp_path, "B", 2))
    script = launcher.job_script(plan)
    assert script.startswith("#!/bin/bash\n#SBATCH ")
    assert sbatch_lines(script) == [
        "--job-name=lb-1-001-x",
        f"--output={tmp_path}/job.log",
        "--no-requeue",
        "--time=2",
        "--partition=main",
        "--ntasks=5",
        "--cpus-per-task=1",
        "--threads-per-core=1",
    ]
    step = f"{slurm}/srun --nodes=1-{{0}} --ntasks={{0}} --cpus-per-task=1 --threads-per-core=1 --mem=0 --exact"
    step += " --kill-on-bad-exit=1 --export=ALL --immediate=300 --cpu-bind=cores --mpi=pmi2"
    for name, ranks in (("A", 3), ("B", 2)):
        assert (
            f"start {name} {tmp_path}/{name} {tmp_path}/{name}.log \\\n  {step.format(ranks)} solve 'in put'\n"
            in script
        )
    order = [
        "unset SLURM_NTASKS_PER_CORE ",
        "module load mpi\n",
        "unset PRECICE_LB_RECORD ",
        "export PRECICE_LB_DIR='/s t'\n",
    ]
    assert sorted(order, key=script.index) == order
    assert launcher.files(plan) == {tmp_path / "job.sh": script}
    sbatch = [f"{slurm}/sbatch", "--parsable", "--job-name=lb-1", f"{tmp_path}/job.sh"]
    assert launcher.slurm.submission(tmp_path / "job.sh", "lb-1") == sbatch
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0


def test_the_script_of_a_heterogeneous_job(tmp_path: Path, slurm: Path) -> None:
    tasks = [
        task(tmp_path, "A", 6, per_node=4),
        task(tmp_path, "B", 3, per_node=1, options=("--partition=gpu", "--gres=gpu:1")),
    ]
    script = made(options=("--account=a",)).job_script(plan_of(tmp_path, *tasks))
    assert sbatch_lines(script)[3:] == [
        *("--time=2", "--account=a", "--nodes=2", "--ntasks-per-node=4", "--cpus-per-task=1", "--threads-per-core=1"),
        "hetjob",
        *(
            "--time=2",
            "--account=a",
            "--partition=gpu",
            "--gres=gpu:1",
            "--nodes=3",
            "--ntasks-per-node=1",
            "--cpus-per-task=1",
            "--threads-per-core=1",
        ),
    ]
    assert "srun --het-group=0 --nodes=2 --ntasks=6 --distribution=plane=4 " in script
    assert "srun --het-group=1 --nodes=3 --ntasks=3 --distribution=plane=1 --gres=gpu:1 --cpus-per-task=1 " in script
    assert "--relative" not in script


SHARED = ["--ntasks=96", "--cpus-per-task=1", "--threads-per-core=1"]


@pytest.mark.parametrize(
    ("own", "per_node", "completed"),
    [
        ("--nodes=4 --exclusive", 48, ["--ntasks-per-node=48", *SHARED[1:]]),
        ("--ntasks-per-core=1", None, SHARED),
        ("--ntasks-per-node=48", None, SHARED),
        ("--ntasks-per-socket=24", None, SHARED),
        ("--nodes=2 --ntasks-per-node=48", None, SHARED),
        ("-N2 -n 100", None, SHARED[1:]),
        ("--nodes=2-3", None, SHARED),
        ("--ntasks=48 --cpus-per-task=2", None, SHARED[2:]),
        ("--hint=nomultithread", None, SHARED[:2]),
        ("--mem=180G", None, SHARED),
    ],
)
def test_the_user_s_own_size_of_a_job_is_completed(
    tmp_path: Path, slurm: Path, own: str, per_node: int | None, completed: list[str]
) -> None:
    tasks = [task(tmp_path, "A", 80, per_node=per_node), task(tmp_path, "B", 16, per_node=per_node)]
    options = tuple(re.split(" (?=-)", own))
    script = made(options=options).job_script(plan_of(tmp_path, *tasks))
    assert sbatch_lines(script)[4:] == [*options, *completed]
    holder = held(tasks, 96, options=options)
    assert sbatch_lines(holder)[3:] == [*options, *completed]
    # As options of a participant, in place of the study's.
    alone = [task(tmp_path, "A", 80), task(tmp_path, "B", 96, per_node=per_node and 24, options=options)]
    components = " ".join(sbatch_lines(made(options=("--mem=1G",)).job_script(plan_of(tmp_path, *alone)))).split(
        "hetjob"
    )
    assert components[1].split() == [
        "--time=2",
        *([] if "--mem" in own else ["--mem=1G"]),
        *own.split(" "),
        *(option.replace("per-node=48", "per-node=24") for option in completed),
    ]


@pytest.mark.parametrize(
    ("own", "per_node", "refused"),
    [
        (
            "--nodes=2 --ntasks-per-node=40",
            None,
            r"96 cores, found .*--ntasks=96 --ntasks-per-node=40 .* 80 cores: ask",
        ),
        ("-n 95", None, r"96 cores, found --ntasks=95 --cpus-per-task=1, which is 95 cores"),
        ("--nodes=1 --ntasks-per-node=96", 48, r"144 cores on 3 nodes, found --nodes=1 --ntasks-per-node=96 "),
        ("--nodes=6 --ntasks-per-node=24", 48, r"144 cores on 3 nodes, found --nodes=6 --ntasks-per-node=24 "),
        ("--ntasks-per-core=2", None, r"a core for each rank, found --ntasks-per-core=2: leave it out"),
        ("--hint=multithread", None, r"a core for each rank, found --hint=multithread: leave it out"),
        ("-O", None, r"a core for each rank, found --overcommit: leave it out"),
    ],
)
def test_a_size_that_does_not_fit_is_refused(
    tmp_path: Path, slurm: Path, own: str, per_node: int | None, refused: str
) -> None:
    tasks = [task(tmp_path, "A", 80, per_node=per_node), task(tmp_path, "B", 16, per_node=per_node)]
    with pytest.raises(CalibrationError, match=refused) as caught:
        made(options=tuple(re.split(" (?=-)", own))).check(tasks)
    assert "\n" not in str(caught.value)


def test_the_allocation_for_all_runs_has_room_for_every_split(tmp_path: Path, slurm: Path) -> None:
    largest = [task(tmp_path, "A", 15), task(tmp_path, "B", 15)]
    holder = held(largest, 16, label="lb-1", options=("--time=60",))
    assert sbatch_lines(holder)[1:] == [
        *("--output=/dev/null", "--no-requeue", "--time=60", "--ntasks=16", *SHARED[1:])
    ]
    assert holder.endswith("\nexec sleep infinity\n")
    largest = [task(tmp_path, name, 15, per_node=4) for name in "AB"]
    holder = held(largest, 16)
    assert sbatch_lines(holder)[3:] == ["--nodes=5", "--ntasks-per-node=4", *SHARED[1:]]
    launcher = made(allocation="campaign")
    launcher.job = "7"
    line = list(launcher.starts(plan_of(tmp_path, task(tmp_path, "A", 3, per_node=4)))[0].command)
    assert line[1:5] == ["--jobid=7", "--job-name=token", "--nodes=1", "--relative=0"]
    with pytest.raises(StudyError, match=r"launcher\.setup: lines of a job script"):
        made(allocation="campaign", setup=("module load mpi",))


def test_a_submitted_job_inherits_nothing_of_the_job_around_it() -> None:
    environment = {"SLURM_JOB_ID": "1", "SLURM_CONF": "/c", "SRUN_DEBUG": "3", "HOME": "/"}
    assert outside_of_jobs(environment) == {"SLURM_CONF": "/c", "HOME": "/"}


def test_why_a_job_will_never_start_is_said_once(tmp_path: Path, slurm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("precice_lb.campaign.schedulers._SETTLE_SECONDS", 0.1)
    answers = ["PENDING (None)", "PENDING Resources", *["PENDING PartitionTimeLimit"] * 2, "CANCELLED None"]
    (tmp_path / "answers").write_text("\n".join(answers))
    (slurm / "sbatch").write_text("#!/bin/sh\necho 4711\n")
    (slurm / "squeue").write_text(
        f"#!/bin/sh\necho >>{tmp_path}/asked\nsed -n $(wc -l <{tmp_path}/asked)p {tmp_path}/answers\n"
    )
    launcher, said = made(), []
    launcher.warn = said.append
    for name in "AB":
        (tmp_path / "asked").unlink(missing_ok=True)
        outcome = launcher.run(plan_of(tmp_path, task(tmp_path, name, 1)), lambda job: None)
        assert outcome.error == "Slurm's job 4711 ended as CANCELLED"
    assert said == [
        "Slurm's job 4711 waits and does not start by itself: PartitionTimeLimit; change the options of the job, or "
        "ask the site"
    ]


@pytest.mark.parametrize(
    ("reason", "never"),
    [
        *((reason, True) for reason in ("PartitionInactive", "BadConstraints", "QOSMaxCpuPerJobLimit", "JobHeldUser")),
        *(
            (reason, False)
            for reason in ("None", "Priority", "QOSMaxJobsPerUserLimit", "ReqNodeNotAvail", "Dependency")
        ),
    ],
)
def test_reasons_that_pass_are_told_from_those_that_do_not(slurm: Path, reason: str, never: bool) -> None:
    scheduler = made().slurm
    (slurm / "squeue").write_text(f"#!/bin/sh\necho 'PENDING {reason}'\n")
    assert scheduler.poll("1") == ["PENDING"]
    assert scheduler.why_never("1") == (reason if never else None)
    (slurm / "squeue").write_text(f"#!/bin/sh\necho 'RUNNING {reason}'\n")
    assert scheduler.poll("1") == ["RUNNING"]
    assert scheduler.why_never("1") is None


def test_exit_codes_of_a_job_are_read_whatever_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "exits"
    assert not read_exits(file).ended
    file.write_text("begin 10.5\nexit 137 A 1\nexit 0 B\nend 12.0\nexit 1")
    exits = read_exits(file)
    assert (exits.codes, exits.begun, exits.seconds) == ({"A 1": 137, "B": 0}, True, 1.5)
    assert exits.outcome(plan_of(tmp_path)).error == "A 1 was ended by signal 9"
    file.write_text("begin 10.5\nexit 0 A\nend 12")
    assert not read_exits(file).ended


def test_what_slurm_refuses_for_every_split_is_tried_for_two_of_them(tmp_path: Path, slurm: Path) -> None:
    write_case(tmp_path)
    (slurm / "sbatch").write_text(
        f"#!/bin/sh\necho >>{tmp_path}/asked\necho 'sbatch: error: Invalid account or partition' >&2\nexit 1\n"
    )
    path = write_study(
        tmp_path,
        runs="splits = [{Left=2, Right=1}, {Left=1, Right=2}, {Left=1, Right=1}]",
        launcher='name = "slurm"',
        case='network = "lo"',
    )
    with pytest.raises(CalibrationError, match=r"every run failed; .*Slurm refuses the job: .*Invalid account"):
        run_campaign(read_study(path), tmp_path / "campaign", report=quiet)
    assert (tmp_path / "asked").read_text() == "\n\n"


SCRIPT = """\
#!/bin/bash
# {name}: {total_ranks} ranks on {total_nodes} nodes of {ranks_per_node}, {walltime} or {minutes} min, ${HOME}
{participants}
"""


def template_study(directory: Path, launcher: str, *, runs: str = ONE_SPLIT, solver: str = SOLVER) -> Path:
    """Write a study with a template; its ranks are processes that a shell starts."""
    write_case(directory, solver)
    ranks = directory / "ranks.sh"
    ranks.write_text('#!/bin/sh\nexport PMI_SIZE=$1\nshift\nexec "$@"\n')
    ranks.chmod(0o755)
    (directory / "job.in").write_text(SCRIPT)
    start = f"name = 'template'\nparticipant = '{ranks} {{ranks}} {{command}}'\n"
    return write_study(directory, runs=runs, launcher=start + launcher, case='network = "lo"')


def test_a_template_for_every_participant(tmp_path: Path) -> None:
    result = run_campaign(read_study(template_study(tmp_path, "")), tmp_path / "campaign", report=quiet)
    assert [run.outcome for run in result.runs] == ["finished"]
    stores = {path.name for path in result.stores[0].glob("**/*.h5")}
    assert stores == {"Left-0-2.h5", "Right-0-1.h5"}


SUBMITTED = "script = 'job.in'\nsubmit = 'bash {script}'\nsetup = ['export GIVEN=yes']\nranks_per_node = 1"


def test_a_template_for_a_job(tmp_path: Path) -> None:
    result = run_campaign(read_study(template_study(tmp_path, SUBMITTED)), tmp_path / "campaign", report=quiet)
    assert [run.outcome for run in result.runs] == ["finished"]
    assert result.runs[0].seconds > 0
    run = tmp_path / "campaign" / result.runs[0].directory
    lines = (run / "job.sh").read_text().splitlines()
    assert lines[1] == f"# {run.name}: 3 ranks on 3 nodes of 1, 00:05:00 or 5 min, ${{HOME}}"
    assert lines[2] == "export GIVEN=yes"
    assert '"GIVEN": "yes"' in (run / "case" / "Left-seen.json").read_text()


def test_a_template_has_whole_minutes_and_leaves_variables_of_the_shell(tmp_path: Path) -> None:
    (tmp_path / "job.in").write_text("#{minutes} {walltime} ${minutes} ${HOME} {unknown}\n{participants}\n")
    launcher = launcher_of(
        "template",
        participant="start -n {ranks} {command}",
        script=tmp_path / "job.in",
        submit="submit ${HOME} {minutes}",
    )
    plan = plan_of(tmp_path, task(tmp_path, "A", 2))
    assert launcher.job_script(plan).splitlines()[0] == "#2 00:02:00 ${minutes} ${HOME} {unknown}"
    assert launcher.submission(plan) == ["submit", "${HOME}", "2"]


def test_the_example_for_pbs_gives_every_participant_nodes_of_its_own(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "configs" / "README.md").read_text()
    example = re.search(r"```\n(#!/bin/bash\n#PBS .*?)```", text, flags=re.DOTALL)
    assert example is not None
    launcher = f"script = 'job.in'\nsubmit = 'env PBS_NODEFILE={tmp_path}/nodes bash {{script}}'\nranks_per_node = 2"
    path = template_study(tmp_path, launcher, runs="splits = [{Left=3, Right=1}]")
    (tmp_path / "job.in").write_text(example[1])
    (tmp_path / "nodes").write_text("n0\nn0\nn1\nn1\nn2\nn2\n")
    result = run_campaign(read_study(path), tmp_path / "campaign", report=quiet)
    assert [run.outcome for run in result.runs] == ["finished"]
    run = tmp_path / "campaign" / result.runs[0].directory
    assert {file.name: file.read_text().split() for file in run.glob("*.hosts")} == {
        "Left.hosts": ["n0", "n1"],
        "Right.hosts": ["n2"],
    }
    assert "#PBS -l select=3:ncpus=2 -l walltime=00:05:00\n" in (run / "job.sh").read_text()


FAILS = SOLVER + "import time\nif name == 'Left':\n    sys.exit('no convergence')\ntime.sleep(300)\n"


def test_a_job_that_fails_ends_its_partner_and_says_why(tmp_path: Path) -> None:
    study = read_study(template_study(tmp_path, SUBMITTED, solver=FAILS))
    with pytest.raises(CalibrationError, match=r"every run failed; .*Left ended with exit code 1; .*no convergence"):
        run_campaign(study, tmp_path / "campaign", report=quiet)


def test_a_submission_that_does_not_wait_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("precice_lb.campaign.schedulers._SETTLE_SECONDS", 0.5)
    study = read_study(template_study(tmp_path, SUBMITTED.replace("bash {script}", "true")))
    with pytest.raises(CalibrationError, match=r"true ended before its script did"):
        run_campaign(study, tmp_path / "campaign", report=quiet)


@pytest.mark.parametrize(
    ("said", "number"),
    [
        ("4711.server\n", "4711.server"),
        ("qsub: project p0042\n4711[].server\n", "4711[].server"),
        ("p0042: 3 jobs waiting\nJob <4711> is submitted to queue <normal>.\n", "4711"),
        ("4711;cluster\n", "4711"),
        # Said of other jobs, or beside the number: none of them may be cancelled.
        ("this project's first job 17 of 300 has ended\n", None),
        ("project p0042: Job <17> is submitted before yours\n", None),
        ("waiting for job 17 to release its licence\n", None),
        ("files left:\n42\nSubmitted batch job 4711\n", None),
        ("Submitted batch job 4711\nSubmitted batch job 4711\n", "4711"),
        ('Your job 4711 ("x") has been submitted', "4711"),
        ("queue 7\nSubmitted batch job 4711.\n", "4711"),
        ("qsub: project p0042, 16 cores, since 2026-01-01\n", None),
        ("", None),
    ],
)
def test_the_number_of_a_job_is_no_other_number_of_its_log(said: str, number: str | None) -> None:
    assert job_number(said) == number


def test_a_pattern_of_the_study_finds_the_number() -> None:
    assert job_number("run 17 as f23\n", r"as (f\d+)$") == "f23"
    assert job_number("run 17 as 23\n", r"as (f\d+)$") is None
    assert job_number("run 17 as f23\nrun 18 as f24\n", r"as (f\d+)$") is None


SLOW = SOLVER + "import time\ntime.sleep(300)\n"


@pytest.mark.parametrize(
    ("said", "more", "number"),
    [
        ("Job <4711> is submitted", "", "4711"),
        ("project p0042: f4711", "\njob_number = ': (f[0-9]+)$'", "f4711"),
        ("project p0042", "", None),
    ],
)
def test_a_job_over_its_time_limit_is_cancelled_as_the_template_says(
    tmp_path: Path, said: str, more: str, number: str | None
) -> None:
    submit = tmp_path / "submit.sh"
    submit.write_text(f'#!/bin/sh\necho "{said}"\nexec bash "$1"\n')
    submit.chmod(0o755)
    launcher = (
        SUBMITTED.replace("bash {script}", f"{submit} {{script}}") + f"\ncancel = 'touch {tmp_path}/cancelled-{{job}}'"
    )
    path = template_study(tmp_path, launcher + more, solver=SLOW)
    changed(path, ("time_limit_seconds = 300", "time_limit_seconds = 1"))
    with pytest.raises(CalibrationError, match=r"Left and Right still ran at the time limit of 1 s") as caught:
        run_campaign(read_study(path), tmp_path / "campaign", report=quiet)
    # Nothing is cancelled where the number is not known, and the user is told.
    assert [file.name for file in tmp_path.glob("cancelled-*")] == ([f"cancelled-{number}"] if number else [])
    assert ("not cancelled, do so by hand: expected the job's number in" in str(caught.value)) == (number is None)
    (record,) = state_of(tmp_path / "campaign").runs
    assert (record.outcome, record.job) == ("timeout", number)


@pytest.mark.parametrize(
    ("launcher", "expected"),
    [
        (
            "participant = 'run {rank} {command}'",
            r"launcher\.participant: unknown placeholder {rank}; did you mean 'ranks'",
        ),
        ("participant = 'run {ranks}'", r"launcher\.participant: expected {command} as a word of its own"),
        ('participant = "run \'{command}"', r"launcher\.participant: expected a command line.*quotation"),
        ("participant = '{command}'\nsubmit = 'qsub'", r"expected both script and submit"),
        (
            "participant = '{command}'\nsubmit = 'qsub'\nscript = 'none.sh'",
            r"launcher\.script: .*none\.sh cannot be read",
        ),
        ("participant = '{command}'\nsubmit = 'qsub'\nscript = 'study.toml'", r"has no line {participants}"),
        (
            "participant = '{command}'\njob_number = 'job (.*'",
            r"job_number: expected a regular expression.*unterminated",
        ),
        ("participant = '{command}'\njob_number = 'job .*'", r"job_number: expected one group in parentheses.*found 0"),
        ("participant = '{command}'\ncancel = 'qdel {jbo}'", r"launcher\.cancel: unknown placeholder {jbo}.*'job'"),
        ("", r"launcher\.participant: this key is missing"),
    ],
)
def test_templates_that_cannot_work_are_refused(tmp_path: Path, launcher: str, expected: str) -> None:
    write_case(tmp_path)
    path = write_study(tmp_path, launcher=f"name = 'template'\n{launcher}", case='network = "lo"')
    if "study.toml" in launcher:
        assert "{participants}" not in path.read_text()
    with pytest.raises(PreciceLBError, match=expected) as caught:
        run_campaign(read_study(path), tmp_path / "campaign", report=quiet)
    assert "\n" not in str(caught.value)


def run_script(directory: Path, text: str, seconds: float = 250.0) -> None:
    """Run a shell script by itself."""
    task = Task("script", ("bash", "-c", text), 1, directory, directory / "script.log")
    run_processes([task], dict(os.environ), f"script-{directory.name}", seconds)


def test_participants_that_do_not_listen_are_killed(tmp_path: Path) -> None:
    from precice_lb.campaign.schedulers import body

    deaf = "trap '' TERM; touch deaf; sleep 300"
    lines = [
        Task("A", ("sh", "-c", deaf), 1, tmp_path, Path("A.log")),
        Task("B", ("sh", "-c", "until test -e deaf; do sleep 0.05; done; exit 3"), 1, tmp_path, Path("B.log")),
    ]
    text = body(lines, exit_file=tmp_path / "exits", grace=1, kill_after=2) + 'echo "status $status" >>exits\n'
    # It does not wait for the 300 seconds of A.
    run_script(tmp_path, text)
    assert (tmp_path / "exits").read_text().splitlines() == ["exit 3 B", "exit 137 A", "status 3"]


NOT_LAUNCHED = "srun: error: task 0 launch failed: Slurmd could not execve job"


def test_a_participant_that_srun_did_not_start_has_failed_whatever_its_exit_code_says(tmp_path: Path) -> None:
    said = Task("A", ("echo", NOT_LAUNCHED), 1, tmp_path, tmp_path / "A.log")
    waits = Task("B", ("sleep", "300"), 1, tmp_path, tmp_path / "B.log")
    outcome = run_processes([said, waits], dict(os.environ), f"started-{tmp_path.name}", 60.0)
    assert (outcome.error, outcome.participants, outcome.code) == (
        "A never started: task 0 launch failed: Slurmd could not execve job",
        ("A",),
        1,
    )


@pytest.mark.parametrize(("more", "lost"), [("", True), ("srun: Step created for job 7\n", False)])
def test_a_step_that_waits_at_the_time_limit_says_nothing_of_its_split(tmp_path: Path, more: str, lost: bool) -> None:
    busy = "srun: Job 7 step creation temporarily disabled, retrying (Requested nodes are busy)\n"
    waits = Task("A", ("sh", "-c", f"printf '{busy}{more}'; sleep 300"), 1, tmp_path, tmp_path / "A.log")
    outcome = run_processes([waits], dict(os.environ), f"waits-{tmp_path.name}", 1.0)
    assert (outcome.timed_out, outcome.lost) == (True, lost)


def test_a_script_tells_what_srun_did_not_start(tmp_path: Path) -> None:
    from precice_lb.campaign.schedulers import body

    # Of an earlier run, with the same words.
    (tmp_path / "B.log").write_text(f"{NOT_LAUNCHED}\n")
    lines = [
        Task(
            "A",
            ("sh", "-c", f"until test -e well; do sleep 0.05; done; echo {NOT_LAUNCHED!r}"),
            1,
            tmp_path,
            Path("A.log"),
        ),
        Task("B", ("touch", "well"), 1, tmp_path, Path("B.log")),
        Task("C", ("sleep", "300"), 1, Path(), Path("C.log")),
    ]
    text = body(lines, exit_file=tmp_path / "exits", grace=2, kill_after=3) + 'echo "status $status" >>exits\n'
    run_script(tmp_path, text)
    assert sorted((tmp_path / "exits").read_text().splitlines()) == ["exit 0 B", "exit 1 A", "exit 143 C", "status 1"]
    assert (tmp_path / "script.log").read_text().startswith("A never started: task 0 launch failed: Slurmd could not ")
    plan = plan_of(tmp_path, *(replace(line, log=tmp_path / line.log) for line in lines))
    (tmp_path / "exits").write_text("begin 1\nexit 1 A\nexit 0 B\nend 2\n")
    assert read_exits(tmp_path / "exits").outcome(plan).error == (
        "A never started: task 0 launch failed: Slurmd could not execve job"
    )
