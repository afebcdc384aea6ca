"""Waits, compute time, imbalance and core-hours of planted runs, worked out by hand in fractions.

All planted times are milliseconds; what is expected is written as a fraction of a second.
"""

from __future__ import annotations

import math
from fractions import Fraction as F
from pathlib import Path

import pytest
from decision_cases import DIGITS, call, coupled, participants_of, printed_json, write_participant
from store_helpers import START

from precice_lb import watch_run
from precice_lb.dataset import load_measurements, load_runs

PARALLEL, SERIAL = coupled("parallel-explicit"), coupled("serial-explicit")


def about(value: F | int) -> object:
    return pytest.approx(float(value), rel=DIGITS)


def write_unequal_ranks(directory: Path) -> None:
    """A on three ranks with two threads each, the last of which receives nothing; B on two ranks.

    Every window lasts 410 ms on each rank. Window 1 is warm-up, and nothing in it may count.
    """
    first = [
        call(1, 5, 400, overhead=5),
        call(2, 300, 80, mapping=20, overhead=10),
        call(3, 230, 150, mapping=20, overhead=10),
    ]
    second = [
        call(1, 5, 400, overhead=5),
        call(2, 250, 140, mapping=10, overhead=10),
        call(3, 330, 60, mapping=10, overhead=10),
    ]
    silent = [call(1, 410, 0), call(2, 405, 0, overhead=5), call(3, 405, 0, overhead=5)]
    write_participant(directory, "A", [first, second, silent], configuration=PARALLEL, threads=2)
    inner = [call(1, 409, 1), call(2, 370, 25, overhead=15), call(3, 365, 30, overhead=15)]
    outer = [call(1, 409, 1), call(2, 340, 50, overhead=20), call(3, 340, 50, overhead=20)]
    write_participant(directory, "B", [inner, outer], configuration=PARALLEL)


def test_a_participant_waits_as_long_as_all_of_its_ranks_that_receive_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_unequal_ranks(tmp_path)
    (run,) = printed_json(capsys, "summary", tmp_path, "--warmup", 1)
    a, b = participants_of(run)
    assert (a["windows"], b["windows"]) == (2, 2)
    # Least wait of a rank in each window, and only then the mean: A min(80, 140), min(150, 60); B 25, 30.
    assert a["wait_seconds"] == about(F(80 + 60, 2000))
    assert b["wait_seconds"] == about(F(25 + 30, 2000))
    # No wait is shorter than 25 ms after warm-up: so long a transfer takes where data is there already.
    floor = F(25, 1000)
    assert a["window_seconds"] == b["window_seconds"] == about(F(410, 1000))
    assert a["compute_seconds"] == about(F(410, 1000) - F(70, 1000) + floor)
    assert b["compute_seconds"] == about(F(410, 1000) - F(55, 2000) + floor)
    # Of the mean waits of A's ranks, 115 and 100 ms, 70 ms are for B and the rest for the other rank.
    assert a["partner_wait"]["mean_seconds"] == about(F(70, 1000))
    assert a["own_rank_wait"]["mean_seconds"] == about(F(45 + 30, 2000))
    assert (a["own_rank_wait"]["slowest_rank"], a["own_rank_wait"]["fastest_rank"]) == (0, 1)
    assert b["own_rank_wait"]["slowest_seconds"] == about(F(50, 1000) - F(55, 2000))
    assert a["ranks_waiting_in_the_solver"] == [2]
    for name in ("solve", "mapping", "partner_wait", "own_rank_wait", "overhead"):
        assert a[name]["share"] == about(F(a[name]["mean_seconds"]) / F(410, 1000))
    shares = [a[name]["share"] for name in ("solve", "mapping", "partner_wait", "own_rank_wait", "overhead")]
    assert sum(shares) == about(1)


def test_imbalance_is_the_span_over_the_largest_of_busy_ranks_and_of_participants(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_unequal_ranks(tmp_path)
    (run,) = printed_json(capsys, "summary", tmp_path, "--warmup", 1)
    a, b = participants_of(run)
    # Solve, mapping and overhead of the ranks that receive: A (330 + 260) / 2 and (270 + 350) / 2, B 382.5 and 360.
    assert a["imbalance"] == about(F(310 - 295, 310))
    assert b["imbalance"] == about((F(765, 2) - 360) / F(765, 2))
    # Participants: compute 365 and 407.5 ms.
    slowest = F(4075, 10)
    assert run["imbalance"] == about((slowest - 365) / slowest)
    assert a["faster_than_slowest"] == about(1 - 365 / slowest)
    assert b["faster_than_slowest"] == 0


def product(factors: dict[str, float], *left_out: str) -> float:
    """Of all but the named ones."""
    return math.prod(value for name, value in factors.items() if name not in ("parallel_efficiency", *left_out))


def test_the_parallel_efficiency_of_unequal_ranks_is_a_product_of_factors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_unequal_ranks(tmp_path)
    (printed,) = printed_json(capsys, "summary", tmp_path, "--warmup", 1)
    known = printed["efficiencies"]
    run, a, b = known["run"], known["participants"]["A"], known["participants"]["B"]
    # Milliseconds of solve, busy, busiest rank and compute: A's ranks 265 and 290, busy 295 and 310, B's 367.5 and 340,
    # busy 382.5 and 360; A has 6 cores, the last two of which count as busy as the others in the mean, B has 2.
    solve, busy = {"A": F(555, 2), "B": F(1415, 4)}, {"A": F(605, 2), "B": F(1485, 4)}
    busiest, compute = {"A": F(310), "B": F(765, 2)}, {"A": F(365), "B": F(815, 2)}
    for name, factors in (("A", a), ("B", b)):
        assert factors["parallel_efficiency"] == about(solve[name] / 410) == pytest.approx(product(factors))
        assert factors["solve_in_busy_time"] == about(solve[name] / busy[name])
        assert factors["load_balance_of_ranks"] == about(busy[name] / busiest[name])
        assert factors["communication_of_ranks"] == about(busiest[name] / compute[name])
        assert factors["compute_in_window"] == about(compute[name] / 410)

    def spent(milliseconds: dict[str, F]) -> F:
        """Milliseconds on all cores."""
        return 6 * milliseconds["A"] + 2 * milliseconds["B"]

    assert run["parallel_efficiency"] == about(spent(solve) / (8 * 410))
    assert run["solve_in_busy_time"] == about(spent(solve) / spent(busy))
    assert run["load_balance_of_ranks"] == about(spent(busy) / spent(busiest))
    assert run["communication_of_ranks"] == about(spent(busiest) / spent(compute))
    # In parallel the slower participant is the longest chain.
    assert (known["chain_seconds"], known["chain"]) == (about(F(815, 2000)), ["B"])
    assert run["load_balance_of_participants"] == about(spent(compute) / (8 * F(815, 2)))
    assert (run["serialisation_efficiency"], run["coupling_efficiency"]) == (1, about(F(815, 2) / 410))
    between = ("load_balance_of_participants", "serialisation_efficiency", "coupling_efficiency")
    assert run["compute_in_window"] == pytest.approx(math.prod(run[name] for name in between), rel=1e-14)
    assert run["parallel_efficiency"] == pytest.approx(product(run, *between), rel=1e-14)


def test_in_a_serial_scheme_the_chain_is_the_sum_with_its_transfer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A works 200 or 260 ms on 3 ranks, B 110 or 150 on one. A waits 30 ms longer than B works: both ways of transfer.
    a = [call(w, 200 + 60 * (w % 2), 110 + 40 * (w % 2) + 30) for w in range(1, 6)]
    b = [call(w, 110 + 40 * (w % 2), 200 + 60 * (1 - w % 2) if w < 5 else 0) for w in range(1, 6)]
    write_participant(tmp_path, "A", [a] * 3, configuration=SERIAL)
    write_participant(tmp_path, "B", [b], configuration=SERIAL, initialize_wait=0.26)
    (printed,) = printed_json(capsys, "summary", tmp_path, "--warmup", 1)
    run = printed["efficiencies"]["run"]
    # Each of the two ways counts 15 ms as compute: A 245, B 145 in the mean of windows 2 to 5.
    window, chain = F(390), F(245 + 145)
    assert printed["efficiencies"]["chain"] == ["A", "B"]
    assert printed["efficiencies"]["chain_seconds"] == about(chain / 1000)
    assert run["load_balance_of_participants"] == about(F(3 * 245 + 145, 4 * 245))
    assert run["serialisation_efficiency"] == about(245 / chain)
    assert run["coupling_efficiency"] == about(chain / window)
    assert run["parallel_efficiency"] == about(F(3 * 230 + 130, 1) / (4 * window))


def test_core_hours_are_lost_on_all_cores_and_the_transfer_is_not_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_unequal_ranks(tmp_path)
    (run,) = printed_json(capsys, "summary", tmp_path, "--warmup", 1)
    lost = [part["core_hours_lost_per_hour"] for part in participants_of(run)]
    # A waits 70 ms of 410, of which 25 are transfer, on 3 ranks x 2 threads; B waits 27.5 - 25 ms on 2 ranks.
    to_partners = [6 * F(70 - 25, 410), 2 * (F(55, 2) - 25) / 410]
    # Inside: A's ranks 45 and 30 ms, two threads each; B's ranks 0 and 50 - 27.5 ms.
    inside = [2 * F(45 + 30, 410), (50 - F(55, 2)) / 410]
    for part, partners, ranks in zip(lost, to_partners, inside, strict=True):
        assert part["waiting_for_partners"] == about(partners)
        assert part["waiting_for_own_ranks"] == about(ranks)
    assert run["core_hours_lost_per_hour"]["waiting_for_partners"] == about(sum(to_partners))
    assert run["core_hours_lost_per_hour"]["waiting_for_own_ranks"] == about(sum(inside))


def test_a_serial_pair_works_in_turn_and_shares_the_transfer(tmp_path: Path) -> None:
    # B waits at the end of each call for the next window's data of A, and at first inside of initialize.
    solve = {"A": (200, 260, 200, 260), "B": (110, 150, 110, 150)}
    # Each way takes 10 ms: A waits 20 ms longer than B works, B 20 ms longer than A does.
    a = [call(w, work, other + 20) for w, (work, other) in enumerate(zip(solve["A"], solve["B"], strict=True), 1)]
    b = [
        call(w, work, following)
        for w, (work, following) in enumerate(zip(solve["B"], (280, 220, 280, 0), strict=True), 1)
    ]
    write_participant(tmp_path, "A", [a], configuration=SERIAL)
    write_participant(tmp_path, "B", [b], configuration=SERIAL, initialize_wait=0.22)
    (run,) = load_runs([tmp_path], warmup=1)
    first, second = run.participants["A"], run.participants["B"]
    for part, work in ((first, solve["A"]), (second, solve["B"])):
        assert part.compute_seconds.tolist() == [about(F(seconds + 10, 1000)) for seconds in work]
    # One after the other: their compute times are the window, for both of them.
    windows = [F(a + b + 20, 1000) for a, b in zip(solve["A"], solve["B"], strict=True)]
    assert first.window_seconds.tolist() == [about(seconds) for seconds in windows]
    assert second.window_seconds.tolist() == [about(seconds) for seconds in windows]
    assert second.wait_seconds.tolist() == [about(F(work + 20, 1000)) for work in solve["A"]]


def test_a_serial_pair_on_one_core_hides_waits_in_what_it_sends(tmp_path: Path) -> None:
    # A works 200 ms, is put aside while it sends, 60 ms, and waits 100 ms; B likewise 110, 30 and (for A) 220 ms.
    a = [call(w, 200, 100, overhead=60) for w in range(1, 6)]
    b = [call(w, 110, 220 if w < 5 else 0, overhead=30) for w in range(1, 6)]
    write_participant(tmp_path, "A", [a], configuration=SERIAL)
    write_participant(tmp_path, "B", [b], configuration=SERIAL, initialize_wait=0.22)
    (run,) = load_runs([tmp_path], warmup=1)
    # B's 140 ms are 40 more than A waits for them: taken off the 60 and 30 ms of sending in proportion.
    for name, busy, waited, hidden in (("A", 260, 100, F(40 * 60, 90)), ("B", 140, 220, F(40 * 30, 90))):
        part = run.participants[name]
        assert part.hidden_wait == about(hidden / 1000)
        assert part.compute_seconds.tolist() == [about((busy - hidden) / 1000)] * 5
        assert part.wait_seconds[1:4].tolist() == [about((waited + hidden) / 1000)] * 3
        assert part.window_seconds[1:4].tolist() == [about(F(360, 1000))] * 3
    assert run.imbalance == about(1 - (140 - F(40, 3)) / (260 - F(80, 3)))


def test_who_waits_for_an_acceleration_waits_for_no_transfer_meanwhile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    relaxed = '    <acceleration:constant><relaxation value="0.5" /></acceleration:constant>\n'
    both = {"configuration": coupled("parallel-implicit", relaxed)}
    # B accelerates for 18 ms at least, so that of A's 30 ms of waiting 12 are transfer.
    write_participant(tmp_path, "A", [[call(w, 170, 30) for w in range(1, 5)]], **both)
    spent = {1: 2, 2: 18, 3: 20, 4: 22}
    write_participant(tmp_path, "B", [[call(w, 150 - spent[w], 50, overhead=spent[w]) for w in spent]], **both)
    a, b = participants_of(printed_json(capsys, "summary", tmp_path, "--warmup", 1)[0])
    assert a["compute_seconds"] == about(F(170 + 30 - 18, 1000))
    assert b["compute_seconds"] == about(F(150 + 12, 1000))


def write_iterations(directory: Path, name: str, counts: tuple[int, ...], per_iteration: int, wait: int) -> None:
    """Windows of so many coupling iterations, each in two calls of ``advance``; whose first iteration costs double."""
    calls = []
    for window, count in enumerate(counts, 1):
        for iteration in range(1, count + 1):
            solve = per_iteration * (2 if iteration == 1 else 1)
            calls.append(call(window, solve // 2, 0, iteration=iteration, complete=False))
            calls.append(call(window, solve - solve // 2, wait, iteration=iteration, complete=iteration == count))
    write_participant(directory, name, [calls], configuration=coupled("parallel-implicit"))


def test_iterations_and_subcycles_of_a_window_are_summed_and_each_iteration_transfers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = (9, 2, 3, 2, 4)
    write_iterations(tmp_path, "A", counts, 100, 12)
    write_iterations(tmp_path, "B", counts, 60, 52)
    (run,) = printed_json(capsys, "summary", tmp_path, "--warmup", 1)
    a, b = participants_of(run)
    # Without window 1: 11 iterations in 4 windows, of which the 4 first ones cost double; 12 ms of each are transfer.
    counted = a["iterations"]
    assert (counted["mean"], counted["least"], counted["most"]) == (11 / 4, 2, 4)
    assert [entry["windows"] for entry in counted["each"][:4]] == [4, 4, 2, 1]
    assert [entry["compute_seconds"] for entry in counted["each"][:4]] == [
        about(F(ms, 1000)) for ms in (212, 112, 112, 112)
    ]
    assert [entry["wait_seconds"] for entry in counted["each"][:4]] == [about(F(12, 1000))] * 4
    assert a["compute_seconds"] == about(F(15 * 100 + 11 * 12, 4 * 1000))
    assert b["compute_seconds"] == about(F(15 * 60 + 11 * 12, 4 * 1000))
    assert b["wait_seconds"] == about(F(11 * 52, 4 * 1000))


def test_a_sample_is_the_median_iteration_times_the_mean_iterations_of_all_runs(tmp_path: Path) -> None:
    for number, counts in enumerate([(9, 2, 3, 2, 4), (9, 2, 2, 2, 2)]):
        for name, cost, wait in (("A", 100, 12), ("B", 60, 52)):
            write_iterations(tmp_path / str(number), name, counts, cost, wait)
    measured = load_measurements([tmp_path / "0", tmp_path / "1"], warmup=1)
    # Seconds per iteration of a window of k: (100 (k + 1) / k + 12) ms, so 162, 145.33, 162, 137 and four times 162.
    iterations = (F(11, 4) + 2) / 2
    assert measured.iterations == {"A": about(iterations), "B": about(iterations)}
    per_iteration = [(F(162) + F(100 * 4, 3) + 12) / 2, F(162)]
    assert sorted(measured.samples["A"][:, 1].tolist()) == [about(s * iterations / 1000) for s in sorted(per_iteration)]


def test_core_hours_of_runs_count_each_participant_from_its_own_start_to_its_own_end(tmp_path: Path) -> None:
    calls = [call(window, 90, 10) for window in range(1, 5)]
    # A: 3 ranks x 4 threads for 100 s; B: 2 ranks for 130 s; then once more at 1 rank and 5 ranks for 70 and 60 s.
    write_participant(tmp_path / "0", "A", [calls] * 3, configuration=PARALLEL, threads=4, seconds=100.0)
    write_participant(
        tmp_path / "0", "B", [calls] * 2, configuration=PARALLEL, seconds=130.0, started_unix_ns=START + 7
    )
    write_participant(tmp_path / "1", "A", [calls], configuration=PARALLEL, seconds=70.0)
    write_participant(tmp_path / "1", "B", [calls] * 5, configuration=PARALLEL, seconds=60.0)
    measured = load_measurements([tmp_path / "0", tmp_path / "1"], warmup=1)
    assert measured.core_hours == about(F(12 * 100 + 2 * 130 + 1 * 70 + 5 * 60, 3600))


def test_a_watched_run_waits_as_its_cores_do_and_a_restart_pays_after_whole_windows(tmp_path: Path) -> None:
    # A waits 10 of 100 ms on 6 ranks, B 60 of 100 ms on 2 ranks; the floor of 10 ms counts as waiting here.
    write_participant(tmp_path, "A", [[call(w, 90, 10) for w in range(1, 14)]] * 6, configuration=PARALLEL)
    write_participant(tmp_path, "B", [[call(w, 40, 60) for w in range(1, 14)]] * 2, configuration=PARALLEL)
    seen = watch_run(tmp_path, restart_cost=30.0)
    assert seen.waiting == about(F(6, 8) * F(10, 100) + F(2, 8) * F(60, 100))
    better = seen.rebalance
    assert better is not None
    assert better.split["A"] > 6
    saved = F(better.present_seconds) - F(better.window_seconds)
    windows = -(-F(30) // saved)
    assert better.windows_to_pay == float(windows)
    assert better.gain == about(1 - F(better.window_seconds) / F(better.present_seconds))


def test_only_windows_that_every_rank_completed_count_and_the_last_one_does(tmp_path: Path) -> None:
    # The second rank of A was killed in window 5; without its window nobody knows how long A took for that.
    whole = [call(w, 100 + w, 10) for w in range(1, 6)]
    short = [*whole[:4], call(5, 1, 0, complete=False)]
    write_participant(tmp_path, "A", [whole, short], configuration=PARALLEL, finished=False)
    write_participant(
        tmp_path, "B", [[call(w, 100 + w, 10) for w in range(1, 6)]], configuration=PARALLEL, finished=False
    )
    (run,) = load_runs([tmp_path], warmup=2)
    assert run.participants["A"].windows.tolist() == [1, 2, 3, 4]
    assert run.participants["B"].windows.tolist() == [1, 2, 3, 4, 5]
    assert run.steady("A").tolist() == [False, False, True, True]
    assert run.participants["A"].compute_seconds[run.steady("A")].tolist() == [about(F(113, 1000)), about(F(114, 1000))]
