"""Traces out of recorded stores: the same schedule as the configuration's, and what only stores tell."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from conftest import FULL_COUNTS
from schedule_cases import CASES, MIXED, Case, Scheme, record_on_emulated_clock

from precice_lb.case import parse_configuration
from precice_lb.case.coupling import period_of
from precice_lb.dataset import CoupledRun, load_runs
from precice_lb.exceptions import DataError
from precice_lb.ingest.profiling import enrich
from precice_lb.recommend import predictor_of_runs, traced_schedule
from precice_lb.schedule import Schedule, cycle_windows, recorded_traces, schedule_of_traces

# Windows of 1 and 2 in which A and B take turns to be slow: 0.3 s in every window, though each takes 0.2 s in the mean.
UNEVEN = Case(
    "slow in turn",
    (Scheme("parallel-explicit", "AB"), Scheme("parallel-explicit", "BC", size=0.2)),
    0.6,
    {"C": 0.2},
    {"A": [0.3, 0.1], "B": [0.1, 0.3]},
)
EVEN = [case for case in [*CASES, *MIXED[:3]] if "noise" not in case.name]
RECORDED = [UNEVEN, *(case for at, case in enumerate(EVEN) if FULL_COUNTS or at % 3 == 0 or case.name == "multi")]
# What messages take on the emulated clock, of windows of 0.2 s and more.
EXACT = 2e-3


@pytest.mark.parametrize("case", [*CASES, *MIXED], ids=lambda case: case.name)
def test_even_windows_give_the_schedule_of_the_configuration(case: Case) -> None:
    configuration, schedule = parse_configuration(case.configuration()), case.schedule()
    windows = cycle_windows(configuration)
    assert windows == schedule.windows
    steps = {name: np.diff([0.0, *map(float, ends)]) for name, ends in period_of(configuration).steps.items()}
    generator = np.random.default_rng(3)
    for _ in range(20):
        costs = dict(zip(windows, generator.uniform(0.1, 1.0, len(windows)), strict=True))
        tables = {
            name: np.outer(steps[name] * windows[name] * cost, np.ones(int(schedule.iterations[name])))
            / schedule.iterations[name]
            for name, cost in costs.items()
        }
        traces = recorded_traces(configuration, tables)
        assert {name: trace.seconds for name, trace in traces.items()} == pytest.approx(
            {name: cost * windows[name] for name, cost in costs.items()}
        )
        traced = schedule_of_traces(traces, windows=windows)
        assert traced.windows == schedule.windows
        # At other costs than those traced, as a split has them.
        others = dict(zip(windows, generator.uniform(0.1, 1.0, len(windows)), strict=True))
        assert float(traced.window_seconds(others)) == pytest.approx(float(schedule.window_seconds(others)))
        assert traced.critical_cycle(others) == schedule.critical_cycle(others)


def test_acceleration_stands_between_receiving_and_sending() -> None:
    configuration = parse_configuration(CASES[0].configuration().replace("serial-explicit", "parallel-explicit"))
    assert all(point.seconds == 0.0 for point in _trace_of_b(configuration).points[1:])
    implicit = (
        CASES[5]
        .configuration()
        .replace(
            '<max-iterations value="2" />',
            '<max-iterations value="2" /><acceleration:constant><relaxation value="0.5" /></acceleration:constant>',
        )
    )
    configuration = parse_configuration(implicit)
    tables = {name: np.array([[0.1, 0.3]]) for name in "ABC"}
    trace = recorded_traces(configuration, tables, {"B": 0.25})["B"]
    receives = len([point for point in trace.points if point.kind == "receive"]) // 2
    at = [point.seconds for point in trace.points if point.seconds]
    assert at == pytest.approx([0.075, 0.025, 0.225, 0.075])
    assert [point.kind for point in trace.points[: receives + 1]] == [*["receive"] * receives, "send"]


def _trace_of_b(configuration):
    return recorded_traces(configuration, {name: np.ones((1, 1)) for name in "ABC"})["B"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CoupledRun]:
    places = record_on_emulated_clock(
        RECORDED, tmp_path_factory.mktemp("recorded"), periods=lambda case: 10 if case is UNEVEN else 5
    )
    return {case.name: load_runs([place], complete=enrich)[0] for case, place in zip(RECORDED, places, strict=True)}


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case.name)
def test_recorded_cycles_are_what_was_planted(case: Case, recorded: dict[str, CoupledRun]) -> None:
    run = recorded[case.name]
    predictor = predictor_of_runs([run])
    planted = case.schedule()
    for name, trace in predictor.traces.items():
        mean = float(np.mean(case.costs[name])) * planted.iterations[name] * planted.windows[name]
        assert trace.seconds == pytest.approx(mean, rel=EXACT, abs=EXACT)
    # With alpha, the measured cycle.
    seconds = {name: trace.seconds for name, trace in predictor.traces.items()}
    assert float(predictor.predict(seconds)) == pytest.approx(case.seconds, rel=0.01)
    # Without it, what configuration and cycle mean say, unless windows of a cycle differ.
    if case is not UNEVEN:
        steady = case.cycle_mean or case.seconds
        assert predictor.alpha == pytest.approx(case.seconds / steady, rel=0.01)


def test_only_stores_tell_that_windows_of_a_cycle_differ(recorded: dict[str, CoupledRun]) -> None:
    run = recorded[UNEVEN.name]
    traced, configured = traced_schedule([run]), Schedule.from_config(parse_configuration(run.configuration))
    costs = {name: float(np.mean(UNEVEN.costs[name])) for name in "ABC"}
    assert float(configured.window_seconds(costs)) == pytest.approx(0.4)
    assert float(traced.window_seconds(costs)) == pytest.approx(0.6, rel=0.01)
    measured = run.participants["C"].window_seconds[run.steady("C")]
    assert float(np.median(measured)) == pytest.approx(0.6, rel=0.01)
    assert "as traced in 1 run: A, B, C (measured cycles 1" in traced.description


def test_what_a_store_does_not_tell_is_said(recorded: dict[str, CoupledRun]) -> None:
    run = recorded["multi"]

    def changed(name: str, **values: object) -> CoupledRun:
        parts = {**run.participants, name: dataclasses.replace(run.participants[name], **values)}
        return dataclasses.replace(run, participants=parts)

    part = run.participants["A"]
    iterations = part.iterations.copy()
    iterations[-3] = 5
    with pytest.raises(DataError, match=r"every time window of A, found 2 to 5, which no trace .*leaving out --coupl"):
        predictor_of_runs([changed("A", iterations=iterations)])
    with pytest.raises(DataError, match="expected waits of participant A to be measured"):
        predictor_of_runs([changed("A", compute_seconds=np.full_like(part.compute_seconds, np.nan))])
    with pytest.raises(DataError, match=r"expected the iterations of each time window of A, found: no log; import"):
        predictor_of_runs([changed("A", metadata={**part.metadata, "recording_problem": "no log"})])
    alone = dataclasses.replace(run, participants={"A": part})
    with pytest.raises(DataError, match="found that no records of B and C were found"):
        predictor_of_runs([alone])
    uneven = recorded[UNEVEN.name]
    # Warm-up is whole cycles.
    with pytest.raises(DataError, match="expected time windows after a warm-up of 12, found none"):
        predictor_of_runs([dataclasses.replace(uneven, warmup_windows=12)])
    first = dataclasses.replace(uneven.participants["A"], windows=uneven.participants["A"].windows * 2)
    with pytest.raises(
        DataError, match=r"cycle of the coupling \(2 time windows of A, from the first on\) .* 20 windows"
    ):
        predictor_of_runs([dataclasses.replace(uneven, participants={**uneven.participants, "A": first})])
    with pytest.raises(DataError, match="at least one coupled run"):
        predictor_of_runs([])
    # One that can be learned from is enough.
    assert predictor_of_runs([run, alone]).traces == predictor_of_runs([run]).traces
