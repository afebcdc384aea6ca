"""How implicit couplings converge, from preCICE's logs: planted ones that grow, are cut or replaced, and live runs."""

from __future__ import annotations

import math
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from precice_xml_helpers import configuration, scheme
from profiling_helpers import followed, later, with_header
from record_helpers import SOLVER, environment, finish, start
from record_helpers import configuration as pair
from store_helpers import row, write_store

from precice_lb.ingest.profiling.tables import IterationsLog, last_row
from precice_lb.report import Paragraph
from precice_lb.watch import Observer, watch_blocks, watch_run
from precice_lb.watch.convergence import Convergence, Residual

pytestmark = pytest.mark.usefixtures("own_priority")

IMPLICIT = pair("serial-implicit").replace(
    "    <relative-convergence",
    """    <absolute-convergence-measure limit="2e-3" data="B-Data" mesh="B-Mesh"/>
    <relative-convergence""",
)
COLUMNS = ["TimeWindow", "TotalIterations", "Iterations", "Convergence"]
QUASI_NEWTON = ["QNColumns", "DeletedQNColumns", "DroppedQNColumns"]
MEASURES = ["TimeWindow", "Iteration", "ResAbs(B-Mesh:B-Data)", "ResRel(A-Mesh:A-Data)"]


def table(columns: Sequence[str], rows: Sequence[Sequence[float]]) -> str:
    """Lay out rows as preCICE does: a line break before each, six characters for whole numbers, fifteen for others."""
    lines = ["  ".join(f"{cell:6d}" if isinstance(cell, int) else f"{cell:15.8e}" for cell in row) for row in rows]
    return "".join(f"  {column}" for column in columns) + "".join(f"\n{line}" for line in lines)


def iterations_log(path: Path, counts: Sequence[int], most: int = 20, first: int = 1) -> Path:
    """Write the log of windows of so many iterations; returns its path."""
    total = np.cumsum(counts).tolist()
    rows = [
        (first + at, total[at], count, int(count < most), 2 * count, 0, 10 + at % 3) for at, count in enumerate(counts)
    ]
    path.write_text(table([*COLUMNS, *QUASI_NEWTON], rows))
    return path


def recorded(directory: Path, text: str = IMPLICIT, names: str = "AB", *, finished: bool = False) -> Observer:
    """Record two windows of three iterations of participants that run in the directory; returns who watches."""
    for name in names:
        rows = [row(w, 0.1, 0.2, 0.1, iteration=i, complete=i == 3) for w in (1, 2) for i in (1, 2, 3)]
        where = {"configuration": text, "working_directory": str(directory)}
        write_store(directory / "precice-lb-store", rows, name, finished=finished, **where)
    return Observer(directory)


def convergence(directory: Path) -> tuple[Convergence, ...]:
    return watch_run(directory).convergence


def poll(observer: Observer) -> Convergence:
    seen = observer.poll()
    assert seen is not None
    (coupling,) = seen.convergence
    return coupling


# --------------------------------------------------------------------------------------------------- planted logs


def test_a_log_that_grows_is_followed_window_by_window(tmp_path: Path) -> None:
    observer = recorded(tmp_path)
    counts = [20, 20, 9, 7, 5, 5, 4, 4, 4, 3, 3, 2]
    # The participant that does not judge has a log, too, without columns of the acceleration.
    (tmp_path / "precice-A-iterations.log").write_text(table(COLUMNS, [(1, 99, 99, 1)]))
    measured: list[tuple[float, ...]] = []
    for done, last in enumerate(counts, start=1):
        iterations_log(tmp_path / "precice-B-iterations.log", counts[:done])
        measured += [(done, iteration, 0.5**iteration, 1e-9 * done) for iteration in range(1, last + 1)]
        (tmp_path / "precice-B-convergence.log").write_text(table(MEASURES, measured))
        seen = poll(observer)
        assert seen == Convergence(
            participants=("A", "B"),
            participant="B",
            windows=done,
            iterations_latest=float(np.median(counts[max(done - 8, 0) : done])),
            iterations=float(np.median(counts[:done])),
            max_iterations=20,
            not_converged=min(done, 2),
            acceleration=dict(zip(QUASI_NEWTON, [2 * last, 0, 10 + (done - 1) % 3], strict=True)),
            window=done,
            iteration=last,
            residuals=(
                Residual("absolute", "B-Data", "B-Mesh", pytest.approx(0.5**last, rel=1e-8), 2e-3),  # type: ignore[arg-type]
                Residual("relative", "A-Data", "A-Mesh", pytest.approx(1e-9 * done, rel=1e-8), 1e-6),  # type: ignore[arg-type]
            ),
        )
    assert poll(Observer(tmp_path)) == seen


def test_a_table_is_read_in_whole_lines_only(tmp_path: Path) -> None:
    counts = [12, 11, 10, 9, 300, 1]
    content = iterations_log(tmp_path / "whole.log", counts).read_bytes()
    measures = table(MEASURES, [(1, 1, 1.0, 0.5), (1, 2, math.inf, math.nan), (1, 3, 1e-3, 1e-12)]).encode()
    path, residuals = tmp_path / "precice-B-iterations.log", tmp_path / "residuals.log"
    log = IterationsLog(path)
    for cut in range(content.index(b"\n"), len(content) + 1):
        path.write_bytes(content[:cut])
        seen = log.iterations()
        assert seen.tolist() == counts[: len(seen)]
        assert len(seen) in (content[:cut].count(b"\n") - 1, content[:cut].count(b"\n"))
    assert seen.tolist() == counts
    rows = set()
    for cut in range(len(measures) + 1):
        residuals.write_bytes(measures[:cut])
        last = last_row(residuals)
        rows.add((last.get("Iteration"), str(last.get(MEASURES[3]))))
    # Before the second line shows how long one is, the first one may be read short.
    assert {(1.0, "0.5"), (2.0, "nan"), (3.0, "1e-12")} <= rows


def test_logs_that_are_empty_foreign_or_without_measures_say_what_they_can(tmp_path: Path) -> None:
    observer = recorded(tmp_path)
    iterations, residuals = (tmp_path / f"precice-B-{name}.log" for name in ("iterations", "convergence"))
    # As preCICE leaves them until the first line is written.
    iterations.write_text("")
    residuals.write_text("")
    assert convergence(tmp_path) == ()
    residuals.write_text(table(MEASURES, [(1, 4, 0.25, 0.5)]))
    seen = poll(observer)
    assert (seen.windows, seen.window, seen.iteration) == (0, 1, 4)
    assert math.isnan(seen.iterations)
    iterations.write_text("TimeWindow Iterations\n 1 3\n 2 4")
    old = poll(observer)
    assert (old.windows, old.iterations, old.not_converged, old.acceleration) == (2, 3.5, None, {})


def test_a_log_that_cannot_be_read_is_said_and_nothing_is_told_of_it(tmp_path: Path) -> None:
    observer = recorded(tmp_path)
    log = tmp_path / "precice-B-iterations.log"
    log.write_text("a table of another program\n1 2 3")

    snapshot = observer.poll()

    assert snapshot is not None
    assert snapshot.convergence == ()
    expected = f"{log}: expected an iterations log of preCICE with the columns TimeWindow, Iterations, found a table"
    assert [note for note in snapshot.notes if note.startswith(expected)] != []


def test_only_what_this_run_has_written_counts(tmp_path: Path) -> None:
    recorded(tmp_path)
    for name, counts in (("A", [4]), ("B", [5])):
        log = iterations_log(tmp_path / f"precice-{name}-iterations.log", counts)
        os.utime(log, (1_600_000_000, 1_600_000_000))
    assert convergence(tmp_path) == ()
    # Of a run that has ended, the log has as many windows and iterations; one of a later run has others.
    shutil.rmtree(tmp_path / "precice-lb-store")
    recorded(tmp_path, finished=True)
    for counts, windows in (([3, 4], []), ([3, 3, 3], []), ([3, 3], [2])):
        iterations_log(tmp_path / "precice-B-iterations.log", counts)
        assert [coupling.windows for coupling in convergence(tmp_path)] == windows


def test_logs_below_the_directory_are_found_where_the_case_has_moved(tmp_path: Path) -> None:
    recorded(tmp_path / "first")
    (tmp_path / "first" / "solver").mkdir()
    iterations_log(tmp_path / "first" / "solver" / "precice-B-iterations.log", [6, 6, 6])
    (tmp_path / "first").rename(tmp_path / "second")
    assert poll(Observer(tmp_path / "second")).windows == 3
    iterations_log(tmp_path / "second" / "precice-B-iterations.log", [7])
    # Which of two it is nobody knows.
    assert convergence(tmp_path / "second") == ()


def test_a_restarted_run_begins_to_count_anew_and_a_reset_mesh_does_not(tmp_path: Path) -> None:
    observer = recorded(tmp_path)
    log = tmp_path / "precice-B-iterations.log"
    expected = [
        ([4, 5, 6], 1, (3, 5.0)),
        # Shorter, longer by the same rows' places, and of the same length.
        ([7], 1, (1, 7.0)),
        ([8, 8, 8, 8, 8], 1, (5, 8.0)),
        ([9, 9, 9, 9, 9], 1, (5, 9.0)),
        # preCICE starts its logs anew when a mesh is reset, and goes on with the next window.
        ([2, 2], 6, (7, 9.0)),
        ([2, 2, 2, 2], 6, (9, 9.0)),
        ([2, 2, 2, 2, 2], 6, (10, 5.5)),
    ]
    for counts, first, (windows, median) in expected:
        iterations_log(log, counts, first=first)
        seen = poll(observer)
        assert (seen.windows, seen.iterations) == (windows, median)
        assert seen.acceleration["QNColumns"] == 2 * counts[-1]


def test_explicit_couplings_and_couplings_without_measures_do_not_converge(tmp_path: Path) -> None:
    recorded(tmp_path / "explicit", pair("serial-explicit"))
    iterations_log(tmp_path / "explicit" / "precice-B-iterations.log", [4])
    seen = watch_run(tmp_path / "explicit")
    assert (seen.convergence, seen.to_dict()["convergence"]) == ((), [])
    schemes = [scheme("serial-explicit", "CB"), scheme("multi", "ABD")]
    observer = recorded(tmp_path / "multi", configuration("ABCD", schemes, ["CB", "AB", "AD"]), "ABCD")
    iterations_log(tmp_path / "multi" / "precice-A-iterations.log", [2] * 5, most=2)
    (tmp_path / "multi" / "precice-A-convergence.log").write_text(table(MEASURES[:2], [(6, 1)]))
    multi = poll(observer)
    assert (multi.participants, multi.participant, multi.windows) == (("A", "B", "D"), "A", 5)
    assert (multi.max_iterations, multi.not_converged, multi.residuals) == (2, None, ())
    assert (multi.window, multi.iteration) == (6, 1)


def test_what_preCICE_does_not_write_is_not_known(tmp_path: Path) -> None:
    text = IMPLICIT.replace("<absolute-", "<absolute-or-relative-").replace(
        'limit="2e-3"', 'abs-limit="1" rel-limit="1"'
    )
    recorded(tmp_path, text)
    iterations_log(tmp_path / "precice-B-iterations.log", [20] * 7 + [4, 3])
    header = [*MEASURES[:2], "ResAbsOrRel(B-Mesh:B-Data)", "ResRel(A-Mesh:A-Data)"]
    (tmp_path / "precice-B-convergence.log").write_text(table(header, [(10, 2, 0.0, math.inf)]))
    assert [residual.residual for residual in convergence(tmp_path)[0].residuals] == [None, math.inf]
    text = next(block.text for block in watch_blocks(watch_run(tmp_path)) if isinstance(block, Paragraph))
    assert text == (
        "A and B: 20 iterations per time window (median of the latest 8; 20 over the run, 20 at most); 7 of 9 windows "
        "did not converge. QNColumns 6, DeletedQNColumns 0, DroppedQNColumns 12."
    )


def test_a_solver_without_a_recorder_is_told_of_by_its_logs_alone(tmp_path: Path) -> None:
    followed(tmp_path, "all-implicit")
    counts = np.loadtxt(tmp_path / "precice-B-iterations.log", skiprows=1, ndmin=2)
    (seen,) = convergence(tmp_path)
    assert seen.windows == len(counts)
    assert seen.iterations == np.median(counts[:, 2])
    for log in tmp_path.glob("*.log"):
        log.unlink()
    # Then each iteration is a window to all that is known, and says nothing.
    assert watch_run(tmp_path).convergence == ()


def test_a_run_without_a_recorder_that_is_started_again_is_the_one_that_is_watched(tmp_path: Path) -> None:
    folder, observer = followed(tmp_path, "all-implicit"), Observer(tmp_path)
    first = observer.poll()
    assert first is not None
    assert [part.state for part in first.participants] == ["ended", "ended"]
    lines = (tmp_path / "precice-B-iterations.log").read_text().splitlines()
    for path in folder.glob("*.txt"):
        with_header(path, later(1000))
        header, _, records = path.read_text().partition("\n")
        path.write_text(header + "\n" + records[: 5 * len(records) // 6])
    for name in "AB":
        (tmp_path / f"precice-{name}-iterations.log").write_text("\n".join(lines[:4]))
    again = observer.poll()
    assert again is not None
    assert 0 < again.windows <= 3 < first.windows
    assert again.convergence[0].windows == 3
    assert again.notes == first.notes


# ------------------------------------------------------------------------------------------------------ live runs

STOPS = 4
WAITING = SOLVER.replace(
    "        saved = value.copy()\n",
    f"""        saved = value.copy()
        windows = globals().get("windows", 0) + 1
        while windows == {STOPS} and not pathlib.Path("go").exists():
            time.sleep(0.01)
""",
).replace("import sys\n", "import pathlib, sys, time\n")


@pytest.mark.parametrize("backend", ["embedded", pytest.param("libprecice", marks=pytest.mark.precice)])
def test_a_live_run_is_followed(tmp_path: Path, backend: str) -> None:
    (tmp_path / "precice-config.xml").write_text(pair("parallel-implicit"))
    (tmp_path / "solver.py").write_text(WAITING)
    command = [sys.executable, "-m", "precice_lb", "run", "solver.py"]
    variables = dict.fromkeys("AB", environment(PRECICE_LB_BACKEND=backend))
    started = start(tmp_path, {"A": [*command, *"AB"], "B": [*command, *"BA"]}, variables)
    observer, deadline, middle = Observer(tmp_path), time.monotonic() + 300, None
    try:
        while middle is None or middle.windows < STOPS - 1:
            assert time.monotonic() < deadline, [process.poll() for process in started.values()]
            time.sleep(0.01)
            snapshot = observer.poll()
            if snapshot is not None and snapshot.convergence:
                (middle,) = snapshot.convergence
        assert snapshot is not None
        assert snapshot.is_running
        counts = np.loadtxt(tmp_path / "precice-B-iterations.log", skiprows=1)[:, 2]
        (residual,) = middle.residuals
        assert residual.residual is not None
        assert (middle.participant, middle.windows, middle.window) == ("B", STOPS - 1, STOPS - 1)
        assert (middle.iterations, middle.iteration) == (np.median(counts), counts[-1])
        assert residual.residual <= residual.limit == 1e-6
    finally:
        (tmp_path / "go").touch()
        results = finish(started)
    assert {result.returncode for result in results.values()} == {0}, results
    end = poll(observer)
    counts = np.loadtxt(tmp_path / "precice-B-iterations.log", skiprows=1)[:, 2]
    assert (end.windows, end.not_converged) == (7, 0)
    assert end.iterations == np.median(counts)
    assert (end.window, end.iteration) == (7, counts[-1])
