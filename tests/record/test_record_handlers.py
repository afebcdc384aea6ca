"""An exception that a signal handler of the solver raises anywhere in our code costs no row and doubles none."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from conftest import FULL_COUNTS
from record_helpers import new_recorder
from store_helpers import contents

from precice_lb.record import MeshNotes, Recorder
from precice_lb.store import read_stores


class Stop(Exception):
    """What the handler raises."""


def _interrupted(work: Callable[[], object], steps: int) -> bool:
    """Whether work was interrupted after so many steps of our code, and not done before."""
    left, before = steps, sys.gettrace()

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if not str(frame.f_globals.get("__name__")).startswith("precice_lb."):
            return None
        frame.f_trace_opcodes = True
        left -= event == "opcode"
        if left < 0:
            raise Stop
        return trace

    sys.settrace(trace)
    try:
        work()
    except Stop:
        return True
    finally:
        sys.settrace(before)
    return False


def _window(recorder: Recorder, window: int) -> None:
    """Take two iterations of a window and all else that a solver says in it."""
    for iteration in range(2):
        recorder.section_started(f"part {window}")
        recorder.section_stopped(2**47)
        at = 100 * window + 10 * iteration
        recorder.take_mpi(at)
        recorder.take((at, at + 5, 0.1, iteration == 1, at, at + 5))
        if iteration == 0:
            recorder.repeated()
    recorder.count(f"cells of {window}", window)
    recorder.guessed(window, f"predictor {window}", window, 0.5)


def _meshes(recorder: Recorder) -> None:
    notes = MeshNotes(keep_points=False)
    notes.take("set_mesh_vertices", "A-Mesh", [[0.0, 1.0], [2.0, 3.0]])
    recorder.write_meshes(notes)


STAGES: dict[str, Callable[[Recorder], None]] = {
    "meshes": _meshes,
    "initialized": lambda recorder: recorder.initialized(3, 8),
    "flush": lambda recorder: recorder.flush(),
    "close": lambda recorder: recorder.close(finished=True),
}


def _recorded(directory: Path, stage: str, steps: int) -> tuple[tuple[Any, ...], bool]:
    """Record with an interruption at one stage, after which the solver goes on; return all there is."""
    recorder, _ = new_recorder(directory)
    is_interrupted = False
    for name, work in STAGES.items():
        if name in ("flush", "close"):
            for window in (1, 2) if name == "flush" else (3, 4):
                _window(recorder, window)
        if name != stage:
            work(recorder)
            continue
        is_interrupted = _interrupted(functools.partial(work, recorder), steps)
        if name == "meshes" and is_interrupted:
            # The solver asks for the start once more.
            work(recorder)
        elif name == "close" and is_interrupted:
            # As the participant does in the end.
            recorder.close(finished=False, keep_spool=True)
    assert not list(directory.rglob(".*"))
    store = read_stores([directory])[0].loaded()
    store.metadata.pop("ended_unix_ns", None)
    if stage == "close":
        store.metadata["finished"] = True
    # Durations that begin when a flush has ended are no two times the same, nor is the clock's work on ours.
    for name, columns in {"advances": ["solve_ns"], "sections": ["begin_ns", "duration_ns"], "cpu": ["cpu_ns"]}.items():
        store.tables[name][columns] = 0
    return contents(store), is_interrupted


# A file that was just opened is closed later.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("stage", STAGES)
def test_an_exception_at_any_point_costs_no_row_and_doubles_none(tmp_path: Path, stage: str) -> None:
    expected, _ = _recorded(tmp_path / "whole", stage, 10**9)
    assert len(expected[2]["sections"]) == 8
    steps, is_interrupted = 0, True
    while is_interrupted:
        found, is_interrupted = _recorded(tmp_path / str(steps), stage, steps)
        # The first steps are before it is taken.
        if not (stage == "initialized" and steps < 20):
            assert found == expected, steps
        # The end has many more steps than the rest.
        full, some = (29, 401) if stage == "close" else (1, 97)
        steps += full if FULL_COUNTS else some
    assert steps > 100
