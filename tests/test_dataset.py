"""From stores with planted times to coupled runs, waits, own cost and samples."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from store_helpers import PARALLEL, SERIAL, START, row, write_store

from precice_lb.dataset import load_imbalance, load_measurements, load_runs, measurements_from_runs
from precice_lb.exceptions import DataError, StoreError

TRANSFER = 0.002
SECOND = 1_000_000_000


def _plant(
    directory: Path,
    costs: Mapping[str, list[float]],
    ranks: Mapping[str, int],
    *,
    off_interface: Mapping[str, int] | None = None,
    slower: Mapping[str, float] | None = None,
    warmup: float = 0.0,
    **more: object,
) -> None:
    """Stores of a parallel coupling: a window takes the larger cost and the transfer.

    The first ``off_interface`` ranks from the end do not wait in ``advance``: they idle in their solver's next
    collective. Rank 0 of a participant in ``slower`` arrives that much earlier in ``advance`` than the others.
    """
    windows = len(next(iter(costs.values())))
    for name, seconds in costs.items():
        for rank in range(ranks[name]):
            table = []
            for window in range(windows):
                extra = warmup if window == 0 else 0.0
                wall = max(cost[window] for cost in costs.values()) + TRANSFER + extra
                wait = wall - seconds[window] - extra
                early = (slower or {}).get(name, 0.0) if rank == 0 else 0.0
                if rank >= ranks[name] - (off_interface or {}).get(name, 0):
                    table.append(row(window + 1, wall - 1e-5, 1e-5, 0.0))
                else:
                    table.append(row(window + 1, wall - wait - early, wait + early, wait + early))
            write_store(directory, table, name, rank, ranks[name], **more)


def test_planted_cost_wait_and_imbalance_are_recovered(tmp_path: Path) -> None:
    _plant(tmp_path, {"A": [0.3] * 6, "B": [0.1] * 6}, {"A": 2, "B": 3}, warmup=5.0)
    (run,) = load_runs([tmp_path])
    assert run.name == "A:2 B:3"
    assert list(run.participants) == ["A", "B"]
    assert run.warmup_windows == 1
    for name, cost in (("A", 0.3), ("B", 0.1)):
        part = run.participants[name]
        assert part.ranks == {"A": 2, "B": 3}[name]
        assert part.own_measured
        assert part.windows.tolist() == [1, 2, 3, 4, 5, 6]
        steady = run.steady(name)
        assert steady.tolist() == [False, True, True, True, True, True]
        # The transfer belongs to the cost: it is there when nobody waits.
        np.testing.assert_allclose(part.own_seconds[steady], cost + TRANSFER, atol=1e-8)
        np.testing.assert_allclose(part.wait_seconds[steady], 0.3 + TRANSFER - cost, atol=1e-8)
        np.testing.assert_allclose(part.window_seconds[steady], 0.3 + TRANSFER, atol=1e-8)
        np.testing.assert_allclose(part.rank_wait, 0.3 + TRANSFER - cost, atol=1e-8)
        np.testing.assert_allclose(part.rank_overhead, 0.0, atol=1e-8)
        assert part.window_seconds[0] > 5
    assert run.imbalance == pytest.approx(0.2 / 0.302, abs=1e-6)


def test_ranks_off_the_interface_do_not_falsify(tmp_path: Path) -> None:
    _plant(tmp_path, {"A": [0.1] * 5, "B": [0.3] * 5}, {"A": 4, "B": 1}, off_interface={"A": 3})
    (run,) = load_runs([tmp_path], warmup=0)
    part = run.participants["A"]
    # Three ranks of four show 0.3 s of "solve" and no wait; the participant still costs 0.1 s.
    np.testing.assert_allclose(part.rank_solve[1:], 0.3 + TRANSFER - 1e-5, atol=1e-8)
    np.testing.assert_allclose(part.own_seconds, 0.1 + TRANSFER, atol=1e-8)
    np.testing.assert_allclose(part.wait_seconds, 0.2 + TRANSFER, atol=1e-8)


def test_ranks_that_arrive_early_wait_for_their_own_participant(tmp_path: Path) -> None:
    _plant(tmp_path, {"A": [0.3] * 5, "B": [0.1] * 5}, {"A": 3, "B": 1}, slower={"A": 0.12})
    part = load_runs([tmp_path], warmup=0)[0].participants["A"]
    np.testing.assert_allclose(part.wait_seconds, TRANSFER, atol=1e-8)
    np.testing.assert_allclose(part.own_seconds, 0.3 + TRANSFER, atol=1e-8)
    assert part.imbalance == pytest.approx(0.12 / 0.3)


def test_a_serial_coupling_shows_no_transfer_floor(tmp_path: Path) -> None:
    """Each waits for the other all the time: the least wait is the partner's cost, not a transfer."""
    for name, own, other in (("A", 0.3, 0.1), ("B", 0.1, 0.3)):
        table = [row(window, own, other, other) for window in range(1, 6)]
        write_store(tmp_path, table, name, configuration=SERIAL)
    (run,) = load_runs([tmp_path], warmup=0)
    np.testing.assert_allclose(run.participants["A"].own_seconds, 0.3, atol=1e-8)
    np.testing.assert_allclose(run.participants["B"].own_seconds, 0.1, atol=1e-8)


def test_iterations_and_substeps_belong_to_their_window(tmp_path: Path) -> None:
    table = []
    for window, iterations in ((1, 3), (2, 2), (3, 1)):
        for iteration in range(1, iterations + 1):
            for step in (1, 2):
                complete = iteration == iterations and step == 2
                table.append(row(window, 0.01, 0.002, 0.001, 0.0005, iteration=iteration, complete=complete))
    # A window that the run did not complete is left out.
    table.append(row(4, 9.0, 9.0, 9.0, complete=False))
    write_store(tmp_path, table)
    (run,) = load_runs([tmp_path], warmup=0)
    part = run.participants["A"]
    assert part.windows.tolist() == [1, 2, 3]
    assert part.iterations.tolist() == [3, 2, 1]
    np.testing.assert_allclose(part.window_seconds, np.array([6, 4, 2]) * 0.012, atol=1e-8)
    np.testing.assert_allclose(part.wait_seconds, np.array([6, 4, 2]) * 0.001, atol=1e-8)
    np.testing.assert_allclose(part.rank_mapping, 4 * 0.0005, atol=1e-8)
    assert measurements_from_runs([run]).iterations == {"A": 2.0}


def test_what_was_not_measured_is_missing_and_never_zero(tmp_path: Path) -> None:
    for name in ("A", "B"):
        table = [row(window, 0.1, 0.2, None, None) for window in range(1, 5)]  # type: ignore[arg-type]
        write_store(tmp_path, table, name, backend="libprecice")
    (run,) = load_runs([tmp_path])
    part = run.participants["A"]
    assert not part.own_measured
    assert np.isnan(part.own_seconds).all()
    assert np.isnan(part.wait_seconds).all()
    assert np.isnan(part.rank_wait).all()
    assert np.isnan(part.rank_mapping).all()
    assert np.isnan(part.rank_overhead).all()
    assert np.isnan(run.imbalance)
    np.testing.assert_allclose(part.window_seconds, 0.3)
    np.testing.assert_allclose(part.rank_solve, 0.1)
    with pytest.raises(DataError, match="waits of participant A to be measured, found none from backend libprecice"):
        load_measurements([tmp_path])


def test_a_participant_that_receives_nothing_costs_all_of_its_window(tmp_path: Path) -> None:
    write_store(tmp_path, [row(window, 0.02, 0.001, 0.0) for window in range(1, 5)], "A")
    write_store(tmp_path, [row(window, 0.2, 0.002, 0.001) for window in range(1, 5)], "B")
    (run,) = load_runs([tmp_path], warmup=0)
    np.testing.assert_allclose(run.participants["A"].own_seconds, 0.021)
    np.testing.assert_allclose(run.participants["B"].own_seconds, 0.202)


def test_a_rank_without_a_store_is_unknown(tmp_path: Path) -> None:
    for rank in (0, 2):
        write_store(tmp_path, [row(window, 0.1, 0.2, 0.15) for window in range(1, 5)], "A", rank, 3)
    (run,) = load_runs([tmp_path], warmup=0)
    part = run.participants["A"]
    assert part.ranks == 3
    np.testing.assert_array_equal(np.isnan(part.rank_solve), [False, True, False])
    # Alone, its least wait counts as the transfer.
    np.testing.assert_allclose(part.own_seconds, 0.3, atol=1e-8)


def test_windows_that_a_killed_rank_did_not_flush_are_left_out(tmp_path: Path) -> None:
    write_store(tmp_path, [row(window, 0.1, 0.2, 0.15) for window in range(1, 9)], "A", 0, 2)
    write_store(tmp_path, [row(window, 0.1, 0.2, 0.15) for window in range(1, 5)], "A", 1, 2)
    assert load_runs([tmp_path])[0].participants["A"].windows.tolist() == [1, 2, 3, 4]


def test_samples_are_medians_after_warmup_sorted_by_ranks(tmp_path: Path) -> None:
    generator = np.random.default_rng(5)
    noise = {ranks: 1.0 + 0.05 * generator.standard_normal(21) for ranks in (2, 4)}
    for index, ranks in enumerate((4, 2)):
        costs = {"A": list(noise[ranks] / ranks), "B": [1.0] * 21}
        place = tmp_path / str(index)
        _plant(place, costs, {"A": ranks, "B": 1}, run=f"run-{ranks}", warmup_windows=3, started_unix_ns=START)
    found = load_measurements([tmp_path])
    assert found.sources == ("run-4", "run-2") or found.sources == ("run-2", "run-4")
    np.testing.assert_array_equal(found.samples["A"][:, 0], [2, 4])
    for (ranks, seconds), spread in zip(found.samples["A"], found.spread["A"], strict=True):
        planted = noise[int(ranks)][3:] / ranks
        assert seconds == pytest.approx(np.median(planted) + TRANSFER, abs=1e-7)
        assert spread == pytest.approx(1.2533 * np.std(planted, ddof=1) / np.sqrt(18), rel=1e-3)
    assert found.samples["B"].shape == (2, 2)
    assert found.iterations == {"A": 1.0, "B": 1.0}
    assert found.configuration == PARALLEL
    # What the caller says goes before what the run says.
    again = load_measurements([tmp_path], warmup=0)
    assert again.samples["A"][0, 1] == pytest.approx(np.median(noise[2] / 2) + TRANSFER, abs=1e-7)


def test_runs_are_told_apart_by_name_time_and_directory(tmp_path: Path) -> None:
    table = [row(1, 0.1, 0.1, 0.01), row(2, 0.1, 0.1, 0.01)]
    # One after the other in one directory.
    for start in (START, START + 20 * SECOND):
        for name in "AB":
            write_store(tmp_path / "later", table, name, started_unix_ns=start)
    assert [len(run.participants) for run in load_runs([tmp_path / "later"])] == [2, 2]
    # At the same time, with names.
    for run in ("x", "y"):
        for name in "AB":
            write_store(tmp_path / "named" / run, table, name, run=run)
    assert [(run.name, len(run.participants)) for run in load_runs([tmp_path / "named"])] == [("x", 2), ("y", 2)]
    # At the same time, without names.
    for place in ("p", "q"):
        for name in "AB":
            write_store(tmp_path / "places" / place, table, name)
    assert [len(run.participants) for run in load_runs([tmp_path / "places"])] == [2, 2]
    # At the same time in one directory: the attempts tell.
    for _ in range(2):
        for rank in range(2):
            write_store(tmp_path / "one", table, "A", rank, 2)
    assert [run.participants["A"].ranks for run in load_runs([tmp_path / "one"])] == [2, 2]


def test_participants_that_start_minutes_apart_are_one_run_while_they_overlap(tmp_path: Path) -> None:
    table = [row(1, 0.1, 0.1, 0.01)]
    write_store(tmp_path, table, "A", started_unix_ns=START, seconds=1000)
    write_store(tmp_path, table, "B", started_unix_ns=START + 900 * SECOND, seconds=100)
    write_store(tmp_path, table, "C", started_unix_ns=START + 950 * SECOND, seconds=200)
    assert [list(run.participants) for run in load_runs([tmp_path])] == [["A", "B", "C"]]


def test_runs_of_two_cases_are_refused_with_both_named(tmp_path: Path) -> None:
    table = [row(1, 0.1, 0.1, 0.01), row(2, 0.1, 0.1, 0.01)]
    write_store(tmp_path, table, run="one", configuration=PARALLEL, configuration_path="/one/precice-config.xml")
    write_store(tmp_path, table, run="two", configuration=SERIAL, configuration_path="/two/precice-config.xml")
    assert len(load_runs([tmp_path])) == 2
    with pytest.raises(DataError) as caught:
        load_measurements([tmp_path])
    for word in ("one", "two", "/one/precice-config.xml", "/two/precice-config.xml", "one case at a time"):
        assert word in str(caught.value)


def test_runs_with_other_degrees_of_freedom_are_refused(tmp_path: Path) -> None:
    table = [row(1, 0.1, 0.1, 0.01), row(2, 0.1, 0.1, 0.01)]
    for later, (name, degrees) in enumerate((("one", 100), ("two", 200))):
        write_store(tmp_path, table, run=name, degrees_of_freedom={"A": degrees}, started_unix_ns=START + later)
    with pytest.raises(DataError, match=r"A with 100 degrees of freedom in run one and 200 in run two"):
        load_measurements([tmp_path])


def test_too_little_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="at least one coupled run"):
        measurements_from_runs([])
    with pytest.raises(StoreError, match="found none"):
        load_runs([tmp_path])
    write_store(tmp_path, [row(1, 0.1, 0.1, 0.01)])
    with pytest.raises(DataError, match="time windows after a warm-up of 1, found none"):
        load_measurements([tmp_path])
    with pytest.raises(DataError, match="warmup: expected"):
        load_runs([tmp_path], warmup=-1)
    assert load_measurements([tmp_path], warmup=0).samples["A"].shape == (1, 2)


def test_load_imbalance() -> None:
    assert load_imbalance(np.array([1.0, 4.0, np.nan, 2.0])) == 0.75
    assert load_imbalance(np.array([3.0])) == 0.0
    assert np.isnan(load_imbalance(np.array([np.nan])))
