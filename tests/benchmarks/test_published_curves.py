"""Decisions on published measurements and formulas of large runs."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from regret_parts.decide import Split, regret
from regret_parts.unseen import PULSE

from precice_lb.recommend import recommend_split

ROOT = Path(__file__).resolve().parents[2]

Array = NDArray[np.float64]
NAMES = ("Fluid", "Structure")


def table() -> dict[str, Array]:
    """Ranks and seconds of A. Totounferoush, PhD thesis, Stuttgart 2022, table 5.3."""
    with (ROOT / "tests/data/totounferoush2022_table_5_3.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return {
        name: np.array([(float(row[f"{name.lower()}_ranks"]), float(row[f"{name.lower()}_seconds"])) for row in rows])
        for name in NAMES
    }


def interpolated(rows: Array) -> Callable[[Array], Array]:
    rows = rows[np.argsort(rows[:, 0])]
    return lambda ranks: np.exp(np.interp(np.log(ranks), np.log(rows[:, 0]), np.log(rows[:, 1])))


def test_windows_of_a_published_table_are_predicted() -> None:
    measured = table()
    for (fluid, seconds), (structure, other) in zip(*measured.values(), strict=True):
        present = {"Fluid": int(fluid), "Structure": int(structure)}
        found = recommend_split(measured, sum(present.values()), present=present)
        assert found.alternatives["present"].window_seconds == pytest.approx(max(seconds, other), rel=0.1)


@pytest.mark.parametrize("budget", [3840, 7680])
def test_splits_of_a_published_table_are_near_the_best(budget: int) -> None:
    measured = table()
    solvers = [interpolated(measured[name]) for name in NAMES]
    # Where both were measured; with fewer ranks they are taken to be no slower, which only the best split gains by.
    low, high = max(1200, budget - 8160), min(6240, budget - 720)
    found = recommend_split(measured, budget)
    assert low <= found.split["Fluid"] <= high
    assert (
        regret(
            solvers, Split((found.split["Fluid"], found.split["Structure"])), budget, (min(low, budget - high), high)
        )
        < 0.03
    )


@pytest.mark.parametrize("noise", [0.0, 0.03])
@pytest.mark.parametrize("budget", [5760, 11520])
def test_published_formulas_are_split_well_after_six_runs(budget: int, noise: float) -> None:
    # The fitted formulas of figure 3.8 of the same thesis, at the rank counts of table 5.3.
    ranks = {name: rows[:, 0] for name, rows in table().items()}
    truth: dict[str, Callable[[Array], Array]] = {
        name: lambda p, terms=terms: np.sum([c * p**i * np.log(p) ** j for c, i, j in terms], axis=0)
        for name, terms in zip(NAMES, PULSE, strict=True)
    }
    lost = []
    for seed in range(6 if noise else 1):
        generator = np.random.default_rng(seed)
        seconds = np.array([truth[name](ranks[name]) * np.exp(noise * generator.standard_normal(6)) for name in NAMES])
        measured = {name: np.column_stack([ranks[name], row]) for name, row in zip(NAMES, seconds, strict=True)}
        found = recommend_split(measured, budget, minimum=64)
        split = Split((found.split["Fluid"], found.split["Structure"]))
        lost.append(regret([truth[name] for name in NAMES], split, budget, (64, budget - 64)))
    assert np.mean(lost) < 0.02
