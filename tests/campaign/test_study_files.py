"""What a study file needs and may say, and what a campaign does anew when it is started again."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from calibrate_helpers import SOLVER, program, run_study, write_case, write_study

from precice_lb.campaign import Study, read_study

SHORTEST = """\
[machine]
ranks = 4
[[participants]]
name = "Left"
command = "python solver.py Left"
[[participants]]
name = "Right"
command = "python solver.py Right"
"""


def test_the_shortest_study_has_eight_lines(tmp_path: Path) -> None:
    case = write_case(tmp_path)
    path = case / "study.toml"
    path.write_text(SHORTEST)

    study = read_study(path)

    assert len(SHORTEST.splitlines()) == 8
    assert study.names == ("Left", "Right")
    assert study.case_directory == case
    assert study.campaign_directory == case / "study-campaign"


def test_a_study_has_six_tables() -> None:
    tables = set(Study.model_fields) - {"path"}
    assert tables == {"case", "machine", "participants", "runs", "launcher", "chain"}


def test_paths_may_start_with_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    case = write_case(home)
    solver = program(home / "bin" / "solve", "exit 0")
    for name in ("developed", "earlier"):
        (home / name).mkdir()
    path = write_study(home, runs='directory = "~/campaign"\nexisting = ["~/earlier"]', case='restart = "~/developed"')
    text = path.read_text().replace('directory = "case"', 'directory = "~/case"')
    path.write_text(text.replace("python solver.py Left", "~/bin/solve Left"))

    study = read_study("~/study.toml")

    assert study.path == path
    assert study.case_directory == case
    assert study.campaign_directory == home / "campaign"
    assert study.restart_path == home / "developed"
    assert list(study.existing_runs) == [home / "earlier"]
    assert study.participants[0].command == "~/bin/solve Left"
    assert solver.exists()


@pytest.mark.mpi
@pytest.mark.usefixtures("mpiexec")
@pytest.mark.parametrize(("outside", "seen_inside"), [(None, "1"), ("3", "3")])
def test_a_run_finds_this_python_first_and_one_thread_unless_more_are_set(
    outside: str | None, seen_inside: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if outside is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", outside)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")

    (run,) = run_study(write_study(tmp_path, runs="splits = [{Left=1, Right=1}]")).runs

    seen = json.loads((tmp_path / "campaign" / run.directory / "case" / "Left-seen.json").read_text())
    assert seen["OMP_NUM_THREADS"] == seen_inside
    assert seen["PATH"].endswith(f"{Path(sys.executable).parent}:/usr/bin:/bin")


FAILS_AT_FIRST = (
    SOLVER
    + """
if name == "Left" and not os.path.exists("REPAIRED"):
    sys.exit("ERROR: no licence")
"""
)


@pytest.mark.mpi
@pytest.mark.usefixtures("mpiexec")
def test_a_campaign_started_again_tries_failed_runs_once_more_and_no_finished_one(tmp_path: Path) -> None:
    repaired = tmp_path / "repaired"
    solver = FAILS_AT_FIRST.replace("REPAIRED", str(repaired))
    fails_with_two = solver.replace('if name == "Left"', 'if name == "Left" and size == "2"')
    path = write_study(tmp_path, solver=fails_with_two, runs="splits = [{Left=1, Right=1}, {Left=2, Right=1}]")
    assert [run.outcome for run in run_study(path).runs] == ["finished", "failed"]

    again = run_study(path)
    repaired.touch()
    mended = run_study(path)
    done = run_study(path)

    assert [run.outcome for run in again.runs] == ["finished", "failed", "failed"]
    assert [run.outcome for run in mended.runs] == ["finished", "failed", "failed", "finished"]
    assert mended.runs[3].split == {"Left": 2, "Right": 1}
    assert len(done.runs) == 4
