"""A small case whose solvers restart: what they compute does not depend on ranks, segments or what they exchange."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from calibrate_helpers import COPIES, changed, finished_runs, make_stores, quiet, recording, runs_of, write_study
from calibrate_helpers import COUPLED as SOLVER
from clock_helpers import study_environment
from store_helpers import row

from precice_lb.campaign import RunRecord, Study
from precice_lb.campaign.campaign import Report
from precice_lb.chain import Decision, DecisionProblem, Segment
from precice_lb.chain.next import run_chain

Decide = Callable[[Sequence[Segment], DecisionProblem], Decision]
# Rows of the store of a participant, by its name and number of ranks.
RowsOf = Callable[[str, int], list[Any]]

CHAIN = """\
[chain]
windows = 4
total = 12
start = {Left = 1, Right = 3}
carry = ["state-*.npy"]
"""


def write_chain(directory: Path, *, chain: str = CHAIN, solver: str = SOLVER, **more: str) -> Path:
    """Write a case and the study of its chain, with four ranks, on the emulated clock; return the study's path."""
    path = write_study(directory, solver=solver, extra=f"{study_environment()}\n{chain}", **more)
    return recording(path, Left=0.6, Right=0.3)


def like_all_others(windows: int) -> RowsOf:
    """Rows of so many windows in which a participant computes for 1 s and waits for 0.5 s, whoever it is."""
    return lambda name, size: [row(window, 1.0, 0.5, 0.5) for window in range(1, windows + 1)]


def write_copies(
    directory: Path, *, chain: str = CHAIN, rows_of: RowsOf | None = None, finished: bool = True, **more: str
) -> Path:
    """Write such a chain whose solvers leave stores made beforehand, and as their state a line for each segment.

    Parameters
    ----------
    rows_of
        Rows of a participant on that many ranks, in all segments; by default four windows like all others.
    finished
        Whether the stores say that the coupling came to its end.
    """
    made, words = directory / "made", "{segment} {start_time} {ranks}"
    make_stores(made, 3, rows_of or like_all_others(4), finished=finished)
    study = write_study(directory, solver=COPIES, extra=chain, **more)
    return changed(study, *((f"solver.py {name}", f"solver.py {name} {made} {words}") for name in ("Left", "Right")))


def following(study: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Call the subcommand as a shell does."""
    tokens = [sys.executable, "-m", "precice_lb", "chain", "next", str(study), *more]
    return subprocess.run(tokens, capture_output=True, text=True, timeout=300, check=False)


def assert_whole(directory: Path, each: int = 4) -> list[RunRecord]:
    """Twelve windows were done once, in order, so many in a segment; return the runs that did so."""
    finished = finished_runs(directory)
    notes = [run.segment for run in finished if run.segment is not None]
    expected = [(at + 1, at * each, each) for at in range(12 // each)]
    assert [(note.number, note.start_window, note.windows) for note in notes] == expected
    written = page(directory)
    assert [segment["run"] for segment in written["segments"]] == [run.name for run in finished]
    assert (written["windows_done"], written["next"], written["problem"]) == (12, None, None)
    return finished


def assert_state(run: Path, windows: int) -> None:
    """What the solvers of a run have left is the state of one run of so many windows."""
    for name in ("Left", "Right"):
        np.testing.assert_array_equal(np.load(run / "case" / f"state-{name}.npy"), expected_state(windows))


def run_with(decide: Decide, study: Study, directory: Path, report: Report | None = quiet) -> Path:
    """Run a chain with decisions of a test's own."""
    with mock.patch("precice_lb.chain.steps.decide", decide):
        return run_chain(study, directory, report=report)


def planned(*splits: Mapping[str, int]) -> Decide:
    """Decide for these splits, one segment after the other, whatever was measured."""

    def decide(segments: Sequence[Segment], question: DecisionProblem) -> Decision:
        split = dict(splits[len(segments) - 1])
        if any(failed.items() <= split.items() for failed in question.failed):
            split = dict(segments[-1].split)
        return Decision(split, "move", f"planned for segment {len(segments) + 1}")

    return decide


def page(directory: Path) -> dict[str, Any]:
    """Read chain.json."""
    found: dict[str, Any] = json.loads((directory / "chain.json").read_text())
    return found


def outcomes(directory: Path) -> list[tuple[int, str]]:
    """Return which segment each run was, and how it ended."""
    return [(run.segment.number, run.outcome) for run in runs_of(directory) if run.segment is not None]


def expected_state(windows: int) -> list[float]:
    """What a solver's state is after so many windows, however they were divided."""
    u = np.linspace(0.0, 1.0, 12)
    for lived in range(1, windows + 1):
        u = 0.9 * u + 0.1 * np.sin(float(lived))
    return [float(windows), *u.tolist()]
