"""What is said of runs that are told apart, killed, or incomplete."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_helpers import configuration, refused
from store_helpers import START, row, write_store

from precice_lb.dataset import flaws, load_runs, remarks


def plant(directory: Path, windows: int = 6, *, begin: float = 0.0, **more: object) -> None:
    """Inner works for 0.2 s and Outer for 0.1 s, in windows of 0.21 s, each in a directory of its own."""
    for name, seconds in (("Inner", 0.2), ("Outer", 0.1)):
        table = [row(w, seconds, 0.21 - seconds, 0.21 - seconds, 0.0) for w in range(1, windows + 1)]
        started = START + round(begin * 1e9)
        write_store(
            directory / name.lower() / "precice-lb-store", table, name, configuration=configuration(),
            started_unix_ns=started, **more,
        )  # fmt: skip


def test_killed_runs_are_said_to_be(tmp_path: Path) -> None:
    plant(tmp_path / "whole")
    plant(tmp_path / "killed", 4, begin=100.0, finished=False)
    plant(tmp_path / "short", 1, begin=200.0, finished=False)
    runs = load_runs([tmp_path])
    end = "Inner and Outer did not come to the end (killed, failed or still running): {} recorded"
    ends = ["", end.format("4 windows"), end.format("1 window")]
    assert [flaws(run).get("not finished", ("",))[0] for run in runs] == ends
    remedy = "; what was recorded is used; the solvers' logs say why"
    killed, short = (run.name for run in runs[1:])
    texts = (
        f"Run {killed}: {ends[1]}{remedy}.",
        f"Run {short} is not used for Inner and Outer: no window is left after 1 window of warm-up.",
        f"Run {short}: {ends[2]}{remedy}.",
    )
    assert remarks(runs) == texts


def test_a_missing_participant_is_named_with_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plant(tmp_path)
    (whole,) = load_runs([tmp_path])
    assert (flaws(whole), whole.directory) == ({}, tmp_path)
    inner = tmp_path / "inner"
    text, remedy = flaws(*load_runs([inner]))["missing"]
    assert text == f"no records of Outer were found beside those of Inner in {inner / 'precice-lb-store'}"
    assert remedy == "each participant's lie in the directory that it ran in: give Outer's too, or one above all"
    assert "found none of Outer" in refused(capsys, "recommend", inner, "--ranks", "4")
