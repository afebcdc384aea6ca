"""Judging recorded runs: what is planted is found, with its size, and what is not planted is not found."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import scipy
from check_helpers import checked, found, noisy, plant
from coupled_runs import autocorrelated
from hypothesis import given
from hypothesis import strategies as st
from report_helpers import configuration
from store_helpers import START, row, write_store

from precice_lb.check import check_runs
from precice_lb.cli import main
from precice_lb.dataset import drift_of, load_runs, outliers_of, shift_of, spread_of, warmup_of


@pytest.mark.parametrize("windows", [12, 40, 300])
@pytest.mark.parametrize("warmup", [0, 1, 3, 5])
@pytest.mark.parametrize("factor", [0.6, 1.5, 3.0])
def test_planted_warmup_is_found(windows: int, warmup: int, factor: float) -> None:
    for seed in range(5):
        seconds = noisy(seed, windows, 0.015)
        seconds[:warmup] *= factor
        assert warmup_of(seconds) == warmup


@pytest.mark.parametrize("change", [-0.2, 0.1, 0.5])
@pytest.mark.parametrize("windows", [24, 200, 1000])
def test_planted_drift_is_found(change: float, windows: int) -> None:
    seconds = noisy(5, windows, 0.02) * np.linspace(1 - change / 2, 1 + change / 2, windows)
    drift = drift_of(seconds)
    assert drift.significant
    assert drift.change == pytest.approx(change, abs=0.035)


@pytest.mark.parametrize("decimals", [1, 2, 9])
def test_drift_and_shift_are_as_unlikely_as_scipy_says(decimals: int) -> None:
    for seed in range(25):
        seconds = noisy(seed, 8 + seed, 0.1).round(decimals)
        latest = noisy(seed + 100, 9, 0.1, 1.05).round(decimals)
        windows = np.arange(len(seconds))
        drift, shift = drift_of(seconds), shift_of(seconds, latest)
        slope = scipy.stats.theilslopes(seconds).slope
        assert drift.change == pytest.approx(slope * windows[-1] / np.median(seconds))
        for move, test in (
            (drift, scipy.stats.kendalltau(windows, seconds)),
            (shift, scipy.stats.mannwhitneyu(seconds, latest, method="asymptotic")),
        ):
            assert abs(move.z_score) == pytest.approx(scipy.stats.norm.isf(test.pvalue / 2), abs=1e-9)
        assert drift.z_score * slope >= 0
        assert shift.z_score * (latest[:, None] > seconds).mean() >= shift.z_score * (latest[:, None] < seconds).mean()


def test_noise_alone_gives_no_drift_outliers_or_warmup() -> None:
    """At most one in fifty of what has no trend, and hardly a window."""
    series = [noisy(seed, 60, 0.03) for seed in range(300)]
    assert sum(drift_of(seconds).significant for seconds in series) <= 6
    assert sum(warmup_of(seconds) > 0 for seconds in series) <= 6
    assert sum(len(outliers_of(seconds)) for seconds in series) <= 30


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=40))
def test_any_series_is_judged(values: list[float]) -> None:
    seconds = np.array(values)
    assert 0 <= warmup_of(seconds) <= len(seconds) // 2
    assert math.isfinite(drift_of(seconds).change)
    assert set(outliers_of(seconds)) <= set(range(len(seconds)))
    spread = spread_of(seconds)
    assert math.isnan(spread.error) or spread.error >= 0


def test_planted_outliers_are_found() -> None:
    seconds = noisy(2, 100, 0.02)
    seconds[[10, 11, 50, 99]] *= [2.0, 1.6, 0.4, 1.8]
    assert outliers_of(seconds).tolist() == [10, 11, 50, 99]
    assert spread_of(seconds).deviation == pytest.approx(0.02, rel=0.3)


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


def test_runs_with_other_iterations_are_compared_per_iteration(tmp_path: Path) -> None:
    """Repeats of one speed that happened to take 2 and 3 iterations per window do not disagree."""
    for number, count in enumerate((2, 3)):
        rows = []
        for window, seconds in enumerate(noisy(number, 40, 0.01, 0.1), start=1):
            iterations = range(1, count + 1)
            rows += [row(window, seconds, 0.05, 0.05, iteration=i, complete=i == count) for i in iterations]
        write_store(tmp_path / str(number), rows, "A", started_unix_ns=START + number * 10**12)
    result = checked(tmp_path)
    assert found(result) == []
    assert [health.iterations for health in result.healths] == [2.0, 3.0]
    # The transfer floor of 0.05 s counts as compute seconds.
    assert [health.seconds for health in result.healths] == pytest.approx([0.3, 0.45], rel=0.02)


def test_warmup_of_a_run_is_named_with_what_to_leave_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = noisy(1, 60)
    a[:4] *= 1.8
    plant(tmp_path, {"A": a, "B": noisy(2, 60, seconds=0.5)})
    # Nobody said how many: they are left out, and nothing speaks against the run.
    (run,) = load_runs([tmp_path])
    assert (run.warmup_stated, run.warmup_windows) == (1, 4)
    assert checked(tmp_path).findings == ()
    result = checked(tmp_path, warmup=1)
    (finding,) = result.findings
    assert (finding.kind, finding.participant, result.warmup) == ("warm-up", "A", 4)
    assert finding.text == "windows up to 4 are +81.1 % beside those after (1 left out)"
    assert finding.remedy == "leave out 4: --warmup 4, or say nothing of it"
    assert main(["check", str(tmp_path), "--warmup", "1"]) == 1
    shown = capsys.readouterr().out
    assert "4 (1 left out)" in shown
    assert "warm-up: A:1 B:1: A: windows up to 4" in shown


def test_findings_are_named_with_numbers_and_remedies(tmp_path: Path) -> None:
    jumpy = noisy(4, 80, seconds=0.4)
    jumpy[::9] *= 2.5
    drifting = noisy(3, 80) * np.linspace(1, 1.3, 80)
    plant(tmp_path, {"Drifting": drifting, "Jumpy": jumpy, "Noisy": noisy(5, 80, 0.25, 0.4)})
    result = checked(tmp_path)
    run = "Drifting:1 Jumpy:1 Noisy:1"
    assert found(result) == [
        ("drift", f"{run}: Drifting"),
        ("outliers", f"{run}: Jumpy"),
        ("spread", f"{run}: Noisy"),
    ]
    sizes = [finding.size for finding in result.findings]
    assert sizes == pytest.approx([0.26, math.log(2.5), 1.2533 * 0.25 / math.sqrt(79)], rel=0.25)
    assert [health.drift_text[:2] for health in result.healths] == ["+2", "no", "no"]


def spread_remedy(directory: Path, noise: float) -> str:
    """Return what is to be done about 30 windows that differ by this relative standard deviation."""
    plant(directory, {"A": noisy(2, 30, noise)})
    (finding,) = [finding for finding in checked(directory).findings if finding.kind == "spread"]
    return finding.remedy


def test_remedy_of_spread_is_the_windows_that_the_median_needs(tmp_path: Path) -> None:
    match = re.fullmatch(r"record (\d+) windows to know it to 1 %, or repeat the run", spread_remedy(tmp_path, 0.12))
    assert match is not None
    # The error of a median of n windows is 1.2533 x 12 % / sqrt(n).
    assert int(match[1]) == pytest.approx((1.2533 * 0.12 / 0.01) ** 2, rel=0.1)


def test_nobody_is_asked_for_more_than_ten_times_the_windows(tmp_path: Path) -> None:
    # 10053 windows would be needed.
    assert spread_remedy(tmp_path, 0.8) == (
        "repeat the run: machine or work change too much for any reasonable number of windows"
    )


def test_runs_that_disagree_or_overlap_are_named(tmp_path: Path) -> None:
    for number, factor in enumerate((1.0, 1.01, 1.12)):
        costs = {"A": noisy(number, 40) * factor, "B": noisy(9 + number, 40, seconds=0.5)}
        plant(tmp_path / str(number), costs, begin=60.0 * number, run=f"run{number}", hostname="node1")
    # Each takes 100 s and begins 60 s after the one before.
    result = checked(tmp_path)
    assert found(result) == [
        ("repeated runs", "run0, run2: A"),
        ("other load", "run0, run1"),
        ("other load", "run1, run2"),
    ]
    assert "longer in run2 than in run0" in result.findings[0].text
    # Two versions on as many ranks are no repeated runs.
    for number, version in enumerate(("cpu", "gpu")):
        costs = {"A": noisy(number, 40) * (1.0 if version == "gpu" else 10.0)}
        plant(tmp_path / version, costs, begin=1000 + 200.0 * number, run=version, version=version)
    assert found(check_runs(load_runs([tmp_path / "cpu", tmp_path / "gpu"]))) == []


@pytest.mark.parametrize(("windows", "left"), [(1, "0 windows"), (2, "1 window"), (4, "3 windows")])
def test_too_few_windows_are_said(windows: int, left: str, tmp_path: Path) -> None:
    plant(tmp_path, {"A": [1.0] * windows})
    (finding,) = checked(tmp_path).findings
    assert (finding.text, finding.remedy) == (f"{left} left after warm-up", "record at least 11 windows")


def test_what_was_not_measured_or_is_missing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = [row(w, 0.1, 0.2, None) for w in range(1, 20)]
    write_store(tmp_path, table, "Inner", configuration=configuration(), finished=False)
    assert main(["check", str(tmp_path), "--format", "json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["participants"][0]["seconds"] is None
    assert [finding["kind"] for finding in data["findings"]] == ["not finished", "missing", "not measured"]


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
