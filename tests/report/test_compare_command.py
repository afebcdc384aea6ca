"""`precice-lb compare`: recorded production, what runs differ in, its exit codes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compare_helpers import HOUR, SLOW_FROM, write_pair, write_production
from report_helpers import refused
from store_helpers import START, row, write_coupled, write_store

from precice_lb.cli import main


def compared(capsys: pytest.CaptureFixture[str], *sources: Path) -> dict[str, Any]:
    """Return what the command prints as JSON."""
    assert main(["compare", *map(str, sources), "--format", "json"]) == 0
    return dict(json.loads(capsys.readouterr().out))


# --- since when ----------------------------------------------------------------------------------------------------


def test_production_became_slower_at_one_run_and_b_did_it_while_a_waits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_production(tmp_path, 12)

    document = compared(capsys, tmp_path)

    assert document["changed_from"] == f"run-{SLOW_FROM}"
    assert document["caused_by"] == ["B"]
    assert document["before"] == [f"run-{number}" for number in range(SLOW_FROM)]
    assert document["after"] == [f"run-{number}" for number in range(SLOW_FROM, 12)]
    assert document["coupled"]["window_seconds"]["share"] == pytest.approx(0.2, abs=0.02)
    a, b = document["participants"]["A"], document["participants"]["B"]
    assert not a["compute_seconds"]["more_than_noise"]
    assert b["compute_seconds"]["more_than_noise"]
    assert not b["wait_seconds"]["more_than_noise"]
    assert a["wait_seconds"]["low"] < 0.16 < a["wait_seconds"]["high"]
    assert document["changed"] == {"preCICE": ["3.1.2", "3.2.0"]}


def test_the_screen_names_the_run_and_the_cause(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_production(tmp_path, 12)

    assert main(["compare", str(tmp_path)]) == 0

    text = " ".join(capsys.readouterr().out.split())
    assert f"From run run-{SLOW_FROM} on (no. 8 of 12) the coupled run is slower" in text
    assert "The cause is the compute time of B (+" in text


def test_steady_production_did_not_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_production(tmp_path, 12, factor=1.0)

    assert main(["compare", str(tmp_path), "--fail-above", "0%"]) == 0

    assert "The window time did not change by more than noise over 12 runs" in capsys.readouterr().out


def write_runs(directory: Path, seconds: list[float], first: int = 0) -> Path:
    """Write runs of equal windows into a directory, one hour after the other; A takes the given seconds, B 0.1 s."""
    for number, own in enumerate(seconds, start=first):
        costs = {"A": [own] * 5, "B": [0.1] * 5}
        write_coupled(directory / f"{number}", costs, run=f"run-{number}", started_unix_ns=START + number * HOUR)
    return directory


def test_runs_of_three_sources_are_one_sequence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sources = [
        write_runs(tmp_path / "2025", [0.4, 0.4], first=0),
        write_runs(tmp_path / "2027", [0.5, 0.5], first=4),
        write_runs(tmp_path / "2026", [0.4, 0.5], first=2),
    ]

    document = compared(capsys, *sources)

    assert document["in_order"] is True
    assert document["before"] == ["run-0", "run-1", "run-2"]
    assert document["changed_from"] == "run-3"


# --- exit codes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "fail_above", "code"),
    [
        # 25 % longer.
        (0.398, 0.498, "24%", 1),
        (0.398, 0.498, "26%", 0),
        (0.398, 0.498, "0%", 1),
        # 20 % shorter: faster runs never fail, however much they changed.
        (0.498, 0.398, "0%", 0),
        (0.498, 0.398, "5%", 0),
    ],
)
def test_fail_above_is_for_longer_windows_only(
    tmp_path: Path, before: float, after: float, fail_above: str, code: int
) -> None:
    # The transfer takes 2 ms more.
    sources = write_runs(tmp_path / "before", [before]), write_runs(tmp_path / "after", [after])

    assert main(["compare", *map(str, sources), "--fail-above", fail_above]) == code


def test_fail_above_is_for_growth_beyond_noise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs on one side differ by a third from each other, and by a sixth from those on the other side."""
    sources = write_runs(tmp_path / "before", [0.3, 0.4, 0.5]), write_runs(tmp_path / "after", [0.35, 0.45, 0.6])

    assert main(["compare", *map(str, sources), "--fail-above", "5%"]) == 0

    assert "did not change by more than noise from before to after: +1" in capsys.readouterr().out


def test_fail_above_looks_at_the_step_of_a_sequence(tmp_path: Path) -> None:
    slower = write_runs(tmp_path / "slower", [0.4, 0.4, 0.4, 0.5, 0.5, 0.5])
    faster = write_runs(tmp_path / "faster", [0.5, 0.5, 0.5, 0.4, 0.4, 0.4])

    assert main(["compare", str(slower), "--fail-above", "5%"]) == 1
    assert main(["compare", str(slower), "--fail-above", "30%"]) == 0
    assert main(["compare", str(slower)]) == 0
    assert main(["compare", str(faster), "--fail-above", "5%"]) == 0


# --- what runs differ in -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "before", "after", "changed"),
    [
        ("hostname", "node1", "node2", {"host": ["node1", "node2"]}),
        ("precice_version", "3.1.2", "3.2.0", {"preCICE": ["3.1.2", "3.2.0"]}),
        ("python_version", "3.11.4", "3.13.0", {"Python": ["3.11.4", "3.13.0"]}),
        ("backend", "embedded", "libprecice", {"backend": ["embedded", "libprecice"]}),
        ("cpu_model", "EPYC 7742", "EPYC 9654", {"processor": ["EPYC 7742", "EPYC 9654"]}),
        ("guess", "linear", "auto", {"first guess": ["linear", "auto"]}),
        # The first eight digits of a fingerprint.
        pytest.param("case", 64 * "0", 64 * "1", {"coupling configuration": [8 * "0", 8 * "1"]}, id="case"),
        ("version", "cpu", "gpu", {"version of A": ["cpu", "gpu"], "version of B": ["cpu", "gpu"]}),
        (
            "parameters",
            {"cells": 1000},
            {"cells": 2000},
            {
                "parameters of A": ["{'cells': 1000}", "{'cells': 2000}"],
                "parameters of B": ["{'cells': 1000}", "{'cells': 2000}"],
            },
        ),
    ],
)
def test_what_differs_in_metadata_is_named(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    key: str,
    before: object,
    after: object,
    changed: dict[str, list[str]],
) -> None:
    write_pair(tmp_path / "before", tmp_path / "after", {key: (before, after)})

    assert compared(capsys, tmp_path / "before", tmp_path / "after")["changed"] == changed


def test_ranks_and_hosts_of_all_participants_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """B moves from the nodes n1 and n2, a rank on each, to three ranks on n1, n2 and n3; A stays on n1."""
    rows = [row(window, 0.1, 0.1, 0.1) for window in range(1, 5)]
    for name, hosts in (("before", ["n1", "n2"]), ("after", ["n1", "n2", "n3"])):
        write_store(tmp_path / name, rows, "A", run=name, hostname="n1", cpus="0")
        for rank, host in enumerate(hosts):
            write_store(tmp_path / name, rows, "B", rank, len(hosts), run=name, hostname=host, cpus="1")

    document = compared(capsys, tmp_path / "before", tmp_path / "after")

    assert document["changed"] == {"ranks of B": ["2", "3"], "host": ["n1, n1 + n2", "n1, n1 + n2 + n3"]}


def test_a_run_that_was_killed_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sources = write_runs(tmp_path / "before", [0.4]), tmp_path / "after"
    write_coupled(sources[1], {"A": [0.4] * 5, "B": [0.1] * 5}, run="killed", finished=False)

    assert main(["compare", *map(str, sources), "--format", "markdown"]) == 0

    assert "**warning:** Run killed: A and B did not come to the end" in capsys.readouterr().out


# --- what is refused -----------------------------------------------------------------------------------------------


def write_two_windows(directory: Path, participants: str = "AB", **more: Any) -> Path:
    write_coupled(directory, {who: [0.1] * 4 for who in participants}, run=directory.name, **more)
    return directory


def test_a_source_that_is_not_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = write_two_windows(tmp_path / "one")

    assert "nowhere: expected the directory of a run" in refused(capsys, "compare", one, tmp_path / "nowhere")


def test_runs_of_other_participants_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sources = write_two_windows(tmp_path / "one"), write_two_windows(tmp_path / "other", "AC")

    line = refused(capsys, "compare", *sources)

    assert "found A and B per time window in run one, and A and C per time window in run other; give runs" in line


def test_runs_with_unlike_units_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where iterations of windows are not known, each call of advance is taken for one of its own."""
    one = write_two_windows(tmp_path / "one")
    other = write_two_windows(tmp_path / "other", window_unit="coupling iteration")

    line = refused(capsys, "compare", one, other)

    assert "found A and B per time window in run one, and A and B per coupling iteration in run other" in line


def test_a_run_whose_participants_have_unlike_units_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [row(window, 0.1, 0.1, 0.1) for window in range(1, 5)]
    for name in ("one", "two"):
        write_store(tmp_path / name, rows, "A", run=name)
        write_store(tmp_path / name, rows, "B", run=name, window_unit="coupling iteration")

    line = refused(capsys, "compare", tmp_path / "one", tmp_path / "two")

    assert "A by time window (4), B by coupling iteration (4), which are not alike" in line


def test_a_single_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "found 1 run (one); give more" in refused(capsys, "compare", write_two_windows(tmp_path / "one"))


@pytest.mark.parametrize("wrong", ["5", "-1%", "nan%", "much%"])
def test_fail_above_takes_percentages_only(tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: str) -> None:
    sources = write_two_windows(tmp_path / "one"), write_two_windows(tmp_path / "two")

    line = refused(capsys, "compare", *sources, f"--fail-above={wrong}")

    assert line.endswith(f"expected a percentage from 0%, such as 5%, found '{wrong}'\n")


def test_runs_without_windows_after_warm_up_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sources = write_two_windows(tmp_path / "one"), write_two_windows(tmp_path / "two")

    line = refused(capsys, "compare", *sources, "--warmup", "4")

    assert "found none in one; leave out fewer (--warmup)" in line
