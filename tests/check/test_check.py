"""Judging recorded runs: what is planted is found, with its size, and what is not planted is not found."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from coupled_runs import autocorrelated
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from report_helpers import configuration
from store_helpers import START, row, write_store

from precice_lb.check import CheckResult, Finding, check_runs
from precice_lb.cli import main
from precice_lb.dataset import load_runs
from precice_lb.dataset.series import drift_of, outliers_of, shared_slowness, spread_of, warmup_of

Array = NDArray[np.float64]
TRANSFER = 0.001


def noisy(seed: int, windows: int, noise: float = 0.02, seconds: float = 1.0) -> Array:
    return seconds * np.exp(noise * np.random.default_rng(seed).standard_normal(windows))


def plant(
    directory: Path,
    costs: Mapping[str, Sequence[float]],
    *,
    begin: float = 0.0,
    ranks: int = 1,
    hosts: Mapping[str, str] | None = None,
    **more: object,
) -> None:
    """Stores of a parallel coupling of participants that ``costs`` seconds by window."""
    windows = len(next(iter(costs.values())))
    for name, seconds in costs.items():
        table = []
        for window in range(windows):
            wall = max(cost[window] for cost in costs.values()) + TRANSFER
            wait = wall - seconds[window]
            table.append(row(window + 1, wall - wait, wait, wait))
        if hosts:
            more["hostname"] = hosts[name]
        for rank in range(ranks):
            write_store(
                directory, table, name, rank, ranks, started_unix_ns=START + round(begin * 1e9), seconds=100.0, **more
            )


def checked(directory: Path, warmup: int | None = None) -> CheckResult:
    return check_runs(load_runs([directory], warmup=warmup))


def kinds(result: CheckResult) -> list[str]:
    return [finding.kind for finding in result.findings]


@pytest.mark.parametrize("windows", [12, 40, 300])
@pytest.mark.parametrize("warmup", [0, 1, 3, 5])
@pytest.mark.parametrize("factor", [0.6, 1.5, 3.0])
def test_planted_warmup_is_found(windows: int, warmup: int, factor: float) -> None:
    for seed in range(5):
        seconds = noisy(seed, windows, 0.015)
        seconds[:warmup] *= factor
        assert warmup_of(seconds) == warmup


def test_warmup_that_fades_ends_where_it_is_lost_in_the_noise() -> None:
    seconds = noisy(1, 100, 0.01) * (1 + 0.5 * np.exp(-np.arange(100) / 5))
    # 0.5 exp(-k/5) falls below four deviations of 1 % at k = 12.6.
    assert 8 <= warmup_of(seconds) <= 16


def test_one_outlier_is_no_warmup_and_warmup_without_end_is_half_of_the_run() -> None:
    seconds = noisy(1, 60, 0.01)
    seconds[7] *= 4
    assert warmup_of(seconds) == 0
    assert warmup_of(np.repeat([3.0, 1.0], [13, 11])) == 12
    assert warmup_of(np.ones(3)) == 0
    assert warmup_of(np.ones(10)) == 0


def test_a_drift_from_the_start_is_no_warmup() -> None:
    seconds = noisy(3, 200, 0.01) * np.linspace(1.0, 1.3, 200)
    assert warmup_of(seconds) == 0


@pytest.mark.parametrize("change", [-0.2, 0.1, 0.5])
@pytest.mark.parametrize("windows", [24, 200, 1000])
def test_planted_drift_is_found(change: float, windows: int) -> None:
    seconds = noisy(5, windows, 0.02) * np.linspace(1 - change / 2, 1 + change / 2, windows)
    drift = drift_of(seconds)
    assert drift.significant
    assert drift.change == pytest.approx(change, abs=0.035)


def test_noise_alone_gives_no_drift_outliers_or_warmup() -> None:
    """At most one in fifty of what has no trend, and hardly a window."""
    drifting = early = outliers = 0
    for seed in range(300):
        seconds = noisy(seed, 60, 0.03)
        drifting += drift_of(seconds).significant
        early += warmup_of(seconds) > 0
        outliers += len(outliers_of(seconds))
    assert drifting <= 6
    assert early <= 6
    assert outliers <= 30


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=40))
def test_any_series_is_judged(values: list[float]) -> None:
    seconds = np.array(values)
    assert 0 <= warmup_of(seconds) <= len(seconds) // 2
    assert math.isfinite(drift_of(seconds).change)
    assert set(outliers_of(seconds)) <= set(range(len(seconds)))
    spread = spread_of(seconds)
    assert math.isnan(spread.error) or spread.error >= 0
    assert abs(shared_slowness(seconds, seconds[::-1])[0]) <= 1 + 1e-9


def test_planted_outliers_are_found() -> None:
    seconds = noisy(2, 100, 0.02)
    seconds[[10, 11, 50, 99]] *= [2.0, 1.6, 0.4, 1.8]
    assert outliers_of(seconds).tolist() == [10, 11, 50, 99]
    assert spread_of(seconds).deviation == pytest.approx(0.02, rel=0.3)


def test_the_stated_error_of_the_median_is_right() -> None:
    errors, medians, alike, stated_alike = [], [], [], []
    for seed in range(400):
        seconds = noisy(seed, 50, 0.05)
        errors.append(spread_of(seconds).error)
        medians.append(np.median(seconds))
        walk = np.log(noisy(seed, 240, 0.05))
        for at in range(1, len(walk)):
            walk[at] += 0.5 * walk[at - 1]
        alike.append(np.median(np.exp(walk[40:])))
        stated_alike.append(spread_of(np.exp(walk[40:])).error)
    assert np.mean(errors) == pytest.approx(np.std(medians), rel=0.2)
    assert np.mean(stated_alike) == pytest.approx(np.std(alike), rel=0.2)
    halves = []
    for seed in range(20):
        spread = spread_of(noisy(seed, 50, 0.05))
        again = spread_of(noisy(seed, spread.windows_for(spread.error / 2), 0.05))
        halves.append(again.error / spread.error)
    assert np.mean(halves) == pytest.approx(0.5, rel=0.1)


def test_runs_without_fault_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plant(tmp_path, {"A": noisy(1, 60), "B": noisy(2, 60, seconds=0.7)})
    assert checked(tmp_path).findings == ()
    assert main(["check", str(tmp_path)]) == 0
    assert "nothing found that speaks against these runs" in capsys.readouterr().out


def test_warmup_of_a_run_is_named_with_what_to_leave_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = noisy(1, 60)
    a[:4] *= 1.8
    plant(tmp_path, {"A": a, "B": noisy(2, 60, seconds=0.5)})
    # Nobody said how many: they are left out, and nothing speaks against the run.
    (run,) = load_runs([tmp_path])
    assert (run.warmup_stated, run.warmup_windows) == (1, 4)
    assert checked(tmp_path).findings == ()
    result = checked(tmp_path, warmup=1)
    assert kinds(result) == ["warm-up"]
    finding = result.findings[0]
    assert finding.participant == "A"
    assert "windows 2 to 4 are 8" in finding.text
    assert "slower" in finding.text
    assert "--warmup 4" in finding.remedy
    assert result.warmup == 4
    assert checked(tmp_path, warmup=4).findings == ()
    assert main(["check", str(tmp_path), "--warmup", "1"]) == 1
    shown = capsys.readouterr().out
    assert "4 (1 left out)" in shown
    assert "warm-up: A:1 B:1: A: windows 2 to 4" in shown


@pytest.mark.parametrize(("windows", "autocorrelation"), [(20, 0.0), (20, 0.5), (50, 0.6), (200, 0.8)])
def test_the_error_of_the_median_covers_the_truth_where_windows_are_alike(windows: int, autocorrelation: float) -> None:
    generator = np.random.default_rng(windows)
    covered, covered_if_unlike = [], []
    for _ in range(300):
        seconds = np.exp(0.05 * autocorrelated(generator, windows, autocorrelation))
        middle = float(np.median(seconds))
        error = spread_of(seconds).error * middle
        covered.append(abs(middle - 1) < 1.96 * error)
        covered_if_unlike.append(abs(middle - 1) < 1.96 * 1.2533 * np.std(seconds) / np.sqrt(windows))
    assert 0.89 <= np.mean(covered) <= 0.99
    # Which matters: without it, two of three runs with such windows at most.
    assert autocorrelation < 0.6 or np.mean(covered_if_unlike) < 0.75


def test_drift_outliers_and_spread_are_named_with_numbers(tmp_path: Path) -> None:
    jumpy = noisy(4, 80, seconds=0.4)
    jumpy[::9] *= 2.5
    costs = {
        "Drifting": noisy(3, 80) * np.linspace(1, 1.3, 80),
        "Jumpy": jumpy,
        "Noisy": noisy(5, 80, 0.25, 0.4),
    }
    plant(tmp_path, costs)
    result = checked(tmp_path)
    by_name = {(f.participant, f.kind): f for f in result.findings}
    assert set(by_name) == {("Drifting", "drift"), ("Jumpy", "outliers"), ("Noisy", "spread")}
    assert re.search(r"grow by 2\d\.\d % of their median over 79 windows", by_name["Drifting", "drift"].text)
    assert re.fullmatch(r"\+2\d\.\d %", next(h.drift_text for h in result.healths if h.participant == "Drifting"))
    assert "2.5 times the median" in by_name["Jumpy", "outliers"].text
    assert "windows differ by 2" in by_name["Noisy", "spread"].text
    assert "repeat the run" in by_name["Noisy", "spread"].remedy


def test_participants_that_slow_down_together_betray_other_load(tmp_path: Path) -> None:
    disturbance = np.exp(0.08 * np.random.default_rng(8).standard_normal(80))
    costs = {"A": noisy(1, 80) * disturbance, "B": noisy(2, 80, seconds=0.6) * disturbance}
    plant(tmp_path / "shared", costs, hostname="node1")
    result = checked(tmp_path / "shared")
    assert kinds(result) == ["other load"]
    assert "A and B are slow in the same windows (correlation 0.9" in result.findings[0].text
    plant(tmp_path / "alone", {"A": noisy(1, 80, 0.08), "B": noisy(2, 80, 0.08, 0.6)}, hostname="node1")
    assert kinds(checked(tmp_path / "alone")) == []
    # On machines of their own, no load of one machine can be the reason.
    plant(tmp_path / "apart", costs, hosts={"A": "node1", "B": "node2"})
    assert kinds(checked(tmp_path / "apart")) == []


def test_runs_that_disagree_or_overlap_are_named(tmp_path: Path) -> None:
    for number, factor in enumerate((1.0, 1.01, 1.12)):
        costs = {"A": noisy(number, 40) * factor, "B": noisy(9 + number, 40, seconds=0.5)}
        plant(tmp_path / str(number), costs, begin=60.0 * number, run=f"run{number}", hostname="node1")
    result = checked(tmp_path)
    repeated = [f for f in result.findings if f.kind == "repeated runs"]
    assert [f.participant for f in repeated] == ["A"]
    assert "on 1 rank it took 1" in repeated[0].text
    assert "run2" in repeated[0].run
    overlapping = [f for f in result.findings if f.kind == "other load"]
    # Each takes 100 s and begins 60 s after the one before.
    assert [f.run for f in overlapping] == ["run0, run1", "run1, run2"]
    assert "for 40 % of the shorter one" in overlapping[0].text


def test_two_versions_on_as_many_ranks_are_no_repeated_runs(tmp_path: Path) -> None:
    for number, version in enumerate(("cpu", "gpu")):
        costs = {"A": noisy(number, 40) * (1.0 if version == "gpu" else 10.0)}
        plant(tmp_path / version, costs, begin=60.0 * number, run=version, version=version)
    assert "repeated runs" not in kinds(checked(tmp_path))


def test_what_was_not_measured_or_is_too_short_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_store(tmp_path / "a", [row(w, 0.1, 0.2, None) for w in range(1, 20)], "A")
    assert kinds(checked(tmp_path / "a")) == ["not measured"]
    plant(tmp_path / "b", {"A": [1.0] * 4, "B": [0.5] * 4})
    result = checked(tmp_path / "b")
    assert kinds(result) == ["windows", "windows"]
    assert "3 windows are left after warm-up" in result.findings[0].text
    assert main(["check", str(tmp_path / "a"), "--format", "json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["participants"][0]["seconds"] is None
    assert data["findings"][0]["kind"] == "not measured"
    assert main(["check", str(tmp_path / "none")]) == 2


def test_windows_to_record_come_after_a_long_warmup(tmp_path: Path) -> None:
    seconds = np.concatenate([noisy(1, 4, seconds=1.8), noisy(2, 4)])
    plant(tmp_path, {"A": seconds})
    (finding,) = [finding for finding in checked(tmp_path, warmup=1).findings if finding.kind == "windows"]
    assert finding.remedy == "record at least 14 windows"


def test_the_same_finding_of_several_runs_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Eight runs of two noisy participants gave sixteen findings of two lines each."""
    for number in range(8):
        costs = {"A": noisy(number, 60, 0.13), "B": noisy(50 + number, 60, 0.13, 0.6)}
        plant(tmp_path / f"run{number}", costs, begin=200.0 * number)
    result = checked(tmp_path)
    spreads = [finding for finding in result.findings if finding.kind == "spread"]
    assert len(spreads) >= 10
    (group,) = [group for group in result.groups if group.worst.kind == "spread"]
    assert group.worst.size == max(finding.size for finding in spreads)
    assert sorted([group.worst, *group.others], key=spreads.index) == spreads
    assert main(["check", str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert shown.count("\nspread (") == 1
    assert f"\nspread ({len(spreads)} times): A:1 B:1 (run" in shown
    # What is one word in the text stands on its own for programs.
    assert main(["check", str(tmp_path), "--format", "json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["findings"]) == len(result.findings)


def test_at_most_eight_runs_are_named_beside_the_worst() -> None:
    findings = tuple(Finding("drift", f"run {at}", "A", "", "wait", float(at)) for at in range(12))
    (group,) = CheckResult((), findings).groups
    assert group.worst.run == "run 11"
    assert group.also.startswith("run 0: A; run 1: A; ")
    assert group.also.endswith("run 7: A; and 3 more runs")


def test_a_participant_that_is_negligible_gets_no_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A participant of 0.3 ms beside windows of 2.9 s was to record 725510 windows, and to write output less often."""
    small = noisy(3, 60, 0.8, 1e-3)
    small[:5] *= 10
    plant(tmp_path, {"Large": noisy(1, 60), "Small": small})
    # Nor does its start leave out windows of the others.
    (run,) = load_runs([tmp_path])
    assert run.warmup_windows == 1
    result = check_runs([run])
    assert result.findings == ()
    assert [health.negligible for health in result.healths] == [False, True]
    assert main(["check", str(tmp_path)]) == 0
    assert "not judged, with less than 1 % of the window: Small" in capsys.readouterr().out
    plant(tmp_path / "again", {"Large": noisy(9, 60), "Small": 3 * small}, begin=500.0)
    assert checked(tmp_path).findings == ()
    plant(tmp_path / "more", {"Large": noisy(11, 60), "Small": noisy(12, 60, 0.02, 0.3)}, begin=1000.0)
    assert checked(tmp_path).findings == ()
    assert main(["check", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "1 % of the window: Small in Large:1 Small:1 #1, Small in Large:1 Small:1 #2\n" in shown


@pytest.mark.parametrize(
    ("noise", "remedy"),
    [
        (0.12, "record"),
        (0.3, "repeat the run: the machine is too noisy"),
        (0.8, "repeat the run: the machine is too noisy"),
    ],
)
def test_nobody_is_asked_for_more_than_ten_times_the_windows(noise: float, remedy: str, tmp_path: Path) -> None:
    plant(tmp_path, {"A": noisy(2, 30, noise)})
    (finding,) = [finding for finding in checked(tmp_path).findings if finding.kind == "spread"]
    assert finding.remedy.startswith(remedy)
    numbers = [int(word) for word in finding.remedy.split() if word.isdigit()]
    assert all(number <= 300 for number in numbers)


@pytest.mark.parametrize(("factor", "remedy"), [(3.0, "write output less often"), (0.3, "look into the solver's log")])
def test_fast_windows_have_another_remedy_than_slow_ones(factor: float, remedy: str, tmp_path: Path) -> None:
    seconds = noisy(4, 80)
    seconds[5::9] *= factor
    plant(tmp_path, {"A": seconds})
    (finding,) = [finding for finding in checked(tmp_path).findings if finding.kind == "outliers"]
    assert finding.remedy.startswith(remedy)


def test_the_column_of_drifts_says_what_the_findings_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(6):
        trend = np.linspace(1, 1.3, 40) if seed == 2 else 1.0
        plant(tmp_path / str(seed), {"A": noisy(seed, 40, 0.1) * trend}, begin=200.0 * seed)
    plant(tmp_path / "short", {"A": [1.0, 1.0, 1.2, 1.4]}, begin=9000.0)
    result = checked(tmp_path)
    drifting = {finding.run for finding in result.findings if finding.kind == "drift"}
    for health in result.healths:
        assert health.drift_text[0] in "+-" if health.run in drifting else health.drift_text in ("none", "unknown")
    assert result.healths[-1].drift_text == "unknown"
    assert result.to_dict()["participants"][-1]["drift"] is None
    main(["check", str(tmp_path)])
    table = capsys.readouterr().out
    assert table.count(" none ") == 6 - len(drifting)
    assert "nan" not in table


def test_runs_with_other_iterations_are_compared_per_iteration(tmp_path: Path) -> None:
    """Repeats of one speed that happened to take 2 and 3 iterations per window do not disagree."""
    for number, count in enumerate((2, 3)):
        rows = []
        for window, seconds in enumerate(noisy(number, 40, 0.01, 0.1), start=1):
            each = range(1, count + 1)
            rows += [row(window, seconds, 0.05, 0.05, iteration=at, complete=at == count) for at in each]
        write_store(tmp_path / str(number), rows, "A", started_unix_ns=START + number * 10**12)
    result = checked(tmp_path)
    assert kinds(result) == []
    assert [health.iterations for health in result.healths] == [2.0, 3.0]
    # The transfer floor of 0.05 s counts as compute seconds.
    assert [health.seconds for health in result.healths] == pytest.approx([0.3, 0.45], rel=0.02)


def test_words_for_one_window_and_for_none(tmp_path: Path) -> None:
    seconds = noisy(1, 40, 0.01)
    seconds[:2] *= 2
    plant(tmp_path / "a", {"A": seconds})
    (finding,) = checked(tmp_path / "a", warmup=1).findings
    assert finding.text.startswith("window 2 is 101 % slower than")
    assert finding.text.endswith("slower than those after, and 1 window is left out")
    for windows, text in ((1, "no window is left after warm-up"), (2, "1 window is left after warm-up")):
        plant(tmp_path / str(windows), {"A": [1.0] * windows})
        (finding,) = checked(tmp_path / str(windows)).findings
        assert finding.text == text
        assert finding.remedy == "record at least 11 windows"


def test_runs_that_were_killed_or_lack_a_participant_are_named(tmp_path: Path) -> None:
    rows = [row(w, 0.1, 0.02, 0.02) for w in range(1, 30)]
    write_store(tmp_path, rows, "Inner", configuration=configuration(), finished=False)
    result = checked(tmp_path)
    assert kinds(result) == ["not finished", "missing"]
    assert "(killed, failed or still running): 29 windows recorded" in result.findings[0].text
    assert result.findings[1].text.startswith("no records of Outer were found beside those of Inner in ")


def test_a_run_that_contradicts_the_others_is_shown_as_the_noise_of_its_reading(tmp_path: Path) -> None:
    for index, (ranks, factor) in enumerate([(1, 1.0), (2, 1.0), (4, 1.6), (8, 1.0), (16, 1.0)]):
        costs = {"A": noisy(index, 40, seconds=8.0 / ranks * factor), "B": noisy(50 + index, 40, seconds=9.0)}
        plant(tmp_path / f"{index}", costs, begin=1000.0 * index, ranks=ranks, run=f"run{index}")
    (found,) = [each for each in checked(tmp_path).findings if each.kind == "off the curve"]
    assert (found.run, found.participant) == ("run2", "A")
    assert found.size == pytest.approx(math.log(1.6), rel=0.15)
    assert found.text.startswith("on 4 ranks it took")
    assert "longer than its runs on more and on fewer tell" in found.text
