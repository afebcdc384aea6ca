"""A run that is given twice counts once: copied, imported again, merged, recorded and imported, or as a table."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from profiling_helpers import case
from store_helpers import START, row, write_store

from precice_lb.check import check_runs
from precice_lb.dataset import load_measurements, load_runs
from precice_lb.export import export_merged, exported_ranks
from precice_lb.ingest import import_files, read_csv, write_csv
from precice_lb.ingest.profiling import enrich, import_profiling
from precice_lb.recommend import load_sources
from precice_lb.store import read_store, read_stores

SECOND = 1_000_000_000


def plant(directory: Path, split: dict[str, int], start: int = START, windows: int = 6, **more: object) -> Path:
    """One run: each window a little longer than the one before, and each run than another."""
    noise = np.random.default_rng(start % 1000).uniform(0.1, 0.2, windows)
    table = [row(window + 1, solve, 0.05, 0.01) for window, solve in enumerate(noise)]
    for name, ranks in split.items():
        for rank in range(ranks):
            write_store(directory, table, name, rank, ranks, started_unix_ns=start, pid=start % 1000 + rank, **more)
    return directory


def counts(*sources: Path) -> tuple[int, int, int, int]:
    """Runs of a pair, samples, runs in check and in an export."""
    measured = load_measurements(sources)
    (samples,) = {len(rows) for rows in measured.samples.values()}
    assert len(measured.runs) == len(measured.recorded)
    runs = load_runs(sources)
    return len(runs), samples, len(check_runs(runs).healths) // 2, len({run for run, *_ in exported_ranks(sources)})


def test_a_copy_of_a_store_counts_once(tmp_path: Path) -> None:
    first = plant(tmp_path / "first", {"A": 2, "B": 1})
    second = plant(tmp_path / "second", {"A": 2, "B": 1}, START + 20 * SECOND + 1)
    for source in (first, second):
        shutil.copytree(source, tmp_path / "copies" / source.name)
    assert counts(first, second) == counts(tmp_path) == counts(first, tmp_path) == (2, 2, 2, 2)
    copied, alone = (load_measurements(places).samples["A"] for places in ([tmp_path], [first, second]))
    np.testing.assert_array_equal(copied, alone)


def test_a_merged_file_and_two_copies_of_its_parts_count_once(tmp_path: Path) -> None:
    first = plant(tmp_path / "first", {"A": 3, "B": 2})
    shutil.copytree(first, tmp_path / "parts")
    export_merged([first], tmp_path / "merged")
    assert counts(tmp_path) == (1, 1, 1, 1)
    # The merged one is read: waits may have been filled in there.
    assert {store.path.name for store in read_stores([tmp_path])} == {"A-3.merged.h5", "B-2.merged.h5"}


def test_of_a_copy_made_while_the_run_went_on_the_longer_one_counts(tmp_path: Path) -> None:
    noise = np.random.default_rng(1).uniform(0.1, 0.2, 8)
    for place, windows in (("a-copy", 3), ("whole", 8)):
        write_store(tmp_path / place, [row(w + 1, noise[w], 0.05, 0.01) for w in range(windows)], pid=7)
    (store,) = read_stores([tmp_path])
    assert len(store.advances) == 8
    assert "whole" in store.path.parts


@pytest.mark.parametrize("more", [{"pid": 2}, {"hostname": "other"}, {"run": "y"}, {"started_clock_ns": 5}])
def test_what_only_looks_alike_counts_twice(tmp_path: Path, more: dict[str, object]) -> None:
    known = {"pid": 1, "hostname": "here", "run": "x"}
    table = [row(1, 0.1, 0.1, 0.01), row(2, 0.1, 0.1, 0.01)]
    write_store(tmp_path / "one", table, **known)
    write_store(tmp_path / "two", table, **(known | more))
    assert len(read_stores([tmp_path])) == 2


def test_rows_of_which_mapping_was_moved_are_the_same_and_longer_calls_are_not(tmp_path: Path) -> None:
    """Profiling files tell how much mapping a solver asked for between two calls: joined, it counts as advance."""
    write_store(tmp_path / "recorded", [row(1, 0.10, 0.05, 0.01), row(2, 0.12, 0.05, 0.01)])
    write_store(tmp_path / "joined", [row(1, 0.08, 0.07, 0.01), row(2, 0.11, 0.06, 0.01)])
    assert len(read_stores([tmp_path])) == 1
    write_store(tmp_path / "other", [row(1, 0.10, 0.07, 0.01), row(2, 0.12, 0.05, 0.01)])
    assert len(read_stores([tmp_path])) == 2


def test_profiling_files_that_are_imported_twice_count_once(tmp_path: Path) -> None:
    source = case(tmp_path / "run", "all-implicit")
    import_profiling([source], tmp_path / "one")
    shutil.copytree(source, tmp_path / "moved")
    import_profiling([tmp_path / "moved"], tmp_path / "two")
    export_merged([tmp_path / "one"], tmp_path / "one" / "merged")
    import_profiling([source], tmp_path / "three", metadata={"run": "named"})
    assert counts(tmp_path / "one", tmp_path / "two", tmp_path / "three") == (1, 1, 1, 1)


def test_a_recorded_run_counts_once_beside_its_imported_profiling_files(tmp_path: Path) -> None:
    source = case(tmp_path / "run", "all-implicit")
    imported = [read_store(path) for path in import_profiling([source], tmp_path / "import").stores]
    solid = next(store for store in imported if store.metadata["participant"] == "B")
    began, late = solid.metadata["started_unix_ns"], 300_000_000
    more = {"configuration": solid.configuration, "backend": "libprecice"}
    more["working_directory"] = solid.metadata["working_directory"]
    calls = [tuple(call) for call in solid.advances.tolist()]
    times = {"started_unix_ns": began + late, "started_clock_ns": late}
    recorded = write_store(tmp_path / "store", calls, "B", pid=1, **times, **more)
    both = [tmp_path / "import", tmp_path / "store"]
    assert {store.metadata["participant"]: store.path == recorded for store in read_stores(both)} == {
        "A": False, "B": True
    }  # fmt: skip
    (run,) = load_runs(both, complete=enrich)
    assert sorted(run.participants) == ["A", "B"]
    # Another run in the same place, a minute later, is not the recorded one.
    later = began + 60 * SECOND
    other = write_store(tmp_path / "later", [row(1, 0.1, 0.1, 0.1)], "B", started_unix_ns=later, pid=2, **more)
    assert len(read_stores([tmp_path / "import", other])) == 3


def test_equal_rows_of_a_table_are_readings_of_their_own_and_those_of_another_count_once(tmp_path: Path) -> None:
    """Repeats that were rounded are equal: they collapsed into one."""
    table, copy = tmp_path / "table.csv", tmp_path / "copy.csv"
    table.write_text(
        "participant,ranks,seconds,standard_error,level\n"
        "A,1,0.25,0.01,8\nA,1,0.25,0.01,8\nA,1,0.25,,8\nA,1,0.25,0.02,8\nA,1,0.25,0.01,9\nA,2,0.25,0.01,8\nB,1,0.25,,8\n"
    )
    shutil.copy(table, copy)
    alone = read_csv(table)
    assert alone.remarks == ()
    for read in (import_files, load_sources):
        assert read([table, table]).remarks == ()
        assert read([table, copy]).remarks == tuple(
            f"{count} in more than one source of {name} and counted once."
            for name, count in (("A", "6 rows are"), ("B", "1 row is"))
        )
    for found in (alone, *(read([table, other]) for read in (import_files, load_sources) for other in (table, copy))):
        assert found.samples["A"].tolist() == [[1, 0.25]] * 5 + [[2, 0.25]]
        np.testing.assert_array_equal(np.sort(found.frames["A"].standard_error), [0.01, 0.01, 0.01, 0.01, 0.02, np.nan])
        assert sorted(found.parameters["A"]["level"]) == [8, 8, 8, 8, 8, 9]
        assert len(found.samples["B"]) == 1
    # The table with most of them says how often it was measured.
    copy.write_text("participant,ranks,seconds,standard_error,level\nA,1,0.25,,8\nA,3,0.1,,8\n" + "B,1,0.25,,8\n" * 3)
    for read in (import_files, load_sources):
        found = read([table, copy])
        assert (len(found.samples["A"]), len(found.samples["B"])) == (7, 3)


def test_a_table_beside_the_stores_it_was_made_of_counts_once(tmp_path: Path) -> None:
    stores, table = plant(tmp_path / "stores", {"A": 2, "B": 1}), tmp_path / "table.csv"
    plant(stores, {"A": 1, "B": 1}, START + 20 * SECOND + 1)
    alone = load_sources([stores])
    write_csv(alone, table)
    both = load_sources([stores, table])
    lines = [",".join(line.split(",")[:3]) for line in table.read_text().splitlines()]
    table.write_text("\n".join([*lines, "A,4,0.1"]) + "\n")
    # Without its column of standard errors too; what only the table has counts.
    more = load_sources([table, stores])
    for name, samples in alone.samples.items():
        for other in (both, more):
            np.testing.assert_array_equal(other.samples[name][:2], samples)
            errors = other.frames[name].standard_error[:2]
            np.testing.assert_array_equal(errors, alone.frames[name].standard_error)
        assert len(both.samples[name]) == len(samples)
    assert more.samples["A"][2:].tolist() == [[4, 0.1]]
