"""Steady window times, critical cycles and what is refused, by hand and by brute force."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from precice_xml_helpers import configuration, coupling, scheme

from precice_lb.case import parse_configuration
from precice_lb.exceptions import ScheduleError
from precice_lb.schedule import Schedule
from precice_lb.schedule.graph import maximum_cycle_mean

COSTS = {"A": 0.1, "B": 0.05, "C": 0.2, "D": 0.3}


def per_window(schedule: Schedule, costs: dict[str, float]) -> dict[str, float]:
    """Seconds per window of participants whose seconds per iteration are given."""
    return {name: cost * schedule.iterations[name] for name, cost in costs.items()}


def test_the_first_participants_window_size_is_a_message() -> None:
    method = '    <time-window-size method="first-participant" />\n'
    schedule = coupling("AB", ("serial-explicit", "AB", [("B", "A")], method))
    assert float(schedule.window_seconds({"A": 0.1, "B": 0.05})) == pytest.approx(0.15)
    without = coupling("AB", ("serial-explicit", "AB", [("B", "A")]))
    assert float(without.window_seconds({"A": 0.1, "B": 0.05})) == pytest.approx(0.1)


def test_a_convergence_message_couples_back() -> None:
    schedule = coupling("AB", ("serial-implicit", "AB", [("A", "B")]))
    assert float(schedule.window_seconds({"A": 0.1, "B": 0.05})) == pytest.approx(0.15)


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


def test_mean_iterations_lie_between_whole_ones() -> None:
    schedule = coupling("AB", ("serial-implicit", "AB"), iterations={"A": 2.25, "B": 2.25})
    costs = per_window(schedule, {"A": 0.1, "B": 0.05})
    assert float(schedule.window_seconds(costs)) == pytest.approx(2.25 * 0.15)
    assert schedule.iterations == {"A": 2.25, "B": 2.25}
    assert {n: float(w) for n, w in schedule.waits(costs).items()} == pytest.approx({"A": 2.25 * 0.05, "B": 0.225})
    assert schedule.replay({name: np.full(8, cost) for name, cost in costs.items()})[-1] == pytest.approx(8 * 0.3375)
    assert "2.25 iterations" in schedule.description
    # In a quarter of the windows A and B take 3 · 0.6 s, in the others C 1.5 s.
    chain = coupling("ABC", ("serial-implicit", "AB"), ("parallel-explicit", "BC"), iterations={"A": 2.25, "B": 2.25})
    assert float(chain.window_seconds({"A": 0.9, "B": 0.45, "C": 1.5})) == pytest.approx(0.25 * 1.8 + 0.75 * 1.5)
    assert chain.cut(np.array([0.9, 0.45, 1.5])) == pytest.approx([1 / 3, 1 / 3, 0.75])
    # Around the ring, whose work takes two windows.
    kinds = (("serial-explicit", "AB"), ("parallel-explicit", "CA"), ("parallel-explicit", "BC"))
    ring = coupling("ABC", *((kind, pair, [(pair[0], pair[1])]) for kind, pair in kinds))
    assert float(ring.window_seconds({"A": 1.0, "B": 0.7, "C": 0.8})) == pytest.approx(1.25)
    assert ring.cut(np.array([1.0, 0.7, 0.8])) == pytest.approx([0.5, 0.5, 0.5])


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
    assert serial.windows == {"A": 1, "B": 1, "C": 1}
    assert coupling("ABC", ("multi", "BAC")).windows == {"A": 1, "B": 1, "C": 1}
    assert serial.critical_cycle({"A": 1, "B": 2, "C": 3}) == ("A", "B", "C")
    np.testing.assert_allclose(parallel.waits(costs)["A"], parallel.window_seconds(costs) - a, atol=1e-15)
    assert serial.participants == ("A", "B", "C")
    assert coupling("AB", ("parallel-explicit", "AB")).description == "parallel-explicit A, B"


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


REFUSED: list[tuple[Callable[[], object], str]] = [
    (
        lambda: coupling("ABC", *(("serial-explicit", pair) for pair in ("AB", "BC", "CA"))),
        "A, B, C that wait for each",
    ),
    (lambda: coupling("ABC", ("serial-explicit", "AB")), 'a coupling scheme for participant "C", found none; add one'),
    (lambda: coupling("ABC", ("serial-implicit", "AB"), ("parallel-implicit", "BC")), "at most one implicit coupling"),
    (lambda: Schedule.parallel(["A", "A"]), "expected different names of participants, found A, A"),
    (lambda: BOTH.window_seconds({"A": 1.0}), "expected costs of A, B, found A"),
    (lambda: BOTH.window_seconds({"A": 1.0, "B": 1.0, "C": 1.0}), "expected costs of A, B, found A, B, C"),
    (lambda: BOTH.window_seconds({"A": [1.0, 2.0], "B": [1.0, np.nan]}), 'others for "B"'),
    (lambda: BOTH.window_seconds({"A": 1.0, "B": -1.0}), 'others for "B"'),
    (lambda: BOTH.replay({"A": 1.0, "B": 1.0}), "expected one cost per window, found a single number"),
    (lambda: BOTH.critical_cycle({"A": [1.0, 2.0], "B": 1.0}), "expected one cost per participant"),  # type: ignore[dict-item]
]
BOTH = Schedule.serial(["A", "B"])


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_has_no_window_time_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ScheduleError, match=re.escape(message)):
        call()
