"""What ranks say that they hold, the threads they were told, CPU time and time in MPI: in stores of all kinds."""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from record_helpers import BACKENDS, SOLVER, environment, new_recorder, only_store, rank_stores, run_pair, warnings_of

from precice_lb.dataset import load_runs
from precice_lb.dataset.windows import rank_values
from precice_lb.export import export_merged
from precice_lb.record import recorder as module
from precice_lb.store import RankFile

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
    assert warnings_of(run_pair(tmp_path, solver=COUNTED, mpiexec=mpiexec, backend=backend)["A"]) == []
    store = rank_stores(tmp_path)["A", 0]
    # The last number counts, and the windows say from when on.
    porous = store.rows("counts")[store.rows("counts")["name"] == store.names("counts").index("porous")]
    assert [(row["window"], row["count"]) for row in porous] == [(w, max(w - 2, 0)) for w in (1, 3, 4, 5, 6, 7, 8)]
    export_merged([tmp_path], tmp_path / "merged")
    for place in (tmp_path / "precice-lb-store", tmp_path / "merged"):
        (run,) = load_runs([place])
        a, b = run.participants["A"], run.participants["B"]
        counts = {name: values.tolist() for name, values in a.rank_counts.items()}
        assert (counts, b.rank_counts) == ({"cells": [6, 5], "porous": [6, 10]}, {})
        assert a.rank_vertices.tolist() == b.rank_vertices.tolist() == [6, 5]
        assert np.isnan(a.rank_mpi).all()


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
        recorder.count(feature, number)
    assert capsys.readouterr().err == (
        "precice-lb: warning: a call of count() is ignored: expected the name of a feature and how much of it this "
        "rank holds, a number of at least 0, found others\n"
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


def test_cpu_time_within_solve_is_taken_by_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that is set: windows of two calls, of which one goes over a flush."""
    clock = mock.Mock(return_value=0)
    monkeypatch.setattr(module.time, "process_time_ns", clock)
    recorder, _ = new_recorder(tmp_path)
    clock.return_value = 1000
    recorder.initialized(0, 10)
    for begin, complete in ((1500, False), (2700, True), (4000, False)):
        recorder.take((begin, begin + 5, 0.1, complete, begin, begin + 300))
    clock.return_value = 5000
    recorder.flush()
    recorder.take((5100, 5200, 0.1, True, 5100, 5150))
    recorder.close(finished=True)
    # 500 and 900; 1000; and 100 after the flush, whose own time does not count.
    assert only_store(tmp_path).rows("cpu").tolist() == [(1, 1400), (2, 1000), (2, 100)]


MS = 1e-3

# Rank r of A sleeps 20 ms and 20 r more, and then waits for the others in one way or the other.
WAITING = SOLVER.replace("import sys\n", "import sys, time\n").replace(
    "    participant.advance(dt)",
    """    if ranks > 1:
        if name == "A": time.sleep(0.02 * (1 + rank))
        total = np.zeros(1)
        comm = (MPI.COMM_WORLD, MPI.COMM_WORLD.Dup(), MPI.COMM_WORLD.Split(0, rank))[len(log) % 3]
        if len(log) % 4 == 0:
            comm.Allreduce(np.ones(1), total)
        elif len(log) % 4 == 1:
            comm.barrier()
            total[:] = comm.allreduce(1.0)
        elif len(log) % 4 == 2:
            others = [other for other in range(ranks) if other != rank]
            parts = np.ones((ranks, 1))
            requests = [comm.Irecv(parts[other], other) for other in others]
            requests += [comm.Isend(np.ones(1), other) for other in others]
            MPI.Request.Waitall(requests)
            total[:] = parts.sum()
        else:
            comm.Ibarrier().Wait()
            total[:] = sum(comm.allgather(1.0))
        value = value * total[0] / ranks
        if comm != MPI.COMM_WORLD: comm.Free()
    participant.advance(dt)""",
)


def run_waiting(directory: Path, mpiexec: str, backend: str, switch: str) -> dict[tuple[str, int], RankFile]:
    """Run 13 windows of the waiting solvers, with time in MPI switched on or off; return their stores."""
    results = run_pair(
        directory, solver=WAITING, windows=13, mpiexec=mpiexec, backend=backend, PRECICE_LB_MPI_TIME=switch
    )
    assert warnings_of(results["A"]) == []
    return rank_stores(directory)


@pytest.mark.mpi
@pytest.mark.parametrize("backend", BACKENDS)
def test_time_in_mpi_is_recorded_by_window_and_changes_no_result(tmp_path: Path, mpiexec: str, backend: str) -> None:
    stores_without = run_waiting(tmp_path / "0", mpiexec, backend, "0")
    stores = run_waiting(tmp_path / "1", mpiexec, backend, "1")

    results = sorted((tmp_path / "0").glob("?-?.npy"))
    assert [path.name for path in results] == ["A-0.npy", "A-1.npy", "B-0.npy", "B-1.npy"]
    for path in results:
        assert (tmp_path / "1" / path.name).read_bytes() == path.read_bytes()
    assert [len(store.rows("mpi")) for store in stores_without.values()] == [0, 0, 0, 0]
    for rank in (0, 1):
        store = stores["A", rank]
        assert store.rows("mpi")["window"].tolist() == store.advances["window"].tolist() == list(range(1, 14))
        mpi_ns = store.rows("mpi")["mpi_ns"]
        assert (mpi_ns > 0).all()
        # It slept for the rest, 20 ms and on rank 1 another 20 ms, which a busy machine makes longer, never shorter.
        assert (store.advances["solve_ns"] - mpi_ns >= 20 * MS * (1 + rank) * 1e9).all()
    export_merged([tmp_path / "1"], tmp_path / "merged")
    (run,) = load_runs([tmp_path / "merged"], warmup=1)
    expected = [stores["A", rank].rows("mpi")["mpi_ns"][1:].mean() * 1e-9 for rank in (0, 1)]
    assert run.participants["A"].rank_mpi == pytest.approx(expected)


@pytest.mark.alone
@pytest.mark.slow("compares real times with planted ones")
@pytest.mark.mpi
@pytest.mark.parametrize("backend", BACKENDS)
def test_planted_waits_of_real_ranks_are_found(tmp_path: Path, mpiexec: str, backend: str) -> None:
    stores = run_waiting(tmp_path, mpiexec, backend, "1")

    solve = []
    busy = []
    for rank in (0, 1):
        store = stores["A", rank]
        solve_seconds = store.advances["solve_ns"][1:] * 1e-9
        mpi_seconds = store.rows("mpi")["mpi_ns"][1:] * 1e-9
        solve.append(statistics.median(solve_seconds))
        busy.append(statistics.median(solve_seconds - mpi_seconds))
    # Rank 0 waits for rank 1, so that both take as long; rank 1 sleeps 20 ms longer.
    assert abs(solve[1] - solve[0]) < 10 * MS
    assert 12 * MS < busy[1] - busy[0] < 28 * MS


UNCHANGED = """
import pickle
from mpi4py import MPI
from mpi4py.MPI import COMM_WORLD as known_before
import numpy as np
from precice_lb.record.solver import _mpi_time

def facts():
    comm, own = MPI.COMM_WORLD, MPI.COMM_WORLD.Dup()
    cart = comm.Create_cart([comm.size])
    request = comm.Irecv(np.zeros(1), comm.rank)
    comm.Send(np.ones(1), comm.rank)
    known = [
        comm is known_before, own == comm, type(comm) is MPI.Intracomm, isinstance(cart, MPI.Cartcomm),
        type(request) is MPI.Request, pickle.loads(pickle.dumps(comm)) is comm, MPI.Comm.f2py(comm.py2f()) == comm,
        MPI.Comm.Allreduce.__name__, (MPI.Comm.Allreduce.__doc__ or "")[:20], request.Wait(), comm.allgather("x"),
    ]
    class Own(MPI.Intracomm):
        def Barrier(self):
            super().Barrier()
            return "own"
    known += [Own(own).Barrier(), isinstance(Own(own), MPI.Comm)]
    cart.Free(); own.Free()
    for wrong in (lambda: comm.Send(), lambda: comm.Bcast(object()), lambda: comm.Send(np.ones(1), dest=99)):
        try:
            wrong()
        except Exception as error:
            known.append([type(error).__name__, str(error)[:20]])
    return known

before = facts()
timer = _mpi_time()
assert timer is _mpi_time() and timer is not None
assert facts() == before, (facts(), before)
assert timer.ns > 0 and not timer.inside
# A call within a call counts once.
nested = MPI.Op.Create(lambda a, b, t: MPI.COMM_SELF.Barrier())
MPI.COMM_WORLD.Allreduce(np.ones(1), np.zeros(1), nested)
assert not timer.inside
# Whatever waits adds its time to what was there, whatever is local does not.
before_call = 10**15
for call, timed in {
    "MPI.COMM_SELF.Get_rank()": False, "MPI.COMM_SELF.size": False, "MPI.COMM_SELF.Is_inter()": False,
    "MPI.COMM_SELF.Barrier()": True, "MPI.COMM_SELF.bcast(1)": True, "MPI.COMM_SELF.Ibarrier().wait()": True,
    "MPI.COMM_SELF.Split(0).Free()": True, "MPI.COMM_SELF.Iprobe()": True, "MPI.Request.waitall([])": True,
    "MPI.Win.Create(None, comm=MPI.COMM_SELF).Free()": True,
}.items():
    timer.ns = before_call
    eval(call)
    assert (timer.ns > before_call) is timed, call
print("fine")
"""


@pytest.mark.mpi
def test_the_solver_s_objects_stay_what_they_are(mpiexec: str) -> None:
    done = subprocess.run(
        [mpiexec, "-n", "2", sys.executable, "-W", "error", "-c", UNCHANGED],
        capture_output=True, text=True, env=environment(), timeout=300, check=False,
    )  # fmt: skip
    # Two ranks write into one pipe: their lines may run into each other.
    assert (done.returncode, done.stdout.count("fine")) == (0, 2), done.stderr


@pytest.mark.parametrize(("first", "said"), [
    ("import sys, mpi4py.MPI; sys.modules['petsc4py'] = sys", "petsc4py calls MPI by itself"),
    ("import sys", "this solver does not use mpi4py"),
])  # fmt: skip
def test_where_mpi_is_not_seen_nothing_is_recorded_and_a_warning_says_so(tmp_path: Path, first: str, said: str) -> None:
    (warning,) = warnings_of(run_pair(tmp_path, solver=f"{first}\n{SOLVER}", PRECICE_LB_MPI_TIME="1")["A"])
    assert said in warning
    assert len(rank_stores(tmp_path)["A", 0].rows("mpi")) == 0


def test_a_window_in_several_parts_has_a_row_of_each_and_a_failed_call_none(tmp_path: Path) -> None:
    recorder, advance = new_recorder(tmp_path)
    for call in range(2500):
        recorder.take_mpi(call)
        advance(2 * call, 2 * call + 1, call in (0, 2498))
    # The solver asked for the end of the window in vain.
    recorder.take_mpi(7)
    recorder.close(finished=True)
    store = only_store(tmp_path)
    assert len(store.advances) == 2500
    mpi = store.rows("mpi")
    totals = np.bincount(mpi["window"], weights=mpi["mpi_ns"])
    assert totals.tolist() == [0, 0, sum(range(1, 2499)), 2499]
    assert len(mpi) > 3
