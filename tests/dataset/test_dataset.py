"""From stores with planted times to coupled runs, waits, compute time and samples."""

from __future__ import annotations

import dataclasses
import tempfile
import tracemalloc
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from coupled_runs import autocorrelated, coupled_run
from hypothesis import given, settings
from hypothesis import strategies as st
from store_helpers import PARALLEL, SERIAL, START, metadata, row, write_store

from precice_lb.dataset import load_measurements, load_runs, measurements_from_runs, windows
from precice_lb.dataset.records import load_imbalance
from precice_lb.dataset.runs import roles_of
from precice_lb.dataset.series import spread_of
from precice_lb.exceptions import DataError, StoreError
from precice_lb.export import export_merged
from precice_lb.recommend.selection import fit_model, selected
from precice_lb.store.columns import ADVANCES
from precice_lb.store.records import RankFile
from precice_lb.store.spool import StoreWriter
from precice_lb.watch import Observer

PAIR = """<precice-configuration><coupling-scheme:{kind}><participants first="A" second="B"/>
</coupling-scheme:{kind}></precice-configuration>"""
ACCELERATED = """<precice-configuration><coupling-scheme:parallel-implicit><participants first="A" second="B"/>
<acceleration:IQN-ILS/></coupling-scheme:parallel-implicit></precice-configuration>"""
TRANSFER = 0.002
SECOND = 1_000_000_000


def _plant(
    directory: Path,
    costs: Mapping[str, list[float]],
    ranks: Mapping[str, int],
    *,
    warmup: float = 0.0,
    **more: object,
) -> None:
    """Stores of a parallel coupling: a window takes the larger cost and the transfer."""
    windows = len(next(iter(costs.values())))
    for name, seconds in costs.items():
        for rank in range(ranks[name]):
            table = []
            for window in range(windows):
                extra = warmup if window == 0 else 0.0
                wall = max(cost[window] for cost in costs.values()) + TRANSFER + extra
                wait = wall - seconds[window] - extra
                table.append(row(window + 1, wall - wait, wait, wait))
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
        assert part.compute_measured
        assert part.windows.tolist() == [1, 2, 3, 4, 5, 6]
        steady = run.steady(name)
        assert steady.tolist() == [False, True, True, True, True, True]
        # The transfer belongs to the cost: it is there when nobody waits.
        np.testing.assert_allclose(part.compute_seconds[steady], cost + TRANSFER, atol=1e-8)
        np.testing.assert_allclose(part.wait_seconds[steady], 0.3 + TRANSFER - cost, atol=1e-8)
        np.testing.assert_allclose(part.window_seconds[steady], 0.3 + TRANSFER, atol=1e-8)
        np.testing.assert_allclose(part.rank_wait, 0.3 + TRANSFER - cost, atol=1e-8)
        np.testing.assert_allclose(part.rank_overhead, 0.0, atol=1e-8)
        assert part.window_seconds[0] > 5
    assert run.imbalance == pytest.approx(0.2 / 0.302, abs=1e-6)


def test_a_serial_coupling_shows_no_transfer_floor(tmp_path: Path) -> None:
    """Each waits for the other all the time: the least wait is the partner's cost, not a transfer."""
    for name, own, other in (("A", 0.3, 0.1), ("B", 0.1, 0.3)):
        table = [row(window, own, other, other) for window in range(1, 6)]
        write_store(tmp_path, table, name, configuration=SERIAL)
    (run,) = load_runs([tmp_path], warmup=0)
    np.testing.assert_allclose(run.participants["A"].compute_seconds, 0.3, atol=1e-8)
    np.testing.assert_allclose(run.participants["B"].compute_seconds, 0.1, atol=1e-8)


@pytest.mark.parametrize("iterations", [1, 3])
def test_the_second_of_a_serial_scheme_waits_first_inside_initialize(tmp_path: Path, iterations: int) -> None:
    """It receives the data of an iteration at the end of the one before, and after the last iteration nothing."""
    kind = "serial-explicit" if iterations == 1 else "serial-implicit"
    text = PAIR.format(kind=kind)
    calls = [(window, iteration) for window in range(1, 5) for iteration in range(1, iterations + 1)]
    first, second = [], []
    for index, (window, iteration) in enumerate(calls):
        # A takes 0.1 s more in every window than in the one before, B always 0.2 s.
        own, following = 0.1 * window, (calls[index + 1][0] * 0.1 if index + 1 < len(calls) else 0.0)
        more = {"iteration": iteration, "complete": iteration == iterations}
        first.append(row(window, own, 0.2, 0.2, **more))
        second.append(row(window, 0.2, following, following, **more))
    write_store(tmp_path, first, "A", configuration=text)
    for rank in range(2):
        write_store(tmp_path, second, "B", rank, 2, configuration=text, initialize_wait=0.1)
    (run,) = load_runs([tmp_path], warmup=0)
    a, b = run.participants["A"], run.participants["B"]
    planted = 0.1 * np.arange(1, 5) * iterations
    np.testing.assert_allclose(a.compute_seconds, planted)
    np.testing.assert_allclose(a.wait_seconds, 0.2 * iterations)
    np.testing.assert_allclose(b.compute_seconds, 0.2 * iterations)
    np.testing.assert_allclose(b.wait_seconds, planted)
    np.testing.assert_allclose(b.window_seconds, a.window_seconds)
    np.testing.assert_allclose(b.rank_wait, planted.mean())
    np.testing.assert_allclose(b.iteration_wait, [0.25] * iterations)


def test_who_is_second_in_a_serial_scheme() -> None:
    assert roles_of(PAIR.format(kind="serial-explicit")).second == {"B"}
    assert roles_of(PAIR.format(kind="serial-implicit")).second == {"B"}
    assert roles_of(PAIR.format(kind="parallel-explicit")).second is None
    assert roles_of(SERIAL).second == frozenset()
    assert roles_of("no XML").second is None


def test_what_a_partner_accelerates_is_no_transfer(tmp_path: Path) -> None:
    """A never finds its data already there: B begins to accelerate when A's data has come."""
    accelerating = (0.07, 0.05, 0.06)
    tables: dict[str, list[object]] = {"A": [], "B": []}
    for window in range(1, 5):
        for iteration, spent in enumerate(accelerating, 1):
            more = {"iteration": iteration, "complete": iteration == len(accelerating)}
            tables["A"].append(row(window, 0.3, spent + TRANSFER, spent + TRANSFER, **more))
            tables["B"].append(row(window, 0.1, 0.2 + TRANSFER + spent, 0.2 + TRANSFER, **more))
    for name, table in tables.items():
        write_store(tmp_path / name, table, name, configuration=ACCELERATED)
    (run,) = load_runs([tmp_path])
    np.testing.assert_allclose(run.participants["A"].compute_seconds, 3 * (0.3 + TRANSFER))
    np.testing.assert_allclose(run.participants["B"].compute_seconds, 3 * (0.1 + TRANSFER) + sum(accelerating))
    np.testing.assert_allclose(run.participants["A"].window_seconds, 3 * (0.3 + TRANSFER) + sum(accelerating))
    # `watch` says the same.
    seen = Observer(tmp_path).poll()
    assert seen is not None
    for each in seen.participants:
        assert each.compute_seconds == pytest.approx(run.participants[each.participant].compute_seconds[-1])
    # Without B's store nobody knows how much of A's wait is a transfer.
    (run,) = load_runs([tmp_path / "A"])
    np.testing.assert_allclose(run.participants["A"].compute_seconds, 3 * 0.3)


def test_who_accelerates_while_others_wait() -> None:
    multi = """<x><participant name="Other"/><coupling-scheme:multi><participant name="A"/>
    <participant name="M" control="yes"/><participant name="B"/>{}</coupling-scheme:multi></x>"""
    assert roles_of(ACCELERATED).accelerating == {"A": "B"}
    assert roles_of(multi.format("<acceleration:aitken/>")).accelerating == {"A": "M", "B": "M"}
    assert roles_of(multi.format("")).accelerating == {}
    assert roles_of(PAIR.format(kind="parallel-implicit")).accelerating == {}
    assert roles_of("no XML").accelerating == {}


def test_slow_ranks_that_take_turns_do_not_hide_each_other(tmp_path: Path) -> None:
    """In every iteration another rank is the slow one: summed over the window both seem to wait for the partner."""
    for rank in range(2):
        table = []
        for window in range(1, 5):
            for iteration in (1, 2):
                slow = (iteration + rank) % 2 == 0
                solve, wait = (0.2, TRANSFER) if slow else (0.1, 0.1 + TRANSFER)
                table.append(row(window, solve, wait, wait, iteration=iteration, complete=iteration == 2))
        write_store(tmp_path, table, "A", rank, 2)
    part = load_runs([tmp_path])[0].participants["A"]
    np.testing.assert_allclose(part.wait_seconds, 2 * TRANSFER)
    np.testing.assert_allclose(part.compute_seconds, 0.4 + 2 * TRANSFER)


def test_ranks_that_the_metadata_say_receive_nothing_are_not_asked(tmp_path: Path) -> None:
    """libprecice spends microseconds in waiting on such ranks; a slow rank that does receive may wait as little."""
    for rank, (wait, receives) in enumerate(((3e-6, False), (0.2, True), (0.25, True), (1e-6, None))):
        more = {} if receives is None else {"receives_data": receives}
        table = [row(window, 0.5 - wait, wait, wait) for window in range(1, 5)]
        write_store(tmp_path, table, "A", rank, 4, configuration=SERIAL, **more)
    part = load_runs([tmp_path])[0].participants["A"]
    assert part.receiving.tolist() == [False, True, True, True]
    np.testing.assert_allclose(part.wait_seconds, 1e-6)
    write_store(tmp_path / "told", table, "A", 0, 1, receives_data=False, configuration=SERIAL)
    part = load_runs([tmp_path / "told"])[0].participants["A"]
    assert not part.receiving.any()
    np.testing.assert_allclose(part.compute_seconds, 0.5, rtol=1e-5)


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
    assert not part.compute_measured
    assert np.isnan(part.compute_seconds).all()
    assert np.isnan(part.wait_seconds).all()
    assert np.isnan(part.rank_wait).all()
    assert np.isnan(part.rank_mapping).all()
    assert np.isnan(part.rank_overhead).all()
    assert np.isnan(run.imbalance)
    np.testing.assert_allclose(part.window_seconds, 0.3)
    np.testing.assert_allclose(part.rank_solve, 0.1)
    with pytest.raises(DataError, match="waits of participant A to be measured, found none from backend libprecice"):
        load_measurements([tmp_path])


def test_the_reason_why_nothing_was_measured_is_passed_on(tmp_path: Path) -> None:
    table = [row(window, 0.1, 0.2, None, None) for window in range(1, 5)]  # type: ignore[arg-type]
    for rank in range(12):
        problem = f'Fluid-{rank}-12.txt: none; set <profiling mode="fundamental"/>'
        write_store(tmp_path, table, "A", rank, 12, timing_problem=problem)
    (run,) = load_runs([tmp_path])
    assert run.participants["A"].timing_problems == {'Fluid-*-12.txt: none; set <profiling mode="fundamental"/>': 12}
    with pytest.raises(DataError, match=r'participant A to be measured, .*set <profiling mode="fundamental"/>'):
        measurements_from_runs([run])


def test_windows_without_measured_wait_are_left_out_of_samples(tmp_path: Path) -> None:
    table = [row(window, 0.1, 0.2, 0.15 if window < 4 else None) for window in range(1, 7)]  # type: ignore[arg-type]
    write_store(tmp_path, table, configuration=SERIAL)
    (run,) = load_runs([tmp_path])
    part = run.participants["A"]
    assert part.compute_measured
    assert np.isnan(part.compute_seconds).tolist() == [False] * 3 + [True] * 3
    np.testing.assert_allclose(part.rank_wait, 0.15)
    np.testing.assert_allclose(measurements_from_runs([run]).samples["A"], [[1, 0.15]])


def test_what_completes_the_stores_sees_every_rank_once_and_is_used(tmp_path: Path) -> None:
    for name in "AB":
        for rank in range(2):
            write_store(tmp_path, [row(w, 0.1, 0.2, None, None) for w in (1, 2)], name, rank, 2)  # type: ignore[arg-type]
    asked = []

    def complete(stores: Sequence[RankFile]) -> list[RankFile]:
        asked.append([(store.metadata["participant"], store.metadata["rank"]) for store in stores])
        result = []
        for store in stores:
            advances = store.advances.copy()
            advances["wait_ns"], advances["mapping_ns"] = 50_000_000, 0
            result.append(store.having(advances=advances))
        return result

    samples = load_measurements([tmp_path], complete=complete).samples
    assert sorted(asked) == [[(name, rank)] for name in "AB" for rank in range(2)]
    # Each waits the 0.05 s that the transfer takes.
    np.testing.assert_allclose(samples["A"], [[2, 0.3]])


def test_memory_does_not_grow_with_the_number_of_rank_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = np.zeros(20_000, ADVANCES.dtype)
    calls["window"], calls["iteration"], calls["window_complete"] = np.arange(1, len(calls) + 1), 1, True
    calls["solve_ns"], calls["advance_ns"], calls["wait_ns"] = 1000, 500, 200
    for size in (2, 12):
        for rank in range(size):
            writer = StoreWriter(tmp_path / f"{size}", metadata("A", rank, size), PARALLEL)
            writer.append(calls)
            writer.close(finished=True, ended_unix_ns=START + 10**9)
    monkeypatch.setattr(windows, "_KEPT_BYTES", 0)
    peaks = []
    load_runs([tmp_path / "2"])
    for size in (2, 12):
        tracemalloc.start()
        (run,) = load_runs([tmp_path / f"{size}"])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(run.participants["A"].windows) == len(calls)
    assert peaks[1] < peaks[0] + calls.nbytes


def test_a_participant_that_receives_nothing_costs_all_of_its_window(tmp_path: Path) -> None:
    write_store(tmp_path, [row(window, 0.02, 0.001, 0.0) for window in range(1, 5)], "A")
    write_store(tmp_path, [row(window, 0.2, 0.002, 0.001) for window in range(1, 5)], "B")
    (run,) = load_runs([tmp_path], warmup=0)
    np.testing.assert_allclose(run.participants["A"].compute_seconds, 0.021)
    np.testing.assert_allclose(run.participants["B"].compute_seconds, 0.202)


def test_a_rank_without_a_store_is_unknown(tmp_path: Path) -> None:
    for rank in (0, 2):
        write_store(tmp_path, [row(window, 0.1, 0.2, 0.15) for window in range(1, 5)], "A", rank, 3)
    (run,) = load_runs([tmp_path], warmup=0)
    part = run.participants["A"]
    assert part.ranks == 3
    np.testing.assert_array_equal(np.isnan(part.rank_solve), [False, True, False])
    # Alone, its least wait counts as the transfer.
    np.testing.assert_allclose(part.compute_seconds, 0.3, atol=1e-8)


def test_windows_of_which_a_rank_lost_a_call_are_left_out(tmp_path: Path) -> None:
    first, second = row(2, 0.1, 0.1, 0.01, complete=False), row(2, 0.2, 0.1, 0.01)
    calls = [row(1, 0.1, 0.1, 0.01), first, second, row(3, 0.3, 0.1, 0.01)]
    for rank, table in enumerate((calls, [calls[0], *calls[2:]])):
        write_store(tmp_path, table, "A", rank, 2)
    (run,) = load_runs([tmp_path], warmup=0)
    assert run.participants["A"].windows.tolist() == [1, 3]
    np.testing.assert_allclose(run.participants["A"].rank_solve, 0.2)


def test_samples_of_windows_that_are_alike_have_larger_errors_and_less_weight() -> None:
    generator = np.random.default_rng(3)
    windows, alike = 240, 0.9
    noise = {name: 0.15 * generator.standard_normal(windows) for name in ("1", "2", "4", "8")}
    drifting = 0.15 * autocorrelated(generator, windows, alike)
    # Two runs on 4 ranks: one of independent windows, and one whose windows are alike, and too long by 12 %.
    noise["4 alike"] = drifting - np.median(drifting) + 0.12
    runs = [
        coupled_run(
            name, {"A": ranks, "B": 1}, {"A": np.exp(part) / ranks, "B": part * 0 + 1}, part * 0 + 1, serial=True
        )
        for name, part in noise.items()
        if (ranks := int(name[0]))
    ]
    table = measurements_from_runs(runs)
    frame = table.frames["A"]
    relative = dict(zip(frame.seconds, frame.standard_error / frame.seconds, strict=True))
    least, *_, most = (relative[seconds] for seconds in sorted(frame.seconds, key=lambda s: relative[s]))
    # Independent windows: 1.2533 * 0.15 / sqrt(240), times the root of (1 + 0.9) / (1 - 0.9) for those that are alike.
    assert least == pytest.approx(0.012, rel=0.4)
    assert 2.5 * least < most < 8 * least
    worst = int(np.argmax(frame.standard_error / frame.seconds))
    assert table.samples["A"][worst].tolist() == pytest.approx([4, np.exp(0.12) / 4], rel=2e-3)
    gaps = []
    # As they are, and as if both runs on 4 ranks had had the other one's windows.
    swapped = frame.standard_error.copy()
    swapped[2:4] = swapped[[3, 2]]
    for errors in (frame.standard_error, swapped):
        given = dataclasses.replace(table, frames={"A": dataclasses.replace(frame, standard_error=errors)})
        model = fit_model(selected(given, ("A",), None, None), "A", None)
        gaps.append(abs(float(np.log(model.predict(np.array([[4.0]]))[0] * 4))))
    assert gaps[0] < 0.7 * gaps[1]


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
    for (ranks, seconds), spread in zip(found.samples["A"], found.frames["A"].standard_error, strict=True):
        planted = noise[int(ranks)][3:] / ranks
        assert seconds == pytest.approx(np.median(planted) + TRANSFER, abs=1e-7)
        assert spread == pytest.approx(spread_of(planted + TRANSFER).error * seconds, rel=1e-3)
        # Which is the error of a median of 18 windows with a standard deviation of 5 %.
        assert spread == pytest.approx(1.2533 * 0.05 / ranks / np.sqrt(18), rel=0.5)
    assert found.samples["B"].shape == (2, 2)
    assert found.iterations == {"A": 1.0, "B": 1.0}
    assert found.configuration == PARALLEL
    # What the caller says goes before what the run says.
    again = load_measurements([tmp_path], warmup=0)
    assert again.samples["A"][0, 1] == pytest.approx(np.median(noise[2] / 2) + TRANSFER, abs=1e-7)


def test_measurements_know_their_core_hours_overhead_and_windows(tmp_path: Path) -> None:
    counts = [1, 3] * 10
    for rank, overhead in enumerate((0.01, 0.03)):
        table = [
            row(w, 0.2 - overhead, 0.1 + overhead, 0.1, iteration=i, complete=i == count)
            for w, count in enumerate(counts, start=1)
            for i in range(1, count + 1)
        ]
        write_store(tmp_path, table, "A", rank, 2, seconds=1800)
    found = load_measurements([tmp_path], warmup=0)
    assert found.core_hours == pytest.approx(1.0)
    (windows,) = found.recorded
    np.testing.assert_allclose(windows["A"], np.array(counts) / 2)
    # Of the rank that spends most on it, over 0.3 s in an iteration of which all but the transfer is work.
    assert found.overhead["A"] == pytest.approx(0.03 / (found.samples["A"][0, 1] / 2))


def test_the_deviation_of_few_windows_is_not_underrated() -> None:
    generator = np.random.default_rng(8)
    found = [spread_of(1 + 0.05 * generator.standard_normal(5)).deviation for _ in range(4000)]
    assert np.mean(found) == pytest.approx(0.05, rel=0.08)


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
    # At the same time, without names: other times were measured, or another process did.
    for place, more in (("p", {"pid": 1}), ("q", {"pid": 2}), ("r", {})):
        for name in "AB":
            other = table if more else [row(1, 0.2, 0.1, 0.01), row(2, 0.1, 0.1, 0.01)]
            write_store(tmp_path / "places" / place, other, name, **more)
    assert [len(run.participants) for run in load_runs([tmp_path / "places"])] == [2, 2, 2]
    # At the same time in one directory: the attempts tell.
    for host in ("here", "there"):
        for rank in range(2):
            write_store(tmp_path / "one", table, "A", rank, 2, hostname=host)
    assert [run.participants["A"].ranks for run in load_runs([tmp_path / "one"])] == [2, 2]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        # They start minutes apart, and overlap; one ends early; they never ran at the same time.
        ({"A": (0, 1000), "B": (900, 100), "C": (950, 200)}, [["A", "B", "C"]]),
        ({"A": (0, 1000), "B": (100, 100), "C": (900, 200)}, [["A", "B", "C"]]),
        ({"A": (0, 100), "B": (200, 100)}, [["A"], ["B"]]),
    ],
)
def test_participants_are_one_run_while_they_overlap(
    tmp_path: Path, times: dict[str, tuple[int, int]], expected: list[list[str]]
) -> None:
    for name, (begin, seconds) in times.items():
        started = START + begin * SECOND
        write_store(tmp_path, [row(1, 0.1, 0.1, 0.01)], name, started_unix_ns=started, seconds=seconds)
    assert [list(run.participants) for run in load_runs([tmp_path])] == expected


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


@settings(max_examples=25)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_ranks_in_memory_in_files_and_merged_agree_with_loops_over_single_calls(data: st.DataObject, seed: int) -> None:
    generator = np.random.default_rng(seed)
    size = data.draw(st.integers(1, 5), label="ranks")
    calls = [
        (window, iteration, step)
        for window in range(1, data.draw(st.integers(1, 4), label="windows") + 1)
        for iteration in range(1, int(generator.integers(1, 4)) + 1)
        for step in range(int(generator.integers(1, 3)))
    ]
    recorded = [rank for rank in range(size) if rank == size - 1 or generator.random() < 0.8]
    # Some ranks lost their last calls.
    lengths = {rank: len(calls) - int(generator.integers(0, 3)) * (generator.random() < 0.3) for rank in recorded}
    seconds = generator.integers(0, 1000, (size, len(calls), 4)) * 1e-3
    with tempfile.TemporaryDirectory() as name:
        for rank in recorded:
            table = []
            for index, (window, iteration, _) in enumerate(calls[: lengths[rank]]):
                complete = index + 1 == len(calls) or calls[index + 1][0] > window
                solve, mapping, wait, overhead = seconds[rank, index]
                table.append(
                    row(window, solve, mapping + wait + overhead, wait, mapping, iteration=iteration, complete=complete)
                )
            write_store(Path(name), table, "A", rank, size, configuration=SERIAL)
        found = [load_runs([name], warmup=0)[0].participants["A"]]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(windows, "_KEPT_BYTES", 100)
            found.append(load_runs([name], warmup=0)[0].participants["A"])
        export_merged([name], f"{name}-merged")
        found.append(load_runs([f"{name}-merged"], warmup=0)[0].participants["A"])
    complete = [
        window
        for window in dict.fromkeys(window for window, *_ in calls)
        if all(max(i for i, call in enumerate(calls) if call[0] == window) < lengths[rank] for rank in recorded)
    ]
    receiving = [
        rank for rank in recorded if any(seconds[rank, i, 2] > 0 for i, call in enumerate(calls) if call[0] in complete)
    ] or recorded
    for part in found:
        assert part.windows.tolist() == complete
        for position, window in enumerate(complete):
            iterations = sorted({call[1] for call in calls if call[0] == window})
            wait = busy = 0.0
            for iteration in iterations:
                indices = [i for i, call in enumerate(calls) if call[:2] == (window, iteration)]
                least = min(seconds[rank, indices, 2].sum() for rank in receiving)
                wait += least
                busy += np.mean([seconds[rank, indices].sum() for rank in receiving]) - least
            assert part.iterations[position] == len(iterations)
            assert part.wait_seconds[position] == pytest.approx(wait, abs=1e-9)
            assert part.compute_seconds[position] == pytest.approx(busy, abs=1e-9)
            assert part.window_seconds[position] == pytest.approx(busy + wait, abs=1e-9)
        for rank in range(size):
            for values, column in (
                (part.rank_solve, 0),
                (part.rank_mapping, 1),
                (part.rank_wait, 2),
                (part.rank_overhead, 3),
            ):
                indices = [i for i, call in enumerate(calls) if call[0] in complete]
                if rank in recorded and complete:
                    expected = seconds[rank, indices, column].sum() / len(complete)
                    assert values[rank] == pytest.approx(expected, abs=1e-8)
                else:
                    assert np.isnan(values[rank])
