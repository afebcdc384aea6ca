"""Tables have the unit that suits their times, and files for programs keep to seconds."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from store_helpers import row, write_store

from precice_lb.cli import main


@pytest.fixture(params=[2.0, 0.02, 0.00002], ids=["s", "ms", "us"])
def seconds(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> float:
    """Record windows of which half are solving and half are in advance; return their seconds."""
    window_seconds = float(request.param)
    monkeypatch.chdir(tmp_path)
    rows = [row(window, window_seconds / 2, window_seconds / 2, 0.0) for window in range(1, 11)]
    write_store(tmp_path / "stores", rows)
    return window_seconds


def test_table_has_the_unit_of_its_times(seconds: float, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", "stores"]) == 0
    shown = capsys.readouterr().out

    symbol, number = {2.0: ("s", "1.0000"), 0.02: ("ms", "10.000"), 0.00002: ("µs", "10.000")}[seconds]
    assert f"mean ({symbol})" in shown
    (solve,) = [line for line in shown.splitlines() if line.split()[:1] == ["solve"]]
    # The mean over the ranks.
    assert solve.split()[1] == number


def test_json_and_csv_have_seconds(seconds: float, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", "stores", "--format", "json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)
    assert run["participants"]["A"]["solve"]["mean_seconds"] == pytest.approx(seconds / 2)

    assert main(["export", "stores", "--format", "csv", "-o", "runs.csv"]) == 0
    with open("runs.csv", newline="", encoding="utf-8") as file:
        solving = [float(line["seconds"]) for line in csv.DictReader(file) if line["quantity"] == "solve"]
    assert solving == pytest.approx([seconds / 2] * 10)
