"""Parts of the embedded backend on their own: time, mapping, channels, rendezvous."""

from __future__ import annotations

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
from precice_lb.embedded.communication import Connection, connect, published_file
from precice_lb.embedded.timeline import Clock


@given(st.integers(1, 80), st.sampled_from([0.1, 0.01, 0.3, 1 / 3, 0.7e-3]))
def test_a_window_reached_in_steps_ends_exactly_there(steps: int, window: float) -> None:
    clock = Clock(window, None)
    for number in range(steps):
        while not clock.at_window_end:
            clock.progress_by(min(window / 7, clock.until_window_end))
        clock.complete_window()
        exact = Fraction(window) * (number + 1)
        assert abs(Fraction(clock.window_start) - exact) <= Fraction(np.spacing(float(exact)))


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
