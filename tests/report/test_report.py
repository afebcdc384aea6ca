"""What people see: texts and units, summaries, the recommendation on screen and as files, and the figure."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_helpers import HOSTILE, falling, write_csv
from rich.cells import cell_len

from precice_lb.recommend import Recommendation, load_sources, recommend_split
from precice_lb.report import console, rendered, screen_blocks
from precice_lb.report.blocks import seconds_unit, short_names
from precice_lb.report.charts import comparison_chart, landscape_chart, scaling_chart
from precice_lb.schedule import Schedule
from precice_lb.text import json_text, visible


def recommendation_for(directory: Path, names: list[str], total: int = 24) -> Recommendation:
    samples = {name: falling(2.0 / (1 + index)) for index, name in enumerate(names)}
    measurements = load_sources([write_csv(directory / "times.csv", samples)])
    return recommend_split(measurements, total, coupling=Schedule.parallel(names))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Recommendation:
    return recommendation_for(tmp_path_factory.mktemp("plain"), ["Inner", "Outer"])


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Recommendation:
    return recommendation_for(tmp_path_factory.mktemp("hostile"), list(HOSTILE), 60)


def screen(found: Recommendation, **options: Any) -> str:
    blocks = screen_blocks(found, short_names(found.split, 24), verbose=True, **options)
    stream = io.StringIO()
    console(stream).print(rendered(blocks))
    return stream.getvalue()


# --- texts and numbers ---------------------------------------------------------------------------------------------


@given(st.text())
def test_visible_text_is_one_printable_line(text: str) -> None:
    assert visible(text).isprintable()
    if text.isprintable():
        assert visible(text) == text


@given(st.lists(st.text(max_size=40), unique=True, max_size=6), st.integers(8, 30))
def test_short_names_stay_different(names: list[str], width: int) -> None:
    short = short_names(names, width)
    assert list(short) == names
    assert len(set(short.values())) == len(names)
    assert all(cell_len(name) <= width and name.isprintable() for name in short.values())


# --- recommendation on screen --------------------------------------------------------------------------------------


def test_the_gain_over_the_equal_split_is_what_it_saves_of_its_window(plain: Recommendation) -> None:
    gain = 1.0 - plain.window_seconds / plain.alternatives["equal"].window_seconds
    assert gain > 0.15
    assert f"This is {100 * gain:.1f} % faster than the equal split" in " ".join(screen(plain).split())


def test_hostile_names_come_out_as_text_on_the_screen(hostile: Recommendation) -> None:
    shown = screen(hostile)
    assert "\x1b" not in shown
    for text in ("[bold red]x[/]", "a|b", r"two\nlines", r"\x1b[31mred", "$x^2$_y_`z`", "nnnn…nnnn"):
        assert text in shown
    assert max(map(len, shown.splitlines())) <= 80


# --- files ---------------------------------------------------------------------------------------------------------


def test_json_has_null_where_json_has_no_number() -> None:
    values = {"a": np.float64("nan"), "b": np.array([1.0, np.inf]), "c": (np.int64(3), "\ud800é")}
    assert json.loads(json_text(values)) == {"a": None, "b": [1.0, None], "c": [3, "\ud800é"]}


# --- figure --------------------------------------------------------------------------------------------------------


def test_the_figure_has_every_point_and_the_recommended_split(plain: Recommendation) -> None:
    left, right = (chart(plain).figure.axes[0] for chart in (scaling_chart, landscape_chart))
    assert (left.get_xscale(), left.get_yscale()) == ("log", "log")
    drawn = np.concatenate([np.asarray(line.get_xydata(), float) for line in left.get_lines()])
    unit = seconds_unit(plain.measurements.samples["Inner"][:, 1]).per_second
    for ranks, seconds in plain.measurements.samples["Inner"]:
        assert np.isclose(drawn, [ranks, seconds * unit], rtol=1e-3).all(axis=1).any()
    assert [list(line.get_xdata()) for line in right.get_lines() if line.get_marker() == "*"] == [
        [plain.split["Inner"]]
    ]


def test_three_participants_get_their_parts_of_the_window(tmp_path: Path) -> None:
    recommendation = recommendation_for(tmp_path, ["A", "B", "C"])
    chart = comparison_chart(recommendation)
    (axes,) = chart.figure.axes
    windows = [recommendation.window_seconds, *(other.window_seconds for other in recommendation.alternatives.values())]
    bars = [patch.get_width() / seconds_unit([max(windows)]).per_second for patch in axes.patches[:6]]
    # Of each participant under the recommended split: what it computes, and the rest of the window.
    for who, compute, wait in zip("ABC", bars[::2], bars[1::2], strict=True):
        assert compute == pytest.approx(recommendation.compute_seconds[who], rel=1e-3)
        # Means of shares and of seconds differ by little.
        assert wait == pytest.approx(recommendation.waits[who], rel=2e-2, abs=1e-6)
        assert compute + wait == pytest.approx(recommendation.window_seconds, rel=1e-3)
