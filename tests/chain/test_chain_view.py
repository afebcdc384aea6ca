"""Chains of jobs in reports: what was not measured, and what is damaged."""

from __future__ import annotations

import dataclasses
import io
import math
import re
from pathlib import Path

import pytest
from chain_helpers import chain_of
from report_helpers import refused
from rich.console import Console

from precice_lb.chain import CHAIN_FILE
from precice_lb.chain.view import story_of
from precice_lb.cli import main
from precice_lb.report import Table, rendered

TWO = [{"Inner": 4, "Outer": 12}, {"Inner": 6, "Outer": 10}, {"Inner": 5, "Outer": 11}, {"Inner": 5, "Outer": 11}]


def test_what_was_not_measured_is_a_dash() -> None:
    chain = chain_of(TWO, total=60)
    unknown = dataclasses.replace(
        chain.segments[0],
        window_seconds=math.nan,
        border_seconds=math.nan,
        wait_share={"Inner": math.nan, "Outer": 0.5},
    )
    story = story_of(dataclasses.replace(chain, segments=[unknown, *chain.segments[1:]]))
    table, _ = (block for block in story.blocks() if isinstance(block, Table))
    assert table.rows[0][3:6] == ("–", "– + 50", "–")
    stream = io.StringIO()
    Console(file=stream, width=200).print(rendered(story.blocks()))
    assert "nan" not in stream.getvalue().lower()


def test_a_chain_without_runs_is_reported_alone_and_a_damaged_one_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chain_of([], following={"Inner": 8, "Outer": 8}, total=60).save(tmp_path)
    assert main(["report", str(tmp_path), "-o", str(tmp_path / "report")]) == 0
    page = (tmp_path / "report" / "report.html").read_text()
    assert re.findall('<section[^>]* id="([a-z]*)"', page) == ["chain"]
    capsys.readouterr()
    path = tmp_path / CHAIN_FILE
    path.write_text(path.read_text()[:-40])
    error = refused(capsys, "report", tmp_path)
    assert f"{path}: expected the record of a chain, but it cannot be read" in error
