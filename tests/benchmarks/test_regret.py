"""The regret benchmark: families as stated, decisions by brute force, an oracle that nobody beats."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import regret as benchmark
from regret_parts.decide import Split, choose, regret
from regret_parts.families import FAMILIES
from regret_parts.oracle import Oracle
from regret_parts.readings import DESIGNS, draw_pair, read
from regret_parts.statistics import describe, paired_ratio

DIFFUSIVE, GRANULAR, STEPPED = FAMILIES
RANKS = np.arange(1.0, 513.0)


def test_families_are_the_stated_formulas() -> None:
    p = np.array([1.0, 8.0, 100.0])
    s, at = 10 ** (-4 + 2 * 0.25), 2 ** (6 + 6 * 0.5)
    # a + b/p + c log2 p + d p^(-2/3)
    d = 10 ** (-3 + 2 * 0.75)
    b = 1 - s - d
    c = np.log(2) * at * (b / at**2 + 2 / 3 * d * at ** (-5 / 3))
    expected = s + b / p + c * np.log2(p) + d * p ** (-2 / 3)
    np.testing.assert_allclose(DIFFUSIVE.shape(np.array([[0.25, 0.5, 0.75]]), p)[0], expected)
    # W(s + (1-s) p^-α granularity + g p^β)
    alpha, beta, elements = 0.7 + 0.35 * 0.2, 0.3 + 0.7 * 0.4, 2**14
    g = (1 - s) * alpha * at ** (-alpha - 1) / (beta * at ** (beta - 1))
    grain = np.ceil(elements / p) / (elements / p)
    expected = s + (1 - s) * p**-alpha * grain + g * p**beta
    np.testing.assert_allclose(GRANULAR.shape(np.array([[0.25, 0.5, 0.2, 0.4, 0.25]]), p)[0], expected)
    # W(s + (1-s)/p (1 + k/(1 + (p/pc)²)) + g log2² p)
    k, cached = 0.3, 2**5
    values = STEPPED.shape(np.array([[0.25, 0.5, 0.6, 0.25]]), p)[0]
    rise = values - s - (1 - s) / p * (1 + k / (1 + (p / cached) ** 2))
    np.testing.assert_allclose(rise[1:] / np.log2(p[1:]) ** 2, rise[2] / np.log2(100) ** 2)


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


@pytest.mark.parametrize("noise", [0.05, 0.0])
def test_the_oracle_knows_the_truth_it_was_given(noise: float) -> None:
    ranks = np.array(DESIGNS[7], dtype=np.float64)
    oracle = Oracle(ranks, 512)
    for family in FAMILIES:
        pair = draw_pair(family, 12, 3)
        curves = oracle.curves(read(pair, 7, noise)[1][1], noise, True, np.random.default_rng(0))
        error = np.abs(curves / pair.solvers[1](RANKS) - 1)
        # At the measured ranks to what seven readings tell; without noise nearly exactly.
        assert error[:, 7:128].mean() < (0.05 if noise else 0.003)
        if not noise:
            assert error[:, 255].mean() < 0.02


def test_statistics_of_known_regrets() -> None:
    regrets = np.array([0.0, 0.02, 0.04, 0.02] * 25)
    found = describe(regrets)
    assert found["mean"] == pytest.approx(2.0)
    assert found["p95"] == pytest.approx(4.0)
    half = 1.96 * 100 * regrets.std() / 10
    assert found["low"] == pytest.approx(2 - half, abs=0.06)
    assert found["high"] == pytest.approx(2 + half, abs=0.06)
    # In pairs, twice the regret is twice the regret in every resample.
    assert paired_ratio(2 * regrets, regrets) == pytest.approx({"ratio": 2.0, "low": 2.0, "high": 2.0})


def test_the_command_writes_what_it_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "regret.json"
    arguments = ["--pairs", "2", "--learners", "bayes", "oracle", "--families", "unseen", "--output", str(output)]
    benchmark.main([*arguments, "--noise", "0.05", "0.02", "--budgets", "32"])
    printed = capsys.readouterr().out
    results = json.loads(output.read_text(encoding="utf-8"))
    assert [each["noise"] for each in results] == [0.05, 0.02]
    # The oracle does not know these families.
    assert set(results[0]["regret_percent"]["pooled"]) == {"bayes"}
    assert f"{results[1]['regret_percent']['nodes']['bayes']['32']['mean']:.2f} [" in printed
