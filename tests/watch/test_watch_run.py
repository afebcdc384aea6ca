"""Which run is watched, what state it is in, and what a better split is computed from."""

from __future__ import annotations

import math
import os
import platform
import time
from pathlib import Path
from typing import Any

import pytest
from record_helpers import configuration
from store_helpers import START, metadata, row, rows, write_store

from precice_lb.layout import Layout
from precice_lb.store import StoreWriter
from precice_lb.watch import observer as observer_module
from precice_lb.watch import watch_run
from precice_lb.watch.snapshot import Rebalance, rebalance

EXPLICIT = configuration("parallel-explicit", 150)


def write_rank(directory: Path, name: str, rank: int = 0, size: int = 1, windows: int = 10, **more: Any) -> None:
    """Write the store of a rank that works for 0.2 s and waits for 0.1 s in each time window."""
    table = [row(window, 0.2, 0.1, 0.1) for window in range(1, windows + 1)]
    write_store(directory, table, name, rank, size, configuration=EXPLICIT, **more)


# --- the run --------------------------------------------------------------------------------------------------------


def test_a_run_is_called_as_its_stores_say_else_by_its_ranks(tmp_path: Path) -> None:
    for place, more in (("named", {"run": "flap-3"}), ("unnamed", {})):
        for rank in range(2):
            write_rank(tmp_path / place, "A", rank, 2, **more)
        write_rank(tmp_path / place, "B", **more)

    assert watch_run(tmp_path / "named").run == "flap-3"
    assert watch_run(tmp_path / "unnamed").run == "A:2 B:1"


def test_the_run_that_began_last_is_watched(tmp_path: Path) -> None:
    for number in (1, 3, 2):
        for name in "AB":
            write_rank(tmp_path / f"place-{number}", name, run=f"{number}", started_unix_ns=START + number * 10**12)

    assert watch_run(tmp_path).run == "3"


@pytest.mark.parametrize(
    ("others", "state"),
    [
        (["ended"], "ended"),
        (["killed"], "stopped"),
        (["running"], "running"),
        (["killed", "running"], "running"),
    ],
)
def test_a_participant_runs_while_one_rank_does_and_has_ended_when_all_ranks_have(
    others: list[str], state: str, tmp_path: Path
) -> None:
    size = 1 + len(others)
    write_rank(tmp_path, "A", 0, size)
    for rank, what in enumerate(others, start=1):
        if what == "running":
            process = {"hostname": platform.node(), "pid": os.getpid(), "started_unix_ns": time.time_ns()}
            writer = StoreWriter(tmp_path, metadata("A", rank, size, configuration=EXPLICIT, **process), EXPLICIT)
            writer.append(rows([row(window, 0.2, 0.1, 0.1) for window in range(1, 11)]))
        else:
            write_rank(tmp_path, "A", rank, size, finished=what == "ended")

    assert [part.state for part in watch_run(tmp_path).participants] == [state]


def test_windows_whose_wait_was_not_measured_have_no_part_in_the_share_of_waiting(tmp_path: Path) -> None:
    table = [row(window, 0.2, 0.1, 0.1 if window <= 15 else None) for window in range(1, 19)]
    write_store(tmp_path, table, "A", configuration=EXPLICIT)

    (part,) = watch_run(tmp_path).participants

    # Five of the latest eight windows were measured.
    assert part.wait_share == pytest.approx(0.1 / 0.3)
    assert part.wait_share_so_far == pytest.approx(0.1 / 0.3)


# --- what a better split is computed from -----------------------------------------------------------------------------


def test_there_is_no_better_split_while_a_participant_of_the_configuration_is_missing(tmp_path: Path) -> None:
    write_rank(tmp_path, "A")

    snapshot = watch_run(tmp_path)

    assert snapshot.rebalance is None
    missing = "expected the compute seconds of all participants, found none of B yet"
    assert f"no split to compare with: {missing}" in snapshot.notes


def test_a_better_split_is_computed_for_the_iterations_parameters_and_versions_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def noted(*arguments: Any, **options: Any) -> Rebalance:
        asked.update(options, iterations=arguments[3])
        return rebalance(*arguments)

    monkeypatch.setattr(observer_module, "rebalance", noted)
    lines = [f"{name},fast,{ranks},{cells},{0.8 / ranks}" for name in "AB" for ranks in (1, 2, 4) for cells in (7, 9)]
    table = tmp_path / "earlier.csv"
    table.write_text("\n".join(["participant,version,ranks,cells,seconds", *lines]) + "\n")
    text = configuration("parallel-implicit")
    # Four iterations in each of the first twelve windows, two in each of the latest eight.
    counts = [4] * 12 + [2] * 8
    recorded = [
        row(window, 0.2, 0.1, 0.1, iteration=iteration, complete=iteration == count)
        for window, count in enumerate(counts, start=1)
        for iteration in range(1, count + 1)
    ]
    for name in "AB":
        write_store(tmp_path / "run", recorded, name, configuration=text, version="fast", parameters={"cells": 9})

    watch_run(tmp_path / "run", measurements=[table], restart_cost=30.0)

    assert asked["iterations"] == {"A": 2.0, "B": 2.0}
    assert asked["parameters"] == {"cells": 9}
    assert asked["versions"] == {"A": "fast", "B": "fast"}
    assert asked["restart_seconds"] == 30.0


def better_than(layouts: dict[str, Layout], seconds: dict[str, float]) -> Rebalance:
    return rebalance(EXPLICIT, layouts, seconds, dict.fromkeys(seconds, 1.0), restart_seconds=60.0)


def test_threads_count_as_cores() -> None:
    better = better_than({"A": Layout(2, 2), "B": Layout(4)}, {"A": 1.0, "B": 1.0})

    assert better.present == {"A": 4, "B": 4}


def test_a_restart_at_the_present_split_never_pays() -> None:
    better = better_than({"A": Layout(4), "B": Layout(4)}, {"A": 1.0, "B": 1.0})

    assert better.split == better.present
    assert better.windows_to_pay == math.inf


def test_more_ranks_than_measured_may_be_on_more_nodes() -> None:
    better = better_than({"A": Layout(4), "B": Layout(4)}, {"A": 4.0, "B": 1.0})

    assert better.split["A"] > 4
    expected = (
        "A would get more ranks than ever measured, perhaps on more nodes, where solvers scale differently: "
        "precice-lb recommend takes how many cores a node has (--cores-per-node)."
    )
    assert expected in better.warnings
