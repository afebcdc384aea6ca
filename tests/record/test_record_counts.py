"""What ranks say that they hold, the threads they were told, CPU time and time in MPI: in stores of all kinds."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from record_helpers import (
    BACKENDS,
    SOLVER,
    assert_fine,
    configuration,
    new_recorder,
    only_store,
    rank_stores,
    run_pair,
    warnings_of,
)
from store_helpers import PARALLEL, metadata

from precice_lb.dataset import load_runs
from precice_lb.dataset.windows import rank_values
from precice_lb.embedded import Participant
from precice_lb.export import export_merged
from precice_lb.record import recorder as module
from precice_lb.record.participant import Backend, recording_class
from precice_lb.record.recorder import Recorder
from precice_lb.store.reader import find_stores, read_store
from precice_lb.store.spool import StoreWriter

COUNTED = SOLVER.replace(
    "participant.initialize()",
    'if name == "A":\n    participant.count("cells", len(x))\n    participant.count("porous", 10 * rank)\n'
    "participant.initialize()",
).replace("    log.append", '    if name == "A" and rank == 0: participant.count("porous", len(log))\n    log.append')


@pytest.fixture(autouse=True)
def _nothing_said_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_warned", set())


@pytest.mark.mpi
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_rank_s_counts_are_kept_and_merged(tmp_path: Path, mpiexec: str, backend: str) -> None:
    launch = [mpiexec, "-n", "2"]
    results = run_pair(tmp_path, solver=COUNTED, launch=launch, arguments=["2"], PRECICE_LB_BACKEND=backend)
    assert_fine(results)
    assert warnings_of(results["A"]) == []
    store = rank_stores(tmp_path)["A", 0]
    # The last number counts, and the windows say from when on.
    porous = store.rows("counts")[store.rows("counts")["name"] == store.names("counts").index("porous")]
    assert [(each["window"], each["count"]) for each in porous] == [(w, max(w - 2, 0)) for w in (1, 3, 4, 5, 6, 7, 8)]
    for merged in (False, True):
        if merged:
            export_merged([tmp_path], tmp_path / "merged")
        (run,) = load_runs([tmp_path / "merged" if merged else tmp_path])
        part = run.participants["A"]
        assert {name: each.tolist() for name, each in part.rank_counts.items()} == {"cells": [6, 5], "porous": [6, 10]}
        assert part.rank_vertices.tolist() == run.participants["B"].rank_vertices.tolist() == [6, 5]
        assert run.participants["B"].rank_counts == {}
        assert np.isnan(part.rank_mpi).all()


class _Tensor:
    """A number of a package that refuses in code of its own."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __float__(self) -> float:
        raise self._error

    __repr__ = __float__  # type: ignore[assignment]


WRONG: list[tuple[Any, Any]] = [
    ("", 1), (None, 1), (7, 1), (b"\0", 1), (_Tensor(KeyError()), 1), ("porous", "many"), ("porous", None),
    ("porous", np.ones(2)), ("porous", 1 + 1j), ("porous", _Tensor(RuntimeError("on another device"))),
    ("porous", 10**400), ("porous", -1), ("porous", np.nan), ("porous", np.inf),
]  # fmt: skip


def test_wrong_arguments_are_one_warning_and_no_exception(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorder, advance = new_recorder(tmp_path)
    for feature, number in WRONG:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_warned", set())
            recorder.count(feature, number)
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("precice-lb: warning: a call of count() is ignored: expected the name of a feature and ")
    for number in range(1000):
        recorder.count(number, 1)
        recorder.count(f"feature {number}", -number - 1)
    expected = "the name of a feature and how much of it this rank holds, at least 0"
    assert capsys.readouterr().err == (
        f"precice-lb: warning: a call of count() is ignored: expected {expected}, found 0 and 1\n"
    )
    recorder.count(b"porous", np.int32(3))
    recorder.count("sm\udcffall \N{GREEK SMALL LETTER PSI}" + 200 * "x", True)
    recorder.count("sm\udcffall \N{GREEK SMALL LETTER PSI}" + 201 * "x", 2)
    advance(1, 2, True)
    recorder.close(finished=True)
    assert capsys.readouterr().err == ""
    store = only_store(tmp_path)
    short = "sm?all \N{GREEK SMALL LETTER PSI}x"
    assert [name[:9] for name in store.names("counts")] == ["porous", short, short]
    assert store.rows("counts")["count"].tolist() == [3, 1, 2]
    read = rank_values(store, np.array([1]))
    assert sorted(value for (table, _), value in read.items() if table == "counts") == [1, 2, 3]


def test_what_stays_the_same_is_written_once_and_names_are_not_kept_without_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder, advance = new_recorder(tmp_path)
    for call in range(5):
        recorder.count("cells", 7 + call // 3)
        advance(2 * call + 1, 2 * call + 2, True)
    for number in range(1100):
        recorder.count(f"feature {number}", 1)
    recorder.close(finished=True)
    store = only_store(tmp_path)
    assert store.rows("counts").tolist()[:2] == [(1, 0, 7), (4, 0, 8)]
    assert len(store.names("counts")) == 1000
    assert len(store.rows("counts")) == 2 + 999
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_method_of_the_backend_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "precice-config.xml").write_text(configuration("serial-explicit"))
    monkeypatch.chdir(tmp_path)

    class Later(Participant):
        def count(self) -> str:
            return "preCICE's"

    module = ModuleType("later")
    module.get_version_information = lambda: "4"  # type: ignore[attr-defined]
    for participant, expected in ((Later, "preCICE's"), (Participant, None)):
        made = recording_class(Backend("embedded", module, participant))("A", "precice-config.xml", 0, 1)
        assert made.count(*([] if expected else ["cells", 1])) == expected


def test_only_our_own_variable_tells_threads(tmp_path: Path) -> None:
    told = {"": 1, "6": 6}
    for text, threads in told.items():
        where = tmp_path / (text or "none")
        variables = {"PRECICE_LB_THREADS": text, "OMP_NUM_THREADS": "3"}
        assert_fine(run_pair(where, PRECICE_LB_BACKEND="embedded", **variables))
        assert {store.metadata["threads"] for store in rank_stores(where).values()} == {threads}


def test_cpu_time_within_solve_is_taken_by_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that is set: windows of two calls, of which one goes over a flush."""
    clock = [0]
    monkeypatch.setattr(module.time, "process_time_ns", lambda: clock[0])
    recorder = Recorder(StoreWriter(tmp_path, metadata(), PARALLEL))
    clock[0] = 1000
    recorder.initialized(0, 10)
    for at, complete in ((1500, False), (2700, True), (4000, False)):
        recorder.take((at, at + 5, 0.1, complete, at, at + 300))
    clock[0] = 5000
    recorder.flush()
    recorder.take((5100, 5200, 0.1, True, 5100, 5150))
    recorder.close(finished=True)
    (path,) = find_stores([tmp_path])
    rows = read_store(path).rows("cpu")
    assert rows["window"].tolist() == [1, 2, 2]
    # 500 and 900; 1000; and 100 after the flush, whose own time does not count.
    assert rows["cpu_ns"].tolist() == [1400, 1000, 100]
