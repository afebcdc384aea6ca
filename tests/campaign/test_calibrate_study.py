"""The study file: what it accepts, and the one line it answers to everything else."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import pytest
from calibrate_helpers import changed, check_refused, program, refusals, state_of, write_case, write_study

from precice_lb.campaign import CampaignResult, command_tokens, read_study
from precice_lb.exceptions import StudyError
from precice_lb.split import Constraints, SharedCores


def test_a_study_is_read_with_its_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = write_case(tmp_path)
    study = read_study(write_study(tmp_path, left="maximum_ranks = 2", extra="[case.parameter]\nmesh_width = 1"))
    assert study.case_directory == case
    assert study.configuration_path == case / "precice-config.xml"
    assert study.campaign_directory == tmp_path / "study-campaign"
    assert study.names == ("Left", "Right")
    assert study.bounds == {"Left": (1, 2), "Right": (1, 4)}
    assert study.degrees_of_freedom == {"Left": 1000.0}
    assert study.case.parameter == {"mesh_width": 1.0}
    assert (study.runs.maximum, study.runs.target_regret) == (5, 0.002)
    assert study.launcher.name == "mpiexec"
    # Paths are relative to the study file.
    monkeypatch.chdir(tmp_path.parent)
    study = read_study(os.path.relpath(write_study(tmp_path, runs='directory = "../elsewhere"')))
    assert study.case_directory == case
    assert study.campaign_directory == tmp_path.parent / "elsewhere"


def test_a_machine_has_the_words_of_recommend_split(tmp_path: Path) -> None:
    machine = """
        nodes = 2
        cores_per_node = 4
        whole_nodes = ["Left"]
        shared = [{ turns = [["Left"], ["Right"]], overhead = 0.05 }]
    """
    study = read_study(write_study(tmp_path, left="multiple = 2", right="ranks = [1, 2, 8]", machine=machine))
    assert study.allow == {"Left": [2, 4]}
    assert study.bounds == {"Left": (2, 4), "Right": (1, 2)}
    CampaignResult(study.identity(), asked=study.asked(), directory=tmp_path).save()
    asked = state_of(tmp_path).asked
    assert asked == study.asked()
    assert asked is not None
    allowed = {"multiple": {"Left": 2}, "allow": {"Right": [1, 2, 8]}, "whole_nodes": ["Left"]}
    shared = [SharedCores([["Left"], ["Right"]], 0.05)]
    expected = Constraints(unit="nodes", cores_per_node=4, shared=shared, **allowed)  # type: ignore[arg-type]
    assert asked.demands().constraints() == (2, expected)


def test_a_study_without_new_keys_keeps_the_identity_of_campaigns_made_before(tmp_path: Path) -> None:
    case = write_case(tmp_path)
    study = read_study(write_study(tmp_path, left="ranks_per_node = 2"))
    participant = {"directory": ".", "prepare": [], "templates": []}
    left = {"command": "python solver.py Left", "degrees_of_freedom": 1000.0, "ranks_per_node": 2}
    right = {"command": "python solver.py Right", "degrees_of_freedom": None, "ranks_per_node": None}
    assert study.identity() == {
        "case.directory": str(case),
        "case.configuration": hashlib.sha256((case / "precice-config.xml").read_bytes()).hexdigest(),
        "case.restart": None,
        "runs.windows": 7,
        "runs.warmup_windows": 2,
        "environment": {},
        "parameters": {},
        "participants": {"Left": participant | left, "Right": participant | right},
    }


@pytest.mark.parametrize("block", refusals("studies-refused.txt"))
def test_every_mistake_is_one_line_that_names_the_place(tmp_path: Path, block: str) -> None:
    check_refused(write_study(tmp_path, left="minimum_ranks = 1"), block)


def test_programs_of_commands(tmp_path: Path) -> None:
    case = write_case(tmp_path)
    solver, outside = case / "solve", tmp_path / "outside"
    for path in (solver, outside):
        program(path)
    assert command_tokens("python a.py 'x y'", case, case) == (sys.executable, "a.py", "x y")
    assert command_tokens("python3 -m m", case, case)[0] == sys.executable
    assert command_tokens("./solve -n 2", case, case) == ("./solve", "-n", "2")
    assert command_tokens("../outside", case, case) == (str(outside),)
    # A virtual environment's Python is a link that knows by its own place where its modules are.
    linked = tmp_path / "environment" / "python"
    linked.parent.mkdir()
    linked.symlink_to(sys.executable)
    assert command_tokens(f"{linked} a.py", case, case) == (str(linked), "a.py")
    assert command_tokens(str(solver), case, case) == (str(solver),)
    assert Path(command_tokens("sh -c true", case, case)[0]).name == "sh"


def test_commands_that_can_be_started_are_accepted(tmp_path: Path) -> None:
    case = write_case(tmp_path)
    for command in (
        "python -W error -u solver.py x",
        "python -m precice_lb run solver.py --flag",
        "python -m precice_lb run -m some.module",
        "python -c 'print(1)'",
        "python -m json.tool",
        "sh run.sh",
        f"python {case}/solver.py",
    ):
        path = changed(write_study(tmp_path), ("python solver.py Left", command))
        assert read_study(path).participants[0].command == command


def test_a_console_script_is_recorded_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = "python -m precice_lb run stand-in-solver config.json"
    path = changed(write_study(tmp_path), ("python solver.py Left", command))
    script = tmp_path / "bin" / "stand-in-solver"
    script.parent.mkdir()
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    script.write_text(f"#!{sys.executable}\n")
    with pytest.raises(StudyError, match="no such script"):
        read_study(path)
    script.chmod(0o755)
    assert read_study(path).participants[0].command == command
    changed(path, (command, command.replace("stand-in", "./stand-in")))
    with pytest.raises(StudyError, match=r"no such script: .*stand-in-solver$"):
        read_study(path)
