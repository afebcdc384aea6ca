"""Which ranks were one launch and which launches one coupled run, from ids, exchange directories and times; locks."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from store_helpers import PARALLEL, START, row, write_store

from precice_lb.dataset import load_runs, remarks
from precice_lb.report import summarise
from precice_lb.store import read_runs
from precice_lb.store.reader import lock

M2N = '<m2n:sockets acceptor="{}" connector="{}" exchange-directory="{}"/>'
COUPLED = PARALLEL.replace("<coupling", M2N.format("A", "B", "..") + "<coupling", 1)
UNKNOWN = "it cannot be told"


def _launch(
    store: Path,
    name: str,
    ranks: int,
    begin: float,
    seconds: float,
    case: str = "/case",
    launch: str | None = "",
    **more: str,
) -> None:
    """Stores of one launch, which began and ended at these seconds by the clock of its node."""
    for rank in range(ranks):
        identity = {} if launch is None else {"launch": launch or f"{name}{ranks}{begin}"}
        write_store(
            store,
            [row(window, 1.0, 0.5, 0.25) for window in (1, 2, 3)],
            name,
            rank,
            ranks,
            seconds=seconds,
            started_unix_ns=START + round(1e9 * begin),
            working_directory=f"{case}/{name.lower()}",
            **{"configuration": COUPLED, **identity, **more},
        )


def _splits(store: Path) -> list[dict[str, int]]:
    return [{name: part.ranks for name, part in run.participants.items()} for run in load_runs([store])]


@pytest.mark.parametrize(
    ("launches", "splits"),
    [
        # A partner that was not recorded is not replaced by the next run.
        ([("A", 1, 0, 20), ("A", 2, 21, 20), ("B", 2, 18, 20)], [{"A": 1}, {"A": 2, "B": 2}]),
        # A brief run whose clocks differ by most of it has one partner only.
        ([("A", 1, 0, 4), ("B", 2, 3.5, 4)], [{"A": 1, "B": 2}]),
        *[
            # Runs after each other on nodes whose clocks differ.
            (
                [
                    (name, ranks, number * (seconds + 1) + (ahead if name == "B" else 0), seconds)
                    for number, counts in enumerate([(1, 3), (2, 2), (3, 1)])
                    for name, ranks in zip("AB", counts, strict=True)
                ],
                [{"A": 1, "B": 3}, {"A": 2, "B": 2}, {"A": 3, "B": 1}],
            )
            for seconds, ahead in ((5.0, 1.0), (100.0, -3.0), (100.0, 3.0))
        ],
    ],
)
def test_launches_that_ran_at_the_same_time_are_one_run(
    tmp_path: Path, launches: list[tuple[str, int, float, float]], splits: list[dict[str, int]]
) -> None:
    for launch in launches:
        _launch(tmp_path, *launch)
    assert _splits(tmp_path) == splits


@pytest.mark.parametrize("splits", [[{"A": 1, "B": 3}, {"A": 2, "B": 2}], [{"A": 2, "B": 1}] * 2])
def test_two_splits_at_once_in_one_store_directory_are_two_runs(tmp_path: Path, splits: list[dict[str, int]]) -> None:
    for case, split in zip(("/one", "/two"), splits, strict=True):
        for name, ranks in split.items():
            _launch(tmp_path, name, ranks, 0, 100, case, launch=f"{name} in {case}")
    runs = load_runs([tmp_path])
    assert _splits(tmp_path) == splits
    assert remarks(runs) == ()
    for run in runs:
        assert len({part.metadata["working_directory"].split("/")[1] for part in run.participants.values()}) == 1


def test_three_participants_of_which_two_never_meet(tmp_path: Path) -> None:
    links = M2N.format("A", "B", "..") + M2N.format("C", "B", "../other")
    text = PARALLEL.replace("<coupling", links + "<coupling", 1)
    for case in ("/one", "/two"):
        for name in "ABC":
            _launch(tmp_path, name, 1, 0, 10, case, launch=name + case, configuration=text)
    assert [sorted(split) for split in _splits(tmp_path)] == [["A", "B", "C"]] * 2


def test_what_stays_ambiguous_is_said_and_not_chosen(tmp_path: Path) -> None:
    for ranks in (1, 2):
        _launch(tmp_path, "A", ranks, 0, 10)
        _launch(tmp_path, "B", ranks, 0, 10)
    runs = load_runs([tmp_path])
    assert sorted(map(len, (run.participants for run in runs))) == [1, 1, 1, 1]
    assert all(UNKNOWN in run.grouping for run in runs)
    groupings = [dict(run.remarks)["uncertain grouping"] for run in summarise(runs)]
    assert len(groupings) == 4
    assert all(UNKNOWN in grouping for grouping in groupings)
    assert sum(UNKNOWN in text and "PRECICE_LB_DIR" in text for text in remarks(runs)) == 4


def test_a_rank_that_ended_before_it_knew_its_launch_belongs_to_the_one_that_lacks_it(tmp_path: Path) -> None:
    _launch(tmp_path, "A", 1, 0, 10)
    for rank, identity in enumerate(({"launch": "x"}, {})):
        write_store(
            tmp_path, [row(1, 1, 1, 1)], "B", rank, 2, configuration=COUPLED, working_directory="/case/b", **identity
        )
    assert _splits(tmp_path) == [{"A": 1, "B": 2}]


def test_stores_without_ids_are_grouped_by_time_and_that_is_said(tmp_path: Path) -> None:
    for ranks, begin in ((1, 0.0), (2, 100.0)):
        _launch(tmp_path, "A", ranks, begin, 10, launch=None)
        _launch(tmp_path, "B", ranks, begin, 10, launch=None)
    assert _splits(tmp_path) == [{"A": 1, "B": 1}, {"A": 2, "B": 2}]
    assert sum("from when they ran" in text for text in remarks(load_runs([tmp_path]))) == 2


def test_ranks_of_one_launch_belong_together_wherever_their_stores_lie(tmp_path: Path) -> None:
    for rank in range(2):
        write_store(tmp_path / f"node{rank}", [row(1, 1, 1, 1)], "A", rank, 2, configuration=COUPLED, launch="x")
    assert _splits(tmp_path) == [{"A": 2}]
    assert [len(group) for run in read_runs([tmp_path]) for group in run] == [2]


def test_ranks_of_different_launches_are_never_one_launch(tmp_path: Path) -> None:
    for rank in range(2):
        write_store(tmp_path, [row(1, 1, 1, 1)], "A", rank, 2, configuration=COUPLED, launch=f"launch {rank}")
    assert [[[store.metadata["rank"] for store in group] for group in run] for run in read_runs([tmp_path])] == [
        [[0]],
        [[1]],
    ]


def test_participants_without_ids_that_ran_at_once_are_one_run_wherever_their_stores_lie(tmp_path: Path) -> None:
    for name in "AB":
        _launch(tmp_path / name, name, 2, 0, 10, launch=None)
    assert _splits(tmp_path) == [{"A": 2, "B": 2}]


def test_runs_at_once_without_ids_are_told_apart_by_the_directory_of_their_stores(tmp_path: Path) -> None:
    for directory, ranks in (("one", 1), ("two", 2)):
        for name in "AB":
            _launch(tmp_path / directory, name, ranks, 0, 10, launch=None)
    assert _splits(tmp_path) == [{"A": 1, "B": 1}, {"A": 2, "B": 2}]


def test_whoever_waits_for_a_lock_gets_it_once_it_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    holder = lock(path)
    timer = threading.Timer(0.3, holder.close)
    timer.start()
    begin = time.monotonic()
    lock(path, 60.0).close()
    assert 0.2 < time.monotonic() - begin < 30.0
    timer.join()


def test_whoever_waits_too_long_for_a_lock_is_told(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with lock(path):
        for seconds in (0.0, 0.15):
            begin = time.monotonic()
            with pytest.raises(BlockingIOError):
                lock(path, seconds)
            assert time.monotonic() - begin >= seconds
