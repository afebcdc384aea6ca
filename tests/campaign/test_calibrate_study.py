"""The study file: what it accepts, and the one line it answers to everything else."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import pytest
from calibrate_helpers import changed, state_of, write_case, write_study

from precice_lb.campaign import read_study
from precice_lb.campaign.plan import command_tokens
from precice_lb.campaign.state import CampaignState
from precice_lb.campaign.versions import constraints_of
from precice_lb.exceptions import StudyError
from precice_lb.split import Constraints, SharedCores


def test_a_study_is_read_with_its_defaults(tmp_path: Path) -> None:
    case = write_case(tmp_path)
    study = read_study(write_study(tmp_path, left="maximum_ranks = 2", extra="[case.parameter]\nmesh_width = 1"))
    assert study.case_directory == case
    assert study.configuration_path == case / "precice-config.xml"
    assert study.campaign_directory == tmp_path / "study-campaign"
    assert study.names == ("Left", "Right")
    assert study.bounds == {"Left": (1, 2), "Right": (1, 4)}
    assert study.degrees_of_freedom == {"Left": 1000.0}
    assert study.case.parameter == {"mesh_width": 1.0}
    assert study.runs.maximum == 5
    assert study.launcher.name == "mpiexec"


def test_paths_are_relative_to_the_study_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_case(tmp_path)
    path = write_study(tmp_path, runs='directory = "../elsewhere"')
    monkeypatch.chdir(tmp_path.parent)
    study = read_study(os.path.relpath(path))
    assert study.case_directory == tmp_path / "case"
    assert study.campaign_directory == tmp_path.parent / "elsewhere"


def test_a_machine_has_the_words_of_recommend_split(tmp_path: Path) -> None:
    write_case(tmp_path)
    machine = """
        nodes = 2
        cores_per_node = 4
        whole_nodes = ["Left"]
        shared = [{ turns = [["Left"], ["Right"]], overhead = 0.05 }]
    """
    study = read_study(write_study(tmp_path, left="multiple = 2", right="ranks = [1, 2, 8]", machine=machine))
    shared = [SharedCores([["Left"], ["Right"]], 0.05)]
    nodes, constraints = constraints_of(study)
    assert (nodes, constraints) == (
        2,
        Constraints(
            unit="nodes",
            cores_per_node=4,
            whole_nodes=["Left"],
            multiple={"Left": 2},
            allow={"Right": [1, 2, 8]},
            shared=shared,
        ),
    )
    assert study.allow == {"Left": [2, 4], "Right": [1, 2]}
    state = CampaignState(study.identity(), asked=study.asked())
    state.save(tmp_path)
    read = state_of(tmp_path)
    assert read.asked == study.asked()
    assert read.asked is not None
    assert read.asked.demands().constraints() == (2, constraints)


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


def test_earlier_words_of_a_study_are_read_with_the_same_meaning(tmp_path: Path) -> None:
    write_case(tmp_path)
    earlier = """
        [parameters]
        cells = 2
        [[meshes]]
        parameters = { cells = 1 }
    """
    before = read_study(write_study(tmp_path, extra=earlier))
    now = read_study(
        write_study(
            tmp_path, extra=earlier.replace("[parameters]", "[case.parameter]").replace("[[meshes]]", "[[runs.meshes]]")
        )
    )
    assert before == now
    assert before.identity() == now.identity()
    assert before.identity()["meshes"] == [{"parameters": {"cells": 1.0}, "environment": {}}]
    with pytest.raises(StudyError, match=r"budget.ranks: expected machine.ranks, its name of today, alone, found both"):
        read_study(write_study(tmp_path, extra="[budget]\nranks = 4"))


LEFT = '"python solver.py Left"'


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("windows = 7", "windws = 7"), r"runs\.windws: unknown key; did you mean 'windows'\? \(known: windows, "),
        (("[machine]", "[machin]"), r"machin: unknown key; did you mean 'machine'\?"),
        (
            ("minimum_ranks = 1", "minimal_ranks = 1"),
            r"participants\[1\]\.minimal_ranks: .*did you mean 'minimum_ranks'",
        ),
        (("[case]", 'path = "x"\n[case]'), r"path: unknown key"),
        (("windows = 7", 'windows = "many"'), r"runs\.windows: expected a valid integer, found 'many'"),
        (("windows = 7", "windows = 7.5"), r"runs\.windows: expected a valid integer, found 7\.5"),
        (("windows = 7", "windows = true"), r"runs\.windows: expected a valid integer, found True"),
        (("windows = 7", "windows = 2"), r"runs\.windows: expected more than the 2 warm-up windows, found 2"),
        (
            ("time_limit_seconds = 300", "time_limit_seconds = 0"),
            r"time_limit_seconds: expected greater than 0, found 0",
        ),
        (("time_limit_seconds = 300", "time_limit_seconds = inf"), r"time_limit_seconds: expected a finite number"),
        (("ranks = 4\n", "ranks = 1\n"), r"machine\.ranks: expected at least 2 ranks for 2 participants, found 1"),
        (("ranks = 4\n", "\n"), r"machine: expected what there is as ranks, cores or nodes"),
        (('directory = "case"', 'directory = "cake"'), r"case\.directory: no such directory: .*cake"),
        (('directory = "case"', 'directory = "case"\nconfiguration = "c.xml"'), r"case\.configuration: no such file"),
        (('name = "Left"', 'name = "Leftt"'), r"participants\[1\]\.name: 'Leftt' is no participant of .*mean 'Left'\?"),
        (('name = "Left"', 'name = "Right"'), r"participants\[2\]\.name: 'Right' stands in the study twice"),
        (("python solver.py Left", "pythn solver.py"), r"participants\[1\]\.command: no program 'pythn' beside "),
        (("python solver.py Left", "./solve"), r"participants\[1\]\.command: no such program: .*solve"),
        (("python solver.py Left", "./solver.py"), r"participants\[1\]\.command: .*solver\.py is not executable"),
        (("python solver.py Left", "python solvr.py"), r"participants\[1\]\.command: no such script: .*solvr\.py"),
        (("python solver.py Left", "python -m precice_lb run solvr.py"), r"no such script: .*solvr\.py"),
        (("python solver.py Left", "python ../study.toml"), r"lies outside the case"),
        (("python solver.py Left", "python 'solver.py"), r"participants\[1\]\.command: expected a command.*quotation"),
        (("python solver.py Left", " "), r"participants\[1\]\.command: expected a command, found an empty text"),
        (("minimum_ranks = 1", 'directory = "sub"'), r"participants\[1\]\.directory: no such directory: .*sub"),
        (
            ("minimum_ranks = 1", 'directory = ".."'),
            r"participants\[1\]\.directory: expected a directory inside the case",
        ),
        (("minimum_ranks = 1", "minimum_ranks = 3\nmaximum_ranks = 2"), r"maximum_ranks: expected at least .* = 3"),
        ((LEFT, "{}"), r"participants\[1\]\.command: expected the command for all other numbers"),
        ((LEFT, "[]"), r"participants\[1\]\.command: expected a text, or a table of texts.*found \[\]"),
        ((LEFT, "{ 1 = 2, default = 'sh' }"), r"command: expected a text, or a table of texts"),
        ((LEFT, "{ 0 = 'a', default = 'sh' }"), r"command: expected numbers of ranks .*found '0'"),
        ((LEFT, "{ one = 'a', default = 'sh' }"), r"command: expected numbers of .*found 'one'"),
        (
            (LEFT, "{ 1 = 'pythn', default = 'sh' }"),
            r"participants\[1\]\.command\.1: no program 'pythn'",
        ),
        (("minimum_ranks = 1", "minimum_ranks = 0"), r"minimum_ranks: expected greater than or equal to 1, found 0"),
        (
            ("oversubscribe", 'name = "mpirun"\noversubscribe'),
            r"launcher\.name: expected one of mpiexec, slurm, srun, template, found 'mpirun'",
        ),
        (
            ("oversubscribe", "mpi = 'pmi2'\noversubscribe"),
            r"launcher: mpi: the launcher mpiexec does not know this key",
        ),
        (
            ("oversubscribe = true", "name = 'slurm'\noptions = ['part']"),
            r"options\[1\]: String should match|expected to match",
        ),
        (
            ("oversubscribe = true", "name = 'slurm'"),
            r"case\.network: the sockets of precice-config\.xml are on the loopback",
        ),
        (
            ("minimum_ranks = 1", "prepare = ['sh {rnaks}']"),
            r"participants\[1\]\.prepare\[1\]: unknown placeholder {rnaks}",
        ),
        (("minimum_ranks = 1", "prepare = ['decompose']"), r"participants\[1\]\.prepare\[1\]: no program 'decompose'"),
        (("minimum_ranks = 1", "templates = ['a.in']"), r"participants\[1\]\.templates\[1\]: no such file: .*a\.in"),
        (("minimum_ranks = 1", "templates = ['a']"), r"participants\[1\]\.templates\[1\]: .*match pattern"),
        (
            ("python solver.py Left", "python solver.py {rank}"),
            r"command: unknown placeholder {rank}; did you mean 'ranks'",
        ),
        (
            ("windows = 7", "windows = 7\nlearner = 4"),
            r"runs\.learner",
        ),
        (("windows = 7", "windows = 7\nretries = 11"), r"runs\.retries: expected less than or equal to 10, found 11"),
        (("windows = 7", "windows = 7\nsplits = []"), r"runs\.splits: expected at least one split"),
        (("windows = 7", "windows = 7\nsplits = [{Left=1}]"), r"runs\.splits\[1\]: no ranks for participant 'Right'"),
        (
            ("windows = 7", "windows = 7\nsplits = [{Left=4, Right=1}]"),
            r"runs\.splits\[1\]: expected at most the 4 ranks .*found 5",
        ),
        (("windows = 7", "windows = 7\nsplits = [{Left=2, Right=9}]"), r"expected 1 to 4 ranks for 'Right', found 9"),
        (
            ("windows = 7", "windows = 7\nsplits = [{Left=2, Rihgt=2}]"),
            r"unknown participant 'Rihgt'; did you mean 'Right'",
        ),
        (
            ("[machine]", "[case.environment]\n1X = 'a'\n[machine]"),
            r"environment\.1X.*: expected .*pattern|String should match",
        ),
        (
            ("[machine]", "[case.environment]\nPRECICE_LB_DIR = 'a'\n[machine]"),
            r"environment\.PRECICE_LB_DIR: the campaign",
        ),
        (("[machine]", "[case.environment]\nTHREADS = 1\n[machine]"), r"environment\.THREADS: .*valid string, found 1"),
        (
            ("[machine]\n", "[machine]\ncores_per_nod = 4\n"),
            r"machine\.cores_per_nod: unknown key; did you mean 'cores_per_node'",
        ),
        (
            ("minimum_ranks = 1", "multiple = '4'"),
            r"participants\[1\]\.multiple: expected a valid integer, found '4'",
        ),
        (("minimum_ranks = 1", "multiple = 0"), r"participants\[1\]\.multiple: expected .*, found 0"),
        (("minimum_ranks = 1", "multiple = 4"), r"machine: expected a budget of at least 5 ranks"),
        (("[machine]\n", "[machine]\nnodes = 2\n"), r"machine: expected cores_per_node"),
        (("minimum_ranks = 1", "ranks = [9]"), r"machine: .*Left.*9"),
        (
            ("minimum_ranks = 1", "multiple = 2\n[[runs.splits]]\nLeft = 3\nRight = 1"),
            r"runs\.splits\[1\]: .*\(2, 4\), found 3",
        ),
        (("[machine]", "[budget"), r"not a TOML file: .*line \d+"),
    ],
)
def test_every_mistake_is_one_line_that_names_the_place(tmp_path: Path, change: tuple[str, str], expected: str) -> None:
    write_case(tmp_path)
    path = changed(write_study(tmp_path, left="minimum_ranks = 1"), change)
    with pytest.raises(StudyError, match=expected) as caught:
        read_study(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message


def test_a_missing_study_file(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"nothing\.toml: no such study file"):
        read_study(tmp_path / "nothing.toml")


def test_a_participant_of_the_configuration_without_a_table(tmp_path: Path) -> None:
    write_case(tmp_path)
    path = write_study(tmp_path)
    path.write_text(path.read_text().split('[[participants]]\nname = "Right"')[0])
    with pytest.raises(StudyError, match=r"participants: Right of precice-config\.xml missing"):
        read_study(path)


def test_a_broken_configuration_is_named_with_its_place(tmp_path: Path) -> None:
    case = write_case(tmp_path)
    (case / "precice-config.xml").write_text("<precice-configuration>\n")
    with pytest.raises(StudyError, match=r"case\.configuration: ") as caught:
        read_study(write_study(tmp_path))
    assert "\n" not in str(caught.value)


def test_programs_of_commands(tmp_path: Path) -> None:
    case = write_case(tmp_path)
    solver = case / "solve"
    solver.write_text("#!/bin/sh\n")
    solver.chmod(0o755)
    outside = tmp_path / "outside"
    outside.write_text("#!/bin/sh\n")
    outside.chmod(0o755)
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


@pytest.mark.parametrize(
    "command",
    [
        "python -W error -u solver.py x",
        "python -m precice_lb run solver.py --flag",
        "python -m precice_lb run -m some.module",
        "python -c 'print(1)'",
        "python -m json.tool",
        "sh run.sh",
        "python SCRIPT",
    ],
)
def test_commands_that_can_be_started_are_accepted(tmp_path: Path, command: str) -> None:
    case = write_case(tmp_path)
    command = command.replace("SCRIPT", str(case / "solver.py"))
    path = changed(write_study(tmp_path), ("python solver.py Left", command))
    assert read_study(path).participants[0].command == command


def test_a_console_script_is_recorded_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_case(tmp_path)
    command = "python -m precice_lb run stand-in-solver config.json"
    path = changed(write_study(tmp_path), ("python solver.py Left", command))
    with pytest.raises(StudyError, match=r"no such script: .*stand-in-solver, nor a program of that name"):
        read_study(path)
    script = tmp_path / "bin" / "stand-in-solver"
    script.parent.mkdir()
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    script.write_text(f"#!{sys.executable}\n")
    with pytest.raises(StudyError, match="no such script"):
        read_study(path)
    script.chmod(0o755)
    assert read_study(path).participants[0].command == command
    path.write_text(path.read_text().replace(command, command.replace("stand-in", "./stand-in")))
    with pytest.raises(StudyError, match=r"no such script: .*stand-in-solver$"):
        read_study(path)


def test_the_shortest_study_has_eight_lines(tmp_path: Path) -> None:
    case = write_case(tmp_path)
    tables = "".join(f'[[participants]]\nname = "{n}"\ncommand = "python solver.py {n}"\n' for n in ("Left", "Right"))
    path = case / "study.toml"
    path.write_text(f"[machine]\nranks = 4\n{tables}")
    assert path.read_text().count("\n") == 8
    study = read_study(path)
    assert study.case_directory == case
    assert study.bounds == {"Left": (1, 4), "Right": (1, 4)}
