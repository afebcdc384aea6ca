"""The calls of ``Participant`` on the embedded backend, two participants in two threads of one process."""

from __future__ import annotations

import contextlib
import inspect
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from embedded_helpers import write_configuration
from profiling_helpers import event_totals

import precice_lb.embedded as embedded
from precice_lb.embedded import CouplingError, Participant
from precice_lb.embedded.communication import Connection
from precice_lb.ingest.profiling import read_profile

MESH_A, MESH_B = "A-Mesh", "B-Mesh"
CORNERS = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def configure(tmp_path: Path, kind: str = "parallel-explicit", **others) -> Path:
    others.setdefault("vector", ["Force"])
    return write_configuration(
        tmp_path / "precice-config.xml",
        participants={"A": [], "B": []},
        exchanges=[(kind, "A", "B", "Heat:A>B Force:B>A")],
        directory=str(tmp_path),
        **others,
    )


def couple(path: Path, *solvers: Callable[[Participant], None]) -> None:
    """Run a solver for A and one for B, each in a thread of its own."""

    def run(name: str, solver: Callable[[Participant], None]) -> None:
        participant = Participant(name, str(path), 0, 1)
        try:
            solver(participant)
        finally:
            del participant

    with ThreadPoolExecutor() as pool:
        futures = [pool.submit(run, name, solver) for name, solver in zip("AB", solvers, strict=True)]
        for future in futures:
            future.result(60)


def to_the_end(participant: Participant) -> None:
    while participant.is_coupling_ongoing():
        participant.advance(participant.get_max_time_step_size())


def other_side(participant: Participant, mesh: str = MESH_B) -> None:
    """B, as simple as can be."""
    participant.set_mesh_vertices(mesh, CORNERS)
    participant.requires_initial_data()
    participant.initialize()
    to_the_end(participant)


def test_calls_take_what_those_of_pyprecice_take(tmp_path: Path) -> None:
    """Beside the calls of `test_embedded_edges`: other forms of arguments, and arrays that a solver changes later."""

    def solver(a: Participant) -> None:
        assert a.set_mesh_vertex(MESH_A, (0.1, 0.1)) == 0
        corners = np.array(CORNERS[1:])
        ids = a.set_mesh_vertices(MESH_A, corners)
        assert (ids.dtype, ids.tolist()) == (np.int32, [1, 2])
        assert len(a.set_mesh_vertices(MESH_A, [])) == 0
        corners[:] = 9.0
        a.set_mesh_triangles(MESH_A, np.array([[0, 1, 2]]))
        a.set_mesh_quad(MESH_A, 0, 1, 2, 0)
        a.set_mesh_quads(MESH_A, [])
        a.initialize()
        assert (a.get_mesh_vertex_size(MESH_A), a.get_mesh_vertex_size(MESH_B)) == (3, 3)
        # Lists, flat and column scalars, bytes as names, ids in any order.
        a.write_data(MESH_A.encode(), b"Heat", [2, 0], [[5.0], [4.0]])
        heat = np.array([3.0])
        a.write_data(MESH_A, "Heat", np.array([1]), heat)
        heat[:] = 9.0
        force = a.read_data(MESH_A, "Force", [0, 2], 0.1)
        assert force.tolist() == [[0, 0], [0, 0]]
        force[:] = 9.0
        assert not a.read_data(MESH_A, "Force", [0, 2], 0.1).any()
        a.advance(0.1)
        assert a.is_time_window_complete()
        assert a.read_data(MESH_A, "Force", [1, 0], 0.0).tolist() == [[3, 4], [1, 2]]
        to_the_end(a)

    def partner(b: Participant) -> None:
        ids = b.set_mesh_vertices(MESH_B, CORNERS)
        b.initialize()
        b.write_data(MESH_B, "Force", ids, [[1, 2], [3, 4], [5, 6]])
        b.advance(0.1)
        assert b.read_data(MESH_B, "Heat", ids, 0.0).tolist() == [4.0, 3.0, 5.0]
        to_the_end(b)

    couple(configure(tmp_path), solver, partner)


@pytest.mark.parametrize("mode", ["fundamental", "all", "off"])
def test_profiling_files_are_read_as_those_of_precice(mode: str, tmp_path: Path) -> None:
    path = configure(
        tmp_path,
        "serial-implicit",
        iteration='<max-iterations value="2" />'
        '<acceleration:constant><relaxation value="0.5" /></acceleration:constant>',
    )
    profiling = f'<precice-configuration>\n<profiling mode="{mode}" flush-every="20" directory="there" />'
    path.write_text(path.read_text().replace("<precice-configuration>", profiling))

    def solver(name: str) -> Callable[[Participant], None]:
        def run(one: Participant) -> None:
            one.set_mesh_vertices(f"{name}-Mesh", CORNERS)
            one.initialize()
            one.start_profiling_section("own")
            one.stop_last_profiling_section()
            while one.is_coupling_ongoing():
                one.requires_writing_checkpoint()
                one.read_data(f"{name}-Mesh", "Force" if name == "A" else "Heat", [0], 0.0)
                one.advance(0.1)
                one.requires_reading_checkpoint()
            one.finalize()

        return run

    couple(path, solver("A"), solver("B"))
    files = [tmp_path / "there" / "precice-profiling" / f"{name}-0-1.txt" for name in "AB"]
    if mode == "off":
        assert not any(file.exists() for file in files)
        return
    for name, file in zip("AB", files, strict=True):
        profile = read_profile(file)
        assert (profile.header.mode, profile.finalized, len(profile.calls)) == ("fundamental", True, 6)
        assert profile.mesh_sizes == {f"{name}-Mesh": 3}
        names = {event for path in event_totals(profile) for event in path.split("/")}
        expected = {"construction", "initialize", "solver.advance", "mapping", "own", "waitAndReceiveData", "finalize"}
        expected |= {"receiveConvergence"} if name == "A" else {"sendConvergence", "accelerate"}
        assert expected <= names
    rows = np.loadtxt(tmp_path / "precice-A-iterations.log", skiprows=1)
    assert rows.tolist() == [[1, 2, 2, 0], [2, 4, 2, 0], [3, 6, 2, 0]]


@pytest.mark.parametrize(
    ("how", "error", "of_partner"),
    [
        ("empty mesh", 'mesh "A-Mesh" is empty', 'partner "A" is gone'),
        ("no checkpoint", "has to call requires_writing_checkpoint", 'partner "A" is gone'),
        ("finalize", "", '"A" finalised while "B" still expected data'),
        ("destructor", "", '"A" finalised while "B" still expected data'),
    ],
)
def test_who_errs_or_leaves_early_is_an_error_for_the_partner(
    how: str, error: str, of_partner: str, tmp_path: Path
) -> None:
    def solver(a: Participant) -> None:
        with pytest.raises(CouplingError, match=error) if error else contextlib.nullcontext():
            if how != "empty mesh":
                a.set_mesh_vertices(MESH_A, CORNERS)
            a.initialize()
            a.advance(0.1)
        if how in ("empty mesh", "finalize"):
            # After an error it is harmless.
            a.finalize()

    def partner(b: Participant) -> None:
        with pytest.raises(CouplingError, match=of_partner):
            other_side(b)

    kind = "serial-implicit" if how == "no checkpoint" else "parallel-explicit"
    couple(configure(tmp_path, kind, iteration='<max-iterations value="2" />'), solver, partner)


def test_a_bad_timeout_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("soon", "-1", "nan"):
        monkeypatch.setenv("PRECICE_LB_TIMEOUT", text)
        with pytest.raises(CouplingError, match="PRECICE_LB_TIMEOUT"):
            Participant("A", str(configure(tmp_path)), 0, 1)


@pytest.mark.parametrize(("variables", "seconds"), [({}, 60.0), ({"PRECICE_LB_TIMEOUT": "7"}, 7.0)])
def test_a_partner_is_waited_for_as_long_as_is_said_and_for_60_seconds_by_default(
    variables: dict[str, str], seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a clock on which a pause of the solver's thread takes half a second."""
    clock = SimpleNamespace(now=1000.0)

    def pause(seconds: float) -> None:
        if threading.current_thread() is threading.main_thread():
            clock.now += 0.5
        else:
            sleep(seconds)

    monkeypatch.delenv("PRECICE_LB_TIMEOUT", raising=False)
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    participant = Participant("A", str(configure(tmp_path)), 0, 1)
    participant.set_mesh_vertices(MESH_A, CORNERS)
    sleep = time.sleep
    stand_in = SimpleNamespace(monotonic=lambda: clock.now, sleep=pause)
    monkeypatch.setattr("precice_lb.embedded.communication.time", stand_in)

    with pytest.raises(CouplingError, match=rf'"A" waited {seconds:g} s for its partner "B", which never came'):
        participant.initialize()

    assert clock.now - 1000.0 == seconds + 0.5


# In a process of its own: importing preCICE starts MPI, whose variables would keep this one from starting ranks.
SIGNATURES = """
import inspect, json, precice
calls = {name: call for name, call in vars(precice.Participant).items() if not name.startswith("_")}
signatures = {name: list(inspect.signature(call).parameters) for name, call in calls.items()}
print(json.dumps([signatures, precice.__version__]))
"""


@pytest.mark.precice
def test_every_call_of_pyprecice_is_there() -> None:
    done = subprocess.run([sys.executable, "-c", SIGNATURES], capture_output=True, text=True, check=True)
    theirs, version = json.loads(done.stdout)
    assert "advance" in theirs
    refused = {name for name in theirs if (getattr(Participant, name).__doc__ or "").startswith("Refused")}
    assert len(refused) == 6
    for name, parameters in theirs.items():
        found = list(inspect.signature(getattr(Participant, name)).parameters)
        assert found == (["self", "arguments", "named"] if name in refused else parameters), name
    assert isinstance(embedded.get_version_information(), bytes)
    assert embedded.__version__.split("+")[0] == version


FORKING = """
import os, sys
from precice_lb.embedded import Participant

a = Participant("A", sys.argv[1], 0, 1)
a.set_mesh_vertices("A-Mesh", [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
for when in ("before", "after"):
    if (child := os.fork()) == 0:
        a.finalize()
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    if when == "before":
        a.initialize()
        a.advance(0.1)
while a.is_coupling_ongoing():
    if (child := os.fork()) == 0:
        sys.exit()
    os.waitpid(child, 0)
    a.advance(0.1)
a.finalize()
"""


@pytest.mark.filterwarnings("ignore:.*multi-threaded")
def test_a_forked_process_that_ends_leaves_the_coupling_to_its_parent(tmp_path: Path) -> None:
    path = configure(tmp_path)
    command = [sys.executable, "-c", FORKING, str(path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as a:
        b = Participant("B", str(path), 0, 1)
        try:
            other_side(b)
            output = "".join(a.communicate(60))
        finally:
            a.kill()
    assert a.returncode == 0, output
    record = (tmp_path / "precice-profiling" / "A-0-1.txt").read_text().splitlines()
    assert len(read_profile(tmp_path / "precice-profiling" / "A-0-1.txt").calls) == 3
    assert len([line for line in record if line.startswith(("{", "E0:"))]) == 2


def test_three_participants_of_which_each_sends_first_to_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B's answer to A has to wait at B, where B goes on: A first waits for C, which waits for B."""
    path = write_configuration(
        tmp_path / "precice-config.xml",
        participants={"A": [], "B": [], "C": []},
        exchanges=[
            ("serial-explicit", "A", "B", "Heat:A>B Force:B>A"),
            ("parallel-explicit", "B", "C", "Flux:B>C"),
            ("parallel-explicit", "C", "A", "Load:C>A"),
        ],
        directory=str(tmp_path),
    )

    class Narrow(Connection):
        """A connection whose buffers hold little."""

        def __init__(self, sock: socket.socket, me: str, partner: str) -> None:
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                sock.setsockopt(socket.SOL_SOCKET, option, 2**16)
            super().__init__(sock, me, partner)

    monkeypatch.setattr("precice_lb.embedded.communication.Connection", Narrow)
    vertices = np.random.default_rng(0).uniform(size=(100_000, 2))

    def solver(name: str, writes: list[str]) -> int:
        one = Participant(name, str(path), 0, 1)
        ids = one.set_mesh_vertices(f"{name}-Mesh", vertices)
        one.initialize()
        steps = 0
        while one.is_coupling_ongoing():
            for data in writes:
                one.write_data(f"{name}-Mesh", data, ids, np.full(len(ids), float(steps)))
            one.advance(0.1)
            steps += 1
        one.finalize()
        return steps

    roles = {"A": ["Heat"], "B": ["Force", "Flux"], "C": ["Load"]}
    with ThreadPoolExecutor() as pool:
        futures = [pool.submit(solver, *role) for role in roles.items()]
        assert [future.result(200) for future in futures] == [3, 3, 3]
