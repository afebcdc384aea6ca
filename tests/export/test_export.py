"""Exports: traces that keep the rules of the Trace Event Format, tidy tables, pandas."""

from __future__ import annotations

import csv
import json
import sys
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from profiling_helpers import case
from record_helpers import configuration, run_pair
from report_helpers import refused
from store_helpers import START, row, write_store

from precice_lb.cli import main
from precice_lb.dataset import load_runs
from precice_lb.exceptions import DataError, StoreError
from precice_lb.export import export_csv, export_merged, export_trace, to_dataframe
from precice_lb.ingest.profiling import import_profiling

TEXT = configuration("parallel-explicit")


def stores(directory: Path, **more: Any) -> Path:
    """Two participants on two ranks each, 0.5 s per window."""
    for name, solve in (("A", 0.4), ("B", 0.1)):
        for rank in range(2):
            table = [
                (w, 1, 10_000 + round((0.5 * (w - 1) + solve) * 1e9), round(solve * 1e9), round((0.5 - solve) * 1e9),
                 10_000_000, round((0.48 - solve) * 1e9), 0.1, True)
                for w in range(1, 11)
            ]  # fmt: skip
            write_store(directory, table, name, rank, 2, configuration=TEXT, seconds=5.0, **more)
    return directory


def checked(path: Path) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Read a trace by the rules of its format; slices by the names of process and thread."""
    trace = json.loads(path.read_text(encoding="ascii"), parse_float=Decimal)
    assert trace["displayTimeUnit"] in ("ms", "ns")
    names: dict[str, dict[tuple[int, int], str]] = defaultdict(dict)
    slices: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    for event in trace["traceEvents"]:
        assert [type(event[key]) for key in ("name", "pid", "tid")] == [str, int, int]
        place = event["pid"], event["tid"]
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "process_sort_index", "thread_name", "thread_sort_index")
            names[event["name"]][place] = event["args"].get("name")
            continue
        assert event["ph"] == "X"
        assert event["cat"] in ("Solver", "preCICE")
        assert min(event["ts"], event["dur"]) >= 0
        slices[place].append(event)
    processes = {pid: name for (pid, _), name in names["process_name"].items()}
    assert set(slices) <= set(names["thread_name"])
    assert len(set(processes.values())) == len(processes)
    for events in slices.values():
        open_: list[Decimal] = []
        for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
            while open_ and open_[-1] <= event["ts"]:
                open_.pop()
            # Slices of a thread lie within each other or apart.
            assert not open_ or event["ts"] + event["dur"] <= open_[-1], event
            open_.append(event["ts"] + event["dur"])
    return {(processes[place[0]], names["thread_name"][place]): events for place, events in slices.items()}


def traced(directory: Path) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Slices of the trace of the stores below a directory, which is written beside it."""
    path = directory.with_name(f"{directory.name}.json")
    count = export_trace([directory], path)
    slices = checked(path)
    assert count == sum(map(len, slices.values()))
    return slices


def test_a_trace_has_a_process_per_participant_and_a_thread_per_rank(tmp_path: Path) -> None:
    slices = traced(stores(tmp_path / "stores"))
    assert sorted(slices) == [(name, rank) for name in "AB" for rank in ("Primary (0)", "Secondary (1)")]
    events = slices["A", "Primary (0)"]
    # Microseconds, and who takes them.
    planted = {
        "solver.advance": (Decimal(400_000), "Solver"),
        "advance": (Decimal(100_000), "preCICE"),
        "waitAndReceiveData": (Decimal(80_000), "preCICE"),
        "mapping": (Decimal(10_000), "preCICE"),
    }
    assert {(e["name"], e["dur"], e["cat"]) for e in events if e["name"] != "initialize"} == {
        (name, *values) for name, values in planted.items()
    }


@pytest.mark.parametrize("name", ["solver.advance", "advance", "waitAndReceiveData", "mapping"])
def test_slices_carry_their_time_window_and_coupling_iteration(tmp_path: Path, name: str) -> None:
    rows = [
        row(1, 0.1, 0.1, 0.05, 0.02, iteration=1, complete=False),
        row(1, 0.1, 0.1, 0.05, 0.02, iteration=2),
        row(2, 0.1, 0.1, 0.05, 0.02, iteration=1),
    ]
    # Calls begin one after the other.
    rows = [(*one[:2], (number + 1) * 10**9, *one[3:]) for number, one in enumerate(rows)]
    write_store(tmp_path / "stores", rows)

    events = [event for event in traced(tmp_path / "stores")["A", "Primary (0)"] if event["name"] == name]

    assert [event["args"] for event in events] == [
        {"window": 1, "iteration": 1}, {"window": 1, "iteration": 2}, {"window": 2, "iteration": 1},
    ]  # fmt: skip


def test_a_call_ends_with_waiting_and_then_mapping(tmp_path: Path) -> None:
    """A call of 0.1 s begins 2 s after the rank's clock did, of which it waits for 0.05 s and maps for 0.02 s."""
    call = (1, 1, 2_000_000_000, 500_000_000, 100_000_000, 20_000_000, 50_000_000, 0.1, True)
    write_store(tmp_path / "stores", [call], started_clock_ns=0)

    events = {event["name"]: event for event in traced(tmp_path / "stores")["A", "Primary (0)"]}

    # Microseconds; a trace begins 1 ms before the first rank.
    spans = {name: (event["ts"], event["ts"] + event["dur"]) for name, event in events.items()}
    assert spans["solver.advance"] == (1_501_000, 2_001_000)
    assert spans["advance"] == (2_001_000, 2_101_000)
    assert spans["waitAndReceiveData"] == (2_031_000, 2_081_000)
    assert spans["mapping"] == (2_081_000, 2_101_000)


def test_ranks_are_at_the_times_of_their_hosts_clocks(tmp_path: Path) -> None:
    """B started three seconds after A, on a host whose clock then stood at 7 s; both call advance a second later."""
    for name, start, clock in (("A", START, 0), ("B", START + 3 * 10**9, 7 * 10**9)):
        call = (1, 1, clock + 10**9, 0, 10**8, 0, 0, 0.1, True)
        begun = [(clock, 10**6, 0, 0)]
        write_store(
            tmp_path / "stores", [call], name, started_unix_ns=start, started_clock_ns=clock, initialize=begun,
            configuration=TEXT, run="one",
        )  # fmt: skip

    slices = traced(tmp_path / "stores")

    begins = {}
    for (name, _), events in slices.items():
        begins[name] = [event["ts"] for event in events if event["name"] == "advance"]
    assert begins == {"A": [1_001_000], "B": [4_001_000]}


@pytest.mark.parametrize("run", ["all-implicit", "api-just-in-time", "all-parallel"])
def test_imported_runs_of_libprecice_keep_the_rules(tmp_path: Path, run: str) -> None:
    import_profiling([case(tmp_path / "run", run)], tmp_path / "stores")

    slices = traced(tmp_path / "stores")

    names = {event["name"] for events in slices.values() for event in events}
    assert names >= {"initialize", "solver.advance", "advance", "waitAndReceiveData"}
    assert sum(map(len, slices.values())) > 20


@pytest.mark.precice
def test_recorded_runs_of_libprecice_are_joined_with_its_profiling_files(tmp_path: Path) -> None:
    run_pair(tmp_path, "serial-implicit", windows=4, backend="libprecice")
    names = {event["name"] for events in traced(tmp_path).values() for event in events}
    assert {"waitAndReceiveData", "mapping"} <= names
    frame = to_dataframe([tmp_path])
    waits = frame[frame.quantity == "wait"].seconds
    # At least one coupling iteration of both participants in each of four windows.
    assert len(waits) >= 8
    assert waits.notna().all()


def test_tables_are_tidy_and_say_what_summary_says(tmp_path: Path) -> None:
    directory = stores(tmp_path / "stores")
    frame = to_dataframe([directory])
    assert list(frame.columns) == [
        "run", "participant", "version", "ranks", "threads", "rank", "window", "iteration", "quantity", "seconds",
    ]  # fmt: skip
    assert len(frame) == 2 * 2 * 10 * 5
    assert frame.attrs["units"] == {"seconds": "s"}
    part = load_runs([directory], warmup=0)[0].participants["A"]
    means = frame[frame.participant == "A"].groupby(["rank", "quantity"], observed=True).seconds.mean().unstack()
    # Of 0.5 s A solves for 0.4 s; of the 0.1 s in advance it maps for 0.01 s and waits for 0.08 s.
    planted = {"solve": 0.4, "mapping": 0.01, "wait": 0.08, "overhead": 0.01, "advance": 0.1}
    assert set(means.columns) == set(planted)
    for name, seconds in planted.items():
        assert means[name].tolist() == pytest.approx([seconds, seconds])
    for name in ("solve", "mapping", "wait", "overhead"):
        np.testing.assert_allclose(means[name], getattr(part, f"rank_{name}"), atol=1e-12)
    count = export_csv([directory], tmp_path / "runs.csv")
    with (tmp_path / "runs.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert len(table) == count == len(frame)
    assert [float(line["seconds"]) for line in table] == frame.seconds.tolist()
    assert [line["quantity"] for line in table] == frame.quantity.tolist()


def test_what_was_not_measured_is_empty(tmp_path: Path) -> None:
    write_store(tmp_path / "stores", [row(1, 0.1, 0.2, None, None)], backend="libprecice")

    assert export_csv([tmp_path / "stores"], tmp_path / "runs.csv") == 5

    with (tmp_path / "runs.csv").open(newline="") as file:
        seconds = {line["quantity"]: line["seconds"] for line in csv.DictReader(file)}
    assert seconds == {"solve": "0.1", "mapping": "", "wait": "", "overhead": "", "advance": "0.2"}
    frame = to_dataframe([tmp_path / "stores"])
    assert frame[frame.seconds.isna()].quantity.tolist() == ["mapping", "wait", "overhead"]


def test_sections_of_the_solver_lie_in_its_slice_the_longer_one_outside(tmp_path: Path) -> None:
    calls = [(1, 1, 2_000_000, 1_000_000, 500_000, 0, 0, 0.1, True)]
    sections = [
        ("inner", 1, 1_000_100, 1000),
        ("outer <b>", 1, 1_000_100, 500_000),
        # Sections that do not end with the solver's slice, and events of preCICE's own, have no place in it.
        ("across", 1, 1_900_000, 500_000),
        ("advance/acceleration", 1, 1_000_200, 1000),
    ]
    write_store(tmp_path / "stores", calls, sections=sections)
    events = sorted(traced(tmp_path / "stores")["A", "Primary (0)"], key=lambda event: (event["ts"], -event["dur"]))
    assert [event["name"] for event in events] == ["initialize", "solver.advance", "outer <b>", "inner", "advance"]


def test_times_of_a_trace_are_exact_and_mapping_just_in_time_makes_no_slices_overlap(tmp_path: Path) -> None:
    table = [
        (1, 1, 2_000_007, 1_000_005, 3_000_060, 1_000_000, 0, 0.1, True),
        (2, 1, 5_000_000, 1_500_000, 1_000_000, 0, 0, 0.1, True),
    ]
    write_store(tmp_path, table, "A", configuration=TEXT)
    solve, advance = (
        [event for event in traced(tmp_path)["A", "Primary (0)"] if event["name"] == name]
        for name in ("solver.advance", "advance")
    )
    assert [event["dur"] for event in solve] == [Decimal("1000.005"), Decimal(1500)]
    assert [event["dur"] for event in advance] == [Decimal("1499.993"), Decimal(1000)]
    assert advance[0]["ts"] - solve[0]["ts"] == Decimal("1000.005")


def test_several_runs_stand_side_by_side(tmp_path: Path) -> None:
    stores(tmp_path / "one", run="first", pid=1)
    stores(tmp_path / "two", run="first", pid=2, threads=4, version="gpu")
    write_store(tmp_path / "three", [row(1, 1e-7, 0.2, 0.1)], "<b>\nÜ", started_unix_ns=START + 10**13)
    assert {name for name, _ in traced(tmp_path)} == {
        "first (one): A", "first (one): B", "first (two): A", "first (two): B", "<b>\nÜ:1: <b>\nÜ",
    }  # fmt: skip
    frame = to_dataframe([tmp_path])
    assert {*zip(frame.run, frame.ranks, frame.threads, frame.version, strict=True)} == {
        ("first (one)", 2, 1, ""), ("first (two)", 2, 4, "gpu"), ("<b>\nÜ:1", 1, 1, ""),
    }  # fmt: skip


def test_the_command_writes_either_and_replaces_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, trace, table = stores(tmp_path / "stores"), tmp_path / "trace.json", tmp_path / "table.csv"
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(directory)]) == 0
    assert "wrote trace.json" in capsys.readouterr().out
    assert main(["export", str(directory), "--format", "csv", "--output", "table.csv"]) == 0
    assert "200 rows" in capsys.readouterr().out
    before = trace.read_bytes(), table.read_bytes()
    assert "a new file, found trace.json; give another" in refused(capsys, "export", directory)
    csv_again = ["--format", "csv", "--output", "table.csv"]
    assert "a new file, found table.csv; give another" in refused(capsys, "export", directory, *csv_again)
    # Without a source it is the current directory.
    assert "a new file, found trace.json; give another" in refused(capsys, "export")
    assert "missing: expected a store file" in refused(capsys, "export", "missing", "--output", "x.json")
    assert "no/place.json: expected a file that can" in refused(
        capsys, "export", directory, "--output", "no/place.json"
    )
    assert (trace.read_bytes(), table.read_bytes()) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["stores", "table.csv", "trace.json"]
    # Merged stores give the same.
    export_merged([directory], "merged")
    assert main(["export", "merged", "--force"]) == 0
    assert main(["export", "merged", "--format", "csv", "--output", "table.csv", "--force"]) == 0
    assert (trace.read_bytes(), table.read_bytes()) == before
    with pytest.raises(StoreError):
        to_dataframe([tmp_path / "missing"])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(DataError, match=r"expected pandas .*pip install precice_lb\[export\]"):
        to_dataframe([directory])
