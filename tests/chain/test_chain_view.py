"""Chains of jobs in reports, summaries and figures: short and long ones, ones that stopped, names of all kinds."""

from __future__ import annotations

import dataclasses
import io
import math
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from chain_view_helpers import chain_of
from report_helpers import HOSTILE, refused
from rich.console import Console
from store_helpers import row, write_store

from precice_lb.chain.document import CHAIN_FILE, ChainDocument
from precice_lb.chain.view import chain_blocks, chain_chart, chain_line, chain_progress, chain_section, story_of
from precice_lb.cli import main
from precice_lb.report.blocks import Chart, Paragraph, Table
from precice_lb.report.page import story_page
from precice_lb.report.render import page_html, rendered

TWO = [{"Inner": 4, "Outer": 12}, {"Inner": 6, "Outer": 10}, {"Inner": 5, "Outer": 11}, {"Inner": 5, "Outer": 11}]
NEXT = {"Inner": 8, "Outer": 8}
LONG = [{f"{'long-name-' * 20}{place}": 2 + (place + step) % 3 for place in range(3)} for step in range(5)]
MANY = [{"Inner": 4 + step % 7, "Outer": 12 - step % 7} for step in range(60)]
HOSTILES = [{name: 1 + place + step for place, name in enumerate(HOSTILE)} for step in range(3)]
CHAINS = {
    "none": chain_of([], following=NEXT, total=60),
    "one": chain_of(TWO[:1], following=NEXT),
    "two participants": chain_of(TWO, following=NEXT, total=60),
    "at its end": chain_of(TWO, total=40),
    "stopped": chain_of(TWO, total=60, problem="segment 5 failed, the state before it is intact: exit code 1"),
    "sixty segments": chain_of(MANY, following=NEXT),
    "three participants, long names": chain_of(LONG, total=900),
    "hostile names": chain_of(HOSTILES, total=900),
}


def screen(blocks: Sequence[object], width: int = 80) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width, markup=False, emoji=False, highlight=False)
    console.print(rendered(blocks))  # type: ignore[arg-type]
    return stream.getvalue()


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS.keys())
def test_every_chain_is_shown_everywhere(chain: ChainDocument) -> None:
    page = story_page(story_of(chain), "too few runs")
    assert any(isinstance(block, Chart) for block in page.sections[0].blocks) == bool(chain.segments)
    text = screen(chain_blocks(chain), 120)
    assert "\x1b" not in text
    for shown in (page_html(page).replace("\xa0", " "), text):
        assert f"{len(chain.segments)} segment" in shown
        assert all(entry.decision.split(":")[0] in shown for entry in chain.segments[:2])
    if chain.next is not None:
        assert f"segment {len(chain.segments) + 1} at Inner 8 + Outer 8 ranks (move): moves since it pays" in text
    assert ("The chain has stopped: segment 5" in text.replace("\n", " ")) == (chain.problem is not None)
    assert len(chain_line(chain)) < 80
    assert len(screen(chain_progress(chain))) < 2000


def test_the_table_has_what_was_written() -> None:
    chain = CHAINS["two participants"]
    table, decisions = (block for block in chain_blocks(chain) if isinstance(block, Table))
    assert table.title == "Segments, with ranks and waiting of Inner + Outer"
    assert table.header == ("no.", "ranks", "windows", "window (s)", "waiting (%)", "border (s)")
    # Inner 1 s over its ranks, Outer 2 s over its own.
    assert table.rows[0] == ("1", "4 + 12", "1–10", "0.2500", "0 + 33", "4.00")
    assert table.rows[3][:5] == ("4", "5 + 11", "31–40", "0.2000", "0 + 9")
    assert decisions.rows == tuple((str(each.segment), each.kind, each.decision) for each in chain.segments)
    first = next(iter(chain_blocks(chain)))
    assert isinstance(first, Paragraph)
    assert first.text.endswith("a window took 0.2500 s in the first segment and 0.2000 s in the last, 20.0 % less.")
    pairs = dict(pair for block in chain_blocks(chain) if hasattr(block, "pairs") for pair in block.pairs)
    seconds = 10 * sum(each.window_seconds for each in chain.segments)
    assert pairs["time in windows"] == f"{seconds:.3f} s"
    assert pairs["time at borders"] == f"16.00 s ({100 * 16 / (16 + seconds):.1f} % of all)"
    assert pairs["changes of the split"] == "2, 1 of them undone"


def test_the_figure_shows_the_segments_as_they_were() -> None:
    chain = CHAINS["two participants"]
    chart = chain_chart(chain)
    top, bottom = chart.figure.axes
    window, inner, _ = top.get_lines()[:3]
    assert window.get_xdata().tolist() == [0, 10, 10, 20, 20, 30, 30, 40]
    assert window.get_ydata().tolist()[::2] == pytest.approx([each.window_seconds for each in chain.segments])
    assert inner.get_ydata().tolist()[::2] == pytest.approx([each.seconds["Inner"] for each in chain.segments])
    assert bottom.get_lines()[1].get_ydata().tolist()[::2] == [12, 10, 11, 11]
    # The split changes after segments 1 and 2: a dotted line in each panel.
    for axes in (top, bottom):
        assert [line.get_xdata()[0] for line in axes.get_lines() if line.get_linestyle() == ":"] == [10, 20]
    marks = {line.get_marker(): line.get_xdata().tolist() for line in top.get_lines() if line.get_marker() != "None"}
    kinds = {"s": "start", "D": "learn", "^": "move", "v": "undo"}
    assert marks == {
        marker: [each.start_window + 5 for each in chain.segments if each.kind == kind]
        for marker, kind in kinds.items()
        if kind in {each.kind for each in chain.segments}
    }


def test_what_was_not_measured_is_a_dash() -> None:
    chain = CHAINS["two participants"]
    unknown = dataclasses.replace(
        chain.segments[0],
        window_seconds=math.nan,
        border_seconds=math.nan,
        wait_share={"Inner": math.nan, "Outer": 0.5},
    )
    chain = dataclasses.replace(chain, segments=[unknown, *chain.segments[1:]])
    table, _ = (block for block in chain_blocks(chain) if isinstance(block, Table))
    assert table.rows[0][3:6] == ("–", "– + 50", "–")
    assert "nan" not in screen(chain_blocks(chain), 200).lower()
    assert chain_chart(chain).svg
    assert list(chain_section(dataclasses.replace(chain, segments=[unknown], windows_done=10)))


def test_the_view_of_a_running_segment_has_the_latest_ones() -> None:
    text = screen(chain_progress(CHAINS["two participants"]), 200)
    assert "segment 5, from window 41 of 60 on" in text
    assert [line.split()[0] for line in text.splitlines() if "–" in line] == ["1", "2", "3", "4"]
    assert "Segment 5 at Inner 8 + Outer 8 ranks (move): moves since it pays within 20 windows" in text
    assert screen(chain_progress(CHAINS["sixty segments"]), 400).count("–") == 5


@pytest.mark.parametrize("command", ["report", "summary"])
def test_a_chain_without_runs_is_reported_alone_and_a_damaged_one_refused(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    CHAINS["none"].save(tmp_path)
    path = tmp_path / CHAIN_FILE
    if command == "report":
        assert main(["report", str(tmp_path), "-o", str(tmp_path / "report")]) == 0
        page = (tmp_path / "report" / "report.html").read_text()
        assert re.findall('<section[^>]* id="([a-z]*)"', page) == ["chain"]
        assert "No split is recommended from its runs by now" in page
        capsys.readouterr()
    else:
        write_store(tmp_path, [row(window, 0.1, 0.2, 0.1) for window in range(1, 9)])
    path.write_text(path.read_text()[:-40])
    error = refused(capsys, command, tmp_path)
    assert f"{path}: expected the record of a chain, but it cannot be read" in error
