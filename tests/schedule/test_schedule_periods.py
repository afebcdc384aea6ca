"""Coupling schemes with time windows of different size, window sizes set by first participants, and acceleration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from precice_xml_helpers import coupling, scheme

from precice_lb.exceptions import ScheduleError
from precice_lb.schedule import Schedule

FIRST = '    <time-window-size method="first-participant" />\n'


def size(value: float) -> str:
    return f'    <time-window-size value="{value}" />\n'


def of_two_sizes(kind: str, first: float, second: float) -> Schedule:
    """A and B with windows of the one size, B and C of the other."""
    return coupling("ABC", (kind, "AB", None, size(first)), (kind, "BC", None, size(second)))


def period(schedule: Schedule, costs: dict[str, float]) -> float:
    """Seconds per window of the second half of a replay."""
    completed = schedule.replay({name: np.full(60, cost) for name, cost in costs.items()})
    return float(completed[-1] - completed[29]) / 30


def test_steps_go_from_end_to_end_of_all_windows() -> None:
    """Windows of 2 and 3: B steps to 2, 3, 4 and 6; only what ends there is exchanged."""
    schedule = of_two_sizes("serial-explicit", 2, 3)
    assert schedule.windows == {"A": 3, "B": 4, "C": 2}
    # B works 0.6 in a period of 6 and waits 0.1 for A at 2 and at 4, 0.2 for C at 3, and for both at once at 6.
    costs = {"A": 0.1, "B": 0.15, "C": 0.2}
    assert float(schedule.window_seconds(costs)) == pytest.approx(1.2)
    assert period(schedule, costs) == pytest.approx(1.2)


def test_explicit_windows_beside_an_implicit_scheme() -> None:
    schemes = [
        scheme("serial-implicit", "AB", None, size(0.1)),
        scheme("parallel-explicit", "BC", None, size(0.3)),
    ]
    schedule = coupling("ABC", *schemes)
    assert schedule.windows == {"A": 3, "B": 3, "C": 1}
    costs = {"A": 0.2, "B": 0.1, "C": 0.5}
    assert float(schedule.window_seconds(costs)) == pytest.approx(0.9)
    assert float(schedule.window_seconds({**costs, "C": 1.5})) == pytest.approx(1.5)
    with pytest.raises(ScheduleError, match="whole multiples of the implicit ones"):
        coupling("ABC", schemes[0], scheme("parallel-explicit", "BC", None, size(0.25)))
    # Sizes that differ by rounding are equal; others have to end together.
    assert of_two_sizes("parallel-explicit", 0.1, 0.1 * (1 + 1e-12)).windows == dict.fromkeys("ABC", 1)
    with pytest.raises(ScheduleError, match=r"end together within 1000 steps, found sizes 0\.1, 0\.123457"):
        of_two_sizes("parallel-explicit", 0.1, 0.123457)


def test_a_first_participant_passes_its_steps_on() -> None:
    """A–B fixed; B sets the windows of C, which sets those of D: all step as B does."""
    schedule = coupling(
        "ABCD",
        scheme("parallel-explicit", "AB", None, size(0.1)),
        scheme("serial-explicit", "BC", None, FIRST),
        scheme("serial-explicit", "CD", [("C", "D")], FIRST),
    )
    assert schedule.windows == dict.fromkeys("ABCD", 1)
    assert float(schedule.window_seconds({"A": 0.1, "B": 0.1, "C": 0.2, "D": 0.1})) == pytest.approx(0.3)
    both = coupling(
        "ABC", scheme("serial-explicit", "AB", [("A", "B")], FIRST), scheme("parallel-explicit", "AC", None, size(0.5))
    )
    assert both.windows == dict.fromkeys("ABC", 1)


ACCELERATE = (
    '    <relative-convergence-measure data="FromA" mesh="A-Mesh" limit="1e-3" />\n    <max-iterations value="2" />\n'
    '    <acceleration:aitken>\n      <data name="FromA" mesh="A-Mesh" />\n'
    '      <initial-relaxation value="0.5" />\n    </acceleration:aitken>\n'
)


def test_partners_wait_for_acceleration_where_it_comes_after_receiving() -> None:
    """K (max + acceleration) for parallel-implicit and multi, K (sum) for serial-implicit."""
    costs, quarter = {"A": 0.4, "B": 0.4}, {"A": 0.25, "B": 0.25}
    parallel = coupling("AB", scheme("parallel-implicit", "AB", None, ACCELERATE), acceleration=quarter)
    assert not parallel.is_maximum
    assert parallel.critical_cycle(costs) == ("A", "B")
    assert period(parallel, costs) == pytest.approx(0.5)
    multi = coupling("ABC", scheme("multi", "ABC", None, ACCELERATE), acceleration={"A": 0.5})
    assert float(multi.window_seconds({"A": 0.4, "B": 0.1, "C": 0.3})) == pytest.approx(0.5)
    serial = coupling("AB", scheme("serial-implicit", "AB", None, ACCELERATE), acceleration=quarter)
    assert float(serial.window_seconds(costs)) == pytest.approx(0.8)
    with pytest.raises(ScheduleError, match=r'"B" for acceleration .* found 1\.5'):
        coupling("AB", scheme("parallel-implicit", "AB", None, ACCELERATE), acceleration={"B": 1.5})


@st.composite
def couplings(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Trees of two to five participants; implicit windows of 1, explicit ones of 1, 2 or 3, some told by the first."""
    names = "ABCDE"[: draw(st.integers(2, 5))]
    schemes = []
    implicit: set[str] = set()
    for index, name in enumerate(names[1:], 1):
        pair = draw(st.permutations([names[draw(st.integers(0, index - 1))], name]))
        kind = draw(st.sampled_from(["serial-explicit", "parallel-explicit", "serial-implicit", "parallel-implicit"]))
        if kind.endswith("implicit") and not implicit & set(pair):
            implicit |= set(pair)
            schemes.append(scheme(kind, pair, None, ACCELERATE.partition("\n")[2].replace("A", pair[0]) + size(1)))
            continue
        kind = kind.replace("implicit", "explicit")
        told = kind == "serial-explicit" and draw(st.booleans())
        body = FIRST if told else size(draw(st.sampled_from([1, 2, 3])))
        exchanges = [(pair[0], pair[1])] if draw(st.booleans()) else None
        schemes.append(scheme(kind, pair, exchanges, body))
    return names, draw(st.permutations(schemes))


@given(couplings(), st.data())
def test_steady_window_time_is_the_period_of_the_replay(drawn: tuple[str, list[str]], data: st.DataObject) -> None:
    names, schemes = drawn
    parts = {name: data.draw(st.sampled_from([0.0, 0.25, 0.75])) for name in names}
    schedule = coupling(names, *schemes, acceleration=parts)
    costs = {name: data.draw(st.integers(0, 20)) / 16 for name in names}
    seconds = float(schedule.window_seconds(costs))
    # The period need not be one window: 120 windows hold a whole number of periods up to 6 windows. Several replays at
    # once are those alone.
    completed = schedule.replay({name: np.full((2, 240), [[cost], [2 * cost]]) for name, cost in costs.items()})
    np.testing.assert_allclose((completed[:, -2] - completed[:, 118]) / 120, [seconds, 2 * seconds], atol=1e-6)
    assert all(float(own) <= seconds + 1e-9 for own in schedule.participant_seconds(costs).values())
    # Nobody is faster than alone, and the coupling never slower than everybody in turn.
    alone = [schedule.windows[name] * costs[name] for name in names]
    assert max(alone) - 1e-9 <= seconds <= sum(alone) + 1e-9
    if schedule.is_maximum:
        assert seconds == pytest.approx(max(alone), abs=1e-9)
    cycle = schedule.critical_cycle(costs)
    only = {name: costs[name] if name in cycle else 0.0 for name in names}
    assert float(schedule.window_seconds(only)) == pytest.approx(seconds, abs=1e-9)
    rows = np.array([[costs[name] for name in schedule.participants], np.arange(1.0, len(names) + 1)])
    below = rows @ schedule.cut(rows[0])
    assert below[0] == pytest.approx(seconds, abs=1e-9)
    assert below[1] <= float(schedule.window_seconds(dict(zip(schedule.participants, rows[1], strict=True)))) + 1e-9
