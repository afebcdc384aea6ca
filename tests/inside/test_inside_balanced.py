"""What balance would gain is said in the report, and costs less and needs fewer ranks in samples of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from inside_helpers import uneven_run, write_grid

from precice_lb.__main__ import main
from precice_lb.dataset import CoupledRun, Measurements, Samples, measurements_from_runs
from precice_lb.ingest import read_csv, write_csv
from precice_lb.inside import Balance, FeatureCosts, Partition, RankLoad
from precice_lb.inside.view import inside_section
from precice_lb.recommend import recommend_split
from precice_lb.report import Block, DefinitionList, Evidence, Paragraph, Table

RANKS = np.array([1, 2, 4, 8, 16, 32])
# Fluid's slowest rank takes 1.6 times the mean, at all splits but that of one rank.
SLOWEST = np.where(RANKS > 1, 1.6, 1.0)
FLUID = np.column_stack([RANKS, SLOWEST * 40.0 / RANKS])
SOLID = np.column_stack([RANKS, 40.0 / RANKS])
ORIGINS = np.array([f"run {ranks}" for ranks in RANKS])
MEASURED = Measurements({"Fluid": Samples(*FLUID.T, origin=ORIGINS), "Solid": Samples(*SOLID.T, origin=ORIGINS)})


def balance(after: float = 1.02) -> Balance:
    """Fluid's runs, whose cells take a second each, and a partition whose slowest rank takes ``after`` of the mean."""
    loads = []
    for ranks, slowest in zip(RANKS.tolist(), SLOWEST, strict=True):
        counts = np.full((ranks, 1), 40.0 / ranks)
        counts[0] *= slowest
        counts[-1] *= 2.0 - slowest
        loads.append(RankLoad(str(ranks), ("cells",), counts, np.full(ranks, np.nan)))
    costs = FeatureCosts(("cells",), np.ones(1), np.zeros(1))
    partition = Partition(None, None, None, np.array([after, 1.0, 2.0 - after]), None)  # type: ignore[arg-type]
    return Balance(loads, costs, partition, "Fluid")


def test_samples_lose_what_the_slowest_rank_would_gain() -> None:
    samples = balance().samples(MEASURED).samples
    # One rank is in balance anyway.
    np.testing.assert_allclose(samples["Fluid"], np.column_stack([RANKS, [40.0, *1.02 * 40.0 / RANKS[1:]]]))
    np.testing.assert_array_equal(samples["Solid"], SOLID)
    # Runs that were better balanced than that stay as they are.
    np.testing.assert_array_equal(balance(1.7).samples(MEASURED).samples["Fluid"], FLUID)


def test_a_balanced_participant_needs_fewer_ranks(tmp_path: Path) -> None:
    write_csv(balance(1.0).samples(MEASURED), tmp_path / "samples.csv")
    assert recommend_split(MEASURED, 26, learner="pmnf").split == {"Fluid": 16, "Solid": 10}
    assert recommend_split(read_csv(tmp_path / "samples.csv"), 26, learner="pmnf").split == {"Fluid": 13, "Solid": 13}


def test_the_command_writes_the_samples_of_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    porous = np.arange(1080) < 120
    write_grid(tmp_path / "strip.vtu", (1080, 1), fluid=1.0 - porous, porous=porous * 1.0)
    runs = [uneven_run(4), uneven_run(8)]
    monkeypatch.setattr("precice_lb.dataset.load_runs", lambda *_, **__: runs)
    command = ["inside", str(tmp_path), "--participant", "A", "--mesh", str(tmp_path / "strip.vtu"), "--ranks", "6"]
    assert main([*command, "-o", str(tmp_path / "out")]) == 0
    samples = read_csv(tmp_path / "out" / "samples.csv").samples
    # Half of the porous cells were on the first rank.
    busy = (960 * 1e-3 + 120 * 9e-3) / np.array([4, 8])
    assert samples["A"][:, 1] == pytest.approx(busy, rel=0.02)
    assert samples["B"] == pytest.approx(measurements_from_runs(runs).samples["B"])


def blocks(runs: list[CoupledRun]) -> list[Block]:
    found = recommend_split(measurements_from_runs(runs), 12)
    return list(inside_section(Evidence(found, runs)))


def test_ranks_features_and_gain() -> None:
    found = blocks([uneven_run(4), uneven_run(8)])
    (table,) = (block for block in found if isinstance(block, Table) and block.header[0] == "feature")
    assert [row[:2] for row in table.rows] == [("fluid", "0.001"), ("porous", "0.009")]
    # On 8 ranks 0.66 s for a mean of 0.255 s.
    (facts,) = (dict(block.pairs) for block in found if isinstance(block, DefinitionList))
    assert facts["perfect balance"] == "0.2550 s per time window for each rank, 61 % less"
    ranks = next(block for block in found if isinstance(block, Table) and block.header[0] == "rank")
    assert ranks.rows[0][:4] == ("0", "0.6600", "0.1200", "0.5400")
    # Where waiting is within the seconds.
    found = blocks([uneven_run(4, known=False), uneven_run(8, known=False)])
    (missing,) = (block.text for block in found if isinstance(block, Paragraph) and "keep waiting" in block.text)
    assert "PRECICE_LB_MPI_TIME=1" in missing
