"""Runs summed up from their profiling files as they are, with the profiling sections of solvers and adapters."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from profiling_helpers import DATA, case, database, differences, event_totals, summaries, summed_up, totals_of
from report_helpers import refused
from store_helpers import row, write_store

from precice_lb.cli import main
from precice_lb.ingest.profiling import import_profiling, read_profile
from precice_lb.store import find_stores, read_store


def test_the_solvers_own_events_are_its_profiling_sections(tmp_path: Path) -> None:
    source = case(tmp_path / "run", "all-implicit")
    import_profiling([source], tmp_path / "store")
    paths = find_stores([tmp_path / "store"])
    assert len(paths) == 2
    for store in map(read_store, paths):
        profile = read_profile(source / "precice-profiling" / f"{store.metadata['participant']}-0-1.txt")
        assert any(name.startswith("solver.advance/readData.") for name in event_totals(profile))
        assert store.names("sections") == profile.user_names
        assert store.names("sections")[0] == "assembly"
        count, microseconds = event_totals(profile)["solver.advance/assembly"]
        sections, calls = store.rows("sections")[store.rows("sections")["name"] == 0], store.advances
        assert sections["duration_ns"].sum() == 1000 * microseconds
        # One in each call, which begins after it has ended.
        assert len(sections) == len(calls) == count
        np.testing.assert_array_equal(sections["window"], calls["window"])
        ends = sections["begin_ns"] + sections["duration_ns"]
        assert (ends <= calls["begin_ns"]).all()
        assert (ends[1:] > calls["begin_ns"][:-1]).all()


def test_profiling_files_are_summed_up_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = case(tmp_path / "run", "all-implicit")
    before = sorted(tmp_path.rglob("*"))
    runs = summaries(capsys, "--per-rank", source, "--warmup", 1)
    assert sorted(tmp_path.rglob("*")) == before
    import_profiling([case(tmp_path / "again", "all-implicit")], tmp_path / "store")
    expected = summaries(capsys, "--per-rank", tmp_path / "store", "--warmup", 1)
    for part in (part for run in (*runs, *expected) for part in run["participants"].values()):
        # Which files it was.
        assert part.pop("timing_source").startswith("precice-profiling")
    assert runs == expected
    part = runs[0]["participants"]["A"]
    assert part["sections_per_rank"]["assembly"] == [pytest.approx(part["sections"]["assembly"]["mean_seconds"])]
    assert 0 < part["sections"]["assembly"]["share"] <= part["solve"]["share"]


def test_files_far_from_their_configuration_are_summed_up_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = case(tmp_path / "run", "fundamental")
    configuration = (source / "precice-config.xml").rename(tmp_path / "elsewhere.xml")
    assert "give one (--config)" in refused(capsys, "import", source, "--output", tmp_path / "none")
    (run,) = summaries(capsys, "--per-rank", source, "--config", configuration)
    assert sorted(run["participants"]) == ["A", "B"]
    import_profiling([source], tmp_path / "store", configuration=configuration)
    refusal = refused(capsys, "summary", tmp_path / "store", "--config", configuration)
    assert "--config: expected profiling files" in refusal


@pytest.mark.parametrize(("seconds", "is_told"), [(-100, True), (100, False)], ids=["later", "earlier"])
def test_profiling_files_of_a_later_run_than_the_stores_are_told_of(
    seconds: int, is_told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = case(tmp_path / "run", "fundamental")
    store = write_store(source / "precice-lb-store", [row(window, 0.1, 0.2, 0.1) for window in range(1, 5)])
    began = max(read_profile(path).header.unix_us for path in (source / "precice-profiling").iterdir()) * 1e-6
    # The store was written before that run began, or after it.
    os.utime(store, (began + seconds, began + seconds))

    assert main(["summary", str(source)]) == 0

    told = capsys.readouterr().err
    assert ("are of a later run than its stores" in told) == is_told
    assert (f"precice-lb summary {source / 'precice-profiling'}" in told) == is_told


@pytest.mark.parametrize("sample", sorted(path.name.removesuffix(".db.gz") for path in DATA.glob("databases/*")))
def test_figures_are_those_of_the_database_of_preciceprofiling_which_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sample: str
) -> None:
    merged, source = database(tmp_path, sample), case(tmp_path / "run", sample)
    configuration, totals = (source / "precice-config.xml").read_text(), totals_of(merged)
    assert totals
    run = summed_up(capsys, source, "--per-rank", "--warmup", 0)
    assert differences(run, totals, merged, configuration) == []
    for command in (("summary",), ("import", "-o", tmp_path / "stores")):
        assert "a database of precice-profiling" in refused(capsys, *command, merged)
