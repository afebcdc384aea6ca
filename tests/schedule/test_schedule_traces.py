"""Schedules from recorded traces, and the predictor of Kim, Larson and Chiu."""

from __future__ import annotations

import numpy as np
import pytest

from precice_lb.exceptions import ScheduleError
from precice_lb.schedule import AutomaticPredictor, Point, Trace, schedule_of_traces

TWO = {
    "A": Trace((Point(0, ("B",)), Point(4, ("B",)), Point(8, ("B",))), rest=4),
    "B": Trace((Point(6, ("A",)), Point(6, ("A",)), Point(6, ("A",))), rest=6),
}
# The same with C, which B meets after 18 s of its own, and again before all end.
THREE = {
    "A": TWO["A"],
    "B": Trace(
        (Point(6, ("A",)), Point(6, ("A",)), Point(6, ("A",)), Point(0, ("C",)), Point(4, ("C",))),
        rest=2,
    ),
    "C": Trace((Point(22, ("B",)), Point(0, ("B",))), rest=2),
}


def test_first_worked_example() -> None:
    """Equations 1 to 4: 26 s, which are A/2 + 3 B/4 there."""
    predictor = AutomaticPredictor(TWO)
    assert float(predictor.predict({"A": 16, "B": 24})) == 26.0
    assert float(predictor.predict({"A": 17, "B": 24})) == pytest.approx(26.5)
    assert float(predictor.predict({"A": 16, "B": 24.4})) == pytest.approx(26.3)
    np.testing.assert_allclose(predictor.fractions["A"], [0, 0.25, 0.5, 0.25])
    np.testing.assert_allclose(predictor.fractions["B"], [0.25] * 4)
    assert float(predictor.schedule.window_seconds({"A": 16, "B": 24})) == pytest.approx(26.0)
    assert set(predictor.schedule.critical_cycle({"A": 16, "B": 24})) == {"A", "B"}


def test_second_worked_example() -> None:
    """Equations 5 to 7: 28 s, which are C + B/6 there."""
    predictor = AutomaticPredictor(THREE)
    costs = {"A": 16, "B": 24, "C": 24}
    assert float(predictor.predict(costs)) == 28.0
    assert float(predictor.predict({**costs, "C": 25})) == pytest.approx(29.0)
    # A little less of B, so that it is not B who keeps C waiting.
    assert float(predictor.predict({**costs, "B": 23.4})) == pytest.approx(27.9)
    assert float(predictor.predict({**costs, "A": 16.1})) == pytest.approx(28.0)
    seconds = predictor.predict({"A": [16, 60], "B": 24, "C": 24})
    assert seconds.shape == (2,)
    assert seconds[1] == pytest.approx(float(predictor.schedule.window_seconds({"A": 60, "B": 24, "C": 24})))


def test_alpha_takes_up_what_the_recursion_leaves_out() -> None:
    predictor = AutomaticPredictor(TWO).calibrated(26.52)
    assert predictor.alpha == pytest.approx(1.02)
    assert float(predictor.predict({"A": 16, "B": 24})) == pytest.approx(26.52)
    again = predictor.calibrated(53.04, {"A": 32, "B": 48})
    assert again.alpha == pytest.approx(1.02)
    with pytest.raises(ScheduleError, match="positive alpha"):
        AutomaticPredictor(TWO, alpha=0)
    with pytest.raises(ScheduleError, match="to fit alpha to"):
        predictor.calibrated(1.0, {"A": 0, "B": 0})


def test_without_a_meeting_at_the_end_the_steady_state_counts() -> None:
    """A runs on after its last point; B works while A does, and they meet once in a cycle."""
    traces = {"A": Trace((Point(1, ("B",)),), rest=3), "B": Trace((Point(5, ("A",)),), rest=1)}
    apart = AutomaticPredictor(traces, synchronized=False)
    assert float(apart.predict({"A": 4, "B": 6})) == pytest.approx(6)
    together = AutomaticPredictor(traces)
    assert float(together.predict({"A": 4, "B": 6})) == pytest.approx(8)
    one_way = {"A": Trace((Point(1, ("B",), "send"),)), "B": Trace((Point(0, ("A",), "receive"),), rest=2)}
    schedule = schedule_of_traces(one_way)
    assert float(schedule.window_seconds({"A": 1, "B": 2})) == pytest.approx(2)
    own = schedule.participant_seconds({"A": 1, "B": 2})
    assert {n: float(s) for n, s in own.items()} == pytest.approx({"A": 1, "B": 2})
    # A computed nothing when it was traced.
    idle = schedule_of_traces({"A": Trace((Point(0, ("B",)),)), "B": Trace((Point(2, ("A",)),))})
    assert float(idle.window_seconds({"A": 3, "B": 2})) == pytest.approx(3)
    assert float(idle.replay({"A": [3, 3, 3], "B": [2, 2, 2]})[-1]) == pytest.approx(2 + 9)


def test_traces_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ScheduleError, match='found "Z"'):
        schedule_of_traces({"A": Trace((Point(1, ("Z",)),))})
    with pytest.raises(ScheduleError, match=r'"A" that send to "B" .* found 2 and 1'):
        schedule_of_traces({"A": Trace((Point(1, ("B",)),) * 2), "B": Trace((Point(1, ("A",)),))})
    with pytest.raises(ScheduleError, match="at least one constituent"):
        schedule_of_traces({})
