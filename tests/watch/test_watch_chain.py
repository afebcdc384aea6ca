"""Watching a chain of jobs: its segments one after the other, until it has come to its end."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest
from chain_view_helpers import chain_of
from report_helpers import write_run
from store_helpers import START

from precice_lb.chain.document import CHAIN_FILE
from precice_lb.cli import main

pytestmark = pytest.mark.usefixtures("own_priority")

# The name in the package is the command.
watch_command = importlib.import_module("precice_lb.watch.command")
SPLITS = [{"Inner": 2, "Outer": 4}, {"Inner": 3, "Outer": 3}]


def write_segment(directory: Path, number: int) -> None:
    split = SPLITS[number - 1]
    stores = directory / "runs" / f"{number:03d}" / "stores"
    write_run(stores, split, start=START + number * 60 * 10**9, windows=10, run=f"{number:03d}")


def test_the_chain_stands_above_its_latest_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in (1, 2):
        write_segment(tmp_path, number)
    chain_of(SPLITS[:1], total=40, following=SPLITS[1]).save(tmp_path)
    assert main(["watch", str(tmp_path), "--once"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Job chain: segment 2, from window 11 of 40 on\n")
    assert "1    2 + 4     1–10      0.5000        0 + 0        4.00" in out
    assert "Segment 2 at Inner 3 + Outer 3 ranks (move): moves since it pays" in out
    assert "Run 002: window 10" in out


def test_a_run_that_is_no_chains_is_watched_as_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_segment(tmp_path, 1)
    assert main(["watch", str(tmp_path), "--once", "--format", "json"]) == 0
    assert "chain" not in json.loads(capsys.readouterr().out)


def test_a_damaged_chain_costs_the_view_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_segment(tmp_path, 1)
    (tmp_path / CHAIN_FILE).write_text("{")
    assert main(["watch", str(tmp_path), "--once"]) == 0
    out = capsys.readouterr().out
    assert "Run 001: window 10" in out
    assert "warning: " in out
    assert "the record of a chain" in " ".join(out.split())
    # It ends with the run, as nobody knows of a chain.
    assert main(["watch", str(tmp_path), "--every", "0.1"]) == 0


@pytest.mark.parametrize("problem", [None, "segment 2 failed"])
def test_watching_goes_on_between_segments_and_ends_with_the_chain(
    problem: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_segment(tmp_path, 1)
    chain_of(SPLITS[:1], total=20, following=SPLITS[1]).save(tmp_path)
    pauses = []

    def pause(seconds: float) -> None:
        """What happens between two polls: at first nothing, though the first segment has ended."""
        pauses.append(seconds)
        if len(pauses) == 2 and problem is None:
            write_segment(tmp_path, 2)
            chain_of(SPLITS, total=20).save(tmp_path)
        elif len(pauses) == 2:
            chain_of(SPLITS[:1], total=20, problem=problem).save(tmp_path)

    monkeypatch.setattr(watch_command.time, "sleep", pause)
    assert main(["watch", str(tmp_path)]) == 0
    assert len(pauses) == 2
    first, *others = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Job chain")]
    assert first.startswith("Job chain: segment 2, from window 11 of 20 on | window 10 | ")
    (last,) = others
    end = (
        "Job chain at its end: 2 segments, 20 of 20 windows" if problem is None else "Job chain stopped: 1 segment, 10"
    )
    assert last.startswith(end)
