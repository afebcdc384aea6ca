from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from precice_xml_helpers import configuration, coupling, scheme

from precice_lb.case import parse_configuration
from precice_lb.exceptions import ConfigurationError, ScheduleError
from precice_lb.schedule import Schedule, graph
from precice_lb.schedule.graph import maximum_cycle_mean

COSTS = {"A": 0.1, "B": 0.05, "C": 0.2, "D": 0.3}

Scheme = tuple[str, str] | tuple[str, str, list[tuple[str, str]]]


def per_window(schedule: Schedule, costs: dict[str, float]) -> dict[str, float]:
    """Seconds per window of participants whose seconds per iteration are given."""
    return {name: cost * schedule.iterations[name] for name, cost in costs.items()}


def replayed_period(schedule: Schedule, costs: dict[str, float], windows: int = 240) -> float:
    """Mean seconds per window of the second half of a replay with constant costs."""
    completed = schedule.replay({name: np.full(windows, cost) for name, cost in costs.items()})
    half = windows // 2
    return float(completed[-2] - completed[half - 2]) / (windows - half)


def test_one_direction_lets_the_upstream_participant_run_ahead() -> None:
    schedule = coupling("AB", ("serial-explicit", "AB", [("A", "B")]))
    costs = {"A": 0.02, "B": 0.2}
    own = schedule.participant_seconds(costs)
    assert {name: float(value) for name, value in own.items()} == pytest.approx({"A": 0.02, "B": 0.2})
    assert {name: float(value) for name, value in schedule.waits(costs).items()} == pytest.approx({"A": 0, "B": 0})
    # The downstream one cannot run ahead.
    waits = schedule.waits({"A": 0.2, "B": 0.02})
    assert {name: float(value) for name, value in waits.items()} == pytest.approx({"A": 0, "B": 0.18})


def test_the_first_participants_window_size_is_a_message() -> None:
    method = '    <time-window-size method="first-participant" />\n'
    schedule = coupling("AB", ("serial-explicit", "AB", [("B", "A")], method))
    assert float(schedule.window_seconds({"A": 0.1, "B": 0.05})) == pytest.approx(0.15)
    without = coupling("AB", ("serial-explicit", "AB", [("B", "A")]))
    assert float(without.window_seconds({"A": 0.1, "B": 0.05})) == pytest.approx(0.1)


def test_a_convergence_message_couples_back() -> None:
    schedule = coupling("AB", ("serial-implicit", "AB", [("A", "B")]))
    assert float(schedule.window_seconds({"A": 0.1, "B": 0.05})) == pytest.approx(0.15)


def test_initial_data_does_not_change_the_steady_state() -> None:
    for kind in ("serial-explicit", "parallel-explicit", "serial-implicit", "parallel-implicit", "multi"):
        plain = scheme(kind, "AB")
        initialized = plain.replace('from="B" to="A"', 'from="B" to="A" initialize="true"')
        both = [coupling("AB", text) for text in (plain, initialized)]
        costs = {"A": 0.1, "B": 0.07}
        assert float(both[0].window_seconds(costs)) == float(both[1].window_seconds(costs))
        np.testing.assert_allclose(*(s.replay({n: np.full(5, c) for n, c in costs.items()}) for s in both))


def test_several_replays_at_once_are_those_alone() -> None:
    schedule = coupling("ABC", ("parallel-explicit", "AB"), ("serial-explicit", "BC"))
    generator = np.random.default_rng(3)
    noisy = {name: 0.1 * (1 + 0.1 * generator.standard_normal((8, 30))) for name in "ABC"}
    completed = schedule.replay(noisy)
    assert completed.shape == (8, 30)
    one = schedule.replay({name: costs[5] for name, costs in noisy.items()})
    np.testing.assert_array_equal(one, completed[5])


def test_critical_participants_of_measured_cases() -> None:
    cases = [
        ("ABC", [("serial-explicit", "AB"), ("serial-explicit", "BC")], ("B", "C")),
        ("ABC", [("parallel-explicit", "AB"), ("parallel-explicit", "BC")], ("C",)),
        ("ABC", [("serial-implicit", "AB"), ("parallel-explicit", "BC")], ("A", "B")),
        ("ABC", [("multi", "BAC")], ("C",)),
        ("ABCD", [("parallel-implicit", "AB"), ("serial-explicit", "AD"), ("serial-explicit", "BC")], ("A", "D")),
    ]
    for names, schemes, critical in cases:
        schedule = coupling(names, *schemes)
        assert schedule.critical_cycle(per_window(schedule, {name: COSTS[name] for name in names})) == critical


def test_serial_replay_by_hand() -> None:
    schedule = coupling("AB", ("serial-explicit", "AB"))
    a, b = np.array([1.0, 2.0, 4.0]), np.array([0.5, 0.25, 0.125])
    np.testing.assert_allclose(schedule.replay({"A": a, "B": b}), np.cumsum(a + b))


def test_mean_iterations_lie_between_whole_ones() -> None:
    schedule = coupling("AB", ("serial-implicit", "AB"), iterations={"A": 2.25, "B": 2.25})
    costs = per_window(schedule, {"A": 0.1, "B": 0.05})
    assert float(schedule.window_seconds(costs)) == pytest.approx(2.25 * 0.15)
    assert schedule.iterations == {"A": 2.25, "B": 2.25}
    assert {n: float(w) for n, w in schedule.waits(costs).items()} == pytest.approx({"A": 2.25 * 0.05, "B": 0.225})
    assert schedule.replay({name: np.full(8, cost) for name, cost in costs.items()})[-1] == pytest.approx(8 * 0.3375)
    assert "2.25 iterations" in schedule.description


def test_iterations_by_default() -> None:
    assert coupling("AB", ("serial-implicit", "AB")).iterations == {"A": 2, "B": 2}
    measure = '<relative-convergence-measure data="FromA" mesh="A-Mesh" limit="1e-3" />'
    assert coupling("AB", ("parallel-implicit", "AB", None, measure)).iterations == {"A": 1, "B": 1}
    together = parse_configuration(
        configuration("ABC", [scheme("parallel-implicit", "AB", None, measure), scheme("serial-explicit", "BC")])
    )
    with pytest.raises(ScheduleError, match="coupling iterations per time window of A or B"):
        Schedule.from_config(together)
    schedule = Schedule.from_config(together, {"A": 3})
    assert schedule.iterations == {"A": 3, "B": 3, "C": 1}
    with pytest.raises(ScheduleError, match="at least 1"):
        Schedule.from_config(together, {"A": 0.5})
    with pytest.raises(ScheduleError, match='"Z"'):
        Schedule.from_config(together, {"Z": 2})


def test_maxima_and_sums() -> None:
    parallel, serial = Schedule.parallel(["A", "B", "C"]), Schedule.serial(["A", "B", "C"])
    costs = {"A": np.array([0.1, 0.3]), "B": np.array([[0.2], [0.05]]), "C": 0.04}
    a, b, c = np.broadcast_arrays(costs["A"], costs["B"], costs["C"])
    np.testing.assert_allclose(parallel.window_seconds(costs), np.maximum(np.maximum(a, b), c))
    np.testing.assert_allclose(serial.window_seconds(costs), a + b + c)
    assert parallel.is_maximum
    assert not serial.is_maximum
    assert Schedule.serial(["A"]).is_maximum
    assert serial.weights == {"A": 1, "B": 1, "C": 1}
    assert coupling("ABC", ("multi", "BAC")).weights == {"A": 1, "B": 1, "C": 1}
    assert serial.critical_cycle({"A": 1, "B": 2, "C": 3}) == ("A", "B", "C")
    np.testing.assert_allclose(parallel.waits(costs)["A"], parallel.window_seconds(costs) - a, atol=1e-15)
    assert serial.participants == ("A", "B", "C")
    assert coupling("AB", ("parallel-explicit", "AB")).description == "parallel-explicit A, B"


def test_what_would_hang_is_refused() -> None:
    with pytest.raises(ScheduleError, match="wait for each other"):
        coupling("ABC", ("serial-explicit", "AB"), ("serial-explicit", "BC"), ("serial-explicit", "CA"))


def test_what_has_no_schedule_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScheduleError, match='a coupling scheme for participant "C"'):
        coupling("ABC", ("serial-explicit", "AB"))
    with pytest.raises(ScheduleError, match="at most one implicit"):
        coupling("ABC", ("serial-implicit", "AB"), ("parallel-implicit", "BC"))
    with pytest.raises(ConfigurationError, match="No such file"):
        Schedule.from_config(tmp_path / "missing.xml")
    with pytest.raises(ScheduleError, match="different names"):
        Schedule.parallel(["A", "A"])


def test_wrong_costs_are_refused() -> None:
    schedule = Schedule.serial(["A", "B"])
    for costs in ({"A": 1.0}, {"A": 1.0, "B": 1.0, "C": 1.0}):
        with pytest.raises(ScheduleError, match="expected costs of A, B"):
            schedule.window_seconds(costs)
    for bad in (np.nan, np.inf, -1.0):
        with pytest.raises(ScheduleError, match='others for "B"'):
            schedule.window_seconds({"A": [1.0, 2.0], "B": [1.0, bad]})
    with pytest.raises(ScheduleError, match="one cost per window"):
        schedule.replay({"A": 1.0, "B": 1.0})
    with pytest.raises(ScheduleError, match="one cost per participant"):
        schedule.critical_cycle({"A": [1.0, 2.0], "B": 1.0})  # type: ignore[dict-item]


def brute_force_mean(matrix: np.ndarray) -> float:
    """The largest mean over all simple cycles."""
    best = -np.inf
    for length in range(1, len(matrix) + 1):
        for nodes in permutations(range(len(matrix)), length):
            best = max(best, sum(matrix[nodes[(i + 1) % length], n] for i, n in enumerate(nodes)) / length)
    return best


@given(
    st.integers(1, 4).flatmap(
        lambda n: st.lists(st.one_of(st.just(-np.inf), st.integers(-9, 9)), min_size=n * n, max_size=n * n)
    )
)
def test_cycle_mean_equals_brute_force(entries: list[float]) -> None:
    size = round(len(entries) ** 0.5)
    matrix = np.array(entries, dtype=float).reshape(size, size)
    expected = brute_force_mean(matrix)
    assert maximum_cycle_mean(np.stack([matrix, matrix + 1.0])) == pytest.approx([expected, expected + 1.0])


KINDS = st.sampled_from(["serial-explicit", "parallel-explicit", "serial-implicit", "parallel-implicit"])


@st.composite
def couplings(draw: st.DrawFn) -> tuple[str, list[Scheme]]:
    """Trees of two to five participants with at most one implicit scheme at each, in any order and direction."""
    names = "ABCDE"[: draw(st.integers(2, 5))]
    schemes: list[Scheme] = []
    implicit: set[str] = set()
    for index, name in enumerate(names[1:], 1):
        pair = [names[draw(st.integers(0, index - 1))], name]
        kind = draw(KINDS)
        if kind.endswith("implicit"):
            if implicit & set(pair):
                kind = kind.replace("implicit", "explicit")
            else:
                implicit |= set(pair)
        pair = draw(st.permutations(pair))
        both = [(pair[0], pair[1]), (pair[1], pair[0])]
        one_way = kind.endswith("explicit") and draw(st.booleans())
        schemes.append((kind, "".join(pair), [draw(st.sampled_from(both))] if one_way else both))
    return names, draw(st.permutations(schemes))


@given(drawn=couplings(), data=st.data())
def test_steady_window_time_is_the_period_of_the_replay(drawn: tuple[str, list[Scheme]], data: st.DataObject) -> None:
    names, schemes = drawn
    schedule = coupling(names, *schemes)
    costs = {name: data.draw(st.integers(0, 20)) / 16 for name in names}
    seconds = float(schedule.window_seconds(costs))
    # The period need not be one window: 120 windows hold a whole number of periods up to 6 windows.
    assert replayed_period(schedule, costs) == pytest.approx(seconds, abs=1e-6)
    assert all(float(own) <= seconds + 1e-9 for own in schedule.participant_seconds(costs).values())
    cycle = schedule.critical_cycle(costs)
    assert set(cycle) <= set(names)
    # Only the participants of the critical cycle hold the coupling up: without the others it is as slow.
    alone = {name: costs[name] if name in cycle else 0.0 for name in names}
    assert float(schedule.window_seconds(alone)) == pytest.approx(seconds, abs=1e-9)
    assert max(schedule.weights[n] * costs[n] for n in names) <= seconds + 1e-9
    if schedule.is_maximum:
        assert seconds == pytest.approx(max(schedule.weights[n] * costs[n] for n in names), abs=1e-9)


def test_the_effort_of_many_participants_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"P{number:02d}" for number in range(40)]
    costs = {name: 1.0 + cost for name, cost in zip(names, np.random.default_rng(1).random(40), strict=True)}
    schedule, calls = Schedule.parallel(names), [0, 0]

    def counted(place: int, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            calls[place] += 1
            return function(*arguments)

        return call

    monkeypatch.setattr(graph, "max", counted(0, max), raising=False)
    monkeypatch.setattr(graph, "maximum_cycle_mean", counted(1, graph.maximum_cycle_mean))
    assert schedule.critical_cycle(costs) == (max(costs, key=lambda name: costs[name]),)
    # In each round, one for each edge: of sends, and within programs.
    assert calls[0] < 20 * 2 * 40 * 40
    calls[1] = 0
    assert set(schedule.participant_seconds(costs)) == set(names)
    assert calls[1] == 1
