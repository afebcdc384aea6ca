"""Chains of jobs in reports, summaries and figures: short and long ones, ones that stopped, names of all kinds."""

from __future__ import annotations

import dataclasses
import io
import math
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from chain_helpers import chain_of
from report_helpers import HOSTILE, refused
from rich.console import Console

from precice_lb.chain.document import CHAIN_FILE, ChainDocument
from precice_lb.chain.view import story_of
from precice_lb.cli import main
from precice_lb.report.blocks import Table
from precice_lb.report.page import story_page
from precice_lb.report.render import page_html, rendered

TWO = [{"Inner": 4, "Outer": 12}, {"Inner": 6, "Outer": 10}, {"Inner": 5, "Outer": 11}, {"Inner": 5, "Outer": 11}]
NEXT = {"Inner": 8, "Outer": 8}
HOSTILES = [{name: 1 + place + step for place, name in enumerate(HOSTILE)} for step in range(3)]
CHAINS = {
    "none": chain_of([], following=NEXT, total=60),
    "two participants": chain_of(TWO, following=NEXT, total=60),
    "stopped": chain_of(TWO, total=60, problem="segment 5 failed, the state before it is intact: exit code 1"),
    "hostile names": chain_of(HOSTILES, total=900),
}


def screen(blocks: Sequence[object], width: int = 80) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width, markup=False, emoji=False, highlight=False)
    console.print(rendered(blocks))  # type: ignore[arg-type]
    return stream.getvalue()


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS.keys())
def test_every_chain_is_shown_everywhere(chain: ChainDocument) -> None:
    story = story_of(chain)
    page = story_page(story, "too few runs")
    text = screen(story.blocks(), 120)
    assert "\x1b" not in text
    for shown in (page_html(page).replace("\xa0", " "), text):
        assert f"{len(chain.segments)} segment" in shown
        assert all(entry.decision.split(":")[0] in shown for entry in chain.segments[:2])
    if chain.next is not None:
        assert f"segment {len(chain.segments) + 1} at Inner 8 + Outer 8 ranks (move): moves since it pays" in text
    assert ("The chain has stopped: segment 5" in text.replace("\n", " ")) == (chain.problem is not None)
    assert len(story.line) < 80
    assert len(screen(story.progress())) < 2000


def test_what_was_not_measured_is_a_dash() -> None:
    chain = CHAINS["two participants"]
    unknown = dataclasses.replace(
        chain.segments[0],
        window_seconds=math.nan,
        border_seconds=math.nan,
        wait_share={"Inner": math.nan, "Outer": 0.5},
    )
    story = story_of(dataclasses.replace(chain, segments=[unknown, *chain.segments[1:]]))
    table, _ = (block for block in story.blocks() if isinstance(block, Table))
    assert table.rows[0][3:6] == ("–", "– + 50", "–")
    assert "nan" not in screen(story.blocks(), 200).lower()


def test_a_chain_without_runs_is_reported_alone_and_a_damaged_one_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    CHAINS["none"].save(tmp_path)
    assert main(["report", str(tmp_path), "-o", str(tmp_path / "report")]) == 0
    page = (tmp_path / "report" / "report.html").read_text()
    assert re.findall('<section[^>]* id="([a-z]*)"', page) == ["chain"]
    capsys.readouterr()
    path = tmp_path / CHAIN_FILE
    path.write_text(path.read_text()[:-40])
    error = refused(capsys, "report", tmp_path)
    assert f"{path}: expected the record of a chain, but it cannot be read" in error
