"""Profiling files imported as stores: windows, iterations, older runs beside the right ones, and refusals."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from profiling_helpers import case, event_totals, imported, later, with_header

from precice_lb.exceptions import DataError
from precice_lb.ingest.profiling import import_profiling, read_profile
from precice_lb.ingest.profiling.calls import count_windows
from precice_lb.ingest.profiling.tables import IterationsLog
from precice_lb.store import read_store


def test_an_implicit_run_has_its_iterations_and_windows(tmp_path: Path) -> None:
    source = case(tmp_path / "run", "all-implicit")
    result = import_profiling([source], tmp_path / "store")
    assert result.notes == []
    stores = imported(tmp_path / "store")
    assert sorted(stores) == ["A-0", "B-0"]
    for name, store in stores.items():
        profile = read_profile(source / "precice-profiling" / f"{name}-1.txt")
        iterations = IterationsLog(source / f"precice-{name[0]}-iterations.log").iterations()
        rows = store.advances
        ends = rows[rows["window_complete"]]
        np.testing.assert_array_equal(ends["iteration"], iterations)
        np.testing.assert_array_equal(ends["window"], np.arange(1, len(iterations) + 1))
        assert rows["wait_ns"].sum() == 1000 * profile.calls["wait_us"].sum()
        assert rows["advance_ns"].sum() == 1000 * event_totals(profile)["advance"][1]
        assert store.initialize["initialize_ns"][0] == 1000 * event_totals(profile)["initialize"][1]
        assert store.metadata["finished"] is True
        assert store.metadata["started_unix_ns"] == 1000 * profile.header.unix_us
        assert store.metadata["timing_source"] == "precice-profiling all"
        assert store.metadata["receives_data"] is True
        assert np.isnan(rows["computed_dt"]).all()


def test_just_in_time_mapping_is_mapping_and_not_solve(tmp_path: Path) -> None:
    source = case(tmp_path / "run", "api-just-in-time")
    import_profiling([source], tmp_path / "store")
    rows = imported(tmp_path / "store")["A-0"].advances
    calls = read_profile(source / "precice-profiling" / "A-0-1.txt").calls
    np.testing.assert_array_equal(rows["solve_ns"], 1000 * (calls["solve_us"] - calls["jit_us"]))
    np.testing.assert_array_equal(rows["mapping_ns"], 1000 * (calls["mapping_us"] + calls["jit_us"]))


def test_of_a_stopped_run_the_note_names_the_window_that_all_ranks_have(tmp_path: Path) -> None:
    source = case(tmp_path / "run", "synchronize")
    for name, share in (("A-0-2", 0.95), ("A-1-2", 0.8)):
        path = source / "precice-profiling" / f"{name}.txt"
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(lines[: round(share * len(lines))]))
    notes = import_profiling([source], tmp_path / "store").notes
    stores = imported(tmp_path / "store")
    assert {name for name, store in stores.items() if not store.metadata["finished"]} == {"A-0", "A-1"}
    first, second = (int(stores[f"A-{rank}"].advances["window_complete"].sum()) for rank in range(2))
    assert stores["B-0"].advances["window_complete"].sum() >= first > second > 0
    # How far each participant came is said.
    (note,) = [note for note in notes if note.endswith(f"up to time window {second}")]
    assert note.startswith(f"{path.parent}: expected A to have come to its end")


def test_participants_in_folders_of_their_own_find_the_configuration_above(tmp_path: Path) -> None:
    whole = case(tmp_path / "whole", "fundamental")
    for name in "AB":
        folder = tmp_path / "case" / f"solver-{name}" / "precice-profiling"
        folder.mkdir(parents=True)
        shutil.copy(whole / "precice-profiling" / f"{name}-0-1.txt", folder)
    sources = [tmp_path / "case" / f"solver-{name}" for name in "AB"]
    with pytest.raises(DataError, match=r"expected a precice-config\.xml"):
        import_profiling(sources, tmp_path / "store")
    assert not (tmp_path / "store").exists()
    shutil.copy(whole / "precice-config.xml", tmp_path / "case")
    assert len(import_profiling(sources, tmp_path / "store").stores) == 2
    other = import_profiling(sources, tmp_path / "other", configuration=whole / "precice-config.xml")
    assert read_store(other.stores[0]).configuration == (whole / "precice-config.xml").read_text()


def test_runs_on_another_number_of_ranks_and_older_ranks_are_left_out(tmp_path: Path) -> None:
    source = case(tmp_path / "run", "all-parallel")
    folder = source / "precice-profiling"
    with_header(folder / "A-0-2.txt", lambda head: {"size": 1, **later(-3600)(head)}, folder / "A-0-1.txt")
    with_header(folder / "A-1-2.txt", later(-3600))
    (folder / "A-9-2.txt").write_text("")
    (folder / "B-7-2.txt").write_text((folder / "B-0-2.txt").read_text())
    result = import_profiling([source], tmp_path / "store")
    assert sorted(imported(tmp_path / "store")) == ["A-0", "B-0", "B-1"]
    for text in ("earlier run on 1 rank,", "A-1-2.txt: left by an earlier run", "an empty file", "the name B-0-2.txt"):
        assert any(text in note for note in result.notes), (text, result.notes)


def test_importing_twice_is_refused_but_a_new_run_is_a_new_attempt(tmp_path: Path) -> None:
    source = case(tmp_path / "run", "fundamental")
    import_profiling([source], tmp_path / "store")
    with pytest.raises(DataError, match="imported before"):
        import_profiling([source], tmp_path / "store")
    for path in (source / "precice-profiling").iterdir():
        with_header(path, later(60))
    result = import_profiling([source], tmp_path / "store")
    assert [read_store(path).metadata["attempt"] for path in result.stores] == [2, 2]


def test_without_a_fitting_log_every_iteration_is_a_window_and_that_is_said(tmp_path: Path) -> None:
    source = case(tmp_path / "run", "all-implicit")
    (source / "precice-A-iterations.log").unlink()
    log = source / "precice-B-iterations.log"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:3]))
    result = import_profiling([source], tmp_path / "store")
    assert len(result.notes) == 2
    stores = imported(tmp_path / "store")
    assert set(stores) == {"A-0", "B-0"}
    for store in stores.values():
        assert store.advances["window_complete"].all()
        assert "every coupling iteration counts as a time window" in store.metadata["recording_problem"]


@pytest.mark.parametrize(("text", "found"), [("", "an empty file"), ("TimeWindow  Iterations", "no window")])
def test_a_run_killed_in_its_first_window_has_an_empty_log(tmp_path: Path, text: str, found: str) -> None:
    """Calls of a window that was never complete are no windows of their own."""
    source = case(tmp_path / "run", "all-implicit")
    for name in "AB":
        path = source / "precice-profiling" / f"{name}-0-1.txt"
        path.write_text(path.read_text()[:-400])
        (source / f"precice-{name}-iterations.log").write_text(text)
    result = import_profiling([source], tmp_path / "store")
    assert len(result.notes) == 2
    stores = imported(tmp_path / "store")
    assert set(stores) == {"A-0", "B-0"}
    for name, store in stores.items():
        assert store.metadata["finished"] is False
        assert len(store.advances) > 2
        assert set(store.advances["window"]) == {1}
        assert not store.advances["window_complete"].any()
        (note,) = [note for note in result.notes if f"precice-{name[0]}-iterations.log" in note]
        assert f"found {found}: the run ended before its first window was complete" in note
        assert note == store.metadata["recording_problem"]


def test_the_empty_log_of_a_run_that_ended_is_not_its_own(tmp_path: Path) -> None:
    source = case(tmp_path / "run", "all-implicit")
    (source / "precice-A-iterations.log").write_text("")
    (note,) = import_profiling([source], tmp_path / "store").notes
    assert "another number of iterations" in note


@pytest.mark.parametrize("content", ["B1:2\nB1;3\n", ""])
def test_a_damaged_file_leaves_no_store_behind(tmp_path: Path, content: str) -> None:
    source = case(tmp_path / "run", "fundamental")
    (source / "precice-profiling" / "A-0-1.txt").unlink()
    path = source / "precice-profiling" / "B-0-1.txt"
    path.write_text(path.read_text().splitlines(keepends=True)[0] + content)
    with pytest.raises(DataError, match="found 'B1;3'" if content else "expected records of advance"):
        import_profiling([source], tmp_path / "store")
    assert list((tmp_path / "store").rglob("*.h5")) == []


def test_windows_are_counted_over_subcycles_and_across_blocks() -> None:
    exchanges = np.array([0, 2, 0, 2, 3, 1, 0, 1])
    whole = count_windows(exchanges, np.array([2, 1]))
    assert [column.tolist() for column in whole] == [
        [1, 1, 1, 1, 2, 3, 3, 3],
        [1, 1, 2, 2, 1, 1, 2, 2],
        [False, False, False, True, True, False, False, False],
    ]
    parts, before = [], 0
    for part in np.array_split(exchanges, 3):
        parts.append(count_windows(part, np.array([2, 1]), before))
        before += int((part > 0).sum())
    for column, blocks in zip(whole, zip(*parts, strict=True), strict=True):
        np.testing.assert_array_equal(np.concatenate(blocks), column)
    window, iteration, complete = count_windows(exchanges)
    assert window.tolist() == [1, 1, 2, 2, 3, 4, 5, 5]
    assert set(iteration) == {1}
    assert complete.tolist() == (exchanges > 0).tolist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TimeWindow TotalIterations Iterations Convergence\n 1 4 4 1\n 2 6 2 1", [4, 2]),
        ("TimeWindow TotalIterations Iterations Convergence\n 1 4 4 1\n 2 6 2", [4]),
        ("TimeWindow TotalIterations Iterations Convergence", []),
        ("", []),
        ("\n", "an iterations log of preCICE with the columns TimeWindow, Iterations, found none"),
        ("hello\n", "an iterations log of preCICE with the columns TimeWindow, Iterations, found hello"),
        ("TimeWindow Iterations\n 1 3\n 3 2\n", "an iterations log of preCICE with iterations of each window after 1, "
         "found others"),
        ("TimeWindow Iterations\n 1 x\n", "2 numbers, found '1 x'"),
    ],
)  # fmt: skip
def test_the_iterations_log_is_read_up_to_its_last_whole_line(
    tmp_path: Path, text: str, expected: list[int] | str
) -> None:
    path = tmp_path / "precice-A-iterations.log"
    path.write_text(text)
    if isinstance(expected, list):
        assert IterationsLog(path).iterations().tolist() == expected
        return
    with pytest.raises(DataError, match="expected") as caught:
        IterationsLog(path).iterations()
    assert str(caught.value).endswith(f": expected {expected}")


def test_threads_are_said_beside_profiling_files(tmp_path: Path) -> None:
    source = case(tmp_path / "run", "all-implicit")
    import_profiling([source], tmp_path / "store", threads={"B": 4})
    told = {name: store.metadata.get("threads", 1) for name, store in imported(tmp_path / "store").items()}
    assert told == {"A-0": 1, "B-0": 4}
    with pytest.raises(DataError, match="threads: expected one of the participants A, B, found 'C'"):
        import_profiling([source], tmp_path / "other", threads={"C": 4})
