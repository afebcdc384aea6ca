"""Two solvers that stream through memory, on two cores of this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from beside import judge, measure  # noqa: E402


@pytest.mark.slow("compares real times of two cores that nothing else may use")
def test_what_streaming_solvers_cost_each_other_is_predicted() -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two cores")
    found = judge(measure(windows=60, repeats=15, megabytes=64.0))
    assert found.slow_down > 1.02
    assert abs(found.error) < 0.1
