"""Chains whose segments fail: which are tried again, which stop the chain, and how a repaired chain goes on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from calibrate_helpers import changed, refusals, runs_of
from segment_helpers import CHAIN, like_all_others, outcomes, page, planned, run_with, write_chain, write_copies

from precice_lb.campaign import Event, read_study
from precice_lb.chain import Decision, DecisionProblem, Segment
from precice_lb.exceptions import CalibrationError, TooFewRunsError

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("mpiexec")]
SLOW = pytest.mark.slow("a chain of real runs")

STAYS = ({"Left": 1, "Right": 3}, {"Left": 1, "Right": 3})


def failures() -> list[ParameterSet]:
    """What is changed where, and repaired; what is said of it."""
    blocks = [block.split("\n") for block in refusals("chain-failures.txt")]
    made = []
    for about, change, problem in blocks:
        place, edit = change.replace(r"\n", "\n").split(": ", 1)
        made.append(pytest.param(place, *edit.split(" -> "), problem, id=about[2:]))
    return made


@pytest.mark.parametrize(("place", "old", "new", "repaired", "problem"), failures())
def test_a_segment_that_fails_stops_the_chain_in_one_line_and_the_repaired_chain_goes_on(
    tmp_path: Path, place: str, old: str, new: str, repaired: str, problem: str
) -> None:
    path = write_copies(tmp_path, right='right = ""', chain=CHAIN.replace("total = 12", "total = 8"))
    changed(tmp_path / place, (old, new))
    if place != "study.toml":
        changed(path, ('right = ""', ""))
    directory = tmp_path / "chain"
    with pytest.raises(TooFewRunsError, match=problem) as caught:
        run_with(planned(*STAYS), read_study(path), directory)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("segment 2 failed, the state before it is intact: Left 1, Right 3 in ")
    assert outcomes(directory)[-1][0] == 2
    assert {outcome for _, outcome in outcomes(directory)[:-1]} <= {"finished"}
    written = page(directory)
    assert (written["problem"], written["next"], written["windows_done"]) == (str(caught.value), None, 4)

    changed(tmp_path / place, (new, repaired))
    run_with(planned(*STAYS), read_study(path), directory)
    written = page(directory)
    assert (written["problem"], written["windows_done"], len(written["segments"])) == (None, 8, 2)
    finished = [number for number, outcome in outcomes(directory) if outcome == "finished"]
    assert finished == [1, 2]
    # Where the solvers had done their part it is not asked for again.
    tries = 2 if "collect" in problem else 3
    assert len(runs_of(directory)) == len(list((directory / "runs").iterdir())) == tries
    last = directory / runs_of(directory)[-1].directory / "case"
    assert (last / "state-Left.npy").read_text() == "1 0 1\n2 4 1\n"


def test_windows_that_max_time_left_out_are_not_done(tmp_path: Path) -> None:
    path, limit = write_copies(tmp_path, rows_of=like_all_others(3)), '<max-time-windows value="1000" />'
    changed(tmp_path / "case" / "precice-config.xml", (limit, f'{limit}<max-time value="3" />'))
    with pytest.raises(TooFewRunsError, match="Left was to run 4 time windows, but recorded 3"):
        run_with(planned(*STAYS), read_study(path), tmp_path / "chain")
    assert page(tmp_path / "chain")["windows_done"] == 0


def test_a_segment_whose_stores_do_not_say_that_the_coupling_ended_is_not_done(tmp_path: Path) -> None:
    study = read_study(write_copies(tmp_path, finished=False))

    problem = r"Left and Right did not come to the end \(killed, failed or still running\): 4 windows recorded"
    with pytest.raises(TooFewRunsError, match=problem):
        run_with(planned(*STAYS), study, tmp_path / "chain")

    assert outcomes(tmp_path / "chain") == [(1, "failed")]
    assert page(tmp_path / "chain")["windows_done"] == 0


def test_a_chain_whose_largest_split_finds_no_place_starts_no_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("precice_lb.campaign.launchers.local.available_cores", lambda: [0, 1])
    # The first split has two ranks, the largest one four.
    path = write_copies(tmp_path, chain=CHAIN.replace("Right = 3", "Right = 1"), launcher="")

    with pytest.raises(CalibrationError, match="expected at most 2 cores for all ranks and their threads, found 4"):
        run_with(planned(*STAYS), read_study(path), tmp_path / "chain")

    assert outcomes(tmp_path / "chain") == []


def test_a_segment_whose_stores_cannot_be_read_is_not_done(tmp_path: Path) -> None:
    study = read_study(write_copies(tmp_path))
    store = tmp_path / "made" / "Right-1-3.h5"
    store.write_bytes(store.read_bytes()[:500])

    with pytest.raises(TooFewRunsError, match=r"segment 1 failed, .*Right-1-3\.h5"):
        run_with(planned(*STAYS), study, tmp_path / "chain")

    assert outcomes(tmp_path / "chain") == [(1, "failed")]


def test_changed_files_of_the_case_are_said_before_the_next_segment(tmp_path: Path) -> None:
    path = write_copies(tmp_path, chain=CHAIN.replace("total = 12", "total = 4"))
    run_with(planned(*STAYS), read_study(path), tmp_path / "chain")
    changed(path, ("total = 4", "total = 8"))
    (tmp_path / "case" / "solver.py").write_text((tmp_path / "case" / "solver.py").read_text() + "# Mended.\n")
    events: list[Event] = []

    run_with(planned(*STAYS), read_study(path), tmp_path / "chain", events.append)

    texts = [event.text for event in events if event.kind == "waiting"]
    assert texts == ["the next segment has other files of the case than the last: solver.py"]


def test_a_new_split_that_fails_is_given_up_for_the_last_one_that_worked(tmp_path: Path) -> None:
    fails = "if name == 'Left' and size == '2': sys.exit('ERROR: no such decomposition')\n"
    study = read_study(write_copies(tmp_path))
    changed(tmp_path / "case" / "solver.py", ("store =", f"{fails}store ="))
    questions: list[DecisionProblem] = []

    def decide(segments: Sequence[Segment], question: DecisionProblem) -> Decision:
        questions.append(question)
        return planned({"Left": 2, "Right": 2}, {"Left": 3, "Right": 1})(segments, question)

    events: list[Event] = []
    run_with(decide, study, tmp_path / "chain", report=events.append)
    assert outcomes(tmp_path / "chain") == [(1, "finished"), (2, "failed"), (2, "finished"), (3, "finished")]
    segments = page(tmp_path / "chain")["segments"]
    assert [each["split"] for each in segments] == [*STAYS, {"Left": 3, "Right": 1}]
    assert [each["kind"] for each in segments] == ["start", "undo", "move"]
    assert re.fullmatch(
        r"undo: back to Left 1, Right 3, the last split that worked, from Left 2, Right 2 in .*: "
        r"Left ended with exit code 1: .*decomposition",
        segments[1]["decision"],
    )
    assert [list(question.failed) for question in questions] == [[], [{"Left": 2}]]
    assert [run.split for run in runs_of(tmp_path / "chain")][1] == {"Left": 2, "Right": 2}


def test_what_is_carried_is_not_written_through_a_link_of_the_case(tmp_path: Path) -> None:
    path = write_copies(tmp_path, chain=CHAIN.replace('"]', '", "mesh/*"]'))
    changed(path, ('directory = "case"', 'directory = "case"\nlink = ["mesh"]'))
    (tmp_path / "case" / "mesh").mkdir()
    (tmp_path / "case" / "mesh" / "points").write_text("1 2 3")
    with pytest.raises(TooFewRunsError, match=r"mesh/points lies in mesh, which is a link in the copies of the case"):
        run_with(planned(*STAYS), read_study(path), tmp_path / "chain")
    assert (tmp_path / "case" / "mesh" / "points").read_text() == "1 2 3"


def test_a_link_whose_target_is_not_carried_is_refused(tmp_path: Path) -> None:
    links = 'os.rename(state + ".new", f"out-{name}.npy")\n    os.symlink(f"out-{name}.npy", state)'
    path = write_copies(tmp_path)
    changed(tmp_path / "case" / "solver.py", ('os.rename(state + ".new", state)', links))
    with pytest.raises(TooFewRunsError, match=r"state-Left\.npy is a link to out-Left\.npy, which is not carried: add"):
        run_with(planned(*STAYS), read_study(path), tmp_path / "chain")
    # Of the finished segment nothing is lost.
    changed(path, ('"state-*.npy"', '"state-*.npy", "out-*.npy"'), ("total = 12", "total = 4"))
    run_with(planned(*STAYS), read_study(path), tmp_path / "chain")
    assert page(tmp_path / "chain")["windows_done"] == 4


@SLOW
def test_a_chain_of_another_case_is_refused(tmp_path: Path) -> None:
    path = write_chain(tmp_path)
    run_with(planned(*STAYS), read_study(path), tmp_path / "chain")
    changed(path, ("solver.py Left 0.6", "solver.py Left 0.7"))
    with pytest.raises(CalibrationError, match=r"holds a campaign of another study \(participants changed\)"):
        run_with(planned(*STAYS), read_study(path), tmp_path / "chain")
    # Lengths may change: here it goes on.
    changed(path, ("Left 0.7", "Left 0.6"), ("total = 12", "total = 14"), ("windows = 4", "windows = 6"))
    # So may files, which is how something is mended; that is said.
    solver = tmp_path / "case" / "solver.py"
    solver.write_text(solver.read_text() + "\n")
    events: list[Event] = []
    run_with(planned(*STAYS, STAYS[0]), read_study(path), tmp_path / "chain", report=events.append)
    assert str(events[0]) == "the next segment has other files of the case than the last: solver.py"
    assert [each["windows"] for each in page(tmp_path / "chain")["segments"]] == [4, 4, 4, 2]
