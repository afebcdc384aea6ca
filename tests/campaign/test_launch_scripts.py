"""The written scripts: run as they are, they give the ranks they promise."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from calibrate_helpers import COUPLED, changed, recording, write_case, write_study
from report_helpers import refused, write_campaign, write_recommended_split

from precice_lb.campaign import read_study, write_scripts
from precice_lb.campaign.launchers.local import available_cores
from precice_lb.cli import main
from precice_lb.dataset import load_runs
from precice_lb.text import script_command

# What MPI itself says, in one piece, since ranks share the log.
RANK = """\
import os, sys
from mpi4py import MPI
world = MPI.COMM_WORLD
said = f"{' '.join(sys.argv[1:])} {world.rank}/{world.size} in {os.path.basename(os.getcwd())}"
os.write(1, f"{said} {os.environ['OMP_NUM_THREADS']}\\n".encode())
"""
# In one piece: what ranks print piece by piece comes mixed.
WITHOUT_MPI = """\
import os, sys
cores = " ".join(map(str, sorted(os.sched_getaffinity(0))))
os.write(1, f"{sys.argv[1]} cores {cores}\\n".encode())
"""
PREPARE = "import pathlib, sys; pathlib.Path('prepared').write_text(sys.argv[1] + pathlib.Path('dict').read_text())"


def study_of(directory: Path, *, launcher: str = "oversubscribe = true", left: str = "", right: str = "") -> Path:
    """A study whose Left works, prepared, in a directory of its own."""
    case = write_case(directory, RANK)
    (case / "left side").mkdir()
    (case / "left side" / "dict.in").write_text("parts {ranks};")
    (case / "left side" / "solver.py").write_text(RANK)
    (case / "left side" / "prepare.py").write_text(PREPARE)
    preparation = "directory = 'left side'\nprepare = ['python prepare.py {ranks}']\ntemplates = ['dict.in']\n"
    path = write_study(directory, launcher=launcher, left=preparation + left, right=right)
    text = path.read_text().replace("solver.py Left", "solver.py Left '{ranks} of $HOME'")
    path.write_text(text.replace('directory = "case"', 'directory = "case"\nnetwork = "lo"'))
    return path


def run(*command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, **variables})


def said(case: Path) -> dict[str, list[str]]:
    """Sorted lines of the participants' logs, without what their launcher says."""
    logs = {name: (case / f"{name}.log").read_text().splitlines() for name in ("Left", "Right")}
    return {name: sorted(line for line in lines if line.startswith(name)) for name, lines in logs.items()}


@pytest.mark.mpi
@pytest.mark.usefixtures("mpiexec")
def test_the_shell_script_gives_the_ranks_it_promises(tmp_path: Path) -> None:
    study = read_study(study_of(tmp_path))
    folder = tmp_path / "launch"
    written = write_scripts(study, {"Left": 2, "Right": 1}, folder)
    assert set(written) == {folder / "job.sbatch", folder / "run.sh"}
    copy = tmp_path / "another copy"
    shutil.copytree(tmp_path / "case", copy)
    for arguments, case in (((), tmp_path / "case"), ((copy,), copy)):
        done = run(folder / "run.sh", *arguments)
        assert done.returncode == 0, done.stderr
        assert sorted(done.stdout.splitlines()) == ["exit 0 Left", "exit 0 Right"]
        left = [f"Left 2 of $HOME {rank}/2 in left side 1" for rank in range(2)]
        assert said(case) == {"Left": left, "Right": [f"Right 0/1 in {case.name} 1"]}
        assert (case / "left side" / "prepared").read_text() == "2parts 2;"


@pytest.mark.parametrize(("name", "given"), [("mpiexec", False), ("slurm", True)])
def test_arguments_of_mpiexec_are_none_of_srun(tmp_path: Path, name: str, given: bool) -> None:
    """The job's steps are those of srun, whichever launcher the study has."""
    keys = f'name = "{name}"\narguments = ["-tag-output"]'
    write_scripts(read_study(study_of(tmp_path, launcher=keys)), {"Left": 2, "Right": 1}, tmp_path / "launch")
    assert ("-tag-output" in (tmp_path / "launch" / "job.sbatch").read_text()) == given


def test_one_rank_may_have_a_command_of_its_own(tmp_path: Path) -> None:
    path = study_of(tmp_path)
    commands = "{ 1 = 'python solver.py Right alone', default = 'python solver.py Right of {ranks}' }"
    path.write_text(path.read_text().replace('"python solver.py Right"', commands))
    study = read_study(path)
    for ranks, words in ((1, "alone"), (3, "of 3")):
        write_scripts(study, {"Left": 1, "Right": ranks}, tmp_path / "launch")
        for script in ("run.sh", "job.sbatch"):
            assert f" solver.py Right {words}" in (tmp_path / "launch" / script).read_text()


def test_too_few_cores_are_refused_before_anything_runs(tmp_path: Path, mpiexec: str) -> None:
    study = read_study(study_of(tmp_path, launcher="pin = true"))
    many = (os.cpu_count() or 1) + 1
    write_scripts(study, {"Left": many, "Right": 1}, tmp_path / "launch")
    done = run(tmp_path / "launch" / "run.sh")
    assert done.returncode == 2
    assert f"expected {many + 1} cores, found " in done.stderr
    assert not (tmp_path / "case" / "Left.log").exists()


def test_the_command_takes_the_campaign_s_recommendation_or_a_split(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, campaign = str(study_of(tmp_path)), tmp_path / "study-campaign"
    words = "recommendation.json: expected the recommendation of a campaign"
    assert words in refused(capsys, "launch", "--study", path)
    campaign.mkdir()
    write_recommended_split(campaign, {"Left": 3, "Right": 1})
    assert main(["launch", "--study", path]) == 0
    assert f"wrote {campaign / 'launch' / 'job.sbatch'}" in capsys.readouterr().out
    assert "#SBATCH --ntasks=4\n" in (campaign / "launch" / "job.sbatch").read_text()
    assert main(["launch", "--study", path, "--split", "Left=2,Right=1"]) == 0
    assert "#SBATCH --ntasks=3\n" in (campaign / "launch" / "job.sbatch").read_text()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"format_version": 3}, "expected format version 1, found 3"),
        ({"format": "another"}, 'expected "format": "precice-lb-recommendation"'),
        ({"split": "Left 3"}, "damaged recommendation of a campaign: split: expected a valid dictionary"),
    ],
)
@pytest.mark.parametrize("command", [("launch", "--study"), ("report",)])
def test_another_file_in_the_recommendations_place_is_refused(
    command: tuple[str, ...],
    changes: dict[str, object],
    expected: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    study = study_of(tmp_path)
    campaign = tmp_path / "study-campaign"
    write_campaign(campaign, [{"Inner": 1, "Outer": 3}, {"Inner": 2, "Outer": 2}])
    write_recommended_split(campaign, {"Left": 3, "Right": 1}, changes)

    error = refused(capsys, *command, study if command[0] == "launch" else campaign)

    assert f"{campaign / 'recommendation.json'}: {expected}" in error


@pytest.mark.mpi
def test_ranks_in_turns_have_the_same_cores(tmp_path: Path, mpiexec: str) -> None:
    cores = available_cores()
    if len(cores) < 2:
        pytest.skip("one core alone")
    path = study_of(tmp_path, launcher=f'program = "{mpiexec}"')
    changed(path, ("ranks = 4\n", 'ranks = 2\nshared = "Left/Right"\n'))
    for solver in (tmp_path / "case").rglob("solver.py"):
        solver.write_text(WITHOUT_MPI)
    assert main(["launch", "--study", str(path), "--split", "Left=2,Right=2"]) == 0
    folder = tmp_path / "study-campaign" / "launch"
    assert [entry.name for entry in folder.iterdir()] == ["run.sh"]
    # Ranks of Open MPI leave their core while they wait.
    assert "OMPI_MCA_mpi_yield_when_idle=1" in (folder / "run.sh").read_text()
    # Who sets the threads of OpenMP has no fewer cores by that.
    done = run(folder / "run.sh", OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    assert said(tmp_path / "case") == {n: [f"{n} cores {core}" for core in cores[:2]] for n in ("Left", "Right")}


@pytest.mark.parametrize(
    ("script", "command"),
    [
        ("run.sh", "./run.sh"),
        ("-x/run.sh", "./-x/run.sh"),
        ("../launch/run.sh", "../launch/run.sh"),
        ("/home/me/Größe 1/run.sh", "'/home/me/Größe 1/run.sh'"),
        ("launch/job.sbatch", "sbatch ./launch/job.sbatch"),
    ],
)
def test_script_command_is_found_by_a_shell(script: str, command: str) -> None:
    assert script_command(script) == command


PRINTED = re.compile(r"^start it: (.*)$", flags=re.MULTILINE)


@pytest.mark.mpi
@pytest.mark.usefixtures("mpiexec")
def test_printed_command_starts_the_recommended_split_in_any_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "Größe 1"
    directory.mkdir()
    on_embedded_backend = '[case.environment]\nPRECICE_LB_BACKEND = "embedded"'
    splits = "splits = [{Left=1, Right=3}, {Left=3, Right=1}]"
    path = write_study(directory, solver=COUPLED, runs=splits, extra=on_embedded_backend)
    recording(path, Left=0.2, Right=0.1)
    changed(
        directory / "case" / "precice-config.xml", ('<max-time-windows value="1000"', '<max-time-windows value="8"')
    )
    monkeypatch.chdir(directory)
    assert main(["calibrate", path.name]) == 0
    (command,) = PRINTED.findall(capsys.readouterr().out)
    page = (directory / "study-campaign" / "report" / "report.html").read_text(encoding="utf-8")
    assert command in html.unescape(page)

    shells = [shell for shell in ("dash", "bash") if shutil.which(shell)]
    for shell in shells:
        subprocess.run([shell, "-c", command], check=True, timeout=120)

    split = json.loads((directory / "study-campaign" / "recommendation.json").read_text())["split"]
    runs = load_runs([directory / "case"])
    assert [{name: part.ranks for name, part in run.participants.items()} for run in runs] == [split] * len(shells)
    assert shells
