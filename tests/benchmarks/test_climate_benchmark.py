"""The climate benchmark at a small scale: real processes, and the best split by trying all."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from climate_parts.chain import CONTESTANTS, SEGMENTS, STARTS, Settings, chain_of, kim_of
from climate_parts.coupling import HOURS, LOADS, NAMES, REFERENCE, program, seconds_per_day
from climate_parts.kim import directions, predict_manual
from climate_parts.run import run_split, run_splits
from climate_parts.study import (
    calibration_splits,
    exhaustive,
    law,
    predictor_of,
    random_splits,
    recommended,
    true_day,
    true_schedule,
    true_traces,
)

from precice_lb.schedule import AutomaticPredictor
from precice_lb.split import optimize_split

BUDGET = 124


def test_the_programs_are_as_published() -> None:
    for name in NAMES:
        steps = program(name)
        assert sum(step.share for step in steps) == pytest.approx(1.0)
        meetings = [other for step in steps for other in step.partners]
        if name == "cpl":
            assert {other: meetings.count(other) for other in NAMES} == {
                "cpl": 0,
                "atm": 2 * HOURS,
                "land": 2 * HOURS,
                "ice": 2 * HOURS,
                "ocn": 2,
            }
        else:
            assert meetings == ["cpl"] * (2 if name == "ocn" else 2 * HOURS)
    assert LOADS == (0.2, 0.6, 0.2)
    # About the 22 s of the paper's reference split.
    assert true_day(REFERENCE) == pytest.approx(22.0, abs=0.1)
    assert np.all(np.diff(seconds_per_day("atm", np.arange(1, 200))) <= 0)


@pytest.mark.parametrize("budget", [20, 124])
def test_the_search_finds_the_best_of_all_splits(budget: int) -> None:
    times = {name: seconds_per_day(name, np.arange(1, budget + 1)) for name in NAMES}
    predictor = AutomaticPredictor(true_traces(), synchronized=False)
    true = true_day(optimize_split(times, budget, coupling=predictor.schedule).split)
    split, best, tried = exhaustive(budget, true)
    assert true == pytest.approx(best, rel=1e-9)
    assert sum(split.values()) == budget
    assert tried > 1
    if budget == 20:
        counts = [c for c in product(range(1, 17), repeat=5) if sum(c) == budget]
        costs = {n: seconds_per_day(n, np.array(counts)[:, i]) for i, n in enumerate(NAMES)}
        assert best == pytest.approx(float(true_schedule().window_seconds(costs).min()))


@pytest.mark.parametrize(
    "clock", ["emulated", pytest.param("real", marks=pytest.mark.slow("compares real times with predicted ones"))]
)
def test_predicted_days_are_measured(clock: str) -> None:
    """All runs at the same time, at a fiftieth of the law's seconds."""
    splits = calibration_splits(BUDGET)
    drawn = random_splits(BUDGET, 3, np.random.default_rng(2), least=8)
    emulated = clock == "emulated"
    runs = run_splits([*splits, *drawn, REFERENCE], scale=0.02, days=2, jobs=2 if emulated else 9, emulated=emulated)
    predictor = predictor_of(runs[0])
    fractions = predictor.fractions["ocn"]
    np.testing.assert_allclose(fractions, LOADS, atol=0.02)
    by_law = predictor.calibrated(runs[0].day, law(runs[0].split))
    off = [float(by_law.predict(law(run.split))) / run.day - 1 for run in runs[1:]]
    if emulated:
        assert max(map(abs, off)) < 1e-6
    else:
        # A day of half a second shows every moment in which the machine is busy elsewhere; most days are not hit.
        assert abs(float(np.median(off))) < 0.05
        assert max(map(abs, off)) < 0.5
    true = true_day(recommended(runs[:5], predictor, BUDGET).split)
    _, best, _ = exhaustive(BUDGET, true)
    assert true < 1.05 * best


@pytest.mark.slow("a chain of five segments takes ten seconds and more")
@pytest.mark.parametrize(("budget", "which"), [(budget, which) for budget in STARTS for which in range(5)])
def test_a_chain_from_a_bad_start_ends_near_the_best_split(budget: int, which: int) -> None:
    """Within 2 % in five segments, with nothing known beforehand."""
    ended, lines = chain_of(STARTS[budget][which], SEGMENTS, Settings(), seed=1)
    _, best, _ = exhaustive(budget, ended.seconds[-1])
    assert ended.seconds[0] > 1.3 * best
    assert ended.seconds[-1] < 1.02 * best
    assert len(lines) == SEGMENTS - 1


def test_their_optimiser_counts_undoes_and_converges() -> None:
    """It takes the steps that it says: |ΔP| up to 8, 16 and 32, halved and undone where the cycle became longer."""
    assert {int(counter) for counter in np.abs(directions(2)).sum(axis=1)} == {2}
    assert len(directions(2)) == 5 * 4
    every = {each for each in product(range(-2, 3), repeat=5) if sum(each) == 0 and 0 < sum(map(abs, each)) <= 4}
    assert {tuple(each) for each in directions(4).tolist()} == every
    assert not directions(32).sum(axis=1).any()
    ended = kim_of(STARTS[124][0], CONTESTANTS[2], Settings(between=0.0, within=0.0), seed=1)
    steps = [sum(abs(one[n] - other[n]) for n in NAMES) for one, other in pairwise(ended.splits)]
    assert max(steps) <= 32
    assert steps[0] <= 8
    assert steps[-1] == 0
    assert ended.days == 2 * len(steps)
    assert ended.seconds[-1] < ended.seconds[0]


def test_the_manual_rule_is_equation_12() -> None:
    run = run_split(REFERENCE, scale=1.0, days=2, emulated=True)
    seconds = {name: np.array([each]) for name, each in zip(NAMES, (1.0, 2.0, 9.0, 4.0, 3.0), strict=True)}
    assert predict_manual(run, seconds) == pytest.approx([9.0])
    assert predict_manual(run, {**seconds, "land": np.array([7.0])}) == pytest.approx([10.0])
