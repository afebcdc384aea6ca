"""Counts in messages."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import precice_lb
from precice_lb.text import plural, span


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((0, "rank"), "0 ranks"),
        ((1, "rank"), "1 rank"),
        ((2, "rank"), "2 ranks"),
        ((1.0, "rank", "g"), "1 rank"),
        ((np.float64(1), "rank", "g"), "1 rank"),
        ((np.int64(3), "rank"), "3 ranks"),
        ((2.0, "time window", ".0f"), "2 time windows"),
    ],
)
def test_exactly_one_has_no_s(arguments: tuple[float, str], text: str) -> None:
    assert plural(*arguments) == text


def test_nothing_else_takes_an_s_by_hand() -> None:
    by_hand = re.compile(r"else ['\"]s['\"]|['\"]s['\"] (?:\*|if )")
    package = Path(precice_lb.__file__).parent
    found = [str(path) for path in package.rglob("*.py") if by_hand.search(path.read_text(encoding="utf-8"))]
    assert [Path(path).name for path in found] == ["text.py"]


def test_a_range_of_one_count_is_that_count() -> None:
    assert span(2, 2, "rank") == "2 ranks"
    assert span(1, 1, "rank") == "1 rank"
    assert span(1, 4, "core") == "1 to 4 cores"
