"""From stores with planted times to coupled runs, waits, compute time and samples."""

from __future__ import annotations

import re
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from conftest import FULL_COUNTS
from hypothesis import given, settings
from hypothesis import strategies as st
from precice_xml_helpers import configuration, scheme
from store_helpers import PARALLEL, START, metadata, row, write_coupled, write_store

from precice_lb.dataset import load_measurements, load_runs, measurements_from_runs, spread_of, windows
from precice_lb.exceptions import DataError
from precice_lb.export import export_merged
from precice_lb.store import ADVANCES, StoreWriter

PAIR = {kind: configuration("AB", [scheme(kind, "AB")]) for kind in ("serial-explicit", "serial-implicit")}
SERIAL = PAIR["serial-explicit"]
TRANSFER = 0.002


def test_planted_cost_wait_and_imbalance_are_recovered(tmp_path: Path) -> None:
    write_coupled(tmp_path, {"A": [0.3] * 6, "B": [0.1] * 6}, {"A": 2, "B": 3}, warmup=5.0)
    (run,) = load_runs([tmp_path])
    assert (run.name, list(run.participants), run.warmup_windows) == ("A:2 B:3", ["A", "B"], 1)
    for name, cost in (("A", 0.3), ("B", 0.1)):
        part, steady, wait = run.participants[name], run.steady(name), 0.3 + TRANSFER - cost
        assert part.compute_measured
        assert part.windows.tolist() == [1, 2, 3, 4, 5, 6]
        assert steady.tolist() == [False, True, True, True, True, True]
        # The transfer belongs to the cost: it is there when nobody waits.
        planted = {"compute_seconds": cost + TRANSFER, "wait_seconds": wait, "window_seconds": 0.3 + TRANSFER}
        for quantity, seconds in planted.items():
            np.testing.assert_allclose(getattr(part, quantity)[steady], seconds, atol=1e-8)
        np.testing.assert_allclose(part.rank_wait, wait, atol=1e-8)
        np.testing.assert_allclose(part.rank_overhead, 0.0, atol=1e-8)
        assert part.window_seconds[0] > 5
    assert run.imbalance == pytest.approx(0.2 / 0.302, abs=1e-6)


@pytest.mark.parametrize("iterations", [1, 3])
def test_the_second_of_a_serial_scheme_waits_first_inside_initialize(tmp_path: Path, iterations: int) -> None:
    """It receives the data of an iteration at the end of the one before, and after the last iteration nothing."""
    kind = "serial-explicit" if iterations == 1 else "serial-implicit"
    text = PAIR[kind]
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


def test_what_was_not_measured_is_missing_and_never_zero(tmp_path: Path) -> None:
    table = [row(window, 0.1, 0.2, None, None) for window in range(1, 5)]
    for name in ("A", "B"):
        write_store(tmp_path, table, name, backend="libprecice")
    (run,) = load_runs([tmp_path])
    part = run.participants["A"]
    assert not part.compute_measured
    for quantity in ("compute_seconds", "wait_seconds", "rank_wait", "rank_mapping", "rank_overhead"):
        assert np.isnan(getattr(part, quantity)).all()
    assert np.isnan(run.imbalance)
    np.testing.assert_allclose(part.window_seconds, 0.3)
    np.testing.assert_allclose(part.rank_solve, 0.1)
    expected = "waits of participant A to be measured, found none from backend libprecice; load the runs with complete="
    with pytest.raises(DataError, match=expected):
        load_measurements([tmp_path])
    # What the ranks say of the reason is passed on.
    problem = 'Fluid-{}-12.txt: none; set <profiling mode="fundamental"/>'
    for rank in range(12):
        write_store(tmp_path / "told", table, "A", rank, 12, timing_problem=problem.format(rank))
    (run,) = load_runs([tmp_path / "told"])
    assert run.participants["A"].timing_problems == {problem.format("*"): 12}
    with pytest.raises(DataError, match=re.escape(f"participant A to be measured, {problem.format('*')}")):
        measurements_from_runs([run])


def test_windows_without_measured_wait_are_left_out_of_samples(tmp_path: Path) -> None:
    table = [row(window, 0.1, 0.2, 0.15 if window < 4 else None) for window in range(1, 7)]
    write_store(tmp_path, table, configuration=SERIAL)
    (run,) = load_runs([tmp_path])
    part = run.participants["A"]
    assert part.compute_measured
    assert np.isnan(part.compute_seconds).tolist() == [False] * 3 + [True] * 3
    np.testing.assert_allclose(part.rank_wait, 0.15)
    np.testing.assert_allclose(measurements_from_runs([run]).samples["A"], [[1, 0.15]])


def test_memory_grows_by_8_mib_at_most_with_the_number_of_rank_files(tmp_path: Path) -> None:
    calls = np.zeros(20_000, ADVANCES.dtype)
    calls["window"], calls["iteration"], calls["window_complete"] = np.arange(1, len(calls) + 1), 1, True
    calls["solve_ns"], calls["advance_ns"], calls["wait_ns"] = 1000, 500, 200
    few, many = 2, 24
    for size in (few, many):
        for rank in range(size):
            writer = StoreWriter(tmp_path / f"{size}", metadata("A", rank, size), PARALLEL)
            writer.append(calls)
            writer.close(finished=True, ended_unix_ns=START + 10**9)
    # All files together are larger than what is kept of them.
    assert many * calls.nbytes > 2 * 2**23
    load_runs([tmp_path / f"{few}"])
    peaks = {}
    for size in (few, many):
        tracemalloc.start()
        (run,) = load_runs([tmp_path / f"{size}"])
        peaks[size] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(run.participants["A"].windows) == len(calls)
    assert peaks[many] < peaks[few] + 2**23


def test_samples_are_medians_after_warmup_sorted_by_ranks(tmp_path: Path) -> None:
    generator = np.random.default_rng(5)
    noise = {ranks: 1.0 + 0.05 * generator.standard_normal(21) for ranks in (2, 4)}
    for index, ranks in enumerate((4, 2)):
        costs = {"A": list(noise[ranks] / ranks), "B": [1.0] * 21}
        place = tmp_path / str(index)
        write_coupled(place, costs, {"A": ranks, "B": 1}, run=f"run-{ranks}", warmup_windows=3)
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


def test_runs_at_the_same_time_are_told_apart_by_name_process_and_times(tmp_path: Path) -> None:
    table = [row(1, 0.1, 0.1, 0.01), row(2, 0.1, 0.1, 0.01)]
    for name in "AB":
        for run in ("x", "y"):
            write_store(tmp_path / "named" / run, table, name, run=run)
        # Without names: other times were measured, or another process did.
        for place, more in (("p", {"pid": 1}), ("q", {"pid": 2}), ("r", {})):
            other = table if more else [row(1, 0.2, 0.1, 0.01), row(2, 0.1, 0.1, 0.01)]
            write_store(tmp_path / "places" / place, other, name, **more)
    assert [(run.name, len(run.participants)) for run in load_runs([tmp_path / "named"])] == [("x", 2), ("y", 2)]
    assert [len(run.participants) for run in load_runs([tmp_path / "places"])] == [2, 2, 2]
    # In one directory: the attempts tell.
    for host in ("here", "there"):
        for rank in range(2):
            write_store(tmp_path / "one", table, "A", rank, 2, hostname=host)
    assert [run.participants["A"].ranks for run in load_runs([tmp_path / "one"])] == [2, 2]


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({"configuration_path": "/one/precice-config.xml"},
         {"configuration": SERIAL, "configuration_path": "/two/precice-config.xml"},
         "expected runs of one case, found two: run one (/one/precice-config.xml) and run two "
         "(/two/precice-config.xml) have different coupling configurations; give the runs of one case at a time"),
        ({"degrees_of_freedom": {"A": 100}}, {"degrees_of_freedom": {"A": 200}},
         "expected runs of one case, found A with 100 degrees of freedom in run one and 200 in run two; give the runs "
         "of one case at a time"),
    ],
)  # fmt: skip
def test_runs_that_must_not_be_mixed_are_refused(
    tmp_path: Path, first: dict[str, object], second: dict[str, object], message: str
) -> None:
    for later, (name, more) in enumerate((("one", first), ("two", second))):
        write_store(tmp_path, [row(w, 0.1, 0.1, 0.01) for w in (1, 2)], run=name, started_unix_ns=START + later, **more)
    assert len(load_runs([tmp_path])) == 2
    with pytest.raises(DataError) as refusal:
        load_measurements([tmp_path])
    assert str(refusal.value) == message


def test_too_little_is_said_so(tmp_path: Path) -> None:
    write_store(tmp_path, [row(1, 0.1, 0.1, 0.01)])
    with pytest.raises(DataError, match="time windows after a warm-up of 1, found none"):
        load_measurements([tmp_path])


@settings(max_examples=100 if FULL_COUNTS else 10)
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
        indices = [i for i, call in enumerate(calls) if call[0] in complete]
        expected = np.full((size, 4), np.nan)
        if complete:
            expected[recorded] = seconds[recorded][:, indices].sum(axis=1) / len(complete)
        measured = np.stack([part.rank_solve, part.rank_mapping, part.rank_wait, part.rank_overhead], axis=1)
        np.testing.assert_allclose(measured, expected, rtol=0, atol=1e-8)
