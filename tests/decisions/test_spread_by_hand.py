"""What windows differ by, by hand: standard errors, warm-up, and the bounds of what ``check`` finds worth a word."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction as F
from pathlib import Path
from typing import Any

import pytest
from decision_cases import DIGITS, coupled, printed_json, write_windows
from store_helpers import START

from precice_lb.dataset import load_measurements, load_runs

PARALLEL = coupled("parallel-explicit")
# Of normal noise: standard deviations per median absolute deviation, and standard errors of a median per one of a mean.
PER_DEVIATION, OF_MEDIAN = 1 / 0.6744897501960817, 1.2533
# Milliseconds of a usual window.
LEVEL = 1000


def write_series(directory: Path, a: Sequence[int], b: int = 600, **more: Any) -> None:
    """Windows of A as told and of B that are all alike."""
    write_windows(directory, PARALLEL, {"A": a, "B": [b] * len(a)}, {"A": 2, "B": 1}, **more)


def checked(capsys: pytest.CaptureFixture[str], directory: Path, *words: object) -> tuple[dict[str, Any], list[str]]:
    """Numbers of A in the first run, and the kinds of what was found of it or of all."""
    result = printed_json(capsys, "check", directory, *words)
    health = next(part for part in result["participants"] if part["participant"] == "A")
    return health, [finding["kind"] for finding in result["findings"] if finding["participant"] in ("A", "")]


def around(level: int, *gaps: int) -> list[int]:
    """A window of warm-up, and others that are off by so much."""
    return [level, *(level + gap for gap in gaps)]


# Milliseconds to the median of the windows; by hand, lag-1 autocorrelation, corrected, and median of their sizes.
SERIES = {
    # Alike neighbours: 21 / 52, corrected to (10 · 21 / 52 + 1) / 7 = 131 / 182.
    "alike": ((-4, -2, 1, 2, 4, 2, -1, -2, 1, -1), F(131, 182), 2),
    # Unlike neighbours count as if they told nothing of each other: no windows are won.
    "unlike": ((-4, 2, -2, 1, 4, -1, 2, -2, 1, -1), F(0), 2),
    # Fewer than eight are not corrected: 7 / 22, of 6 windows.
    "few": ((-3, -1, -1, 1, 1, 3), F(7, 22), 1),
}


@pytest.mark.parametrize("name", SERIES)
def test_a_median_is_known_to_its_spread_over_the_root_of_the_windows_that_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    gaps, autocorrelation, deviation = SERIES[name]
    n, level = len(gaps), 1250
    assert sum(gaps) == 0
    squares, products = sum(g * g for g in gaps), sum(g * h for g, h in zip(gaps[1:], gaps, strict=False))
    raw = F(products, squares)
    assert autocorrelation == max((n * raw + 1) / (n - 3) if n >= 8 else raw, F(0))
    write_series(tmp_path, around(level, *gaps))
    health, kinds = checked(capsys, tmp_path, "--warmup", 1)
    # The n - 0.8 stands for the degree of freedom that the median takes.
    share = PER_DEVIATION * deviation * float(F(n) / (n - F(8, 10))) / level
    effective = n * (1 - autocorrelation) / (1 + autocorrelation)
    error = OF_MEDIAN * share / math.sqrt(effective)
    assert kinds == []
    assert health["deviation"] == pytest.approx(share, rel=DIGITS)
    assert health["error"] == pytest.approx(error, rel=DIGITS)
    measured = load_measurements([tmp_path], warmup=1)
    assert measured.samples["A"][0, 1] == pytest.approx(level / 1000, rel=DIGITS)
    assert measured.frames["A"].standard_error[0] == pytest.approx(error * level / 1000, rel=DIGITS)


def test_windows_of_which_most_are_the_same_still_differ_by_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gaps = (0, 0, 20, 0, 0, -20, 0, 0)
    write_series(tmp_path, around(LEVEL, *gaps))
    health, _ = checked(capsys, tmp_path, "--warmup", 1)
    # The median size of the gaps is 0, their mean 5 ms; the two gaps lie far from each other.
    share = OF_MEDIAN * 5 / LEVEL
    # Clipped at three deviations, 18.8 ms, each; no neighbours: (8 · 0 + 1) / 5.
    effective = 8 * F(4, 5) / F(6, 5)
    assert health["deviation"] == pytest.approx(share, rel=DIGITS)
    assert health["error"] == pytest.approx(OF_MEDIAN * share / math.sqrt(effective), rel=DIGITS)


@pytest.mark.parametrize(
    ("series", "warmup"),
    [
        # Within 3 % of the later windows is no warm-up, and more is.
        ([1029, *[1000] * 11], 0),
        ([1031, *[1000] * 11], 1),
        ([969, *[1000] * 11], 1),
        # It ends with the first of two windows in a row that belong to the rest.
        ([1400, 1200, 1100, *[1000] * 9], 3),
        ([1400, 1000, 1400, *[1000] * 9], 3),
        ([1400, 1000, 1000, 1400, *[1000] * 8], 1),
        # Its end is not to be seen where the first half is all unlike the second.
        ([1400] * 6 + [1000] * 6, 6),
    ],
)
def test_warm_up_ends_where_two_windows_in_a_row_belong_to_the_rest(
    tmp_path: Path, series: list[int], warmup: int, capsys: pytest.CaptureFixture[str]
) -> None:
    write_series(tmp_path, series)
    assert checked(capsys, tmp_path, "--warmup", 0)[0]["warmup_found"] == warmup
    # Left out is what was found, but never fewer than one window.
    (run,) = load_runs([tmp_path])
    assert run.warmup_windows == max(warmup, 1)
    assert run.steady("A").sum() == 12 - max(warmup, 1)


def test_a_noisy_series_hides_a_warm_up_of_four_deviations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # The second half is off by 20 ms, in the median of the sizes; six windows: 4 (1 + 4 / 6) 20 ms / 0.6745 = 197.7 ms.
    half = [20, -20, 20, -20, 20, -20]
    bound = 4 * F(10, 6) * 20 / F(0.6744897501960817)
    for gap, warmup in ((math.floor(bound), 0), (math.ceil(bound), 1)):
        write_series(tmp_path / str(gap), [LEVEL + gap, *(LEVEL + g for g in half[1:]), *(LEVEL + g for g in half)])
        assert checked(capsys, tmp_path / str(gap), "--warmup", 0)[0]["warmup_found"] == warmup


@pytest.mark.parametrize(("windows", "worth_a_word"), [(5, False), (4, True)])
def test_five_windows_are_enough(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], windows: int, worth_a_word: bool
) -> None:
    write_series(tmp_path, [LEVEL] * (windows + 1))
    assert ("windows" in checked(capsys, tmp_path, "--warmup", 1)[1]) is worth_a_word


@pytest.mark.parametrize(("outliers", "count", "worth_a_word"), [(2, 40, False), (3, 40, True), (1, 19, True)])
def test_outliers_in_more_than_a_twentieth_of_the_windows_are_worth_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], outliers: int, count: int, worth_a_word: bool
) -> None:
    series = [LEVEL] * count
    for number in range(outliers):
        series[(number + 1) * count // (outliers + 1)] = 1101
    series[count // 5] = 1099
    write_series(tmp_path, [LEVEL, *series])
    health, kinds = checked(capsys, tmp_path, "--warmup", 1)
    # Farther than 10 % from its neighbours.
    assert health["outliers"] == outliers
    assert ("outliers" in kinds) is worth_a_word


@pytest.mark.parametrize(("change", "worth_a_word"), [(29, False), (31, True)])
def test_runs_of_the_same_ranks_may_differ_by_3_percent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: int, worth_a_word: bool
) -> None:
    for number, level in enumerate((LEVEL, LEVEL + change)):
        write_series(tmp_path / str(number), [level] * 10, started_unix_ns=START + number * 10**12)
    assert ("repeated runs" in checked(capsys, tmp_path)[1]) is worth_a_word


@pytest.mark.parametrize(("change", "worth_a_word"), [(44, False), (46, True)])
def test_noisy_runs_of_the_same_ranks_may_differ_by_what_their_windows_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: int, worth_a_word: bool
) -> None:
    gaps = (-4, 2, -2, 1, 4, -1, 2, -2, 1, -1)
    for number, (level, scale) in enumerate(((LEVEL, 5), (LEVEL + change, 10))):
        series = [level, *(level + scale * gap for gap in gaps)]
        write_series(tmp_path / str(number), series, started_unix_ns=START + number * 10**12)
    # Standard errors of the medians: 1.2533 · 1.4826 · (10 / 9.2) · 10 and 20 ms / √10; together 3.29 times 1.37 %.
    one, other = (
        OF_MEDIAN * PER_DEVIATION * 2 * scale / 0.92 / math.sqrt(10) / level
        for level, scale in ((LEVEL, 5), (LEVEL + change, 10))
    )
    assert (change / LEVEL > max(0.03, 3.29 * math.hypot(one, other))) is worth_a_word
    assert ("repeated runs" in checked(capsys, tmp_path)[1]) is worth_a_word


@pytest.mark.parametrize(("overlap", "worth_a_word"), [(0.02, False), (0.03, True)])
def test_runs_overlap_by_a_share_of_the_shorter_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], overlap: float, worth_a_word: bool
) -> None:
    # 100 s, then 10 s, which begin before the others have ended.
    for number, (seconds, begin) in enumerate(((100.0, 0.0), (10.0, 100.0 - 10 * overlap))):
        begun = START + round(begin * 1e9)
        write_series(tmp_path / str(number), [LEVEL] * 10, seconds=seconds, started_unix_ns=begun, hostname="here")
    assert ("other load" in checked(capsys, tmp_path)[1]) is worth_a_word


@pytest.mark.parametrize(("step", "worth_a_word"), [(9, False), (10, True)])
def test_a_drift_of_3_percent_is_worth_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], step: int, worth_a_word: bool
) -> None:
    # 32 windows that grow by the same in every step, so that the slope of all pairs is that step.
    series = [10_000 + step * window for window in range(32)]
    write_series(tmp_path, [series[0], *series], b=6000)
    health, kinds = checked(capsys, tmp_path, "--warmup", 1)
    drift = F(31 * step) / (10_000 + F(31 * step, 2))
    assert health["drift"] == pytest.approx(float(drift), rel=DIGITS)
    assert ("drift" in kinds) is (drift > F(3, 100)) is worth_a_word
