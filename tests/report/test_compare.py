"""What changed between runs: planted changes are recovered with who did it, and noise is none."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import pytest
import scipy.stats
from compare_helpers import run_of, sequence
from conftest import FULL_COUNTS
from coupled_runs import autocorrelated

from precice_lb.dataset import CoupledRun
from precice_lb.dataset.changes import blocks_for, change_of
from precice_lb.dataset.records import CoupledTime
from precice_lb.exceptions import DataError
from precice_lb.report import markdown
from precice_lb.report.compare import RunComparison, compare_in_order, compare_runs, comparison_blocks


def text_of(comparison: RunComparison) -> str:
    return markdown(comparison_blocks(comparison))


# --- since when: one step in a sequence ----------------------------------------------------------------------------


def step_found(window_seconds: np.ndarray) -> tuple[int, bool]:
    """Return the number of runs before the step, and whether it is more than noise."""
    comparison = compare_in_order(sequence(window_seconds))
    return len(comparison.before), comparison.window.is_real


@pytest.mark.parametrize("runs", [6, 10, pytest.param(30, marks=pytest.mark.slow("statistics"))])
def test_noise_of_runs_is_rarely_a_step(runs: int) -> None:
    generator = np.random.default_rng(runs)
    count = 1000 if FULL_COUNTS else 200

    alarms = 0
    for _ in range(count):
        _, is_real = step_found(np.exp(0.05 * generator.standard_normal(runs)))
        alarms += is_real

    # At most 1 % are expected. Chance gives more than this bound once in a thousand times.
    assert alarms <= scipy.stats.binom.ppf(0.999, count, 0.01)


@pytest.mark.parametrize("place", [3, 6, 14, 17])
def test_planted_steps_are_found_where_they_are(place: int) -> None:
    generator = np.random.default_rng(place)
    levels = np.where(np.arange(20) < place, 1.0, 1.2)

    steps = [step_found(levels * np.exp(0.02 * generator.standard_normal(20))) for _ in range(20)]

    assert steps == [(place, True)] * 20


@pytest.mark.parametrize("place", [0, 30, 59])
def test_one_slow_run_among_many_is_no_step(place: int) -> None:
    values = np.exp(0.02 * np.random.default_rng(3).standard_normal(60))
    values[place] *= 1.5

    assert not step_found(values)[1]


def test_interval_of_a_step_is_students_of_the_noise_of_both_sides() -> None:
    """Three runs that are equal, and three whose logarithms differ by 0.02."""
    logs = np.array([0.0, 0.0, 0.0, 0.06, 0.08, 0.10])

    window = compare_in_order(sequence(0.5 * np.exp(logs))).window

    # Squares sum to 8e-4 with four degrees of freedom; the difference of the means of three has 2/3 of that variance.
    # Student's t of four degrees of freedom is 4.604 at 0.995, and only one place of a step has three runs on each
    # side. Welch's interval would have two degrees of freedom, and reach from -0.035 to 0.195.
    half = 4.604095 * math.sqrt(8e-4 / 4 * 2 / 3)
    assert (window.before, window.after) == pytest.approx((0.5, 0.5 * math.exp(0.08)))
    assert window.low == pytest.approx(0.5 * math.expm1(0.08 - half))
    assert window.high == pytest.approx(0.5 * math.expm1(0.08 + half))
    assert window.is_real


@pytest.mark.parametrize(("growth", "is_real"), [(0.024, False), (0.031, True)])
def test_interval_of_a_step_allows_for_all_places_that_were_tried(growth: float, is_real: bool) -> None:
    """Twelve runs whose logarithms alternate by 0.01 around 0, and around the growth in the latter half."""
    logs = 0.01 * np.array([1, -1] * 6) + np.repeat([0.0, growth], 6)

    comparison = compare_in_order(sequence(np.exp(logs)))

    assert len(comparison.before) == 6
    # Squares sum to 12e-4 with ten degrees of freedom; the difference of the means of six has a third of that variance.
    # A step may be before run 3, 4, ... or 9: Student's t of ten degrees of freedom is 4.357 at 1 - 0.005 / 7. At 0.995
    # it is 3.169, by which 0.020 were a step.
    half = 4.356673 * math.sqrt(12e-4 / 10 / 3)
    assert half == pytest.approx(0.02755, abs=1e-5)
    assert comparison.window.high == pytest.approx(math.expm1(growth + half))
    assert comparison.window.is_real == is_real


def test_runs_are_compared_in_the_order_of_their_start() -> None:
    runs = sequence([0.5, 0.5, 0.5, 0.5, 0.6, 0.6, 0.6])

    comparison = compare_in_order([runs[place] for place in (5, 0, 3, 6, 1, 4, 2)])

    assert comparison.before == ("run-0", "run-1", "run-2", "run-3")
    assert comparison.after == ("run-4", "run-5", "run-6")
    assert comparison.to_dict()["changed_from"] == "run-4"


def test_a_step_can_be_found_in_six_runs_and_not_in_five() -> None:
    assert step_found(np.array([0.5, 0.5, 0.5, 0.6, 0.6, 0.6])) == (3, True)
    with pytest.raises(DataError, match=r"at least 6 runs, half before and half after a change; found 5 runs"):
        compare_in_order(sequence([0.5, 0.5, 0.5, 0.6, 0.6]))


def test_a_sequence_without_a_step_names_no_run_and_no_cause() -> None:
    """A's compute time doubles at the last three runs; windows, B's, become longer there, within noise."""
    windows = [0.5, 1.0, 1.0, 0.5, 0.6, 1.2, 1.2, 0.6]
    runs = []
    for hour, seconds in enumerate(windows):
        own = 0.1 if hour < 5 else 0.2
        runs.append(run_of(f"run-{hour}", {"A": own, "B": seconds}, hour=hour))

    comparison = compare_in_order(runs)

    assert comparison.after == ("run-5", "run-6", "run-7")
    assert comparison.changes["A", "compute_per_iteration"].is_real
    assert not comparison.window.is_real
    assert comparison.causes == []
    assert comparison.to_dict()["changed_from"] is None
    assert "The window time did not change by more than noise over 8 runs; its likeliest step is +" in text_of(
        comparison
    )
    # The interval is as wide as the window time.
    assert "That tells little: give more runs." in text_of(comparison)


def test_a_narrow_interval_is_not_said_to_tell_little() -> None:
    comparison = compare_in_order(sequence(np.exp(0.01 * np.array([1, -1] * 6))))

    assert "did not change by more than noise over 12 runs" in text_of(comparison)
    assert "tells little" not in text_of(comparison)


# --- who did it ----------------------------------------------------------------------------------------------------


def compared(before: dict[str, float], after: dict[str, float]) -> RunComparison:
    """Compare two runs of equal windows: whatever differs is more than noise."""
    return compare_runs([run_of("old", before)], [run_of("new", after)])


@pytest.mark.parametrize(
    ("before", "after", "causes"),
    [
        # A tenth of the seconds by which A moved is the threshold: 9 ms of 0.2 s are below, 21 ms above it.
        ({"A": 0.5, "B": 0.3}, {"A": 0.7, "B": 0.309}, ["A"]),
        ({"A": 0.5, "B": 0.3}, {"A": 0.7, "B": 0.321}, ["A", "B"]),
        # First the one whose wait moved least: B never waits.
        ({"A": 0.3, "B": 0.5}, {"A": 0.4, "B": 0.7}, ["B", "A"]),
        # The wait of B grows by 0.1 s, and that of A falls by 0.3 s.
        ({"A": 0.4, "B": 0.7}, {"A": 1.0, "B": 0.9}, ["B", "A"]),
        # B became faster, while windows became longer.
        ({"A": 0.5, "B": 0.3}, {"A": 0.7, "B": 0.1}, ["A"]),
        # Windows became shorter, as A did; B became slower.
        ({"A": 0.7, "B": 0.1}, {"A": 0.5, "B": 0.3}, ["A"]),
    ],
)
def test_causes_moved_with_the_window_and_by_a_tenth_of_the_most(
    before: dict[str, float], after: dict[str, float], causes: list[str]
) -> None:
    comparison = compared(before, after)

    assert comparison.window.is_real
    assert comparison.causes == causes
    assert comparison.to_dict()["caused_by"] == causes


def test_causes_of_a_sequence_leave_out_what_moved_next_to_nothing() -> None:
    runs = []
    for hour in range(8):
        own = {"A": 0.5, "B": 0.3} if hour < 4 else {"A": 0.7, "B": 0.309}
        runs.append(run_of(f"run-{hour}", own, hour=hour))

    comparison = compare_in_order(runs)

    assert comparison.changes["B", "compute_per_iteration"].is_real
    assert comparison.causes == ["A"]


def test_a_participant_whose_change_is_noise_is_no_cause() -> None:
    """Of B's twelve windows after warm-up, which make three blocks, those of one block take twice as long."""
    uneven = np.repeat([0.1, 0.1, 0.2, 0.1], [1, 4, 4, 4])

    comparison = compare_runs([run_of("old", {"A": 0.5, "B": 0.1})], [run_of("new", {"A": 0.7, "B": uneven})])

    assert comparison.changes["B", "compute_per_iteration"].after > 0.12
    assert comparison.causes == ["A"]


# --- before and after a change -------------------------------------------------------------------------------------


@pytest.mark.parametrize("windows", [10, 60, 300])
def test_noise_of_windows_that_are_alike_is_rarely_a_change(windows: int) -> None:
    generator = np.random.default_rng(windows)

    def noisy_run(name: str) -> CoupledRun:
        # The first window is warm-up.
        seconds = np.exp(0.05 * autocorrelated(generator, windows + 1, 0.5))
        return run_of(name, {"A": seconds, "B": 0.5 * seconds}, windows=windows + 1)

    alarms = 0
    for _ in range(150):
        comparison = compare_runs([noisy_run("old")], [noisy_run("new")])
        alarms += comparison.window.is_real

    # 1 % are expected of independent blocks: 1.5. Neighbouring blocks are somewhat alike.
    assert alarms <= 6
    assert comparison.blocks == {10: 3, 60: 10, 300: 10}[windows]


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


def test_before_and_after_another_split() -> None:
    before = run_of("old", {"A": 0.4, "B": 0.1}, ranks={"A": 4, "B": 4})
    after = run_of("new", {"A": 0.2, "B": 0.1}, ranks={"A": 8, "B": 4})

    comparison = compare_runs([before], [after])

    assert (comparison.blocks, comparison.causes) == (3, ["A"])
    window = comparison.window
    assert (window.before, window.after, window.share) == pytest.approx((0.4, 0.2, -0.5))
    assert comparison.changes["B", "wait_seconds"].low == pytest.approx(-0.2)
    # 1/2 of A and 1 of B.
    assert comparison.changes["", "compute_seconds"].share == pytest.approx(math.sqrt(0.5) - 1)
    assert comparison.changed == {"ranks of A": ("4", "8")}
    text = text_of(comparison)
    assert "After the change the coupled run is faster: its window takes 50.0 % shorter (0.4000 -> 0.2000 s" in text
    assert "\nranks of A 4 -> 8\n" in text


def test_the_table_has_seconds_of_each_participant_and_waits_in_its_unit() -> None:
    text = text_of(compared({"A": 0.4, "B": 0.1}, {"A": 0.2, "B": 0.1}))

    _, _, *rows = [line for line in text.splitlines() if line.startswith("|")]
    assert rows == [
        "| coupled run | window | 0.40000 | 0.20000 | -50.0 % | -50.0 % to -50.0 % | changed |",
        "| A | compute | 0.40000 | 0.20000 | -50.0 % | -50.0 % to -50.0 % | changed |",
        "|  | wait | 0.00000 | 0.00000 | +0.00000 | -0.00000 to +0.00000 | noise |",
        "| B | compute | 0.10000 | 0.10000 | +0.0 % | -0.0 % to +0.0 % | noise |",
        "|  | wait | 0.30000 | 0.10000 | -0.20000 | -0.20000 to -0.20000 | changed |",
        # The square root of 0.4 * 0.1, and that of 0.2 * 0.1.
        "| geometric mean | compute | 0.20000 | 0.14142 | -29.3 % | -29.3 % to -29.3 % | changed |",
    ]
    assert "3 blocks of windows each: how runs differ only several a side would tell" in text


def test_more_iterations_are_nobodys_compute_time() -> None:
    own = {"A": 0.1, "B": 0.3}

    comparison = compare_runs([run_of("old", own, iterations=4.0)], [run_of("new", own, iterations=5.0)])

    assert comparison.window.share == pytest.approx(0.25)
    assert comparison.causes == []
    text = text_of(comparison)
    assert "Coupling iterations per window: 4.00 -> 5.00." in text
    assert "|  | iterations | 4.00 | 5.00 | +25.0 % | +25.0 % to +25.0 % | changed |" in text
    # 0.1 s in each iteration of A.
    assert "|  | per iteration | 0.1000 | 0.1000 | +0.0 % | -0.0 % to +0.0 % | noise |" in text
    assert "look at what they wait for" not in text


def test_waits_are_compared_as_differences_of_their_means() -> None:
    """B waits for 0.1, 0.2 and 0.3 s in three runs, then for nothing."""
    before = [run_of(f"old-{wait}", {"A": 0.4 + wait, "B": 0.4}) for wait in (0.1, 0.2, 0.3)]
    after = [run_of(f"new-{number}", {"A": 0.4, "B": 0.4}) for number in range(3)]

    wait = compare_runs(before, after).changes["B", "wait_seconds"]

    # The variance is 0.01 of three runs, and nothing of the others: two degrees of freedom.
    half = 9.924843 * math.sqrt(0.01 / 3)
    assert (wait.before, wait.after) == pytest.approx((0.2, 0.0))
    assert (wait.low, wait.high) == pytest.approx((-0.2 - half, -0.2 + half))


def test_several_runs_a_side_are_not_cut_into_blocks() -> None:
    own = {"A": 0.4, "B": 0.1}

    comparison = compare_runs([run_of("a", own), run_of("b", own)], [run_of("c", own)])

    assert comparison.blocks == 1
    assert (comparison.before, comparison.after) == (("a", "b"), ("c",))
    assert "intervals (Welch's) are of 2 runs before and 1 after\n" in text_of(comparison)


def test_blocks_are_those_that_the_shorter_run_has_windows_for_after_warm_up() -> None:
    """Of 24 windows one is warm-up: 24 would make four blocks of six, 60 make ten."""
    own = {"A": 0.4, "B": 0.1}

    comparison = compare_runs([run_of("old", own, windows=61)], [run_of("new", own, windows=24)])

    assert comparison.blocks == 3


def test_windows_of_the_warm_up_do_not_count() -> None:
    slow_start = np.r_[9.0, np.full(12, 0.4)]

    comparison = compare_runs([run_of("old", {"A": slow_start, "B": 0.1})], [run_of("new", {"A": 0.4, "B": 0.1})])

    assert comparison.window.before == pytest.approx(0.4)
    assert not comparison.window.is_real


def test_the_window_time_is_that_of_the_slowest_participant() -> None:
    """A waits for nobody, and is ahead of B."""
    run = run_of("old", {"A": 0.2, "B": 0.5})
    ahead = dataclasses.replace(run.participants["A"], window_seconds=np.full(13, 0.2))
    old = dataclasses.replace(run, participants={**run.participants, "A": ahead})

    comparison = compare_runs([old], [run_of("new", {"A": 0.2, "B": 0.6})])

    assert (comparison.window.before, comparison.window.after) == pytest.approx((0.5, 0.6))


def test_seconds_are_those_per_period_where_windows_differ_in_size() -> None:
    """Two windows of A, of 0.3 s each, are as long in coupled time as one of B, of 0.3 s."""
    time = CoupledTime({"A": 2, "B": 1}, "0.2 of coupled time")
    old, new = (
        dataclasses.replace(run_of(name, {"A": 0.3, "B": seconds}), time=time)
        for name, seconds in (("old", 0.1), ("new", 0.2))
    )

    comparison = compare_runs([old], [new])

    assert comparison.seconds_per == "0.2 of coupled time"
    assert comparison.window.before == pytest.approx(0.6)
    assert comparison.changes["A", "compute_seconds"].before == pytest.approx(0.6)
    assert comparison.changes["B", "compute_seconds"].before == pytest.approx(0.1)


@pytest.mark.parametrize("later", [0.003, 0.1])
def test_the_geometric_mean_leaves_out_who_is_negligible_before_or_after(later: float) -> None:
    """B computes for less than 1 % of the windows of 0.4 s, at least before the change."""
    comparison = compared({"A": 0.4, "B": 0.001}, {"A": 0.4, "B": later})

    assert comparison.changes["B", "compute_seconds"].is_real
    assert comparison.changes["", "compute_seconds"].share == pytest.approx(0.0)


# --- runs that cannot be compared ----------------------------------------------------------------------------------


def short_of(run: CoupledRun, windows: int) -> CoupledRun:
    """Return a run of which B recorded only the first windows."""
    part = run.participants["B"]
    names = ("windows", "window_seconds", "compute_seconds", "wait_seconds", "iterations")
    kept = {name: getattr(part, name)[:windows] for name in names}
    return dataclasses.replace(run, participants={**run.participants, "B": dataclasses.replace(part, **kept)})


@pytest.mark.parametrize("in_order", [False, True])
def test_a_run_without_windows_after_warm_up_is_left_out_and_named(in_order: bool) -> None:
    """B of one run has no window but that of the warm-up, whose seconds are far from the others'."""
    runs = sequence([0.5, 0.5, 0.5, 0.6, 0.6, 0.6])
    empty = short_of(run_of("empty", {"A": 9.0, "B": 9.0}, hour=9), 1)

    comparison = compare_in_order([*runs, empty]) if in_order else compare_runs(runs[:3], [*runs[3:], empty])

    assert comparison.after == ("run-3", "run-4", "run-5")
    assert comparison.window.after == pytest.approx(0.6)
    remark = "Run empty is not used for B: no window is left after 1 window of warm-up."
    assert comparison.remarks == (remark,)
    assert f"**warning:** {remark}" in text_of(comparison)


def refusal(before: Sequence[CoupledRun], after: Sequence[CoupledRun]) -> str:
    """Return the message with which both comparisons refuse runs."""
    with pytest.raises(DataError) as of_two:
        compare_runs(before, after)
    with pytest.raises(DataError) as of_sequence:
        compare_in_order([*before, *after])
    assert str(of_two.value) == str(of_sequence.value)
    return str(of_two.value)


def test_runs_with_unlike_units_of_time_are_refused() -> None:
    runs = sequence([0.5] * 6)
    other = dataclasses.replace(runs[5], time=CoupledTime(unit="coupling iteration"))

    message = refusal(runs[:5], [other])

    assert "found A and B per time window in run run-0, and A and B per coupling iteration in run run-5" in message


def test_runs_whose_participants_have_unlike_windows_are_refused() -> None:
    runs = sequence([0.5] * 6)
    problem = "A by time window, B by coupling iteration, which are not alike"
    other = dataclasses.replace(runs[0], time=CoupledTime(problem=problem))

    assert f"{problem} in run run-0" in refusal([other], runs[1:])


def test_runs_of_other_participants_are_refused() -> None:
    runs = sequence([0.5] * 6)
    parts = runs[5].participants
    other = dataclasses.replace(runs[5], participants={"A": parts["A"], "C": parts["B"]})

    message = refusal(runs[:5], [other])

    assert "found A and B per time window in run run-0, and A and C per time window in run run-5" in message


# --- what is said --------------------------------------------------------------------------------------------------


def test_what_runs_were_made_with_is_listed_up_to_three_values() -> None:
    own = {"A": 0.4, "B": 0.1}
    before = [run_of(f"old-{number}", own, cpu_model=f"cpu {number}") for number in range(4)]

    comparison = compare_runs(before, [run_of("new", own)])

    assert comparison.changed == {"processor": ("cpu 0, cpu 1, cpu 2 and 1 more", "not stated")}
    assert "\nprocessor cpu 0, cpu 1, cpu 2 and 1 more -> not stated\n" in text_of(comparison)


def test_runs_that_differ_in_nothing_are_said_to_be_the_same() -> None:
    text = text_of(compared({"A": 0.4, "B": 0.1}, {"A": 0.5, "B": 0.1}))

    assert "\nranks, versions, hosts and configuration are the same\n" in text
    assert "After the change the coupled run is slower: its window takes 25.0 % longer (0.4000 -> 0.5000 s" in text
    assert "The cause is the compute time of A (+25.0 %)." in text


def test_without_measured_waits_the_participant_is_not_known() -> None:
    old, new = (
        run_of(name, {"A": seconds, "B": 0.1}, hour=hour)
        for hour, (name, seconds) in enumerate({"old": 0.4, "new": 0.5}.items())
    )
    for run in (old, new):
        for part in run.participants.values():
            part.compute_seconds[:] = math.nan
            part.wait_seconds[:] = math.nan

    text = text_of(compare_runs([old], [new]))

    assert "Which participant did it is not known, since not all waits were measured." in text
    assert "| A | compute | – | – | – | – to – | unknown |" in text


def test_longer_windows_without_more_compute_time_send_to_transfer_and_network() -> None:
    old, new = run_of("old", {"A": 0.4, "B": 0.1}), run_of("new", {"A": 0.4, "B": 0.1})
    for part in new.participants.values():
        part.window_seconds[:] += 0.2
        part.wait_seconds[:] += 0.2

    text = text_of(compare_runs([old], [new]))

    assert "its window takes 50.0 % longer" in text
    assert "No participant's compute time changed with it: look at what they wait for, transfer and network." in text


def test_the_answer_of_a_sequence_says_from_which_run_on_and_how_places_were_tried() -> None:
    text = text_of(compare_in_order(sequence([0.5, 0.5, 0.5, 0.5, 0.6, 0.6, 0.6])))

    assert "From run run-4 on (no. 5 of 7) the coupled run is slower: its window takes 20.0 % longer" in text
    assert "intervals (Student's) allow for all places of the step that were tried: of 4 and 3 runs" in text


def test_json_of_a_comparison_has_its_level_and_whether_changes_are_noise() -> None:
    document = compared({"A": 0.4, "B": 0.1}, {"A": 0.5, "B": 0.1}).to_dict()

    assert document["level"] == pytest.approx(0.99)
    assert document["coupled"]["window_seconds"]["share"] == pytest.approx(0.25)
    assert document["coupled"]["window_seconds"]["more_than_noise"] is True
    assert document["participants"]["B"]["compute_seconds"]["more_than_noise"] is False
    # Two groups are no sequence.
    assert document["in_order"] is False
    assert document["changed_from"] is None


def test_blocks_of_windows_by_hand() -> None:
    """At least three blocks, of six windows each where there are more than three, and ten at most."""
    assert [blocks_for(windows) for windows in (1, 2, 3, 17, 24, 59, 60, 600)] == [1, 2, 3, 3, 4, 9, 10, 10]
