"""What a snapshot says of a run whose times are known, and when it computes a better split anew."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from live_run_helpers import LiveRun
from profiling_helpers import followed, later, with_header
from record_helpers import configuration
from store_helpers import row, write_store

from precice_lb.ingest.profiling.files import read_header
from precice_lb.watch import Observer, Snapshot, watch_run


def snapshot_of(observer: Observer) -> Snapshot:
    snapshot = observer.poll()
    assert snapshot is not None
    return snapshot


def write_pair(directory: Path, ranks_of_a: int = 3, ranks_of_b: int = 1, windows_of_a: int = 20) -> None:
    """Write a run of 150 time windows, in each of which A waits 0.02 of 0.2 s, and B 0.1 of 0.25 s."""
    text = configuration("parallel-explicit", 150)
    rows_of_a = [row(window, 0.18, 0.02, 0.02) for window in range(1, windows_of_a + 1)]
    for rank in range(ranks_of_a):
        write_store(directory, rows_of_a, "A", rank, ranks_of_a, configuration=text)
    rows_of_b = [row(window, 0.15, 0.1, 0.1) for window in range(1, 19)]
    for rank in range(ranks_of_b):
        write_store(directory, rows_of_b, "B", rank, ranks_of_b, configuration=text)


def test_a_snapshot_weighs_waiting_by_cores_and_counts_the_windows_of_all_participants(tmp_path: Path) -> None:
    write_pair(tmp_path)

    snapshot = watch_run(tmp_path)

    assert [part.wait_share for part in snapshot.participants] == pytest.approx([0.1, 0.4])
    # Three of four cores wait 10 % of the time, one of them 40 %.
    assert snapshot.waiting == pytest.approx(0.175)
    assert (snapshot.windows, snapshot.windows_left) == (18, 132)
    assert snapshot.window_seconds == pytest.approx(0.25)


def test_no_windows_are_left_after_more_than_the_configuration_asks_for(tmp_path: Path) -> None:
    text = configuration("parallel-explicit", 5)
    for name in "AB":
        write_store(tmp_path, [row(window, 0.1, 0.1, 0.1) for window in range(1, 8)], name, configuration=text)

    snapshot = watch_run(tmp_path)

    assert (snapshot.windows, snapshot.windows_left) == (7, 0)


@pytest.mark.parametrize(
    ("warmup", "stated_by_a", "wait_share_so_far"),
    [
        # Of 20 windows A waits 0.1 s in the first four, and 0.02 s later; each takes 0.2 s.
        (None, {}, (3 * 0.1 + 16 * 0.02) / (19 * 0.2)),
        (None, {"warmup_windows": 3}, (0.1 + 16 * 0.02) / (17 * 0.2)),
        (0, {"warmup_windows": 3}, (4 * 0.1 + 16 * 0.02) / (20 * 0.2)),
        (4, {}, 0.1),
    ],
)
def test_warmup_windows_are_those_asked_for_or_the_most_that_a_participant_states_or_1(
    warmup: int | None, stated_by_a: dict[str, int], wait_share_so_far: float, tmp_path: Path
) -> None:
    waits = [0.1] * 4 + [0.02] * 16
    for name, metadata in (("A", stated_by_a), ("B", {})):
        rows = [row(window, 0.2 - wait, wait, wait) for window, wait in enumerate(waits, start=1)]
        write_store(tmp_path, rows, name, **metadata)

    snapshot = watch_run(tmp_path, warmup=warmup)

    assert snapshot.participants[0].wait_share_so_far == pytest.approx(wait_share_so_far)


def test_the_better_split_is_computed_anew_after_half_as_many_more_windows_or_when_the_load_has_changed(
    tmp_path: Path,
) -> None:
    with LiveRun(tmp_path, 20) as run:
        observer = Observer(tmp_path)
        of_20_windows = snapshot_of(observer).rebalance
        run.go_on(9)
        of_29_windows = snapshot_of(observer).rebalance
        run.go_on(1)
        of_30_windows = snapshot_of(observer).rebalance
        # The median of the latest eight windows changes with the fifth of them.
        run.go_on(8, compute_seconds=0.4)
        of_another_load = snapshot_of(observer).rebalance

    assert of_20_windows is not None
    assert of_30_windows is not None
    assert of_another_load is not None
    assert of_29_windows is of_20_windows
    assert of_30_windows is not of_20_windows
    # With 0.01 s for the exchange of data; curves through a single point are uncertain.
    assert of_20_windows.present_seconds == pytest.approx(0.21, rel=0.1)
    assert of_another_load.present_seconds == pytest.approx(0.41, rel=0.1)


def test_the_better_split_is_computed_anew_for_a_run_that_is_started_again_on_other_ranks(tmp_path: Path) -> None:
    write_pair(tmp_path / "run", ranks_of_a=3, ranks_of_b=1)
    observer = Observer(tmp_path)
    first = snapshot_of(observer).rebalance
    shutil.rmtree(tmp_path / "run")
    # As many windows, of the same length: only the ranks tell the two runs apart.
    write_pair(tmp_path / "run", ranks_of_a=2, ranks_of_b=2)
    second = snapshot_of(observer).rebalance

    assert first is not None
    assert second is not None
    assert first.present == {"A": 3, "B": 1}
    assert second.present == {"A": 2, "B": 2}


def test_a_snapshot_as_json_has_the_layout_of_another_split_and_whose_load_changes(tmp_path: Path) -> None:
    text = configuration("parallel-explicit", 150)
    # From the 41st of 48 windows on, A takes twice as long.
    rows_of_a = [row(window, 0.1 if window <= 40 else 0.2, 0.01, 0.0) for window in range(1, 49)]
    rows_of_b = [row(window, 0.05, 0.06, 0.0) for window in range(1, 49)]
    for name, rows in (("A", rows_of_a), ("B", rows_of_b)):
        write_store(tmp_path, rows, name, configuration=text, threads=2)

    values = watch_run(tmp_path).to_dict()

    assert [part["is_drifting"] for part in values["participants"]] == [True, False]
    better = values["rebalance"]
    assert better["basis"] == "this run alone, at one split"
    assert better["split"] == {"A": 3, "B": 1}
    assert better["layouts"] == {"A": {"ranks": 1, "threads": 3}, "B": {"ranks": 1, "threads": 1}}


def test_why_there_is_no_other_split_is_said(tmp_path: Path) -> None:
    # A scheme that no schedule can be made of.
    text = configuration("parallel-explicit", 150).replace('from="A"', 'from="C"', 1)
    for name in "AB":
        write_store(tmp_path, [row(window, 0.1, 0.1, 0.1) for window in range(1, 8)], name, configuration=text)

    snapshot = watch_run(tmp_path)

    assert snapshot.rebalance is None
    assert [note for note in snapshot.notes if note.startswith("no split to compare with: ")] != []


def write_profiled_and_recorded(directory: Path, recorded_windows: int = 5) -> tuple[Path, int]:
    """Write profiling files of A and B, and a store of the same run of A.

    Returns
    -------
    folder : Path
        Where the profiling files lie.
    start_ns : int
        Unix time at which the run began, in nanoseconds.
    """
    folder = followed(directory, "fundamental")
    start_ns = read_header(folder / "A-0-1.txt").unix_us * 1000
    text = (directory / "precice-config.xml").read_text()
    rows = [row(window, 0.1, 0.1, 0.1) for window in range(1, recorded_windows + 1)]
    write_store(directory / "precice-lb-store", rows, "A", configuration=text, started_unix_ns=start_ns)
    return folder, start_ns


def test_profiling_files_of_a_recorded_participant_are_left_alone(tmp_path: Path) -> None:
    write_profiled_and_recorded(tmp_path, recorded_windows=2)

    of_a, of_b = watch_run(tmp_path).participants

    assert of_a.windows == 2
    assert of_b.windows > 2


def test_a_participant_whose_profiling_files_come_later_joins_the_run(tmp_path: Path) -> None:
    folder, _ = write_profiled_and_recorded(tmp_path)
    (folder / "B-0-1.txt").rename(tmp_path / "later")
    observer = Observer(tmp_path)
    assert [part.participant for part in snapshot_of(observer).participants] == ["A"]

    (tmp_path / "later").rename(folder / "B-0-1.txt")

    assert [part.participant for part in snapshot_of(observer).participants] == ["A", "B"]


@pytest.mark.parametrize(("seconds_after_start", "participants"), [(-1, ["B"]), (1, ["A", "B"])])
def test_of_profiling_files_alone_those_last_written_before_the_latest_began_are_of_another_run(
    seconds_after_start: int, participants: list[str], tmp_path: Path
) -> None:
    folder = followed(tmp_path, "fundamental")
    with_header(folder / "B-0-1.txt", later(100))
    start_ns = read_header(folder / "B-0-1.txt").unix_us * 1000
    written_ns = start_ns + seconds_after_start * 10**9
    os.utime(folder / "A-0-1.txt", ns=(written_ns, written_ns))

    assert [part.participant for part in watch_run(tmp_path).participants] == participants


@pytest.mark.parametrize(("seconds_after_start", "is_of_this_run"), [(-1, False), (1, True)])
def test_profiling_files_that_were_last_written_before_the_run_began_are_of_another_run(
    seconds_after_start: int, is_of_this_run: bool, tmp_path: Path
) -> None:
    folder, start_ns = write_profiled_and_recorded(tmp_path)
    (folder / "A-0-1.txt").unlink()
    written_ns = start_ns + seconds_after_start * 10**9
    os.utime(folder / "B-0-1.txt", ns=(written_ns, written_ns))

    snapshot = watch_run(tmp_path)

    expected = ["A", "B"] if is_of_this_run else ["A"]
    assert [part.participant for part in snapshot.participants] == expected
