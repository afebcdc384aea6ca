"""Wrong calls: the embedded backend raises at the same calls as libprecice, and an error of the same kind."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from embedded_helpers import write_configuration
from record_helpers import environment, finish, start

# pyprecice does not let errors through from these calls: on libprecice they end the process.
FATAL = (
    "is_coupling_ongoing|is_time_window_complete|get_max_time_step_size|requires_(writing|reading)_checkpoint|finalize|"
    "requires_initial_data|(start|stop_last)_profiling_section|(read_data|write_data|initialize) after finalize|"
    "advance before initialize"
)
# Calls that only libprecice has.
REFUSED = re.compile("set_mesh_access_region|get_mesh_vertex_ids_and_coordinates|write_gradient_data|.*_and_.*_data")
# All calls of A and of B, in a coupled simulation that goes well, and what comes of each.
CALLS = (Path(__file__).parents[1] / "data" / "embedded-wrong-calls.txt").read_text(encoding="utf-8").splitlines()


def _kind(error: BaseException) -> str:
    for kind in (AssertionError, TypeError, RuntimeError):
        if isinstance(error, kind):
            return kind.__name__
    # Lists of a wrong length: pyprecice asks them for an attribute of arrays while it composes its message.
    return "RuntimeError" if isinstance(error, AttributeError) else type(error).__name__


def probe(backend: str, name: str) -> Iterator[str]:
    """Make the calls of a participant; yield them with what came of them."""
    precice = importlib.import_module("precice" if backend == "libprecice" else "precice_lb.embedded")
    participant = None
    for line in CALLS:
        who, call, arguments, when = re.match(r"(\w) (\w+)\((.*?)\) (.*?) => ", line).groups()
        if who != name or (backend == "libprecice" and REFUSED.fullmatch(call)):
            continue
        if backend == "libprecice" and when != "well" and re.match(rf"({FATAL})\b", f"{call} {when}"):
            result = "RuntimeError: "
        else:
            try:
                made = getattr(participant or precice, call)(*json.loads(f"[{arguments}]"))
                result = "None" if made is None else str(np.asarray(made).tolist())
                if call == "Participant":
                    participant, result = made, "None"
            except Exception as error:
                result = f"{_kind(error)}: {error}"
        yield f"{who} {call}({arguments}) {when} => {result}"


def run(backend: str, directory: Path) -> list[str]:
    directory.mkdir()
    write_configuration(
        directory.parent / "precice-config.xml",
        participants={"A": [], "B": []},
        exchanges=[("serial-implicit", "A", "B", "Heat:A>B Force:B>A")],
        vector=["Force"],
        initialize=["Heat"],
        iteration='<max-iterations value="2" />',
    )
    commands = {name: [sys.executable, __file__, backend, name] for name in "AB"}
    outputs = finish(start(directory, commands, dict.fromkeys("AB", environment())))
    assert (directory / "A.txt").exists(), outputs
    return [line for name in "AB" for line in (directory / f"{name}.txt").read_text().splitlines()]


@pytest.mark.precice
def test_the_same_calls_are_wrong(tmp_path: Path) -> None:
    expected, found = (run(backend, tmp_path / backend) for backend in ("libprecice", "embedded"))
    # Without what is said of errors.
    kinds = [line.partition("Error: ")[0] for line in found if not REFUSED.fullmatch(line[2:].partition("(")[0])]
    assert kinds == [line.partition("Error: ")[0] for line in expected]


def test_wrong_calls_are_told_and_leave_the_coupling_alone(tmp_path: Path) -> None:
    assert run("embedded", tmp_path / "embedded") == CALLS


if __name__ == "__main__":
    Path(f"{sys.argv[2]}.txt").write_text("".join(f"{line}\n" for line in probe(*sys.argv[1:])))
