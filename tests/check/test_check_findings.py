"""Findings of `precice-lb check`: above which size each is reported, what it says, and what it advises."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from check_helpers import checked, found, noisy, plant
from store_helpers import START, row, write_store

from precice_lb.check import CheckResult, Finding, check_runs
from precice_lb.dataset import load_runs
from precice_lb.dataset.records import CoupledTime


def finding(run: str, remedy: str, size: float) -> Finding:
    """Return a finding about the spread of A in a run."""
    return Finding("spread", run, "A", "the text", remedy, size)


def test_findings_that_differ_in_numbers_are_one_group_with_the_worst_first() -> None:
    milder = finding("run1", "record 20 windows to know it to 1 %", 0.03)
    worst = finding("run2", "record 90 windows to know it to 1 %", 0.07)
    mildest = finding("run3", "record 15 windows to know it to 1 %", 0.021)
    other_remedy = finding("run4", "repeat the run", 0.5)
    result = CheckResult((), (milder, worst, mildest, other_remedy))
    assert result.groups == ([worst, milder, mildest], [other_remedy])


def test_ranks_without_a_record_are_named(tmp_path: Path) -> None:
    write_store(tmp_path, [row(window, 0.1, 0.2, 0.1) for window in range(1, 21)], "A", rank=0, size=3)
    (health,) = checked(tmp_path).healths
    assert health.ranks_text == "1 of 3"


@pytest.mark.parametrize(("change", "findings"), [(0.02, []), (0.05, [("drift", "A:1: A")])])
def test_drift_is_found_above_three_percent(tmp_path: Path, change: float, findings: list[tuple[str, str]]) -> None:
    # With this little noise, both are no chance.
    plant(tmp_path, {"A": noisy(1, 60, 0.001) * np.linspace(1, 1 + change, 60)})
    assert found(checked(tmp_path)) == findings


def test_deviation_is_of_windows_without_their_trend(tmp_path: Path) -> None:
    plant(tmp_path, {"A": noisy(3, 200, 0.02) * np.linspace(1, 2, 200)})
    (health,) = checked(tmp_path).healths
    assert health.deviation == pytest.approx(0.02, rel=0.2)


def test_a_load_that_grows_many_times_over_is_drift(tmp_path: Path) -> None:
    # A straight line through it begins below 0.
    plant(tmp_path, {"A": noisy(3, 60, 0.01) * np.exp(np.linspace(0, 4, 60))})
    assert ("drift", "A:1: A") in found(checked(tmp_path))


def test_windows_without_a_measured_wait_are_left_out(tmp_path: Path) -> None:
    waits = [None if window in (10, 20) else 0.1 for window in range(1, 31)]
    write_store(tmp_path, [row(window, 0.5, 0.2, wait) for window, wait in enumerate(waits, start=1)])
    (health,) = checked(tmp_path).healths
    assert health.windows == 30
    # 0.5 s and 0.2 s less 0.1 s; the least wait is what a transfer takes, and counts as compute seconds again.
    assert health.seconds == pytest.approx(0.7)


def test_what_was_not_measured_has_the_remedy_that_the_store_names(tmp_path: Path) -> None:
    calls = [row(window, 0.1, 0.2, None) for window in range(1, 20)]
    write_store(tmp_path, calls, timing_problem="keep preCICE's profiling files")
    (not_measured,) = [finding for finding in checked(tmp_path).findings if finding.kind == "not measured"]
    assert not_measured.remedy == "keep preCICE's profiling files"


@pytest.mark.parametrize(("left", "findings"), [(4, [("windows", "A:1: A")]), (5, [])])
def test_five_windows_after_warmup_are_enough(tmp_path: Path, left: int, findings: list[tuple[str, str]]) -> None:
    plant(tmp_path, {"A": [1.0] * (1 + left)})
    assert found(checked(tmp_path)) == findings


@pytest.mark.parametrize(("outliers", "findings"), [(4, []), (6, [("outliers", "A:1: A")])])
def test_outliers_are_found_above_a_twentieth_of_the_windows(
    tmp_path: Path, outliers: int, findings: list[tuple[str, str]]
) -> None:
    seconds = noisy(2, 101)
    seconds[15 : 15 + 12 * outliers : 12] *= 2.0
    plant(tmp_path, {"A": seconds})
    result = checked(tmp_path)
    assert result.healths[0].outliers == outliers
    assert found(result) == findings


def test_the_worst_outlier_may_be_a_fast_window(tmp_path: Path) -> None:
    seconds = noisy(2, 81, 0.005)
    seconds[10:80:10] *= 2.0
    # A fifth is further from 1 than the double.
    seconds[40] *= 0.1
    plant(tmp_path, {"A": seconds})
    (outliers,) = [finding for finding in checked(tmp_path).findings if finding.kind == "outliers"]
    assert outliers.text.endswith("the worst 0.2 times the median")


def windows_to_record(directory: Path, warmup: int) -> int:
    """Return the windows that a remedy asks for where noisy ones follow these of warm-up."""
    plant(directory, {"A": [1.0] * warmup + list(noisy(2, 30, 0.12))})
    (spread,) = checked(directory, warmup=warmup).findings
    match = re.match(r"record (\d+) windows", spread.remedy)
    assert match is not None
    return int(match[1])


def test_windows_to_record_include_the_warmup(tmp_path: Path) -> None:
    assert windows_to_record(tmp_path / "9", 9) - windows_to_record(tmp_path / "1", 1) == 8


def test_warmup_is_in_periods_where_windows_differ_in_length(tmp_path: Path) -> None:
    seconds = noisy(1, 60, 0.01)
    # The first two windows of A are left out, and the next three are not.
    seconds[:5] *= [3.0, 3.0, 1.8, 1.6, 1.6]
    plant(tmp_path, {"A": seconds, "B": noisy(2, 60, seconds=0.5)})
    (run,) = load_runs([tmp_path], warmup=1)
    two_windows_of_a = dataclasses.replace(run, time=CoupledTime({"A": 2}))
    result = check_runs([two_windows_of_a])
    (warmup,) = result.findings
    # The median of the three.
    assert re.fullmatch(r"windows up to 5 are \+(59|60|61)[.0-9]* % beside those after \(2 left out\)", warmup.text)
    # The fifth window of A ends in the third period.
    assert warmup.remedy == "leave out 5: --warmup 3, or say nothing of it"
    assert result.warmup == 3


def test_a_warmup_that_lasts_half_of_the_run_has_no_end_to_be_seen(tmp_path: Path) -> None:
    plant(tmp_path, {"A": noisy(1, 20, 0.01) * np.repeat([1.8, 1.0], 10)})
    (warmup,) = [finding for finding in checked(tmp_path).findings if finding.kind == "warm-up"]
    assert warmup.text.endswith("(10 left out); where the warm-up ends is not to be seen in 20 windows")
    assert warmup.remedy == "record more windows, or start from a developed state (a restart)"


def plant_twice(directory: Path, first: dict[str, float], second: dict[str, float], noise: float, **more: Any) -> None:
    """Plant two runs one after the other, whose participants take these seconds per window."""
    for number, seconds in enumerate((first, second)):
        costs = {}
        for index, (name, mean) in enumerate(seconds.items()):
            costs[name] = noisy(10 * number + index, 40, noise, mean)
        plant(directory / str(number), costs, begin=1000.0 * number, run=f"run{number}", **more)


@pytest.mark.parametrize(
    ("seconds", "noise", "findings"),
    [
        (1.06, 0.01, [("repeated runs", "run0, run1: A")]),
        # Less than three percent.
        (1.02, 0.001, []),
        # Its median is known to 2 % in either run.
        (1.06, 0.1, []),
    ],
)
def test_repeated_runs_disagree_above_three_percent_and_above_noise(
    tmp_path: Path, seconds: float, noise: float, findings: list[tuple[str, str]]
) -> None:
    plant_twice(tmp_path, {"A": 1.0}, {"A": seconds}, noise)
    assert [each for each in found(checked(tmp_path)) if each[0] == "repeated runs"] == findings


def test_repeated_runs_are_compared_per_iteration(tmp_path: Path) -> None:
    # Three iterations of 0.1 s and 0.05 s of mapping take 0.45 s, and two of 0.17 s take 0.34 s.
    for number, (iterations, seconds) in enumerate(((3, 0.1), (2, 0.12))):
        calls = []
        for window in range(1, 21):
            for iteration in range(1, iterations + 1):
                is_last = iteration == iterations
                calls.append(row(window, seconds, 0.05, 0.0, iteration=iteration, complete=is_last, mapping=0.05))
        begin_ns = START + number * 10**12
        write_store(tmp_path / str(number), calls, started_unix_ns=begin_ns, run=f"run{number}")
    (repeated,) = [finding for finding in checked(tmp_path).findings if finding.kind == "repeated runs"]
    assert repeated.text == "on 1 rank it took 13.3 % longer in run1 than in run0"


def test_a_negligible_participant_does_not_disagree_with_itself(tmp_path: Path) -> None:
    plant_twice(tmp_path, {"Large": 1.0, "Small": 0.001}, {"Large": 1.0, "Small": 0.002}, noise=0.01)
    assert found(checked(tmp_path)) == []


def test_runs_on_other_ranks_are_not_repeated(tmp_path: Path) -> None:
    for ranks in (1, 2):
        costs = {"A": noisy(ranks, 40, 0.01, 1.0 / ranks)}
        plant(tmp_path / str(ranks), costs, begin=1000.0 * ranks, ranks=ranks)
    assert found(checked(tmp_path)) == []


def plant_run(directory: Path, begin: float, seconds: float, hostname: str) -> None:
    """Plant a steady run that begins at and lasts these seconds, on a host."""
    begin_ns = START + round(begin * 1e9)
    calls = [row(window, 1.0, 0.5, 0.5) for window in range(1, 13)]
    write_store(directory, calls, started_unix_ns=begin_ns, seconds=seconds, hostname=hostname, run=directory.name)


@pytest.mark.parametrize(
    ("begin", "hostname", "findings"),
    [
        # Half of the run of 10 s beside one of 1000 s.
        (995.0, "node1", [("other load", "long, short")]),
        (995.0, "node2", []),
        # A hundredth of it.
        (999.9, "node1", []),
        (1001.0, "node1", []),
    ],
)
def test_runs_at_the_same_time_on_one_host_load_each_other(
    tmp_path: Path, begin: float, hostname: str, findings: list[tuple[str, str]]
) -> None:
    plant_run(tmp_path / "long", 0.0, 1000.0, "node1")
    plant_run(tmp_path / "short", begin, 10.0, hostname)
    result = checked(tmp_path)
    assert found(result) == findings
    if findings:
        assert result.findings[0].text == "both ran on node1 at the same time, for 50 % of the shorter one"
