"""Time in MPI within solve: planted waits of real ranks are found, and the solver's objects stay what they are."""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from record_helpers import (
    BACKENDS,
    SOLVER,
    assert_fine,
    environment,
    new_recorder,
    only_store,
    rank_stores,
    run_pair,
    warnings_of,
)

from precice_lb.dataset import load_runs
from precice_lb.export import export_merged

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


@pytest.mark.mpi
@pytest.mark.parametrize("backend", BACKENDS)
def test_planted_waits_of_real_ranks_are_found(tmp_path: Path, mpiexec: str, backend: str) -> None:
    launch = {"launch": [mpiexec, "-n", "2"], "arguments": ["2"], "solver": WAITING, "windows": 13}
    for switch in "01":
        results = run_pair(tmp_path / switch, PRECICE_LB_BACKEND=backend, PRECICE_LB_MPI_TIME=switch, **launch)  # type: ignore[arg-type]
        assert_fine(results)
        assert warnings_of(results["A"]) == []
    for path in (tmp_path / "0").glob("?-?.npy"):
        assert (tmp_path / "1" / path.name).read_bytes() == path.read_bytes()
    assert all(len(store.rows("mpi")) == 0 for store in rank_stores(tmp_path / "0").values())
    stores = rank_stores(tmp_path / "1")
    solve, busy = [], []
    for rank in (0, 1):
        store = stores["A", rank]
        assert store.rows("mpi")["window"].tolist() == store.advances["window"].tolist() == list(range(1, 14))
        inside = store.rows("mpi")["mpi_ns"] * 1e-9
        solve.append(statistics.median(store.advances["solve_ns"][1:] * 1e-9))
        busy.append(statistics.median(store.advances["solve_ns"][1:] * 1e-9 - inside[1:]))
    # Solve times look alike; on a busy machine who sleeps is late, which medians and the wide bound are for.
    assert abs(solve[1] - solve[0]) < 10 * MS
    assert 12 * MS < busy[1] - busy[0] < 28 * MS
    before = [each["mpi_ns"] for each in (stores["A", 0].rows("mpi"), stores["A", 1].rows("mpi"))]
    export_merged([tmp_path / "1"], tmp_path / "merged")
    (run,) = load_runs([tmp_path / "merged"], warmup=1)
    expected = [column[1:].mean() * 1e-9 for column in before]
    assert run.participants["A"].rank_mpi == pytest.approx(expected)


UNCHANGED = """
import json, pickle, sys
from mpi4py import MPI
from mpi4py.MPI import COMM_WORLD as known_before
import numpy as np
from precice_lb.record.solver import _mpi_time

def facts():
    comm, own = MPI.COMM_WORLD, MPI.COMM_WORLD.Dup()
    cart = comm.Create_cart([comm.size])
    request = comm.Irecv(np.zeros(1), comm.rank)
    comm.Send(np.ones(1), comm.rank)
    found = [
        comm is known_before, comm is MPI.COMM_WORLD, own == comm, own != comm, type(own).__name__,
        type(comm) is MPI.Intracomm, isinstance(cart, MPI.Cartcomm), type(request) is MPI.Request,
        pickle.loads(pickle.dumps(comm)) is comm, issubclass(MPI.Cartcomm, MPI.Comm),
        MPI._handleof(comm) == comm.handle, MPI._sizeof(comm), MPI.Comm.f2py(comm.py2f()) == comm, bool(MPI.COMM_NULL),
        MPI.Comm.Allreduce.__name__, (MPI.Comm.Allreduce.__doc__ or "")[:20], MPI.Request.Waitall.__name__,
        request.Wait(), comm.allreduce(comm.rank, MPI.SUM), comm.allgather("x"), cart.Get_coords(comm.rank),
    ]
    class Own(MPI.Intracomm):
        def Barrier(self):
            super().Barrier()
            return "own"
    found += [Own(own).Barrier(), isinstance(Own(own), MPI.Comm)]
    cart.Free(); own.Free()
    found.append(own == MPI.COMM_NULL)
    for wrong in (lambda: comm.Send(), lambda: comm.Bcast(object()), lambda: comm.Send(np.ones(1), dest=99)):
        try:
            wrong()
        except Exception as error:
            found.append([type(error).__name__, str(error)[:20]])
    return found

before = facts()
timer = _mpi_time()
assert timer is _mpi_time() and timer is not None
assert facts() == before, (facts(), before)
assert len(before) > 20 and before[0] is True
assert timer.ns > 0 and not timer.inside

# A call within a call counts once; a call that fails counts and ends.
timer.ns = 0
nested = MPI.Op.Create(lambda a, b, t: MPI.COMM_SELF.Barrier())
MPI.COMM_WORLD.Allreduce(np.ones(1), np.zeros(1), nested)
assert not timer.inside
try:
    MPI.COMM_WORLD.Send(np.ones(1), dest=99)
except Exception:
    pass
assert not timer.inside

# Whatever waits is timed, whatever is local is not.
for call, timed in {
    "MPI.COMM_SELF.Get_rank()": False, "MPI.COMM_SELF.size": False, "MPI.COMM_SELF.Get_name()": False,
    "MPI.COMM_SELF.Is_inter()": False, "MPI.COMM_SELF.Barrier()": True, "MPI.COMM_SELF.bcast(1)": True,
    "MPI.COMM_SELF.Ibarrier().wait()": True, "MPI.COMM_SELF.Split(0).Free()": True, "MPI.COMM_SELF.Iprobe()": True,
    "MPI.COMM_SELF.scan(1)": True, "MPI.Request.waitall([])": True,
    "MPI.COMM_SELF.Create_cart([1]).Neighbor_allgather(np.ones(1), np.ones(2))": True,
    "MPI.Win.Create(None, comm=MPI.COMM_SELF).Free()": True,
}.items():
    timer.ns = 0
    eval(call)
    assert (timer.ns > 0) is timed, call
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
    results = run_pair(tmp_path, solver=f"{first}\n{SOLVER}", PRECICE_LB_BACKEND="embedded", PRECICE_LB_MPI_TIME="1")
    assert_fine(results)
    (warning,) = warnings_of(results["A"])
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
    of_window = {int(w): int(mpi["mpi_ns"][mpi["window"] == w].sum()) for w in set(mpi["window"])}
    assert of_window == {1: 0, 2: sum(range(1, 2499)), 3: 2499}
    assert len(store.rows("mpi")) > 3
