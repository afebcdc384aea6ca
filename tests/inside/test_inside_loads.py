"""What ranks held and how long they were busy, from real recorded runs with planted loads."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from calibrate_helpers import edited, refusals
from record_helpers import SOLVER, run_pair

from precice_lb.dataset import CoupledRun, load_runs
from precice_lb.exceptions import DataError
from precice_lb.inside.loads import INTERFACE, loads_of_runs, loads_of_tables, read_counts, read_seconds

COSTS = {"fluid": 1e-3, "porous": 5e-3}
# A sleeps what its cells cost, half of it in a section. Then all ranks wait for the slowest: on the emulated clock the
# operation of a reduction lasts until that has come.
WORKING = SOLVER.replace("import sys\n", "import json, os, sys, time\n").replace(
    "participant.initialize()",
    'held = json.loads(os.environ["HELD"])[rank] if name == "A" else {}\n'
    "for feature, number in held.items(): participant.count(feature, number)\n"
    'costs = json.loads(os.environ["COSTS"])\n'
    "work = sum(costs[feature] * number for feature, number in held.items())\n"
    "participant.initialize()",
)
WORKING = WORKING.replace(
    "    participant.advance(dt)",
    '    participant.start_profiling_section("assemble")\n    time.sleep(work / 2)\n'
    "    participant.stop_last_profiling_section()\n    time.sleep(work / 2)\n"
    "    if ranks > 1:\n        latest = MPI.COMM_WORLD.allreduce(time.perf_counter(), MPI.MAX)\n"
    "        until = MPI.Op.Create(lambda *_: time.sleep(max(latest - time.perf_counter(), 0.0)))\n"
    "        MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, np.zeros(1), until)\n"
    "        until.Free()\n"
    "    participant.advance(dt)",
)


def _runs(
    directory: Path, held: Sequence[Sequence[dict[str, float]]], mpiexec: str = "", **variables: str
) -> list[CoupledRun]:
    """Record a run for each distribution of A's cells, on the emulated clock."""
    for number, ranks in enumerate(held):
        run_pair(
            directory / str(number), "parallel-explicit", solver=WORKING, emulated=True,
            launch=[mpiexec, "-n", str(len(ranks))] if len(ranks) > 1 else [], arguments=[str(len(ranks))],
            HELD=json.dumps(ranks), COSTS=json.dumps(COSTS),
            PRECICE_LB_METADATA=json.dumps({"run": str(number)}), **variables,
        )  # fmt: skip
    return load_runs([directory], warmup=1)


def _busy(ranks: Sequence[dict[str, float]]) -> np.ndarray:
    return np.array([sum(COSTS[name] * number for name, number in held.items()) for held in ranks])


def test_serial_runs_that_tell_the_features_apart_suffice(tmp_path: Path) -> None:
    held = [[{"fluid": 20, "porous": 1}], [{"fluid": 5, "porous": 8}]]
    runs = _runs(tmp_path, held)
    loads = loads_of_runs(runs, "A", sections=["assemble"])
    assert [(load.run, load.features, load.basis) for load in loads] == [
        (name, ("fluid", "porous"), "serial") for name in "01"
    ]
    for load, ranks in zip(loads, held, strict=True):
        assert load.counts.tolist() == [[each["fluid"], each["porous"]] for each in ranks]
        assert load.seconds == pytest.approx(_busy(ranks), rel=1e-6)
    # One alone does not; what it did in a section is half of it.
    (load,) = loads_of_runs(runs[:1], "A", ["porous", "fluid"], sections=["assemble"])
    assert (load.features, load.basis) == (("porous", "fluid"), "sections")
    assert load.seconds == pytest.approx(_busy(held[0]) / 2, rel=1e-6)
    # On one rank nothing waits, whatever else is not known.
    assert loads_of_runs(runs[:1], "A")[0].basis == "mpi"
    # Counts from elsewhere come first; a feature that does not tell ranks apart is no reason to leave the rest out.
    (load,) = loads_of_runs(runs[:1], "A", ["fluid", INTERFACE], counts={"": (("fluid",), np.array([[21.0]]))})
    assert load.counts.tolist() == [[21, 11]]
    # Who has vertices also maps.
    mapping = dataclasses.replace(runs[0].participants["A"], rank_mapping=np.array([0.5]))
    with_mapping = dataclasses.replace(runs[0], participants={"A": mapping})
    for features, expected in ((["fluid"], 0.0), (["fluid", INTERFACE], 0.5)):
        more = loads_of_runs([with_mapping], "A", features)[0].seconds - _busy(held[0])
        assert more == pytest.approx([expected], abs=1e-6)


@pytest.mark.mpi
def test_waiting_in_the_solver_s_barrier_is_kept_out(tmp_path: Path, mpiexec: str) -> None:
    held = [[{"fluid": 20, "porous": 1}, {"fluid": 20, "porous": 9}]]
    (run,) = _runs(tmp_path, held, mpiexec, PRECICE_LB_MPI_TIME="1")
    part = run.participants["A"]
    assert np.ptp(part.rank_solve) < 1e-6
    (load,) = loads_of_runs([run], "A")
    assert load.basis == "mpi"
    assert load.counts.tolist() == [[20, 1], [20, 9]]
    assert load.seconds == pytest.approx(_busy(held[0]), rel=1e-4)
    (load,) = loads_of_runs([run], "A", sections=["assemble"])
    assert load.seconds == pytest.approx(_busy(held[0]) / 2, rel=1e-6)
    for inside, text in (
        (np.full(2, np.nan), "PRECICE_LB_MPI_TIME=1"),
        (np.array([0.0, 1e3]), "found more on A's rank 1"),
    ):
        changed = dataclasses.replace(run, participants={"A": dataclasses.replace(part, rank_mpi=inside)})
        with pytest.raises(DataError, match=text):
            loads_of_runs([changed], "A")


def test_what_does_not_fit_is_refused_in_one_line(tmp_path: Path) -> None:
    (run,) = _runs(tmp_path, [[{"fluid": 20, "porous": 1}]])
    part = run.participants["A"]

    def changed(**values: object) -> CoupledRun:
        return dataclasses.replace(run, participants={"A": dataclasses.replace(part, **values)})  # type: ignore[arg-type]

    two = {"": (("steel",), np.ones((2, 1))), "0": (("steel",), np.ones((2, 1)))}
    for runs, participant, features, more, text in (
        ([run], "C", None, {}, r"^C: expected runs of it .* found none in 1 run \(participants: A, B\)"),
        ([], "A", None, {}, r"found none in 0 runs \(participants: none\)"),
        ([changed(windows=part.windows[:1])], "A", None, {}, "with time windows after the warm-up, found none"),
        ([changed(rank_solve=np.array([np.nan]))], "A", None, {}, "stores of all 1 ranks of A, found none of rank 0"),
        ([run], "B", None, {}, "found interface vertices at most; call participant.count"),
        ([run], "A", ["steel"], {}, r"counted \(interface vertices, fluid, porous\), found steel"),
        ([run], "A", [], {}, "found none; correct the names"),
        ([run], "A", ["steel"], {"counts": two}, "counts of the 1 rank of A, found those of 2 ranks"),
        ([run, changed(rank_counts={})], "A", None, {}, "expected counts of fluid, porous of A, found none"),
        ([run], "A", None, {"sections": ["solve"]}, r"recorded \(assemble\), found solve"),
        ([changed(rank_vertices=np.array([np.nan]))], "A", [INTERFACE], {}, r"counted \(fluid, porous\), found interf"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=text) as caught:
            loads_of_runs(runs, participant, features, **more)  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)


COUNTS = "run,rank,feature,count\na,0,cells,10\na,1,cells,20\na,1,porous,5\nb,0,cells,30\n"
SECONDS = "run,rank,seconds\na,0,1.5\na,1,2\nb,0,3\n"


def _file(directory: Path, name: str, text: str) -> Path:
    path = directory / name
    path.write_text(text, encoding="utf-8")
    return path


def test_tables_become_loads_and_what_is_not_said_is_nothing(tmp_path: Path) -> None:
    counts, seconds = _file(tmp_path, "c.csv", COUNTS), _file(tmp_path, "s.csv", SECONDS)
    first, second = loads_of_tables(read_counts(counts), read_seconds(seconds))
    assert (first.run, first.features, first.basis) == ("a", ("cells", "porous"), "given")
    assert first.counts.tolist() == [[10, 0], [20, 5]]
    assert first.seconds.tolist() == [1.5, 2]
    assert (second.run, second.counts.tolist(), second.seconds.tolist()) == ("b", [[30, 0]], [3])


@pytest.mark.parametrize("block", refusals("inside-refused.txt"))
def test_tables_that_cannot_be_are_refused(tmp_path: Path, block: str) -> None:
    *changes, expected = block.split("\n")
    counts, seconds = edited(f"{COUNTS}---\n{SECONDS}", changes).split("---\n")
    paths = _file(tmp_path, "counts.csv", counts), _file(tmp_path, "seconds.csv", seconds)
    with pytest.raises(DataError) as refused:
        loads_of_tables(read_counts(paths[0]), read_seconds(paths[1]))
    assert str(refused.value).replace(str(tmp_path), "DIRECTORY") == expected
