"""The programs of the benchmarks: their truth by hand and by brute force, and that they print what they find."""

from __future__ import annotations

import csv
from itertools import product

import numpy as np
import pytest
import simulated
from campaign_parts.cases import LEAST, draw_case
from regret_parts.decide import Split, choose, regret
from regret_parts.families import FAMILIES
from regret_parts.readings import draw_pair
from simulated_parts.curves import COUPLED

DIFFUSIVE, GRANULAR, STEPPED = FAMILIES
RANKS = np.arange(1.0, 513.0)


def test_regret_and_choice_are_those_of_trying_all_splits() -> None:
    pair = draw_pair(GRANULAR, 9, 1)
    first, second = (solver(RANKS) for solver in pair.solvers)
    windows = {p: max(first[p - 1], second[40 - p - 1]) for p in range(2, 39)}
    for p in (2, 17, 38):
        expected = windows[p] / min(windows.values()) - 1
        assert regret(pair.solvers, Split((p, 40 - p)), 40, (2, 38)) == pytest.approx(expected)
    best = min(windows, key=windows.__getitem__)
    split = choose(first[None], second[None], 40, (2, 38))
    assert split == Split((best, 40 - best))
    assert regret(pair.solvers, split, 40, (2, 38)) == 0


def test_the_best_split_is_that_of_brute_force() -> None:
    for family, participants in product(FAMILIES, (2, 3)):
        case = draw_case(family, participants, 16, (0.05,), 1, 0)
        ranks = range(LEAST, 17)
        splits = [dict(zip(case.names, s, strict=True)) for s in product(ranks, repeat=participants) if sum(s) <= 16]
        windows = [case.window(split) for split in splits]
        assert case.best == pytest.approx(min(windows))
        best = splits[int(np.argmin(windows))]
        assert case.regret(best) == pytest.approx(0.0, abs=1e-12)
        assert case.cost(best) == pytest.approx(sum(best.values()) / 16)


# --- programs --------------------------------------------------------------------------------------------------------


def test_windows_of_coupled_runs_are_those_of_the_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    simulated.main(["--coupled"])
    lines = capsys.readouterr().out.splitlines()[1:]
    with COUPLED.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for line, row in zip(lines, rows, strict=True):
        solving = [float(row["first_seconds"]), float(row["second_seconds"])]
        expected = max(solving) if row["coupling"] == "parallel" else sum(solving)
        off = 100 * (expected / float(row["window_seconds"]) - 1)
        assert f"{off:+.2f} %" in line
        assert -10 < off <= 0.01
