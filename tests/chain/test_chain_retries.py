"""Segments that are tried again, and what of a chain may be removed while it goes on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from calibrate_helpers import changed, runs_of
from segment_helpers import CHAIN, outcomes, page, planned, run_with, write_copies

from precice_lb.campaign import load_campaign, read_study
from precice_lb.cli import main
from precice_lb.exceptions import TooFewRunsError

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("mpiexec")]
STAYS = ({"Left": 1, "Right": 3}, {"Left": 1, "Right": 3})
TWO_SEGMENTS = CHAIN.replace("total = 12", "total = 8")


def fail_second_segment(directory: Path, times: int) -> None:
    """Let Left fail as often in the second segment, after it has written its state."""
    tries = directory / "tries"
    solver = directory / "case" / "solver.py"
    solver.write_text(
        solver.read_text()
        + f"""
if name == "Left" and line[0] == "2":
    with open({str(tries)!r}, "a+") as file:
        file.write("x")
        file.seek(0)
        if len(file.read()) <= {times}:
            sys.exit("ERROR: node without memory")
"""
    )


def test_a_segment_is_tried_again_as_often_as_the_study_says_from_the_same_state(tmp_path: Path) -> None:
    study = write_copies(tmp_path, chain=TWO_SEGMENTS, runs="retries = 2")
    fail_second_segment(tmp_path, times=2)

    run_with(planned(*STAYS), read_study(study), tmp_path / "chain")

    assert outcomes(tmp_path / "chain") == [(1, "finished"), (2, "failed"), (2, "failed"), (2, "finished")]
    assert page(tmp_path / "chain")["windows_done"] == 8
    # Each segment adds a line to what it took over: its number, the time at which it starts, and Left's ranks.
    last = tmp_path / "chain" / runs_of(tmp_path / "chain")[-1].directory / "case"
    assert (last / "state-Left.npy").read_text() == "1 0 1\n2 4 1\n"


def test_a_segment_that_fails_more_often_stops_the_chain(tmp_path: Path) -> None:
    study = write_copies(tmp_path, chain=TWO_SEGMENTS, runs="retries = 1")
    fail_second_segment(tmp_path, times=2)

    with pytest.raises(TooFewRunsError, match=r"segment 2 failed, .* ERROR: node without memory"):
        run_with(planned(*STAYS), read_study(study), tmp_path / "chain")

    assert outcomes(tmp_path / "chain") == [(1, "finished"), (2, "failed"), (2, "failed")]


def test_cases_before_the_last_finished_segment_may_be_removed_and_runs_are_learned_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_copies(tmp_path, chain=TWO_SEGMENTS)
    directory = tmp_path / "chain"
    splits = ({"Left": 1, "Right": 2}, {"Left": 2, "Right": 2})
    run_with(planned(*splits), read_study(study), directory)
    first, _ = runs_of(directory)
    shutil.rmtree(directory / first.directory / "case")

    changed(study, ("total = 8", "total = 12"))
    run_with(planned(*splits), read_study(study), directory)

    assert outcomes(directory) == [(1, "finished"), (2, "finished"), (3, "finished")]
    last = directory / runs_of(directory)[-1].directory / "case"
    assert (last / "state-Left.npy").read_text() == "1 0 1\n2 4 1\n3 8 2\n"
    # They are measurements, as the runs of a campaign are; the second and the third have copies of the same stores,
    # which count once.
    campaign = load_campaign(directory)
    assert campaign is not None
    assert campaign.measurements().samples["Right"][:, 0].tolist() == [2, 3]
    assert main(["recommend", str(directory)]) == 0
    assert "\nGive Left " in capsys.readouterr().out
