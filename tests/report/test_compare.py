"""What changed between runs: planted changes are recovered with who did it, and noise is none."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from conftest import FULL_COUNTS
from coupled_runs import autocorrelated, coupled_run
from report_helpers import refused
from store_helpers import START, write_coupled

from precice_lb.cli import main
from precice_lb.dataset import CoupledRun
from precice_lb.dataset.changes import blocks_for, change_of, step_of
from precice_lb.report import markdown
from precice_lb.report.compare import compare_runs, comparison_blocks

GROWN = 7


def write_production(directory: Path, runs: int, factor: float = 1.2, seed: int = 0) -> None:
    """Runs of A and B that differ by 1 %; from the run `GROWN` on B's compute time is greater by a factor."""
    generator = np.random.default_rng(seed)
    for number in range(runs):
        run = f"run-{number}"
        level = {"A": 0.6, "B": 0.8 * (factor if number >= GROWN else 1.0)}
        noise = np.exp(0.01 * generator.standard_normal() + 0.02 * generator.standard_normal((2, 12)))
        costs = {who: seconds * part for (who, seconds), part in zip(level.items(), noise, strict=True)}
        # In another order than they started.
        place, start = directory / f"{-number % 5}-{number}", START + number * 3600 * 10**9
        version = "3.1.2" if number < GROWN else "3.2.0"
        write_coupled(place, costs, run=run, started_unix_ns=start, precice_version=version)


def test_production_became_slower_at_one_run_and_b_did_it_while_a_waits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_production(tmp_path, 12)
    assert main(["compare", str(tmp_path), "--format", "json", "--fail-above", "5%"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["changed_from"], found["caused_by"]) == (f"run-{GROWN}", ["B"])
    assert found["before"] == [f"run-{number}" for number in range(GROWN)]
    assert found["coupled"]["window_seconds"]["share"] == pytest.approx(0.2, abs=0.02)
    a, b = found["participants"]["A"], found["participants"]["B"]
    assert not a["compute_seconds"]["more_than_noise"]
    assert b["compute_seconds"]["more_than_noise"]
    assert not b["wait_seconds"]["more_than_noise"]
    assert a["wait_seconds"]["low"] < 0.16 < a["wait_seconds"]["high"]
    assert found["changed"] == {"preCICE": ["3.1.2", "3.2.0"]}
    assert main(["compare", str(tmp_path), "--fail-above", "30%"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert f"From run run-{GROWN} on (no. 8 of 12) the coupled run is slower" in text
    assert "The cause is the compute time of B (+" in text


def test_steady_production_did_not_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_production(tmp_path, 12, factor=1.0)
    assert main(["compare", str(tmp_path), "--fail-above", "0%"]) == 0
    assert "The window time did not change by more than noise over 12 runs" in capsys.readouterr().out


def is_step(values: np.ndarray) -> tuple[int, bool]:
    place, places = step_of(values)
    return place, change_of(values[:place], values[place:], same_noise=True, places=places).is_real


@pytest.mark.parametrize("runs", [6, 10, pytest.param(30, marks=pytest.mark.slow("statistics"))])
def test_noise_of_runs_is_rarely_a_step(runs: int) -> None:
    generator, count = np.random.default_rng(runs), 1000 if FULL_COUNTS else 400
    alarms = sum(is_step(np.exp(0.05 * generator.standard_normal(runs)))[1] for _ in range(count))
    # At most 1 % are expected: 4, with a standard deviation of 2, or 10, with one of 3.1.
    assert alarms <= 0.02 * count


@pytest.mark.parametrize("place", [3, 6, 14, 17])
def test_planted_steps_are_found_where_they_are(place: int) -> None:
    generator = np.random.default_rng(place)
    levels = np.where(np.arange(20) < place, 1.0, 1.2)
    found = [is_step(levels * np.exp(0.02 * generator.standard_normal(20))) for _ in range(100)]
    assert found.count((place, True)) >= 99


def test_one_slow_run_among_many_is_no_step() -> None:
    generator = np.random.default_rng(3)
    for place in (0, 30, 59):
        values = np.exp(0.02 * generator.standard_normal(60))
        values[place] *= 1.5
        assert not is_step(values)[1]


@pytest.mark.parametrize("windows", [10, 60, 300])
def test_noise_of_windows_that_are_alike_is_rarely_a_change(windows: int) -> None:
    generator, count = np.random.default_rng(windows), blocks_for(windows)

    def blocks() -> np.ndarray:
        seconds = np.exp(0.05 * autocorrelated(generator, windows, 0.5))
        return np.array([part.mean() for part in np.array_split(seconds, count)])

    alarms = sum(change_of(blocks(), blocks()).is_real for _ in range(500))
    assert alarms <= 15


def test_intervals_by_hand() -> None:
    # Of two degrees of freedom, the quantile of Student's t at p is (2 p - 1) sqrt(2 / (4 p (1 - p))).
    quantile = 0.99 * math.sqrt(2 / 0.0199)
    change = change_of(np.exp([0.0, 2.0]), np.exp([3.0, 5.0, np.nan]))
    assert (change.before, change.after) == pytest.approx((math.e, math.e**4))
    # Variances of 2 over two values each.
    assert change.low == pytest.approx(math.e * math.expm1(3 - quantile * math.sqrt(2)))
    assert change.high == pytest.approx(math.e * math.expm1(3 + quantile * math.sqrt(2)))
    # A single value has the noise of the others: a variance of 2 times 1 + 1/2, of one degree of freedom.
    single = change_of(np.array([0.0]), np.array([1.0, 3.0]), is_ratio=False)
    half = math.tan(math.pi * 0.495) * math.sqrt(3)
    assert (single.low, single.high) == pytest.approx((2 - half, 2 + half))
    alone = change_of(np.ones(1), np.full(1, 2.0))
    assert alone.high == math.inf
    assert not alone.is_real


def steady(name: str, split: dict[str, int], own: dict[str, float], iterations: float = 1.0) -> CoupledRun:
    series = {who: np.full(13, seconds) for who, seconds in own.items()}
    return coupled_run(name, split, series, np.full(13, iterations), serial=False)


def test_before_and_after_another_split() -> None:
    before = steady("old", {"A": 4, "B": 4}, {"A": 0.4, "B": 0.1})
    after = steady("new", {"A": 8, "B": 4}, {"A": 0.2, "B": 0.1})
    found = compare_runs([before], [after])
    assert (found.blocks, found.causes) == (3, ["A"])
    assert (found.window.before, found.window.after, found.window.share) == pytest.approx((0.4, 0.2, -0.5))
    assert found.changes["B", "wait_seconds"].low == pytest.approx(-0.2)
    # 1/2 of A and 1 of B.
    assert found.changes["", "compute_seconds"].share == pytest.approx(math.sqrt(0.5) - 1)
    assert found.changed == {"ranks of A": ("4", "8")}
    text = markdown(comparison_blocks(found))
    assert "After the change the coupled run is faster: its window takes 50.0 % shorter (0.4000 -> 0.2000 s" in text
    assert "\nranks of A 4 -> 8\n" in text
    assert "| A | compute | 0.40000 | 0.20000 | -50.0 % | -50.0 % to -50.0 % | changed |" in text


def test_more_iterations_are_nobodys_compute_time() -> None:
    own, split = {"A": 0.1, "B": 0.2}, {"A": 1, "B": 1}
    found = compare_runs([steady("old", split, own, 4.0)], [steady("new", split, own, 5.0)])
    assert found.window.share == pytest.approx(0.25)
    assert found.causes == []
    assert "Coupling iterations per window: 4.00 -> 5.00." in markdown(comparison_blocks(found))


def test_wrong_input_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two, other = (tmp_path / name for name in ("one", "two", "other"))
    for place, who in ((one, "AB"), (two, "AB"), (other, "AC")):
        write_coupled(place, {name: [0.1] * 4 for name in who}, run=place.name)
    assert "nowhere: expected the directory of a run" in refused(capsys, "compare", one, tmp_path / "nowhere")
    text = refused(capsys, "compare", one, other)
    assert "found A and B per time window in run one, and A and C per time window in run other; give runs" in text
    assert "found 1 run (one); give more" in refused(capsys, "compare", one)
    for wrong in ("5", "-1%", "nan%", "much%"):
        text = refused(capsys, "compare", one, two, f"--fail-above={wrong}")
        assert text.endswith(f"expected a percentage from 0%, such as 5%, found '{wrong}'\n"), text
    assert "found none in one; leave out fewer (--warmup)" in refused(capsys, "compare", one, two, "--warmup", "4")
