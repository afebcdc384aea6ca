"""Parts of the embedded backend on their own: time, waveforms, mapping, channels, rendezvous."""

from __future__ import annotations

import copy
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from embedded_helpers import m2n
from hypothesis import given
from hypothesis import strategies as st

from precice_lb.embedded import CouplingError, mapping
from precice_lb.embedded.acceleration import independent_columns, triangle
from precice_lb.embedded.communication import Connection, IntraComm, connect, published_file
from precice_lb.embedded.files import LogFile
from precice_lb.embedded.timeline import Clock, Waveform


@given(st.integers(1, 80), st.sampled_from([0.1, 0.01, 0.3, 1 / 3, 0.7e-3]))
def test_a_window_reached_in_steps_ends_exactly_there(steps: int, window: float) -> None:
    clock = Clock(window, None)
    for number in range(steps):
        while not clock.at_window_end:
            clock.progress_by(min(window / 7, clock.until_window_end))
        clock.complete_window()
        exact = Fraction(window) * (number + 1)
        assert abs(Fraction(clock.window_start) - exact) <= Fraction(np.spacing(float(exact)))


def test_the_end_of_the_simulation_cuts_the_last_window() -> None:
    clock = Clock(0.1, 0.25)
    lengths = []
    while not clock.at_end:
        lengths.append(clock.until_window_end)
        clock.progress_by(lengths[-1])
        clock.complete_window()
    assert lengths == pytest.approx([0.1, 0.1, 0.05], abs=1e-15)


def test_waveforms_between_samples() -> None:
    linear, constant, single = Waveform(1), Waveform(0), Waveform(1)
    for waveform in (linear, constant):
        waveform.put(1.0, np.array([[1.0]]))
        waveform.put(2.0, np.array([[3.0]]))
    single.put(2.0, np.array([[3.0]]))
    times = [0.5, 1.0, 1.25, 2.0, 2.5]
    assert [linear.at(t)[0, 0] for t in times] == [1.0, 1.0, 1.5, 3.0, 3.0]
    assert [constant.at(t)[0, 0] for t in times] == [1.0, 1.0, 3.0, 3.0, 3.0]
    assert {single.at(t)[0, 0] for t in times} == {3.0}
    linear.put(2.0, np.array([[5.0]]))
    linear.trim_before(2.0)
    assert len(linear) == 1
    assert linear.at(0.0)[0, 0] == 5.0


@pytest.mark.parametrize(("degree", "samples"), [(2, 3), (3, 4), (3, 7), (3, 3)])
def test_waveforms_of_higher_degrees_go_through_polynomials(degree: int, samples: int) -> None:
    waveform = Waveform(degree)
    coefficients = np.array([2.0, -1.0, 0.5, 3.0])[: min(degree, samples - 1) + 1]
    for time_ in np.linspace(1.0, 2.0, samples) ** 1.5:
        waveform.put(float(time_), np.full((2, 1), np.polyval(coefficients, time_)))
    for time_ in np.linspace(1.0, 2.0**1.5, 9):
        np.testing.assert_allclose(waveform.at(float(time_)), np.polyval(coefficients, time_), rtol=1e-12)
    other = copy.copy(waveform)
    other.clear_except_last()
    assert (len(waveform), len(other)) == (samples, 1)
    waveform.trim_after(1.0)
    assert waveform.times == [1.0]


@given(st.integers(0, 10), st.integers(1, 20), st.integers(0, 10_000))
def test_the_factor_has_the_norms_and_angles_of_its_matrix(columns: int, rows: int, seed: int) -> None:
    matrix = np.random.default_rng(seed).normal(size=(rows, columns))
    factor = triangle(matrix, IntraComm("A", 0, 1))
    np.testing.assert_allclose(factor.T @ factor, matrix.T @ matrix, atol=1e-12)
    np.testing.assert_array_equal(factor, np.triu(factor))


@pytest.mark.parametrize("filtering", ["QR1", "QR2", "QR3"])
def test_filters_take_out_what_depends_on_newer_columns(filtering: str) -> None:
    rng = np.random.default_rng(3)
    matrix = rng.normal(size=(20, 5))
    matrix[:, 3] = matrix[:, 0] + 1e-7 * rng.normal(size=20)
    assert independent_columns(triangle(matrix, IntraComm("A", 0, 1)), filtering, 1e-3) == [0, 1, 2, 4]
    # Of more columns than rows, and of none but zeros, some depend on others.
    assert independent_columns(triangle(matrix.T, IntraComm("A", 0, 1)), filtering, 1e-12) == [0, 1, 2, 3, 4]
    assert independent_columns(np.zeros((3, 3)), filtering, 1e-3) == [2]


def test_tables_look_like_those_of_precice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = LogFile("precice-A-convergence.log", ["TimeWindow", "Iteration", "ResRel(A-Mesh:Heat)"])
    monkeypatch.chdir("/")
    log.write([1, 12, 0.125])
    log.write([1, 13, float("inf")])
    assert (tmp_path / "precice-A-convergence.log").read_text() == (
        "  TimeWindow  Iteration  ResRel(A-Mesh:Heat)\n     1      12   1.25000000e-01\n     1      13              inf"
    )


@given(st.integers(0, 40), st.integers(1, 40), st.integers(2, 3), st.booleans(), st.integers(0, 10_000))
def test_nearest_neighbours_against_brute_force(n: int, m: int, dimensions: int, grid: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    origins, candidates = rng.uniform(0, 3, (n, dimensions)), rng.uniform(0, 3, (m, dimensions))
    if grid:
        # On a grid many candidates are equally near: the lowest index counts.
        origins, candidates = np.round(origins * 2) / 2, np.round(candidates)
    squares = ((origins[:, None, :] - candidates[None, :, :]) ** 2).sum(axis=2)
    expected = squares.argmin(axis=1) if n else []
    for few_pairs in (mapping._FEW_PAIRS, 0):
        with mock.patch.object(mapping, "_FEW_PAIRS", few_pairs):
            np.testing.assert_array_equal(mapping.nearest_neighbours(origins, candidates), expected)


@pytest.fixture
def pair() -> Iterator[tuple[Connection, Connection]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        left = socket.create_connection(server.getsockname(), timeout=0.1)
        right, _ = server.accept()
    channels = Connection(left, "A", "B"), Connection(right, "B", "A")
    yield channels
    for channel in channels:
        channel.abort()


def test_two_partners_send_each_other_more_than_any_buffer_holds(pair: tuple[Connection, Connection]) -> None:
    big = np.arange(3_000_000.0).reshape(-1, 3)
    for _ in range(2):
        for channel in pair:
            channel.send([big, big[:1], np.empty((0, 3))])
    for channel in pair:
        for _ in range(2):
            got = channel.receive()
            np.testing.assert_array_equal(got[0], big)
            np.testing.assert_array_equal(got[1], big[:1])
            assert [part.shape for part in got[1:]] == [(1, 3), (0, 3)]


def test_a_sender_waits_for_a_receiver_that_is_behind(pair: tuple[Connection, Connection]) -> None:
    pair[0]._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**16)
    pair[1]._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)
    window = np.zeros((100_000, 1))
    sent = 0

    def run_ahead() -> None:
        nonlocal sent
        for _ in range(60):
            pair[0].send([window])
            sent += 1

    sender = threading.Thread(target=run_ahead)
    sender.start()
    # Time to run as far ahead as it can.
    sender.join(1.0)
    for taken in range(60):
        # What one advance sends, and one on its way.
        assert sent - taken <= 4
        assert pair[1].receive()[0].size == window.size
    sender.join()


def test_what_was_sent_arrives_after_the_sender_has_finished(pair: tuple[Connection, Connection]) -> None:
    big = np.random.default_rng(0).normal(size=(500_000, 2))
    left, right = pair
    left.send([big])
    finishing = threading.Thread(target=left.finish)
    finishing.start()
    (got,) = right.receive()
    finishing.join(20)
    np.testing.assert_array_equal(got, big)
    with pytest.raises(CouplingError, match=r'"A" finalised while "B" still expected data'):
        right.receive()


def test_two_partners_that_leave_with_data_under_way_do_not_wait_for_ever(pair: tuple[Connection, Connection]) -> None:
    for channel in pair:
        for _ in range(3):
            channel.send([np.zeros((1_000_000, 1))])
    # Daemons: those that wait for ever must not keep the tests from ending.
    leaving = [threading.Thread(target=channel.finish, daemon=True) for channel in pair]
    for thread in leaving:
        thread.start()
    for thread in leaving:
        thread.join(30)
    assert not any(thread.is_alive() for thread in leaving)


def _meet(
    directory: Path, configurations: tuple[str, str] = ("same", "same"), between: Callable[[], None] = lambda: None
):
    """Let B wait for A's address, do something, and let A come."""
    with ThreadPoolExecutor() as pool:
        connector = pool.submit(connect, "B", [m2n(directory)], configurations[1], 20.0)
        between()
        acceptor = pool.submit(connect, "A", [m2n(directory)], configurations[0], 20.0)
        return acceptor, connector


def _assert_connected(acceptor, connector) -> None:
    a, b = acceptor.result()["B"], connector.result()["A"]
    a.send([np.full((2, 1), 7.0)])
    assert b.receive()[0].tolist() == [[7.0], [7.0]]
    a.abort()
    b.abort()


def _stale(directory: Path, content: str) -> Path:
    path = published_file(m2n(directory))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"address": "127.0.0.1"}', '{"address": 3, "port": "x", "token": 1}']
)
def test_a_damaged_file_of_an_earlier_run_misleads_nobody(content: str, tmp_path: Path) -> None:
    _stale(tmp_path, content)
    _assert_connected(*_meet(tmp_path, between=lambda: time.sleep(0.1)))


@pytest.mark.parametrize("listener", ["nobody", "silent", "closes"])
def test_a_stale_address_misleads_nobody(listener: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        _stale(tmp_path, json.dumps({"address": "127.0.0.1", "port": port, "token": "old", "host": "here"}))
        if listener == "nobody":
            server.close()

        def between() -> None:
            if listener != "nobody":
                stranger, _ = server.accept()
                if listener == "closes":
                    stranger.close()
                    server.close()
                else:
                    held.append(stranger)
            time.sleep(0.1)

        held: list[socket.socket] = []
        _assert_connected(*_meet(tmp_path, between=between))
        for sock in held:
            sock.close()


def test_different_configurations_are_an_error_on_both_sides(tmp_path: Path) -> None:
    for future in _meet(tmp_path, ("one", "another")):
        with pytest.raises(CouplingError, match="configurations that differ"):
            future.result()
