"""Several versions of a participant: one of them is recommended, and rows of two are never learned from together."""

from __future__ import annotations

import dataclasses
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from precice_lb.dataset import MeasuredRun, Measurements, Samples
from precice_lb.exceptions import InfeasibleError
from precice_lb.ingest import read_csv
from precice_lb.recommend import FailedSplit, Recommendation, load_sources, recommend_split
from precice_lb.split import NodeKind

RANKS = (2, 4, 8, 16)
AORTA = Path(__file__).parent.parent / "data" / "totounferoush2022_aorta.csv"


def planted(times: dict[str, dict[str, Any]], ranks: tuple[int, ...] = RANKS) -> Measurements:
    """Measurements without noise: of each participant and version a function from ranks to seconds."""
    frames = {}
    for name, each in times.items():
        rows = np.array([(p, law(p)) for law in each.values() for p in ranks], dtype=float)
        frames[name] = Samples(*rows.T, version=np.repeat(list(each), len(ranks)))
    return Measurements(frames)


LAWS = {
    "Fluid": {"cpu": lambda p: 90.0 / p, "gpu": lambda p: 4.0 + 8.0 / p},
    "Solid": {"": lambda p: 40.0 / p},
}


def brute_force(budget: int) -> tuple[str, tuple[int, int], float]:
    best = ("", (0, 0), math.inf)
    for version, law in LAWS["Fluid"].items():
        for fluid in range(1, budget):
            window = max(law(fluid), 40.0 / (budget - fluid))
            best = min(best, (version, (fluid, budget - fluid), window), key=lambda each: each[2])
    return best


@pytest.mark.parametrize("budget", [8, 20, 32])
def test_the_version_with_the_best_split_is_recommended(budget: int) -> None:
    version, _, window = brute_force(budget)
    found = recommend_split(planted(LAWS), budget)
    assert found.versions == {"Fluid": version}
    assert found.window_seconds == pytest.approx(window, rel=0.05)
    first, second = found.choices
    assert first.window_seconds == found.window_seconds <= second.window_seconds
    assert second.gain == pytest.approx(1 - found.window_seconds / second.window_seconds)


def test_all_combinations_are_compared_each_as_recommended_alone() -> None:
    laws = {
        "Fluid": {"cpu": lambda p: 90.0 / p, "gpu": lambda p: 8.0 / p},
        "Solid": {"old": lambda p: 80.0 / p, "new": lambda p: 40.0 / p},
    }
    data = planted(laws)
    assert len(data.combinations) == 4
    found = recommend_split(data, 12)
    assert found.versions == {"Fluid": "gpu", "Solid": "new"}
    assert [each.versions for each in found.choices][-1] == {"Fluid": "cpu", "Solid": "old"}
    assert found.split["Fluid"] == 2
    for given, budget in ((data, 12), (planted(LAWS), 20)):
        for choice in recommend_split(given, budget).choices:
            alone = recommend_split(given.of_versions(choice.versions), budget)
            assert (choice.split, choice.window_seconds) == (alone.split, alone.window_seconds)
            assert (choice.interval, alone.versions) == (alone.interval, {})
            assert len(alone.measurements.samples["Fluid"]) == len(RANKS)


def test_keys_of_versions_bound_them_alone() -> None:
    data = planted(LAWS)
    found = recommend_split(data, 20, maximum={"Fluid:gpu": 1, "Solid": 10}, learner="bayes")
    ranks = {each.versions["Fluid"]: each.split["Fluid"] for each in found.choices}
    assert ranks["gpu"] == 1 < 10 <= ranks["cpu"]
    found = recommend_split(data, cores=20, gpus_per_rank={"Fluid:gpu": 1}, learner="bayes")
    assert found.versions == {"Fluid": "cpu"}
    assert "needs 1 GPU and a node has 0" in found.choices[1].problem
    assert any("Fluid gpu is not compared" in str(warning) for warning in found.warnings)
    few = {"nodes": 2, "cores_per_node": 8, "gpus_per_node": 2, "whole_nodes": True, "gpus_per_rank": {"Fluid:gpu": 3}}
    assert "it needs 3 GPUs and a node has 2; change" in recommend_split(planted(LAWS), **few).choices[1].problem
    with pytest.raises(InfeasibleError, match="found one of 'Fluid:fpga', not in the coupling"):
        recommend_split(data, cores=20, gpus_per_rank={"Fluid:fpga": 1})
    with pytest.raises(InfeasibleError, match="at least"):
        recommend_split(data, 1)


def test_kinds_of_nodes_are_the_budget() -> None:
    kinds = [NodeKind("cpu", 4, 4), NodeKind("gpu", 1, 4, 2)]
    found = recommend_split(
        planted(LAWS), kinds=kinds, kind={"Fluid:gpu": "gpu"}, gpus_per_rank={"Fluid:gpu": 1}, within=0.1
    )
    assert (found.versions, found.split["Fluid"]) == ({"Fluid": "gpu"}, 2)
    # 4 + 8/2 seconds on two GPUs; the solid needs two nodes for as much.
    assert found.window_seconds == pytest.approx(8.0, rel=0.05)
    assert found.used["gpu nodes"] == 1
    assert 2 <= found.used["cpu nodes"] <= 4
    assert (found.unit, found.total_ranks) == ("nodes", 5)


def test_what_failed_with_a_version_is_left_out_for_it_alone() -> None:
    data = planted(LAWS)
    best = recommend_split(data, 20, learner="bayes")
    failed = FailedSplit(best.split, ("001",), versions={"Fluid": "cpu"})
    assert recommend_split(data, 20, failed=[failed], learner="bayes").split == best.split
    failed = FailedSplit(best.split, ("001",), versions=best.versions)
    assert recommend_split(data, 20, failed=[failed], learner="bayes").split != best.split


def run_of(version: str, split: dict[str, int], window: float) -> MeasuredRun:
    same = dict.fromkeys(split, window)
    laws = {"Fluid": LAWS["Fluid"][version], "Solid": LAWS["Solid"][""]}
    own = {name: laws[name](ranks) for name, ranks in split.items()}
    errors = dict.fromkeys(split, 0.001 * window)
    return MeasuredRun(
        f"{version}{split}", split, same, errors, own, {n: {} for n in split}, versions={"Fluid": version}
    )


def test_measured_windows_count_for_their_own_versions() -> None:
    data = planted(LAWS)
    runs = [run_of("cpu", {"Fluid": 16, "Solid": 4}, 10.0), run_of("gpu", {"Fluid": 4, "Solid": 16}, 6.0)]
    found = recommend_split(dataclasses.replace(data, runs=tuple(runs)), 20)
    assert [comparison.split["Fluid"] for comparison in found.comparisons] == [4]


def test_where_no_window_was_measured_a_version_may_win_beyond_its_measurements() -> None:
    # Two points of the one version, far from the budget: its interval is wide there.
    known = planted(LAWS)
    far, fluid = Samples([1, 2], [20.0, 10.2], version="far"), known.frames["Fluid"]
    both = Samples.concat([fluid[fluid.version == "gpu"], far])
    data = dataclasses.replace(known, frames=known.frames | {"Fluid": both})
    assert recommend_split(data, 14).versions == {"Fluid": "far"}


def test_a_column_of_versions_is_read_written_and_joined(tmp_path: Path) -> None:
    table = tmp_path / "a.csv"
    table.write_text("participant,version,ranks,seconds\nFluid,cpu,1,9\nFluid,gpu,1,9\nSolid,,1,2\n")
    data = read_csv(table)
    # What several tables say counts once, but not what two versions took.
    shutil.copy(table, tmp_path / "copy.csv")
    assert load_sources([table, tmp_path / "copy.csv"]).frames["Fluid"].version.tolist() == ["cpu", "gpu"]
    assert data.frames["Fluid"].version.tolist() == ["cpu", "gpu"]
    assert "Solid" not in data.versions
    (tmp_path / "c.csv").write_text("participant,version,ranks,seconds\nFluid,gpu,4,3\n")
    (tmp_path / "d.csv").write_text("participant,ranks,seconds\nSolid,4,0.5\n")
    joined = load_sources([table, tmp_path / "c.csv", tmp_path / "d.csv"])
    assert joined.frames["Fluid"].version.tolist() == ["cpu", "gpu", "gpu"]
    assert joined.samples["Fluid"][:, 0].tolist() == [1, 1, 4]
    (tmp_path / "e.csv").write_text("participant,version,ranks,seconds\nFluid,a:b,4,3\n")
    with pytest.raises(Exception, match=r"letters, digits, _ \. and - as the name of a version, found"):
        read_csv(tmp_path / "e.csv")


# His nodes; on those with GPUs the fluid solver has as many CPUs as GPUs.
NODE: dict[str, Any] = {
    "cores_per_node": 36,
    "gpus_per_node": 8,
    "whole_nodes": True,
    "gpus_per_rank": {"Fluid:gpu": 1},
    "parameter": {"fluid_cells": 38.0},
}


def aorta(**words: Any) -> Recommendation:
    return recommend_split(AORTA, **{**NODE, **words})


def test_the_aorta_as_totounferoush_had_it() -> None:
    found = aorta(nodes=8)
    # Table 5.6: two nodes with GPUs for the fluid, six for the structure; Table 5.7: 12.06 and 11.21 s.
    assert found.versions == {"Fluid": "gpu"}
    assert found.split == {"Fluid": 16, "Solid": 216}
    assert found.window_seconds == pytest.approx(12.06, rel=0.01)
    assert "extrapolated" not in {warning.code for warning in found.warnings}
    # Without GPUs nothing near: his was 7.2 times slower with communication.
    assert found.choices[1].gain > 6 / 7
    # As nodes of two kinds, of which only the fluid's have GPUs.
    words = dict.fromkeys(("cores_per_node", "gpus_per_node", "whole_nodes"))
    kinds = [NodeKind("cpu", 6, 36), NodeKind("gpu", 2, 36, 8)]
    of_kinds = aorta(**words, kinds=kinds, kind={"Fluid:gpu": "gpu"})
    assert of_kinds.split == found.split
    # With five nodes a balanced split is within what was measured, at 15.8 s.
    five = aorta(nodes=5)
    assert five.split == {"Fluid": 8, "Solid": 144}
    assert five.window_seconds == pytest.approx(15.77, rel=0.01)
