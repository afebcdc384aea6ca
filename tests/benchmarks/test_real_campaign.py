"""The benchmark of real campaigns: all splits once, regret against what was measured, and a small case as a whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from real_campaign import Truth, all_splits, as_text

from precice_lb.campaign import read_study

ROOT = Path(__file__).parents[2]


def test_all_splits_of_every_total() -> None:
    study = read_study(ROOT / "configs" / "partitioned-heat.toml")
    found = [tuple(split.values()) for split in all_splits(study, 1)]
    assert sorted(found) == [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1)]
    assert sorted(sum(split.values()) for split in all_splits(study, 2)) == [2, 4, 4, 4]
    large = study.changed({"machine": replace(study.machine, ranks=64)})
    with pytest.raises(SystemExit, match="expected at most 100 splits"):
        all_splits(large, 1)


def test_regret_is_against_the_best_measured_split() -> None:
    windows = {(1, 1): [4.0, 4.2], (2, 1): [3.0, 3.0], (1, 2): [3.3, 3.3]}
    truth = Truth(windows, {"A": {1: [2.0, 4.0], 2: [1.0]}, "B": {1: [1.0], 2: [0.5]}}, 2.0)
    assert truth.best == (2, 1)
    assert truth.regret((1, 2)) == pytest.approx(0.1)
    equal = {"split": {"A": 2, "B": 2}, "window_seconds": 2.0}
    told = {"split": {"A": 1, "B": 2}, "window_seconds": 3.0, "alternatives": {"equal": equal}}
    lines = as_text(truth, told, 0.5).splitlines()
    assert "| A | 1: 3, 2: 1 |" in lines
    assert "| 1 + 2 | recommended | 3.3 s | 10.0% | 3 s (-9.1%) |" in lines
    assert "| 2 + 2 | equal | not measured | | 2 s |" in lines
    assert lines[-1].startswith("3 splits measured with 2 core-hours, campaign 0.5 core-hours (25.0%)")
