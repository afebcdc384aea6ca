"""The report says which ranks and what they hold makes a participant uneven, and what balance would gain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from coupled_runs import coupled_run

from precice_lb.dataset import CoupledRun, measurements_from_runs
from precice_lb.inside.view import inside_section
from precice_lb.recommend import recommend_split
from precice_lb.report.blocks import Block, Chart, DefinitionList, Paragraph, Table
from precice_lb.report.page import Evidence

FLUID, POROUS = 1e-3, 9e-3


def run(ranks: int, *, known: bool = True, serial: bool = False) -> CoupledRun:
    """A has 960 fluid and 120 porous cells, half of these on its first rank; its ranks wait for that inside solve."""
    share = np.r_[0.5, np.full(ranks - 1, 0.5 / (ranks - 1))] if ranks > 1 else np.ones(1)
    counts = {"fluid": np.full(ranks, (100.0 * ranks if serial else 960) / ranks), "porous": 120.0 * share}
    work = FLUID * counts["fluid"] + POROUS * counts["porous"]
    slowest = np.full(12, work.max())
    whole = coupled_run(f"{ranks}", {"A": ranks, "B": 4}, {"A": slowest, "B": 0.3 * slowest}, np.ones(12), serial=False)
    part = replace(
        whole.participants["A"],
        rank_counts=counts,
        rank_solve=np.full(ranks, work.max()),
        rank_mpi=work.max() - work if known else np.full(ranks, np.nan),
    )
    return replace(whole, participants=whole.participants | {"A": part})


def blocks(runs: list[CoupledRun]) -> list[Block]:
    found = recommend_split(measurements_from_runs(runs), 12)
    return list(inside_section(Evidence(found, runs)))


def test_ranks_features_and_gain() -> None:
    found = blocks([run(4), run(8)])
    (table,) = (block for block in found if isinstance(block, Table) and block.header[0] == "feature")
    assert [row[:2] for row in table.rows] == [("fluid", "0.001"), ("porous", "0.009")]
    (chart,) = (block for block in found if isinstance(block, Chart) and block.name == "inside-1")
    (axes,) = chart.figure.axes
    assert axes.get_ylabel() == "busy time per window (s)"
    # The busiest rank first, its porous cells above the fluid ones.
    assert axes.containers[1].patches[0].get_height() == pytest.approx(60 * POROUS)
    # On 8 ranks 0.66 s for a mean of 0.255 s.
    (facts,) = (dict(block.pairs) for block in found if isinstance(block, DefinitionList))
    assert facts["perfect balance"] == "0.2550 s per time window for each rank, 61 % less"
    ranks = next(block for block in found if isinstance(block, Table) and block.header[0] == "rank")
    assert ranks.rows[0][:4] == ("0", "0.6600", "0.1200", "0.5400")


def test_where_waiting_is_within_the_seconds_it_says_what_to_do() -> None:
    found = blocks([run(4, known=False), run(8, known=False)])
    (missing,) = (block.text for block in found if isinstance(block, Paragraph) and "keep waiting" in block.text)
    assert "PRECICE_LB_MPI_TIME=1" in missing
    assert not any(isinstance(block, Chart) and block.name == "inside-1" for block in found)
