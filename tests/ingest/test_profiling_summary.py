"""Runs summed up from their profiling files as they are, with the profiling sections of solvers and adapters."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from profiling_helpers import case, database

from precice_lb.cli import main
from precice_lb.ingest.profiling import import_profiling, read_profile
from precice_lb.store.reader import find_stores, read_store


def summed_up(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[dict[str, object]]:
    assert main(["summary", *map(str, arguments), "--format", "json", "--per-rank"]) == 0
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return found


def test_the_solvers_own_events_are_its_profiling_sections(tmp_path: Path) -> None:
    source = case(tmp_path / "run", "all-implicit")
    import_profiling([source], tmp_path / "store")
    for store in map(read_store, find_stores([tmp_path / "store"])):
        profile = read_profile(source / "precice-profiling" / f"{store.metadata['participant']}-0-1.txt")
        assert any(name.startswith("solver.advance/readData.") for name in profile.totals)
        assert store.section_names == profile.user_names == ("assembly",)
        count, microseconds = profile.totals["solver.advance/assembly"]
        sections, calls = store.sections, store.advances
        assert sections["duration_ns"].sum() == 1000 * microseconds
        # One in each call, which begins after it has ended.
        assert len(sections) == len(calls) == count
        np.testing.assert_array_equal(sections["window"], calls["window"])
        ends = sections["begin_ns"] + sections["duration_ns"]
        assert (ends <= calls["begin_ns"]).all()
        assert (ends[1:] > calls["begin_ns"][:-1]).all()


@pytest.mark.parametrize("kind", ["files", "database"])
def test_profiling_files_and_databases_are_summed_up_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    source = (case if kind == "files" else database)(tmp_path / "run", "all-implicit")
    before = sorted(tmp_path.rglob("*"))
    found = summed_up(capsys, source, "--warmup", 1)
    assert sorted(tmp_path.rglob("*")) == before
    import_profiling([case(tmp_path / "again", "all-implicit")], tmp_path / "store")
    expected = summed_up(capsys, tmp_path / "store", "--warmup", 1)
    for part in (part for run in (*found, *expected) for part in run["participants"].values()):  # type: ignore[attr-defined]
        # Which files it was.
        assert part.pop("timing_source").startswith("precice-profiling")
    assert found == expected
    part = found[0]["participants"]["A"]  # type: ignore[index]
    assert part["sections_per_rank"]["assembly"] == [pytest.approx(part["sections"]["assembly"]["mean_seconds"])]
    assert 0 < part["sections"]["assembly"]["share"] <= part["solve"]["share"]


def test_the_directory_is_the_current_one_by_default(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(case(tmp_path / "run", "all-implicit"))
    assert main(["summary"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.startswith("Run A:1 B:1: of a time window, waiting for other participants takes")
    assert "assembly" in shown
    assert str(tmp_path) not in shown


def test_recorded_and_profiled_runs_are_shown_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import_profiling([case(tmp_path / "one", "all-implicit")], tmp_path / "store")
    found = summed_up(capsys, tmp_path / "store", case(tmp_path / "two", "fundamental"))
    assert [sorted(run["participants"]) for run in found] == [["A", "B"], ["A", "B"]]  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("name", "words"), [("empty", "expected a directory with store files"), ("log.txt", "expected")]
)
def test_what_is_neither_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, words: str) -> None:
    if name == "empty":
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).write_text("nothing\n")
    assert main(["summary", str(tmp_path / name)]) == 2
    refusal = capsys.readouterr().err
    assert refusal.count("\n") == 1
    assert str(tmp_path / name) in refusal
    assert words in refusal
