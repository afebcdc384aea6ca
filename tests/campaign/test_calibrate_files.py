"""Files of the case: a campaign that goes on measures the case that it began with, or says which file is another."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from calibrate_helpers import (
    SOLVER,
    changed,
    finished_runs,
    quiet,
    run_study,
    runs_of,
    state_of,
    write_case,
    write_study,
)
from hypothesis import given
from hypothesis import strategies as st

from precice_lb.campaign import file_name, read_study, run_campaign
from precice_lb.exceptions import CalibrationError

LAUNCHER = "name = 'template'\nparticipant = 'env PMI_SIZE={ranks} {command}'"


def study_in(directory: Path, *, solver: str = SOLVER, left: str = "") -> Path:
    case = write_case(directory, solver)
    (case / "mesh").mkdir()
    (case / "mesh" / "points").write_text("0 0\n")
    return extended(directory, 1, left)


def extended(directory: Path, right: int, left: str = "") -> Path:
    """The study with so many splits, which may change."""
    splits = ", ".join(f"{{ Left = 1, Right = {ranks} }}" for ranks in range(1, right + 1))
    runs = f"splits = [{splits}]"
    return write_study(directory, case='network = "lo"', runs=runs, launcher=LAUNCHER, left=left)


def test_a_campaign_is_not_resumed_with_other_files(tmp_path: Path) -> None:
    directory, case = tmp_path / "campaign", tmp_path / "case"
    run_campaign(read_study(study_in(tmp_path)), directory, report=quiet)
    more = extended(tmp_path, 2)
    solver, points = case / "solver.py", case / "mesh" / "points"
    solver.write_text(SOLVER + "# other\n")
    points.unlink()
    (case / "options").write_text("")
    expected = r"another case \(mesh/points, options, solver.py changed\): undo that"
    for _ in range(2):
        with pytest.raises(CalibrationError, match=expected):
            run_campaign(read_study(more), directory, report=quiet)
    # Undone, with other times, it goes on: what is in the files counts.
    solver.write_text(SOLVER)
    points.write_text("0 0\n")
    (case / "options").unlink()
    run_campaign(read_study(more), directory, report=quiet)
    assert len(finished_runs(directory)) == 2


def test_what_runs_do_not_get_or_may_change_is_not_compared(tmp_path: Path) -> None:
    directory, case = tmp_path / "case" / "campaign", tmp_path / "case"
    study = read_study(study_in(tmp_path))
    # A name that is no text is a file too.
    (case / os.fsdecode(b"caf\xe9")).write_text("")
    run_campaign(study, directory, report=quiet)
    (case / "Left.log").write_text("of a launch in the case itself")
    (case / "precice-run").mkdir()
    (case / "precice-run" / "address").write_text("")
    (case / "link").symlink_to(tmp_path / "nowhere")
    run_campaign(read_study(extended(tmp_path, 2)), directory, report=quiet)
    assert len(finished_runs(directory)) == 2
    assert set(state_of(directory).files or {}) == {"caf\\xe9", "mesh/points", "solver.py"}


def test_files_and_studies_may_change_until_a_run_has_ended_well(tmp_path: Path) -> None:
    directory = tmp_path / "campaign"
    path = study_in(tmp_path, solver="raise SystemExit(3)", left="prepare = ['cp mesh/points made']")
    with pytest.raises(CalibrationError, match="every run failed"):
        run_campaign(read_study(path), directory, report=quiet)
    shutil.rmtree(tmp_path / "case")
    path = study_in(tmp_path, left="prepare = ['cp mesh/points  made']")
    (tmp_path / "case" / "mesh" / "points").write_text("1 1\n")
    run_campaign(read_study(path), directory, report=quiet)
    assert [run.outcome for run in runs_of(directory)] == ["outdated", "finished"]
    assert (directory / finished_runs(directory)[0].directory / "case" / "made").read_text() == "1 1\n"
    changed(path, ("solver.py Left", "solver.py Left "))
    with pytest.raises(CalibrationError, match=r"campaign of another study \(participants changed\)"):
        run_campaign(read_study(path), directory, report=quiet)


NAMES = st.text("a-_ ", min_size=1, max_size=2) | st.text(min_size=1, max_size=400)


@given(NAMES, NAMES)
def test_each_name_has_a_file_name_of_its_own(one: str, other: str) -> None:
    assert (file_name(one) == file_name(other)) == (one == other)
    # As a shell takes it without quotes, with room for what is put around it.
    assert re.fullmatch(r"[A-Za-z0-9_.][A-Za-z0-9_.~-]{0,199}", file_name(one))


def test_participants_of_similar_names_share_no_file(tmp_path: Path) -> None:
    """Their logs, and their stores, in which a dot or a space is written otherwise."""
    case = write_case(tmp_path)
    changed(case / "precice-config.xml", ("Left", "So.lid 1"), ("Right", "So.lid-1"))
    changed(case / "solver.py", ('f"{name}-0-{size}.h5"', 'f"{sys.argv[2]}-0-{size}.h5"'))
    runs = "splits = [{ 'So.lid 1' = 1, 'So.lid-1' = 1 }]"
    study = write_study(tmp_path, case='network = "lo"', runs=runs, launcher=LAUNCHER)
    changed(study, ("solver.py Left", "solver.py 'So.lid 1' So%2Elid%201"), ('"Left"', '"So.lid 1"'))
    changed(study, ("solver.py Right", "solver.py So.lid-1 So%2Elid-1"), ('"Right"', '"So.lid-1"'))
    run_study(study)
    (run,) = finished_runs(tmp_path / "campaign")
    logs = sorted((tmp_path / "campaign" / run.directory).glob("*.log"))
    assert {log.read_text() for log in logs} == {"So.lid 1 says hello\n", "So.lid-1 says hello\n"}
