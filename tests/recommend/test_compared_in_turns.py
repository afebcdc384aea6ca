"""Who never works at the same time can take turns on all cores: found by itself, shown beside the split."""

from __future__ import annotations

from pathlib import Path

import pytest

from precice_lb import recommend_split
from precice_lb.split import SharedCores

TABLE = Path(__file__).parents[1] / "data" / "schroeder2019.csv"


def test_in_turns_is_what_shared_cores_would_take() -> None:
    found = recommend_split(TABLE, 300, coupling="serial")
    other = found.alternatives["in-turns"]
    shared = recommend_split(TABLE, 300, coupling="serial", shared=[SharedCores([["Inner"], ["Outer"]])])
    assert other.split == shared.split == {"Inner": 300, "Outer": 300}
    assert other.window_seconds == pytest.approx(shared.window_seconds, rel=1e-9)
    (turns,) = (warning.values for warning in found.warnings if warning.code == "in-turns")
    assert turns["percent"] == pytest.approx(100 * (1 - other.window_seconds / found.window_seconds))
    assert turns["shared"] == "Inner/Outer"
    assert "in-turns" not in shared.alternatives


def test_bounds_hold_in_turns() -> None:
    found = recommend_split(TABLE, 300, coupling="serial", maximum={"Outer": 120}, multiple={"Inner": 7})
    assert found.alternatives["in-turns"].split == {"Inner": 294, "Outer": 120}


def test_who_works_at_the_same_time_takes_no_turns() -> None:
    assert "in-turns" not in recommend_split(TABLE, 300, coupling="parallel").alternatives
