"""Seconds per time window of couplings by hand: whose work follows whose, in fractions."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction as F
from pathlib import Path

import numpy as np
import pytest
from decision_cases import DIGITS
from precice_xml_helpers import configuration, scheme

from precice_lb import optimize_split
from precice_lb.schedule import Schedule, replay_residuals

BOTH_WAYS = [("A", "B"), ("B", "A")]
COSTS = {"A": F(7, 10), "B": F(4, 10), "C": F(11, 10)}


def about(value: F | float) -> object:
    return pytest.approx(float(value), rel=DIGITS)


def size(tenths: int, more: str = "") -> str:
    return f'    <time-window-size value="{tenths / 10}" />\n{more}'


def iterations(count: int, acceleration: str = "") -> str:
    return f'    <max-iterations value="{count}" />\n{acceleration}'


def schedule_of(path: Path, names: str, *schemes: str, **words: Mapping[str, float]) -> Schedule:
    path.write_text(configuration(names, schemes))
    return Schedule.from_config(path, **words)


def costs_of(names: str) -> dict[str, float]:
    return {name: float(COSTS[name]) for name in names}


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize(("kind", "window"), [("parallel", F(7, 10)), ("serial", F(11, 10))])
def test_costs_of_a_window_are_those_of_all_its_iterations(tmp_path: Path, kind: str, window: F, count: int) -> None:
    schedule = schedule_of(tmp_path / "c.xml", "AB", scheme(f"{kind}-implicit", "AB", BOTH_WAYS, iterations(count)))
    assert schedule.iterations == {"A": count, "B": count}
    assert float(schedule.window_seconds(costs_of("AB"))) == about(window)
    waits = schedule.waits(costs_of("AB"))
    assert float(waits["A"]) == pytest.approx(float(window - COSTS["A"]), abs=1e-12)
    assert float(waits["B"]) == about(window - COSTS["B"])


def test_the_first_waits_while_the_second_accelerates(tmp_path: Path) -> None:
    """In each of four iterations B works, exchanges with A, and accelerates before it answers."""
    body = iterations(4, '    <acceleration:constant><relaxation value="0.5" /></acceleration:constant>\n')
    parts = {"A": 0.5, "B": 0.25}
    schedule = schedule_of(
        tmp_path / "c.xml", "AB", scheme("parallel-implicit", "AB", BOTH_WAYS, body), acceleration=parts
    )
    for a, b in ((F(7, 10), F(4, 10)), (F(2, 10), F(4, 10)), (F(3, 10), F(4, 10))):
        window = max(a, b * F(3, 4)) + b * F(1, 4)
        assert float(schedule.window_seconds({"A": float(a), "B": float(b)})) == about(window)


def test_windows_of_two_sizes_end_together_after_a_period(tmp_path: Path) -> None:
    """Two windows of A and B in one of C. B works twice, waits for A after each, and for C after both."""
    schedule = schedule_of(
        tmp_path / "c.xml",
        "ABC",
        scheme("serial-explicit", "AB", BOTH_WAYS, size(1)),
        scheme("parallel-explicit", "BC", [("B", "C"), ("C", "B")], size(2)),
    )
    assert schedule.windows == {"A": 2, "B": 2, "C": 1}
    a, b = COSTS["A"], COSTS["B"]
    for c in (F(11, 10), F(31, 10)):
        window = max(2 * (a + b), c)
        costs = {"A": float(a), "B": float(b), "C": float(c)}
        assert float(schedule.window_seconds(costs)) == about(window)
        waits = schedule.waits(costs)
        assert float(waits["A"]) == about(window - 2 * a)
        assert float(waits["B"]) == about(window - 2 * b)
        assert float(waits["C"]) == pytest.approx(float(window - c), abs=1e-12)


def test_the_best_split_of_a_period_weighs_who_works_twice(tmp_path: Path) -> None:
    path = tmp_path / "c.xml"
    schedule_of(
        path,
        "ABC",
        scheme("serial-explicit", "AB", BOTH_WAYS, size(1)),
        scheme("parallel-explicit", "BC", [("B", "C"), ("C", "B")], size(2)),
    )
    work, budget = {"A": 30, "B": 18, "C": 90}, 20
    times = {name: np.array([seconds / p for p in range(1, budget)]) for name, seconds in work.items()}
    splits = [(p, q, budget - p - q) for p in range(1, budget - 1) for q in range(1, budget - p)]

    def window(split: tuple[int, int, int]) -> F:
        return max(2 * (F(30, split[0]) + F(18, split[1])), F(90, split[2]))

    result = optimize_split(times, budget, coupling=path)
    assert result.window_seconds == about(min(map(window, splits)))
    # Counted once, A and B would get fewer.
    once = min(splits, key=lambda s: max(F(30, s[0]) + F(18, s[1]), F(90, s[2])))
    assert window(once) > min(map(window, splits))
    assert result.split["C"] < once[2]


def test_a_chain_of_pairs_in_turn(tmp_path: Path) -> None:
    """B answers A and C after its work, so that both pairs work in turn, and the slower of A and C decides."""
    pairs = scheme("serial-explicit", "AB", BOTH_WAYS), scheme("serial-explicit", "BC", [("B", "C"), ("C", "B")])
    schedule = schedule_of(tmp_path / "c.xml", "ABC", *pairs)
    assert float(schedule.window_seconds(costs_of("ABC"))) == about(replayed_chain(300) - replayed_chain(299))


def replayed_chain(windows: int) -> F:
    """When B has done so many windows: A → B → A and B → C → B, each receive in the order of the file."""
    a, b, c = (COSTS[name] for name in "ABC")
    a_sent = a
    end_b = end_c = F(0)
    for _ in range(windows):
        # B needs the data of A's window, and of C's window before.
        start = max(a_sent, end_c)
        end_b = start + b
        a_sent, end_c = end_b + a, end_b + c
    return end_b


def test_windows_that_vary_are_replayed_one_by_one() -> None:
    costs = {"A": [F(3), F(1), F(4), F(1), F(5)], "B": [F(2), F(7), F(1), F(8), F(2)]}
    arrays = {name: np.array([float(cost) for cost in varying]) for name, varying in costs.items()}
    pairs = list(zip(costs["A"], costs["B"], strict=True))
    for schedule, join in ((Schedule.parallel(list("AB")), max), (Schedule.serial(list("AB")), sum)):
        ends = [sum((F(join(pair)) for pair in pairs[:n]), F(0)) for n in range(1, 6)]
        assert schedule.replay(arrays).tolist() == [about(end) for end in ends]


def test_who_only_sends_runs_ahead_at_its_own_pace(tmp_path: Path) -> None:
    schedule = schedule_of(tmp_path / "c.xml", "AB", scheme("parallel-explicit", "AB", [("A", "B")]))
    for a, b in ((F(2), F(3)), (F(3), F(2))):
        waits = schedule.waits({"A": float(a), "B": float(b)})
        assert float(waits["A"]) == 0
        assert float(waits["B"]) == pytest.approx(float(max(a - b, F(0))), abs=1e-12)
    # A is done with each window after 1, 5, 6, 10, 11, 15; B begins its next one with what A sent for the one before.
    a, b = [F(1), F(4)] * 3, [F(3), F(1)] * 3
    ends, sent, done = [], F(0), F(0)
    for cost_a, cost_b in zip(a, b, strict=True):
        done = max(done, sent) + cost_b
        sent += cost_a
        ends.append(max(sent, done))
    costs = {"A": np.array([float(cost) for cost in a]), "B": np.array([float(cost) for cost in b])}
    assert schedule.replay(costs).tolist() == [about(end) for end in ends]


def test_windows_within_a_period_make_up_for_each_other(tmp_path: Path) -> None:
    """A's windows cost 2 and 6 s in turn, which C sees only in pairs; alone with B each window waits for the slower."""
    recorded = [{"A": np.tile([2.0, 6.0], 16), "B": np.full(32, 3.0), "C": np.full(16, 9.0)}]
    costs = {"A": F(4), "B": F(3), "C": F(9)}
    pairs = scheme("parallel-explicit", "AB", BOTH_WAYS, size(1))
    twice = schedule_of(
        tmp_path / "c.xml", "ABC", pairs, scheme("parallel-explicit", "BC", [("B", "C"), ("C", "B")], size(2))
    )
    alone = schedule_of(tmp_path / "d.xml", "AB", pairs)
    for c in (F(9), F(7)):
        seconds = {name: float(cost) for name, cost in {**costs, "C": c}.items()}
        assert float(replay_residuals(twice, seconds, recorded)) == about(max(2 * costs["A"], c))
    pair = {name: float(costs[name]) for name in "AB"}
    assert float(replay_residuals(alone, pair, recorded)) == about((F(3) + F(6)) / 2)
