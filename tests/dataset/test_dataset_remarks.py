"""What is said of runs that are told apart, killed, or incomplete."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_helpers import configuration
from store_helpers import START, row, write_store

from precice_lb.cli import main
from precice_lb.dataset import load_runs, measurements_from_runs
from precice_lb.dataset.runs import distinct_names, missing, remarks, unfinished
from precice_lb.recommend import recommend_split
from precice_lb.report.summary import summarise


def plant(directory: Path, windows: int = 6, *, begin: float = 0.0, **more: object) -> None:
    """Inner works for 0.2 s and Outer for 0.1 s, in windows of 0.21 s, each in a directory of its own."""
    for name, seconds in (("Inner", 0.2), ("Outer", 0.1)):
        table = [row(w, seconds, 0.21 - seconds, 0.21 - seconds, 0.0) for w in range(1, windows + 1)]
        started = START + round(begin * 1e9)
        write_store(
            directory / name.lower() / "precice-lb-store", table, name, configuration=configuration(),
            started_unix_ns=started, **more,
        )  # fmt: skip


def test_names_that_occur_once_stay() -> None:
    assert distinct_names(["a", "b"], [Path("/x"), None]) == ["a", "b"]


@pytest.mark.parametrize(
    ("directories", "expected"),
    [
        (["/runs/1+1-1/case", "/runs/1+1-2/case"], ["a (1+1-1)", "a (1+1-2)"]),
        (["/runs/x/one", "/runs/y/two"], ["a (x/one)", "a (y/two)"]),
        # Runs of one directory, one inside of another, unknown ones, and names too long for a table.
        (["/runs/case", "/runs/case"], ["a #1", "a #2"]),
        (["/runs", "/runs/case"], ["a #1", "a #2"]),
        (["/runs", None], ["a #1", "a #2"]),
        (["/" + "x" * 50, "/" + "y" * 50], ["a #1", "a #2"]),
    ],
)
def test_repeats_are_told_apart(directories: list[str | None], expected: list[str]) -> None:
    places = [None if each is None else Path(each) for each in directories]
    assert distinct_names(["a", "a", "b"], [*places, None]) == [*expected, "b"]


def test_loaded_repeats_have_names_of_their_own(tmp_path: Path) -> None:
    for number in (1, 2):
        plant(tmp_path / f"1+1-{number}" / "case", begin=100.0 * number)
        plant(tmp_path / "again", begin=1000.0 * number)
    names = [run.name for run in load_runs([tmp_path / "1+1-1", tmp_path / "1+1-2"])]
    assert names == ["Inner:1 Outer:1 (1+1-1)", "Inner:1 Outer:1 (1+1-2)"]
    assert [run.name for run in load_runs([tmp_path / "again"])] == ["Inner:1 Outer:1 #1", "Inner:1 Outer:1 #2"]
    assert measurements_from_runs(load_runs([tmp_path])).sources == tuple(run.name for run in load_runs([tmp_path]))
    assert len({run.name for run in load_runs([tmp_path])}) == 4


def test_killed_runs_are_said_to_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plant(tmp_path / "whole")
    plant(tmp_path / "killed", 4, begin=100.0, finished=False)
    plant(tmp_path / "short", 1, begin=200.0, finished=False)
    runs = load_runs([tmp_path])
    end = "Inner and Outer did not come to the end (killed, failed or still running): {} recorded"
    assert [unfinished(run) for run in runs] == ["", end.format("4 windows"), end.format("1 window")]
    said = remarks(runs)
    assert len(said) == 2
    assert "(killed): Inner and Outer did not come to the end" in said[0]
    assert said[0].endswith("4 windows recorded; what was recorded is used.")
    assert "(short) is not used: no window is left after a warm-up of 1 window; Inner and Outer did" in said[1]
    assert [dict(run.remarks).get("not finished", "") for run in summarise(runs)] == [unfinished(run) for run in runs]
    result = recommend_split(measurements_from_runs(runs), 4)
    assert [str(warning) for warning in result.warnings[:2]] == list(said)
    assert main(["summary", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("not finished: Inner and Outer did not come") == 2


def test_a_missing_participant_is_named_with_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plant(tmp_path)
    (whole,) = load_runs([tmp_path])
    assert missing(whole) == ("", "")
    assert whole.directory == tmp_path
    (run,) = load_runs([tmp_path / "inner"])
    where = tmp_path / "inner" / "precice-lb-store"
    text, remedy = missing(run)
    assert text == f"no records of Outer were found beside those of Inner in {where}"
    assert remedy.startswith("each participant's lie in the directory that it ran in: give that of Outer too")
    assert main(["recommend", str(tmp_path / "inner"), "--ranks", "4"]) == 2
    error = capsys.readouterr().err
    assert "found none of Outer" in error
    assert text in error
    assert "give that of Outer too, or one above all" in error
    assert main(["summary", str(tmp_path / "inner")]) == 0
    assert "missing: no records of Outer" in capsys.readouterr().out
