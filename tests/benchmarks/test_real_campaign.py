"""The benchmark of real campaigns: all splits once, regret against what was measured, and a small case as a whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from real_campaign import Truth, all_splits, as_text, main

from precice_lb.campaign import read_study

ROOT = Path(__file__).parents[2]
STUDY = """
[case]
directory = "{case}"
[runs]
windows = 4
warmup_windows = 1
maximum = 3
[machine]
ranks = 3
[launcher]
name = "mpiexec"
oversubscribe = true
[case.environment]
PRECICE_LB_BACKEND = "embedded"
[[participants]]
name = "Left"
directory = "left-python"
command = "python -m precice_lb run ../solver-python/plate.py Left"
[[participants]]
name = "Right"
directory = "right-python"
command = "python -m precice_lb run ../solver-python/plate.py Right"
"""


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


@pytest.mark.mpi
@pytest.mark.slow("a dozen runs of real solvers")
def test_a_small_case_as_a_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = tmp_path / "plate.toml"
    study.write_text(STUDY.format(case=ROOT / "tutorials" / "adapt-your-solver"))
    main([str(study), "--directory", str(tmp_path / "runs"), "--repeats", "1"])
    said = capsys.readouterr().out
    assert "3 splits measured" in said
    assert "best of all measured" in said
    assert "| Left | 1: " in said
