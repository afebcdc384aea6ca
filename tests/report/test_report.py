"""What people see: texts and units, the recommendation on screen, and JSON."""

from __future__ import annotations

import io
import json
import re
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
from precice_lb.report.blocks import file_stem, seconds_unit, short_names
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


def test_short_names_that_would_be_the_same_are_numbered() -> None:
    names = ["abc-left-wxyz", "abc-right-wxyz", "abc-upper-wxyz", "short"]

    assert list(short_names(names, 8).values()) == ["abc…wxyz", "abc…wx#2", "abc…wx#3", "short"]


def test_names_of_files_are_encoded_and_long_ones_end_with_a_hash() -> None:
    assert file_stem("a/b: ü.1") == "a%2Fb%3A %C3%BC.1"
    # 160 characters, a tilde and 16 digits; such names differ as long as those that they stand for do.
    one, other = file_stem(200 * "a" + "1"), file_stem(200 * "a" + "2")
    assert re.fullmatch(r"a{160}~[0-9a-f]{16}", one)
    assert re.fullmatch(r"a{160}~[0-9a-f]{16}", other)
    assert one != other


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (12.3456, "12.35 s"),
        # Tenths of a second are written in seconds, what is shorter in milliseconds or microseconds.
        (0.1, "0.1000 s"),
        (0.0999, "99.90 ms"),
        (0.001, "1.000 ms"),
        (0.000999, "999.0 µs"),
        (0.0000012, "1.200 µs"),
        (0.0, "0.000 s"),
        (123456.7, "123457 s"),
        (float("nan"), "– s"),
    ],
)
def test_a_time_is_written_with_four_digits_in_a_unit_that_suits_it(seconds: float, text: str) -> None:
    assert seconds_unit([seconds]).text(seconds) == text


def test_times_of_a_table_have_the_unit_and_decimals_of_the_largest() -> None:
    unit = seconds_unit([0.0000012, -0.05, float("nan"), 0.002])

    assert [unit.text(seconds) for seconds in (0.0000012, -0.05, 0.002)] == ["0.00 ms", "-50.00 ms", "2.00 ms"]


# --- recommendation on screen --------------------------------------------------------------------------------------


def test_the_gain_over_the_equal_split_is_what_it_saves_of_its_window(plain: Recommendation) -> None:
    gain = 1.0 - plain.window_seconds / plain.alternatives["equal"].window_seconds
    # Inner computes for 0.01 s and 2 s over its ranks: 16 of 24 are best, as Outer has half the work, and 12 are equal.
    assert gain == pytest.approx(1 - (0.01 + 2 / 16) / (0.01 + 2 / 12), abs=0.02)
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
