"""Two real solvers, recorded, balanced by `precice-lb inside` and run again: the chain of commands of the how-to."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import inside_real


def imbalances(told: str) -> dict[str, float]:
    """Return the share in the last lines of what the benchmark prints, by partition."""
    return {name: float(share) / 100 for name, share in re.findall(r"\| (.*), medians \| .* \| ([\d.]+) % \|", told)}


def test_a_row_has_medians_imbalance_and_window():
    row = inside_real.row("own, medians", np.array([0.2, 0.05]), 0.25, "")
    assert row == "| own, medians | 200.0, 50.0 | 75.0 % | 250.0 |  |"
    assert imbalances(row) == {"own": 0.75}


@pytest.mark.slow("real load on cores that other programs use too")
@pytest.mark.mpi
@pytest.mark.precice
def test_the_airfoil_is_balanced(tmp_path, capfd):
    inside_real.main(["airfoil", "--repeats", "3", "--quiet", "30", "--directory", str(tmp_path / "runs")])
    found = imbalances(capfd.readouterr().out)
    assert found["own"] > 0.3
    assert found["equal cost"] < 0.5 * found["own"]


@pytest.mark.slow("real load on cores that other programs use too")
@pytest.mark.mpi
@pytest.mark.precice
@pytest.mark.fenicsx
def test_the_laminate_is_balanced(fenicsx_python, monkeypatch, tmp_path, capfd):
    monkeypatch.setattr(inside_real, "FENICSX", fenicsx_python)
    inside_real.main(["laminate", "--repeats", "3", "--quiet", "30", "--directory", str(tmp_path / "runs")])
    found = imbalances(capfd.readouterr().out)
    assert found["own"] > 0.6
    assert found["equal cost"] < 0.5 * found["own"]
