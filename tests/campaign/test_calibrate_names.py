"""Names of participants in the names of files: one file each, whatever they are called."""

from __future__ import annotations

import re
from pathlib import Path

from calibrate_helpers import CONFIGURATION, changed, finished_runs, quiet, write_case, write_study
from hypothesis import given
from hypothesis import strategies as st

from precice_lb.campaign import read_study, run_campaign
from precice_lb.campaign.plan import file_name

NAMES = st.text("a-_ ", min_size=1, max_size=2) | st.text(min_size=1, max_size=400)


@given(NAMES, NAMES)
def test_each_name_has_a_file_name_of_its_own(one: str, other: str) -> None:
    assert (file_name(one) == file_name(other)) == (one == other)
    # As a shell takes it without quotes, with room for what is put around it.
    assert re.fullmatch(r"[A-Za-z0-9_.][A-Za-z0-9_.~-]{0,199}", file_name(one))


def test_names_of_one_word_stay_as_they_are() -> None:
    for name in ("Fluid", "Solid_1", "Solid-1", "Fluid.inner", "x" * 160):
        assert file_name(name) == name
    assert file_name("Heat exchanger (left)").startswith("Heat_exchanger__left_~")


def test_participants_of_similar_names_share_no_file(tmp_path: Path) -> None:
    """Their logs, their prepared files, and their stores, in which a dot or a space is written otherwise."""
    case = write_case(tmp_path)
    case.joinpath("precice-config.xml").write_text(
        CONFIGURATION.replace("Left", "So.lid 1").replace("Right", "So.lid-1")
    )
    solver = case / "solver.py"
    solver.write_text(solver.read_text().replace('f"{name}-0-{size}.h5"', 'f"{sys.argv[2]}-0-{size}.h5"'))
    case.joinpath("who.in").write_text("{participant}")
    study = write_study(
        tmp_path,
        case='network = "lo"',
        runs="splits = [{ 'So.lid 1' = 1, 'So.lid-1' = 1 }]",
        launcher="name = 'template'\nparticipant = 'env {command}'",
        left="templates = ['who.in']",
    )
    changed(
        study,
        ("solver.py Left", "solver.py 'So.lid 1' So%2Elid%201"),
        ("solver.py Right", "solver.py So.lid-1 So%2Elid-1"),
        ('name = "Left"', 'name = "So.lid 1"'),
        ('name = "Right"', 'name = "So.lid-1"'),
    )
    run_campaign(read_study(study), tmp_path / "campaign", report=quiet)
    (run,) = finished_runs(tmp_path / "campaign")
    logs = sorted((tmp_path / "campaign" / run.directory).glob("*.log"))
    assert {log.read_text() for log in logs} == {"So.lid 1 says hello\n", "So.lid-1 says hello\n"}
