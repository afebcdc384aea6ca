"""precice-lb inside: the contract for scripts, what is shown, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inside_helpers import planted, write_grid
from report_helpers import refused

from precice_lb.cli import main
from precice_lb.inside import RankLoad


def _tables(directory: Path, loads: Sequence[RankLoad]) -> list[str]:
    counts, seconds = ["run,rank,feature,count"], ["run,rank,seconds"]
    for load in loads:
        for rank, (row, busy) in enumerate(zip(load.counts, load.seconds, strict=True)):
            seconds.append(f"{load.run},{rank},{busy:.9g}")
            counts += [f"{load.run},{rank},{name},{count:.9g}" for name, count in zip(load.features, row, strict=True)]
    (directory / "counts.csv").write_text("\n".join(counts))
    (directory / "seconds.csv").write_text("\n".join(seconds))
    return ["inside", "--counts", str(directory / "counts.csv"), "--seconds", str(directory / "seconds.csv")]


def _mesh(directory: Path) -> str:
    """A box of 24 x 16 x 12 cubes: the first third is porous, one layer is a monitor."""
    x, _, z = np.indices((24, 16, 12)).reshape(3, -1)
    return str(write_grid(directory / "box.vtu", (24, 16, 12), porous=(x < 8) * 1.0, monitor=(z == 6) * 1.0))


def _told(capsys: pytest.CaptureFixture[str], arguments: list[str], code: int = 0) -> dict[str, Any]:
    assert main([*arguments, "--format", "json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_partition_of_equal_cost_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = _tables(tmp_path, planted(np.random.default_rng(1), (4, 8), 0.01))
    output = tmp_path / "out"
    mesh = ["--mesh", _mesh(tmp_path), "--ranks", "12", "-o", str(output)]
    told = _told(capsys, [*command, *mesh])
    assert told["imbalance_after"] <= 0.03
    partition = told["partition"]
    assert (partition["ranks"], partition["cells"]) == (12, 24 * 16 * 12)
    assert told["speedup"] == max(partition["equal_seconds"]) / max(partition["seconds"]) > 1.3
    assert json.loads((output / "inside.json").read_text()) == told
    rank_of = np.loadtxt(output / "partition.txt", np.int64)
    assert np.bincount(rank_of, minlength=12).min() > 0
    # True costs, not the fitted ones: porous cells are the first third along x, which is the slowest index.
    place = np.arange(24 * 16 * 12)
    true = 1e-6 + 4e-6 * (place // 192 < 8) + 2.5e-6 * (place % 12 == 6)
    sums = np.bincount(rank_of, true, 12)
    assert 1 - sums.min() / sums.max() <= 0.03
    assert {"cellDecomposition", "vertex-weights.txt"} <= {path.name for path in output.iterdir()}


def test_features_that_do_not_explain_are_shown_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = _tables(tmp_path, planted(np.random.default_rng(3), (8, 16), 0.01))
    output = tmp_path / "out"
    some = [*command, "--features", "cells,monitor", "--mesh", _mesh(tmp_path), "--ranks", "4", "-o", str(output)]
    told = _told(capsys, some, 1)
    assert "unexplained" in told["problem"]
    assert told["imbalance_after"] is None
    assert list(told["costs"]) == ["cells", "monitor"]
    assert not output.exists()
    assert main(some) == 1
    assert "nothing is recommended: the features leave" in " ".join(capsys.readouterr().out.split())


def test_what_does_not_fit_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = _tables(tmp_path, planted(np.random.default_rng(5), (8,), 0.0))
    mesh = _mesh(tmp_path)
    for arguments, message in (
        ([*command, "--mesh", mesh, "--ranks", "5000"], "from 1 to 4608 ranks, one for each cell at most, found 5000"),
        ([*command, "--mesh", "nowhere.vtu", "--ranks", "2"], "nowhere.vtu: expected a mesh file that meshio reads"),
    ):
        assert message in refused(capsys, *arguments)
    assert main([*command, "--mesh", mesh]) == 0
