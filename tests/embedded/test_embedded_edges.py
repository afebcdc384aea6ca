"""Wrong calls: the embedded backend raises at the same calls as libprecice, and an error of the same kind."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from embedded_helpers import write_configuration
from record_helpers import environment, finish, start

#: pyprecice does not let errors through from these calls: on libprecice they end the process.
FATAL = {
    "is_coupling_ongoing",
    "is_time_window_complete",
    "get_max_time_step_size",
    "requires_writing_checkpoint",
    "requires_reading_checkpoint",
    "requires_initial_data",
    "stop_last_profiling_section",
    "start_profiling_section",
    "finalize",
    "read_data after finalize",
    "write_data after finalize",
    "initialize after finalize",
    "advance before initialize",
}


# Calls that only libprecice has, with what comes behind the mesh.
REFUSED: list[tuple[Any, ...]] = [
    ("set_mesh_access_region", [0, 1, 0, 1]),
    ("get_mesh_vertex_ids_and_coordinates",),
    ("write_gradient_data", "Heat", [0], [[1.0, 2.0]]),
    ("write_and_map_data", "Heat", [[0.0, 0.0]], [1.0]),
    ("map_and_read_data", "Force", [[0.0, 0.0]], 0.0),
]
SAID = Path(__file__).parents[1] / "data" / "embedded-wrong-calls.txt"


def _kind(error: BaseException) -> str:
    for kind in (AssertionError, TypeError, RuntimeError):
        if isinstance(error, kind):
            return kind.__name__
    # Lists of a wrong length: pyprecice asks them for an attribute of arrays while it composes its message.
    return "RuntimeError" if isinstance(error, AttributeError) else type(error).__name__


class Probe:
    """Makes calls and notes what comes of them."""

    def __init__(self, participant: Any, backend: str) -> None:
        self.participant = participant
        self.backend = backend
        self.seen: list[tuple[str, str]] = []

    def __call__(self, when: str, call: str, *arguments: Any) -> None:
        label = f"{call}{arguments} {when}"
        if self.backend == "libprecice" and ({call, f"{call} {when}"} & FATAL) and "well" not in when:
            self.seen.append((label, "RuntimeError: "))
            return
        try:
            result = getattr(self.participant, call)(*arguments)
        except Exception as error:
            self.seen.append((label, f"{_kind(error)}: {error}"))
            return
        self.seen.append((label, "None" if result is None else str(np.asarray(result).tolist())))


def probe(backend: str, name: str, configuration: str) -> list[tuple[str, str]]:
    """Call everything wrongly, in between a coupled simulation that goes well."""
    import importlib

    precice = importlib.import_module("precice" if backend == "libprecice" else "precice_lb.embedded")
    mine, theirs = ("A-Mesh", "B-Mesh") if name == "A" else ("B-Mesh", "A-Mesh")
    writes, reads = ("Heat", "Force") if name == "A" else ("Force", "Heat")
    corners = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    values = [1.0, 2.0, 3.0] if name == "A" else [[1.0, 2.0]] * 3
    seen = []
    for arguments in (("C", configuration, 0, 1), (name, "none.xml", 0, 1), (name, configuration, 1, 1), (3, 3, 0, 1)):
        try:
            precice.Participant(*arguments)
            seen.append((str(arguments[0]), "None"))
        except Exception as error:
            seen.append((str(arguments[0]), f"{_kind(error)}: {error}"))
    participant = precice.Participant(name, configuration, 0, 1)
    call = Probe(participant, backend)
    early = "before initialize"
    for query in ("is_coupling_ongoing", "is_time_window_complete", "get_max_time_step_size", "reset_mesh"):
        call(early, query, *([mine] if query == "reset_mesh" else []))
    call(early, "advance", 0.1)
    call(early, "requires_writing_checkpoint")
    call(early, "read_data", mine, reads, [0], 0.0)
    call(early, "get_mesh_vertex_size", theirs) if name == "B" else None
    call(early, "get_mesh_dimensions", "X")
    call(early, "get_data_dimensions", mine, "X")
    call(early, "requires_mesh_connectivity_for", "X")
    call(early, "set_mesh_vertices", theirs, corners)
    call(early, "set_mesh_vertices", mine, np.zeros((2, 3)))
    call(early, "set_mesh_vertex", mine, [0.0, 0.0, 0.0])
    call(early, "set_mesh_vertices", mine, 3.0)
    call("well", "set_mesh_vertices", mine, corners)
    for ids, data in (([3], values[:1]), ([-1], values[:1]), ([0, 1], values[:1]), ([0], values[:2]), ([], [])):
        call(early, "write_data", mine, writes, ids, data)
    call(early, "write_data", mine, reads, [0], [[1.0, 2.0]] if name == "A" else [1.0])
    call(early, "write_data", theirs, writes, [0], values[:1])
    call(early, "set_mesh_edge", mine, 0, 7)
    call(early, "set_mesh_edges", mine, [[0, 7]])
    call(early, "set_mesh_edges", mine, [[0, 1, 2]])
    call(early, "set_mesh_triangle", mine, 0, 1, 1)
    if backend == "embedded":
        for refused, *arguments in REFUSED:
            call(early, refused, theirs, *arguments)
    call(early, "stop_last_profiling_section")
    call(early, "start_profiling_section", "a/b")
    call("well", "start_profiling_section", "open")
    call(early, "initialize")
    call("well", "stop_last_profiling_section")
    if name == "A":
        call("without initial data", "initialize")
    call("well", "requires_initial_data")
    call("well", "write_data", mine, writes, [0, 1, 2], values)
    call("well", "initialize")
    late = "while coupled"
    call(late, "initialize")
    call(late, "requires_initial_data")
    call(late, "set_mesh_vertex", mine, [0.0, 0.0])
    for step in (0.0, -0.1, float("inf"), float("nan"), 0.2):
        call(late, "advance", step)
    for ids, ahead in (([0, 1, 2], 0.2), ([0], -0.1), ([3], 0.0), ([], 0.0), ([0, 1, 2], 0.0)):
        call(late, "read_data", mine, reads, ids, ahead)
    call(late, "read_data", mine, writes, [0], 0.0)
    call(late, "write_data", mine, writes, [0], [float("nan")] if name == "A" else [[float("nan"), 0.0]])
    while participant.is_coupling_ongoing():
        participant.write_data(mine, writes, [0, 1, 2], values)
        call("well", "requires_writing_checkpoint")
        call("well", "get_max_time_step_size")
        participant.advance(participant.get_max_time_step_size())
        call("well", "requires_reading_checkpoint")
    end = "after the end"
    call(end, "advance", 0.1)
    call(end, "write_data", mine, writes, [0], values[:1])
    call(end, "read_data", mine, reads, [0, 1, 2], 0.0)
    call(end, "read_data", mine, reads, [0, 1, 2], 0.1)
    call("well", "get_max_time_step_size")
    call("well", "finalize")
    for query in ("finalize", "initialize", "is_coupling_ongoing", "is_time_window_complete"):
        call("after finalize", query)
    call("after finalize", "read_data", mine, reads, [0], 0.0)
    call("after finalize", "write_data", mine, writes, [0], values[:1])
    return [*seen, *call.seen]


def run(backend: str, directory: Path) -> dict[str, list[Any]]:
    directory.mkdir()
    configuration = write_configuration(
        directory.parent / "precice-config.xml",
        participants={"A": [], "B": []},
        exchanges=[("serial-implicit", "A", "B", "Heat:A>B Force:B>A")],
        vector=["Force"],
        initialize=["Heat"],
        iteration='<max-iterations value="2" />',
    )
    commands = {name: [sys.executable, __file__, backend, name, str(configuration)] for name in "AB"}
    outputs = finish(start(directory, commands, dict.fromkeys("AB", environment())))
    assert (directory / "A.json").exists(), outputs
    return {name: json.loads((directory / f"{name}.json").read_text()) for name in "AB"}


def kinds(found: list[Any]) -> list[tuple[str, str]]:
    """Without what is said of errors, and without calls that one backend has alone."""
    alone = tuple(name for name, *_ in REFUSED)
    return [(call, result.partition("Error: ")[0]) for call, result in found if not call.startswith(alone)]


@pytest.mark.precice
def test_the_same_calls_are_wrong(tmp_path: Path) -> None:
    expected, found = (run(backend, tmp_path / backend) for backend in ("libprecice", "embedded"))
    for name in "AB":
        assert len(found[name]) > 60
        assert kinds(found[name]) == kinds(expected[name])


def test_wrong_calls_are_told_and_leave_the_coupling_alone(tmp_path: Path) -> None:
    found = run("embedded", tmp_path / "embedded")
    lines = [f"{name} {call} => {result}" for name in "AB" for call, result in found[name]]
    assert "".join(f"{line}\n" for line in lines).replace(str(tmp_path), "DIRECTORY") == SAID.read_text(
        encoding="utf-8"
    )


if __name__ == "__main__":
    _, backend, name, configuration = sys.argv
    Path(f"{name}.json").write_text(json.dumps(probe(backend, name, configuration)))
