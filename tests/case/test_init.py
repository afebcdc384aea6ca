"""`precice-lb init`: a study of what lies in a directory, laid out as preCICE's public tutorials are."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
from calibrate_helpers import CONFIGURATION, changed, program
from report_helpers import refused

from precice_lb.campaign import Study, read_study
from precice_lb.cli import main

# How the tutorials begin and end what starts a solver.
BEGIN = '#!/usr/bin/env bash\nset -e -u\n\n. ../../tools/log.sh\nexec > >(tee --append "$LOGFILE") 2>&1\n\n'
END = "\nclose_log\n"
PARALLEL = "import precice\nprecice.Participant('x', 'y', rank, size)\n"
RECORDED = "python -m precice_lb run "


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cores, and no cluster."""
    monkeypatch.setattr("precice_lb.campaign.init.available_cores", lambda: (0, 1))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    monkeypatch.chdir(tmp_path)


def lay_out(first: str, second: str, files: dict[str, str], *, size: str = "0.01", end: str = "1.0") -> None:
    """Write the configuration of two participants, and files, of which each "run" is a script."""
    path = Path("precice-config.xml")
    path.write_text(CONFIGURATION.replace('"Left"', f'"{first}"').replace('"Right"', f'"{second}"'))
    limit = ('<max-time-windows value="1000" />', f'<max-time value="{end}" />')
    changed(path, ('size value="1"', f'size value="{size}"'), limit)
    for name, content in files.items():
        place = Path(name)
        place.parent.mkdir(exist_ok=True)
        if place.name == "run":
            place, content = place.with_name("run.sh"), f"{BEGIN}{content}\n{END}"
        place.write_text(content)


def on_path(name: str, lines: str = "") -> None:
    """Put a program on the path."""
    os.environ["PATH"] = f"{program(Path('bin', name), lines).parent.resolve()}{os.pathsep}{os.environ['PATH']}"


def written(capsys: pytest.CaptureFixture[str]) -> tuple[str, list[str]]:
    """Let a study be written; return its text, and what its marks say."""
    assert main(["init"]) == 0
    printed_lines = capsys.readouterr().out.splitlines()
    text = Path("study.toml").read_text()
    marks = []
    expected_lines = ["wrote study.toml"]
    for number, line in enumerate(text.splitlines(), start=1):
        _, mark, words = line.partition("# please check: ")
        if mark:
            marks.append(words)
            expected_lines.append(f"study.toml:{number}: please check: {words}")
    expected_lines.append("look at it, then: precice-lb calibrate --dry-run study.toml")
    assert printed_lines == expected_lines
    return text, marks


def commands(study: Study) -> dict[str, tuple[str, object]]:
    """Directory and command by participant."""
    return {one.name: (one.directory, one.command) for one in study.participants}


# By name: both participants with the size of their windows and the end; files, of which "run" is a script; the study.
_FILE = Path(__file__).parents[1] / "data" / "init-tutorials.txt"
TUTORIALS = dict(part.split("\n", 1) for part in _FILE.read_text(encoding="utf-8").split("=== ")[1:])


def tutorial(name: str) -> str:
    """Lay out a tutorial; return the study that is expected."""
    participants, *files = re.split(r"^--- ", TUTORIALS[name], flags=re.MULTILINE)
    first, second, size, end = participants.split()
    contents = dict(file.split("\n", 1) for file in files)
    expected = contents.pop("study.toml")
    if Path(sys.executable).with_name("micro-manager-precice").exists():
        expected = re.sub(".*no such script: .*micro-manager-precice\n", "", expected)
    lay_out(first, second, contents, size=size, end=end)
    return expected


@pytest.mark.parametrize("name", TUTORIALS)
def test_public_tutorials(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    expected = tutorial(name)
    text, marks = written(capsys)
    assert text.rstrip() == expected.rstrip()
    # It runs as it is, one split where both solvers can only be serial, or says what it lacks.
    if not marks:
        study = read_study("study.toml")
        assert set(study.bounds.values()) == {(1, 1)}
        assert (study.budget, study.runs.warmup_windows) == (2, 2)


def test_who_has_run_before_is_whose_command_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    tutorial("perpendicular-flap")
    on_path("ccx_preCICE")
    header = {"name": "Solid", "rank": 0, "size": 1, "unix_us": "1700000000000000", "tinit": "x", "mode": "fundamental",
              "compression": False, "file_version": 2}  # fmt: skip
    Path("solid-calculix", "precice-profiling").mkdir()
    Path("solid-calculix", "precice-profiling", "Solid-0-1.txt").write_text(json.dumps(header) + "\n")
    text, marks = written(capsys)
    assert commands(read_study("study.toml"))["Solid"] == (
        "solid-calculix",
        "ccx_preCICE -i flap -precice-participant Solid",
    )
    assert marks == ["whether it can run on several ranks: if not, maximum_ranks = 1"]
    assert "present: 1 rank" in text


def test_what_cannot_be_read_is_a_valid_file_with_a_mark_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    scripts = {"left-a/run": "python3 a.py", "left-a/a.py": "not python (", "right-b/run": "echo 'unbalanced"}
    lay_out("Left", "Right", scripts)
    _, marks = written(capsys)
    assert [mark.partition(":")[0] for mark in marks] == ["whether it can run on several ranks", "how Right starts"]
    # Valid TOML; what is missing is refused by name.
    assert "no such program" in refused(capsys, "calibrate", "study.toml")


def test_an_existing_file_is_never_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    lay_out("Left", "Right", {"empty/file": ""})
    Path("study.toml").write_text("mine")
    assert "study.toml: expected no study yet" in refused(capsys, "init")
    assert Path("study.toml").read_text() == "mine"
    assert "expected precice-config.xml" in refused(capsys, "init", "empty")


def test_a_script_that_a_function_of_the_shell_starts(capsys: pytest.CaptureFixture[str]) -> None:
    start = 'use_python ../solver\n\nrun_python "${{1:-2}}" ../solver/solve.py {} --output out.npz "${{@:2}}"'
    runs = {f"{name.lower()}-python/run": start.format(name) for name in ("Left", "Right")}
    lay_out("Left", "Right", {**runs, "solver/solve.py": PARALLEL})
    assert not written(capsys)[1]
    study = read_study("study.toml")
    assert commands(study)["Left"] == ("left-python", f"{RECORDED}../solver/solve.py Left --output out.npz")
    # The script asks MPI for rank and size.
    assert study.bounds == {"Left": (1, 2), "Right": (1, 2)}


def test_a_folder_belongs_to_the_participant_whose_longest_name_it_begins_with(
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = {"solid-left-python/run": "python3 solver.py left", "solid-python/run": "python3 solver.py right"}
    files |= dict.fromkeys(("solid-left-python/solver.py", "solid-python/solver.py"), PARALLEL)
    lay_out("Solid-Left", "Solid", files)
    assert written(capsys)[1] == []
    assert commands(read_study("study.toml")) == {
        "Solid-Left": ("solid-left-python", f"{RECORDED}solver.py left"),
        "Solid": ("solid-python", f"{RECORDED}solver.py right"),
    }


def test_a_folder_that_may_belong_to_two_participants_is_nobodys(capsys: pytest.CaptureFixture[str]) -> None:
    lay_out("Solid-Left", "Solid-Right", {"solid-python/run": "python3 solver.py", "solid-python/solver.py": PARALLEL})
    marks = written(capsys)[1]
    assert [mark.partition(":")[0] for mark in marks] == ["how Solid-Left starts", "how Solid-Right starts"]


def test_bounds_of_the_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    lay_out("Left", "Right", {})
    path = Path("precice-config.xml")
    wrong = 'from="A-Mesh" to="B-Mesh" constraint="conservative"'
    path.write_text(path.read_text().replace('from="A-Mesh" to="B-Mesh" constraint="consistent"', wrong))
    assert re.search(r"maximum_ranks = 1 +# conservative read mapping, precice-config.xml:20", written(capsys)[0])


def test_a_study_that_cannot_be_run_is_marked_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    run = {"run": "mpirun -np 2 python3 solver.py", "solver.py": PARALLEL}
    lay_out("Left", "Right", {f"{place}/{file}": text for place in ("left-a", "right-b") for file, text in run.items()})
    changed(Path("precice-config.xml"), ("<m2n:sockets ", '<m2n:sockets use-two-level-initialization="true" '))

    assert main(["init"]) == 0

    # At least two ranks each, on the two cores of this machine.
    marks = [line for line in capsys.readouterr().out.splitlines() if "please check" in line]
    assert marks == [
        "study.toml:1: please check: machine: expected a budget of at least 4 ranks for 2 participants "
        "(minima: Left 2, Right 2), found 2; give 4 ranks or more"
    ]


def test_nodes_of_slurm(capsys: pytest.CaptureFixture[str]) -> None:
    files = {"run": "mpirun -np 96 python3 solver.py", "solver.py": PARALLEL}
    places = (f"{name}-python" for name in ("left", "right"))
    lay_out("Left", "Right", {f"{place}/{file}": text for place in places for file, text in files.items()})
    for name in ("sbatch", "squeue", "scancel", "srun"):
        on_path(name)
    on_path("sinfo", 'echo "main*|20|2|32"; echo "fat|2|4|16"')
    _, marks = written(capsys)
    study = read_study("study.toml")
    assert (study.launcher.name, study.machine.cores_per_node, study.budget) == ("slurm", 64, 64)
    assert commands(study)["Left"] == ("left-python", f"{RECORDED}solver.py")
    assert any("the interface between compute nodes" in mark for mark in marks)
    assert any("fat 2 of 64 cores" in mark for mark in marks)

    # A question without an answer is no empty answer.
    Path("study.toml").unlink()
    on_path("sinfo", "echo 'slurm_load_partitions: Unable to contact slurm controller' >&2; exit 1")
    _, marks = written(capsys)
    study = read_study("study.toml")
    assert (study.launcher.name, study.budget) == ("mpiexec", 2)
    assert any("sinfo" in mark and "Unable to contact" in mark for mark in marks)
