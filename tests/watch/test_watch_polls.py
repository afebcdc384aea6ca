"""How often `precice-lb watch` looks, what it leaves to the solvers, and what a terminal shows meanwhile."""

from __future__ import annotations

import importlib
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from chain_helpers import chain_of
from clock_helpers import Clock
from live_run_helpers import LiveRun
from record_helpers import configuration
from report_helpers import write_run
from store_helpers import PARALLEL, metadata, row, rows, write_store

from precice_lb.cli import main
from precice_lb.store import StoreWriter
from precice_lb.watch import Observer, Snapshot

# The name in the package is the command.
watch_command = importlib.import_module("precice_lb.watch.command")
run_module = importlib.import_module("precice_lb.watch.run")

# As rich writes them to a terminal.
CURSOR_UP, HIDE_CURSOR = "\x1b[1A", "\x1b[?25l"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of polls and of searches."""
    clock = Clock()
    monkeypatch.setattr(watch_command, "time", clock)
    monkeypatch.setattr(run_module, "time", clock)
    return clock


def note_searches(monkeypatch: pytest.MonkeyPatch, clock: Clock, search_seconds: float = 0.0) -> list[float]:
    """Let each search of the tree take so many seconds; return a list that gets the time at which each one begins."""
    real_search = run_module.stores_below
    searched_at: list[float] = []

    def search(directory: Path) -> list[Path]:
        searched_at.append(clock.now)
        clock.now += search_seconds
        return list(real_search(directory))

    monkeypatch.setattr(run_module, "stores_below", search)
    return searched_at


@pytest.mark.parametrize(
    ("poll_seconds", "options", "pause"),
    [
        (0.01, [], 5.0),
        (0.01, ["--every", "7"], 7.0),
        # 2 % of a core are 0.3 s in 15 s.
        (0.3, [], 15.0),
        (0.3, ["--every", "0.1"], 15.0),
    ],
)
def test_polls_come_every_5_seconds_and_take_at_most_2_percent_of_a_core(
    poll_seconds: float, options: list[str], pause: float, tmp_path: Path, clock: Clock,
    monkeypatch: pytest.MonkeyPatch, own_priority: list[int],
) -> None:  # fmt: skip
    real_poll = Observer.poll

    def poll(observer: Observer, *, hasty: bool = False) -> Snapshot | None:
        clock.now += poll_seconds
        return real_poll(observer, hasty=hasty)

    monkeypatch.setattr(Observer, "poll", poll)
    with LiveRun(tmp_path, 20) as run:
        clock.in_pause = {3: run.end}

        assert main(["watch", str(tmp_path), *options]) == 0

    assert clock.pauses == pytest.approx([pause] * 3)


def test_searches_of_the_tree_take_at_most_2_percent_of_the_time_and_put_no_poll_off(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, own_priority: list[int]
) -> None:
    searched_at = note_searches(monkeypatch, clock, search_seconds=1.0)
    with LiveRun(tmp_path, 20) as run:
        clock.in_pause = {15: run.end}

        assert main(["watch", str(tmp_path)]) == 0

    # The first search ends at 1 s. One second is 2 % of 50 s, so that the next one begins at 51 s.
    assert searched_at == [0.0, 51.0]
    assert clock.pauses == [5.0] * 15


def test_a_quick_search_is_made_for_each_poll(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, own_priority: list[int]
) -> None:
    searched_at = note_searches(monkeypatch, clock)
    with LiveRun(tmp_path, 20) as run:
        clock.in_pause = {2: run.end}

        assert main(["watch", str(tmp_path)]) == 0

    # The first view and the full one come at once.
    assert searched_at == [0.0, 0.0, 5.0, 10.0]


def test_files_and_directories_that_are_removed_while_they_are_looked_for_stop_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_scandir = os.scandir
    removed = tmp_path / "removed"
    removed.mkdir()

    def scandir(path: str | Path) -> Any:
        """Remove the directory between the moments in which its parent and itself are listed."""
        if Path(path) == removed and removed.exists():
            removed.rmdir()
        return real_scandir(path)

    monkeypatch.setattr(os, "scandir", scandir)
    write_run(tmp_path / "stores", {"Inner": 1, "Outer": 1})

    snapshot = Observer(tmp_path).poll()

    assert not removed.exists()
    assert snapshot is not None
    assert snapshot.windows == 4


def test_a_run_whose_files_are_removed_has_stopped_until_the_tree_is_searched_again(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    note_searches(monkeypatch, clock, search_seconds=1.0)
    # Written on another host, as far as anybody knows.
    writers = [StoreWriter(tmp_path, metadata(name), PARALLEL) for name in "AB"]
    for writer in writers:
        writer.append(rows([row(1, 0.1, 0.1, 0.1)]))
    observer = Observer(tmp_path)
    before = observer.poll()
    for writer in writers:
        writer.path.unlink()
        writer.close_spool()
    soon = observer.poll()
    clock.now += 50.0
    later = observer.poll()

    assert before is not None
    assert soon is not None
    assert [part.state for part in before.participants] == ["running", "running"]
    assert [part.state for part in soon.participants] == ["stopped", "stopped"]
    assert later is None


WATCHING = """\
import os, sys
from precice_lb.cli import main
before = os.getpriority(os.PRIO_PROCESS, 0)
code = main(["watch", sys.argv[1], "--every", "0.1", "--threshold", "drift=0.2"])
print(code, os.getpriority(os.PRIO_PROCESS, 0) - before)
"""


def test_watching_a_run_that_goes_on_lowers_the_priority_by_5(tmp_path: Path) -> None:
    with LiveRun(tmp_path, 40) as run:
        run.go_on(8, compute_seconds=0.4)

        watching = subprocess.run(
            [sys.executable, "-c", WATCHING, tmp_path], capture_output=True, text=True, timeout=300, check=True
        )

    # Changes of load, and with them the threshold, come with the second view: after the first the priority is lowered.
    assert watching.stdout.splitlines()[-1] == "3 5"


def test_priority_stays_where_the_run_is_looked_at_once(tmp_path: Path, own_priority: list[int]) -> None:
    with LiveRun(tmp_path, 20) as run:
        assert main(["watch", str(tmp_path), "--once"]) == 0
        run.end()
        assert main(["watch", str(tmp_path)]) == 0

    assert own_priority == []


def test_the_first_view_of_a_run_that_goes_on_has_no_changes_of_load_and_no_other_split(tmp_path: Path) -> None:
    with LiveRun(tmp_path, 40) as run:
        run.go_on(8, compute_seconds=0.4)
        observer = Observer(tmp_path)

        first, second = observer.poll(hasty=True), observer.poll()
        run.end()
        of_ended_run = Observer(tmp_path).poll(hasty=True)

    assert first is not None
    assert second is not None
    assert of_ended_run is not None
    assert first.windows == second.windows == 48
    assert first.to_dict()["participants"][0]["shift"]["change"] is None
    assert first.rebalance is None
    assert "no split to compare with: this and changes of load come with the next view" in first.notes
    # From 0.21 s, with 0.01 s for the exchange of data, to 0.41 s.
    for snapshot in (second, of_ended_run):
        assert snapshot.participants[0].shift.change == pytest.approx(0.41 / 0.21 - 1)
        assert snapshot.rebalance is not None


# ---- on a terminal


class Terminal(io.StringIO):
    """Keeps what is written to it."""

    def isatty(self) -> bool:
        return True

    def written(self) -> str:
        """Return what was written, without colours and other styles."""
        return re.sub(r"\x1b\[[0-9;]*m", "", self.getvalue())


def at_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Let standard output be a terminal of 200 columns; not as a fixture, after which pytest puts its own in place."""
    for name, value in {"TERM": "xterm", "COLUMNS": "200", "LINES": "60"}.items():
        monkeypatch.setenv(name, value)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    return terminal


def test_a_terminal_shows_each_poll_in_place_of_the_one_before(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, own_priority: list[int]
) -> None:
    terminal, views = at_terminal(monkeypatch), list[str]()
    chain_of([{"A": 1, "B": 1}], total=10).save(tmp_path)
    with LiveRun(tmp_path, 20) as run:

        def one_more_window() -> None:
            views.append(terminal.written())
            run.go_on(1)

        def end() -> None:
            views.append(terminal.written())
            run.end()

        clock.in_pause = {1: one_more_window, 2: end}
        assert main(["watch", str(tmp_path)]) == 0

    # Before the first pause are the first view, where changes of load are unknown, and the full one.
    first, full = views[0].split("window 20 of 150")[1:]
    assert "steady" not in first
    assert "steady" in full
    assert "window 21 of 150" not in views[0]
    assert "window 21 of 150" in views[1]
    # Each view begins where the one before did, and the last one stays as it is.
    last_view = terminal.written().rpartition(CURSOR_UP)[2]
    assert last_view.count("window 21 of 150") == 1
    assert "A (ended)" in last_view
    assert "Job chain at its end: 1 segment, 10 of 10 windows" in last_view
    assert HIDE_CURSOR in terminal.getvalue()


@pytest.mark.parametrize("options", [["--once"], ["--format", "json"]])
def test_a_single_view_and_json_are_printed_to_a_terminal_as_to_a_pipe(
    options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = at_terminal(monkeypatch)
    write_run(tmp_path, {"Inner": 1, "Outer": 1})

    assert main(["watch", str(tmp_path), *options]) == 0

    assert HIDE_CURSOR not in terminal.getvalue()
    if "json" in options:
        assert json.loads(terminal.getvalue())["windows"] == 4
    else:
        assert terminal.written().count("window 4") == 1


# ---- options


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--every", "0.09"], "--every: expected at least 0.1 seconds, found 0.09"),
        (["--wait", "-1"], "--wait: expected at least 0 seconds, found -1"),
        (["--restart-cost", "-1"], "expected seconds that a restart costs of at least 0, found -1.0"),
        (["--restart-cost", "inf"], "expected seconds that a restart costs of at least 0, found inf"),
        (["--warmup", "-1"], "warmup: expected a number of time windows of at least 0, found -1"),
        (["--threshold", "gain=1"], "--threshold"),
        (["--threshold", "gain=0"], "--threshold"),
        (["--threshold", "load=0.5"], "--threshold"),
    ],
)
def test_watch_refuses_options_that_make_no_sense(
    options: list[str], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_store(tmp_path, [row(1, 0.1, 0.2, 0.1)])

    assert main(["watch", str(tmp_path), "--once", *options]) == 2

    assert problem in capsys.readouterr().err


def test_options_of_watch_reach_the_view(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measurements = tmp_path / "earlier.csv"
    # Seconds per time window of both: 6.4 over the ranks of A, 0.8 over those of B.
    lines = [f"{name},{ranks},{work / ranks}" for name, work in (("A", 6.4), ("B", 0.8)) for ranks in (1, 2, 4, 8, 16)]
    measurements.write_text("\n".join(["participant,ranks,seconds", *lines]) + "\n")
    text = configuration("parallel-explicit", 150)
    stores = tmp_path / "stores"
    for name, wait in (("A", 0.01), ("B", 0.71)):
        # The first three windows take ten times as long.
        table = [row(window, (10 if window <= 3 else 1) * (0.81 - wait), wait, wait) for window in range(1, 7)]
        for rank in range(8):
            write_store(stores, table, name, rank, 8, configuration=text)

    options = ["--measurements", str(measurements), "--restart-cost", "123", "--warmup", "3"]
    assert main(["watch", str(stores), "--once", "--format", "json", *options]) == 0

    seen = json.loads(capsys.readouterr().out)
    assert seen["rebalance"]["basis"] == "earlier measurements, scaled to the load of the latest windows"
    assert seen["rebalance"]["restart_seconds"] == 123.0
    # Of the windows from the fourth on, each of which takes 0.81 s: 0.01 s of either wait are the transfer of data.
    assert [part["compute_seconds"] for part in seen["participants"]] == pytest.approx([0.81, 0.11])
    assert [part["wait_share_so_far"] for part in seen["participants"]] == pytest.approx([0.01 / 0.81, 0.71 / 0.81])
