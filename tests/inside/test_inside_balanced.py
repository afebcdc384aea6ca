"""A participant that will run in balance costs less, needs fewer ranks, and the recommendation says so."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from precice_lb.__main__ import main
from precice_lb.dataset import Measurements, Samples
from precice_lb.exceptions import DataError
from precice_lb.inside.balanced import Gains, balanced, read_gains
from precice_lb.recommend import recommend_split
from precice_lb.recommend.sources import measurements_from_arrays

RANKS = np.array([2, 4, 8, 16, 32])
# Fluid's slowest rank takes 1.6 times the mean, at all splits.
FLUID = np.column_stack([RANKS, 1.6 * 40.0 / RANKS])
SOLID = np.column_stack([RANKS, 40.0 / RANKS])


def content(**changes: Any) -> dict[str, Any]:
    runs = [
        {"run": str(p), "ranks": p, "predicted": [64.0 / p, *[40.0 / p] * (p - 2), 16.0 / p]} for p in RANKS.tolist()
    ]
    told = {"format": "precice-lb-inside", "format_version": 1, "participant": "Fluid", "runs": runs}
    return told | {"partition": {"seconds": [1.02, 1.0, 0.98]}} | changes


def written(directory: Path, **changes: Any) -> Path:
    path = directory / "inside.json"
    path.write_text(json.dumps(content(**changes)), encoding="utf-8")
    return path


def test_samples_lose_what_the_slowest_rank_would_gain(tmp_path: Path) -> None:
    written(tmp_path)
    found = balanced(measurements_from_arrays({"Fluid": FLUID, "Solid": SOLID}), [read_gains(tmp_path)])
    np.testing.assert_allclose(found.samples["Fluid"][:, 1], 1.02 * 40.0 / RANKS)
    np.testing.assert_array_equal(found.samples["Solid"], SOLID)
    assert found.remarks == (
        "Fluid is taken to run in balance, on partitions as precice-lb inside writes them: 36 to 36 % less per time "
        "window than measured.",
    )


def test_a_balanced_participant_needs_fewer_ranks() -> None:
    measurements = measurements_from_arrays({"Fluid": FLUID, "Solid": SOLID})
    runs = tuple(RANKS.tolist())
    balance = Gains("Fluid", runs, tuple(64.0 / RANKS), tuple(40.0 / RANKS), 1.0)
    before = recommend_split(measurements, 26, learner="pmnf").split
    after = recommend_split(balanced(measurements, [balance]), 26, learner="pmnf").split
    assert before == {"Fluid": 16, "Solid": 10}
    assert after == {"Fluid": 13, "Solid": 13}


def test_one_rank_is_always_in_balance_and_nothing_gets_slower() -> None:
    balance = Gains("Fluid", (4, 4), (10.0, 8.0), (9.9, 6.0), 1.05)
    assert balance.gain(1) == 0.0
    # 0 in the first run, which was better than the new partition, and 1.7 in the second.
    assert balance.gain(4) == pytest.approx(0.85)


def test_recommend_takes_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "measured.csv"
    rows = [f"{name},{p:g},{s}" for name, data in (("Fluid", FLUID), ("Solid", SOLID)) for p, s in data]
    table.write_text("\n".join(["participant,ranks,seconds", *rows]), encoding="utf-8")
    arguments = ["recommend", str(table), "--ranks", "26", "--set", "recommend.learner=pmnf", "--format", "json"]
    assert main([*arguments, "--set", f"recommend.inside={written(tmp_path)}"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["split"] == {"Fluid": 13, "Solid": 13}
    assert "Fluid is taken to run in balance" in found["warnings"][0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": "other"}, "found format 'other'"),
        ({"format_version": 2}, "version 2"),
        ({"participant": None}, "found no participant"),
        ({"partition": {}}, "no partition"),
        ({"partition": None}, "no partition"),
        ({"partition": {"seconds": "1"}}, "found another file"),
        ({"runs": [{"ranks": 2}]}, "found another file .*predicted"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        read_gains(written(tmp_path, **changes))


def test_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="found none: No such file"):
        read_gains(tmp_path)


def test_gains_are_those_of_ranks_with_threads() -> None:
    measurements = Measurements({"Fluid": Samples(RANKS, FLUID[:, 1] / 4, 4), "Solid": Samples(*SOLID.T)})
    balance = Gains("Fluid", tuple(RANKS.tolist()), tuple(16.0 / RANKS), tuple(10.0 / RANKS), 1.0)
    found = balanced(measurements, [balance]).samples["Fluid"]
    np.testing.assert_allclose(found, np.column_stack([RANKS * 4, 10.0 / RANKS]))


def test_balances_that_do_not_fit_are_refused() -> None:
    measurements = measurements_from_arrays({"Fluid": FLUID, "Solid": SOLID})
    fluid = Gains("Fluid", (2, 4), (32.0, 16.0), (20.0, 10.0), 1.0)
    with pytest.raises(DataError, match="run on 8 ranks, found runs on 2, 4"):
        balanced(measurements, [fluid])
    with pytest.raises(DataError, match="one file for each of Fluid, Solid, found one for Gas"):
        balanced(measurements, [Gains("Gas", (2,), (1.0,), (1.0,), 1.0)])
    whole = Gains("Fluid", tuple(RANKS.tolist()), tuple(64.0 / RANKS), tuple(40.0 / RANKS), 1.0)
    with pytest.raises(DataError, match="found one for Fluid"):
        balanced(measurements, [whole, whole])
    rows = measurements.frames["Fluid"][[0, 1, 2, 3, 3]]
    threaded = dataclasses.replace(rows, ranks=np.full(5, 2), threads=rows.ranks / 2)
    for several in (threaded, dataclasses.replace(rows, version=["cpu"] * 4 + ["gpu"])):
        mixed = dataclasses.replace(measurements, frames=measurements.frames | {"Fluid": several})
        with pytest.raises(DataError, match="expected one version of Fluid with as many threads"):
            balanced(mixed, [whole])
    far = Gains("Fluid", tuple(RANKS.tolist()), tuple(900.0 / RANKS), tuple(40.0 / RANKS), 1.0)
    with pytest.raises(DataError, match="expected a gain below the 32 s"):
        balanced(measurements, [far])
