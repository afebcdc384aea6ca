"""No text of a user's file, and no name, is read as a command by a script that is written: shells really run them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from calibrate_helpers import program, write_case
from conftest import FULL_COUNTS
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from precice_lb.campaign import RunPlan, Study, prepare_in, tasks_of, write_scripts
from precice_lb.campaign.launchers.slurm import SlurmLauncher
from precice_lb.campaign.read import study_from
from precice_lb.campaign.schedulers import job_lines, read_exits
from precice_lb.exceptions import CalibrationError, StudyError

# Each example runs a script, which takes too long to make the failing ones small.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
# Whatever is executed of these leaves this file.
MARK = "was-executed"
_PIECES = (
    f"touch {MARK}", f"$(touch {MARK})", f"`touch {MARK}`", "END", "EOF", "'", '"', "\\", "#", ";", "&", "|", "\n",
    "\r\n", "!", "~", "*", "{ranks}", "${HOME}", "-n", " ", "%", "(", ")", "<", ">", "=",
)  # fmt: skip
_CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
TEXTS = st.lists(st.sampled_from(_PIECES) | st.text(_CHARACTERS, max_size=3), max_size=8).map("".join)
NAMES = TEXTS.filter(lambda text: text.isprintable() and text != "")
# What is written, and a shell that runs it.
SCRIPTS = [("job.sbatch", "bash"), ("run.sh", "bash"), *[("run.sh", "dash")] * (shutil.which("dash") is not None)]


def study_of(directory: Path, names: tuple[str, str], **case: Any) -> Study:
    """A study of participants of any name; both have a template, and leave a file of their own."""
    participants = [
        {"name": name, "command": f"touch ran-{number}", "templates": ["dict.in"], "directory": f"side {number}"}
        for number, name in enumerate(names)
    ]
    raw = {
        "case": {"directory": "case", "network": "lo", **case},
        "machine": {"ranks": 2},
        "launcher": {"name": "template", "participant": "env {command}"},
        "participants": participants,
    }
    return study_from(raw, directory / "study.toml")


def case_in(directory: Path, template: str) -> Path:
    case = write_case(directory)
    for number in range(2):
        (case / f"side {number}").mkdir()
        (case / f"side {number}" / "dict.in").write_text(template, encoding="utf-8", newline="")
    return case


def ran(script: Path, place: Path, shell: str = "bash") -> subprocess.CompletedProcess[str]:
    """Run a script by a shell, with an srun that starts the command."""
    srun = program(place / "bin" / "srun", 'while [ "$1" != "${1#-}" ]; do shift; done\nexec "$@"')
    environment = {**os.environ, "PATH": f"{srun.parent}:{os.environ['PATH']}"}
    return subprocess.run([shell, script], capture_output=True, text=True, cwd=place, env=environment, check=False)


@given(one=NAMES, other=NAMES, template=TEXTS, script=st.sampled_from(SCRIPTS))
@settings(max_examples=25 if FULL_COUNTS else 8, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
# For echo of dash, \c is the end of all output.
@example(one=r"half \c a name", other="Solid", template="", script=SCRIPTS[-1])
def test_names_and_templates_are_never_executed(one: str, other: str, template: str, script: tuple[str, str]) -> None:
    if one == other:
        other += "2"
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        case, filled = case_in(place, template), place / "filled"
        study, split = study_of(place, (one, other)), {one: 1, other: 1}
        shutil.copytree(case, filled)
        plan = RunPlan("filled", place, tasks_of(study, split, filled, place))
        for participant, task in zip(study.participants, plan.tasks, strict=True):
            prepare_in(study, participant, plan, task)
        write_scripts(study, split, place / "launch")
        name, shell = script
        done = ran(place / "launch" / name, place, shell)
        assert (done.returncode, done.stderr) == (0, "")
        assert sorted(done.stdout.split("\n")) == sorted(["", f"exit 0 {one}", f"exit 0 {other}"])
        for number in range(2):
            side = Path(f"side {number}")
            assert (case / side / "dict").read_bytes() == (filled / side / "dict").read_bytes()
            assert (case / side / f"ran-{number}").exists()
        assert len(list(case.glob("*.log"))) == 2
        assert not list(place.rglob(MARK))


@pytest.mark.parametrize("name", [f"Solid\ntouch {MARK} #", "Solid\r", "Solid\x1b[2J", "Solid\u2028"])
def test_names_that_are_no_line_of_text_are_refused(tmp_path: Path, name: str) -> None:
    case_in(tmp_path, "")
    with pytest.raises(StudyError, match=r"participants\[2\]\.name: expected printable characters"):
        study_of(tmp_path, ("Fluid", name))


def test_no_other_text_of_a_study_ends_a_comment(tmp_path: Path) -> None:
    """Of the network and the configuration a comment speaks, of the study's name a line of Slurm."""
    case = case_in(tmp_path, "")
    odd = f"precice\ntouch {MARK}\n.xml"
    case.joinpath("precice-config.xml").rename(case / odd)
    study = study_of(tmp_path, ("Left", "Right"), configuration=odd, network=f"ib0\ntouch {MARK}\n")
    study = study.model_copy(update={"path": tmp_path / f"study\ntouch {MARK}\n.toml"})
    text = case.joinpath(odd).read_text()
    case.joinpath(odd).write_text(text.replace("<m2n:sockets", '<m2n:sockets network="lo"'))
    write_scripts(study, {"Left": 1, "Right": 1}, tmp_path / "launch")
    for script, shell in SCRIPTS:
        done = ran(tmp_path / "launch" / script, tmp_path, shell)
        assert (done.returncode, done.stderr) == (0, "")
    assert not list(tmp_path.rglob(MARK))
    study = study.model_copy(update={"launcher": SlurmLauncher(options=(f"--account=a1\ntouch {MARK}",))})
    with pytest.raises(CalibrationError, match="expected one line for each option of the job"):
        write_scripts(study, {"Left": 1, "Right": 1}, tmp_path / "launch")


@given(name=NAMES)
@settings(max_examples=10 if FULL_COUNTS else 4, deadline=None, phases=PHASES)
def test_a_job_of_a_campaign_executes_no_name_and_tells_how_each_ended(name: str) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        case_in(place, "")
        study = study_of(place, (name, "Other" if name != "Other" else "Another"))
        split = dict.fromkeys(study.names, 1)
        plan = RunPlan("r", place, tasks_of(study, split, place / "case", place))
        job = place / "job.sh"
        job.write_text(job_lines(plan, study.launcher.starts(plan)), encoding="utf-8")
        done = ran(job, place)
        assert (done.returncode, done.stderr) == (0, "")
        assert read_exits(place / "exits").codes == dict.fromkeys(study.names, 0)
        assert not list(place.rglob(MARK))
