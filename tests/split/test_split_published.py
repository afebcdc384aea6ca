"""Results that others published, found again."""

from __future__ import annotations

import csv
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from precice_xml_helpers import configuration, scheme

from precice_lb.case import parse_configuration
from precice_lb.models import DEFAULT_LEARNER, make_learner
from precice_lb.recommend import proportional_split
from precice_lb.schedule import Schedule
from precice_lb.split import Constraints, SharedCores, optimize_split

DATA = Path(__file__).parents[1] / "data"


def cime_schedule() -> Schedule:
    """T = max(max(ICE, LND) + ATM, OCN), from couplings: ICE and LND before ATM, OCN beside all of them."""
    schemes = [scheme("serial-explicit", ("ICE", "ATM")), scheme("serial-explicit", ("LND", "ATM"))]
    schemes.append(scheme("parallel-explicit", ("ATM", "OCN")))
    pairs = [("ICE", "ATM"), ("LND", "ATM"), ("ATM", "OCN")]
    return Schedule.from_config(parse_configuration(configuration(("ATM", "ICE", "LND", "OCN"), schemes, pairs)))


def cime_measurements() -> dict[str, tuple[list[int], list[float]]]:
    found: dict[str, tuple[list[int], list[float]]] = defaultdict(lambda: ([], []))
    with (DATA / "cime_load_balancing_example.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            found[row["component"]][0].append(int(row["tasks"]))
            found[row["component"]][1].append(float(row["seconds_per_model_day"]))
    return dict(found)


CIME_LAYOUT = Constraints(multiple=8, shared=[SharedCores((("ICE", "LND"), ("ATM",)))])


def test_cime_layout_is_that_of_its_tool() -> None:
    schedule = cime_schedule()
    costs = {name: np.random.default_rng(i).uniform(0, 1, 500) for i, name in enumerate(schedule.participants)}
    expected = np.maximum(np.maximum(costs["ICE"], costs["LND"]) + costs["ATM"], costs["OCN"])
    np.testing.assert_allclose(schedule.window_seconds(costs), expected)


def cime_line(tasks: np.ndarray, seconds: np.ndarray, total: float = 1024.0) -> np.ndarray:
    """Seconds at 1 … 1024 ranks as CIME's tool has them.

    Lines between the points, below the first to perfect scaling at one rank, and beyond the last to
    c_n (1 - f + f p_n / total) with the parallel share f of the last segment.
    """
    share = min((1 - seconds[-1] / seconds[-2]) / (1 - tasks[-2] / tasks[-1]), 1.0)
    last = seconds[-1] * (1 - share + share * tasks[-1] / total)
    return np.interp(np.arange(1.0, total + 1), [1.0, *tasks, total], [tasks[0] * seconds[0], *seconds, last])


def test_cime_example_gives_its_published_split() -> None:
    times = {}
    for name, (tasks, seconds) in cime_measurements().items():
        times[name] = cime_line(np.array(tasks, float), np.array(seconds))
    schedule = cime_schedule()
    result = optimize_split(times, 1024, coupling=schedule, constraints=CIME_LAYOUT)
    assert round(result.window_seconds, 6) == 23.943355
    assert result.split["ATM"] == 992
    assert result.split["OCN"] == 32
    assert result.used["ranks"] > 1024 >= result.used["cores"]
    assert result.gap == 0.0
    # ICE and LND: the split named, 872 and 120, is as good as ours.
    named = {"ATM": 992, "ICE": 872, "LND": 120, "OCN": 32}
    own = {name: times[name][ranks - 1] for name, ranks in named.items()}
    assert float(schedule.window_seconds(own)) == pytest.approx(result.window_seconds, rel=1e-12)
    assert result.split == named


def test_cime_example_with_the_default_learner() -> None:
    measured, ranks = cime_measurements(), np.arange(1.0, 1025.0)
    tables = {n: (np.array(tasks, dtype=float), np.array(seconds)) for n, (tasks, seconds) in measured.items()}
    lines = {name: cime_line(*table) for name, table in tables.items()}
    smooth = {n: make_learner(DEFAULT_LEARNER).fit(*t).predict(ranks) for n, t in tables.items()}
    schedule = cime_schedule()
    free = optimize_split(smooth, 1024, coupling=schedule, constraints=CIME_LAYOUT)
    assert free.gap == 0.0
    # Below its first point, 32 tasks, OCN goes on scaling, where CIME's straight line rises to 504 s.
    assert (free.split["ATM"], free.split["OCN"]) == (1000, 24)
    least = {name: int(tasks[0]) for name, (tasks, _) in tables.items()}
    within = optimize_split(smooth, 1024, coupling=schedule, constraints=replace(CIME_LAYOUT, minimum=least))
    assert (within.split["ATM"], within.split["OCN"]) == (992, 32)
    by_lines = float(schedule.window_seconds({n: lines[n][p - 1] for n, p in within.split.items()}))
    assert by_lines == pytest.approx(23.943355, rel=0.01)


def test_totounferoush_pulse_at_11520_ranks() -> None:
    """Figure 3.8 of the thesis: models of two solvers (natural logarithm), 11,520 ranks, around 23 % gained."""

    def inner(p: np.ndarray) -> np.ndarray:
        return 2.4e4 * p**-0.5 * np.log(p) ** -2 - 5.8e4 * p**-2.0 * np.log(p) ** -1

    def outer(p: np.ndarray) -> np.ndarray:
        return 4.8e3 * p**-1.25 * np.log(p) ** 2 + 1.3e5 * p**-1.5 * np.log(p) ** -1

    budget, schedule = 11_520, Schedule.parallel(["inner", "outer"])
    result = optimize_split(
        {"inner": inner, "outer": outer}, budget, coupling=schedule, constraints=Constraints(minimum=16)
    )
    assert result.split["inner"] == pytest.approx(4019, rel=0.01)
    assert result.split["outer"] == pytest.approx(7501, rel=0.01)
    assert sum(result.split.values()) == budget
    by_elements = proportional_split({"inner": 283_115_520.0, "outer": 871_055_360.0}, budget)
    before = float(
        schedule.window_seconds(
            {n: f(np.array(float(by_elements[n]))) for n, f in (("inner", inner), ("outer", outer))}
        )
    )
    assert 1 - result.window_seconds / before == pytest.approx(0.231, abs=0.001)
