"""What the recording ``Participant`` adds to preCICE's: profiling sections, and guesses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from profiling_helpers import event_totals
from record_helpers import BACKENDS, SOLVER, WINDOWS, new_recorder, only_store, rank_stores, run_pair

from precice_lb.ingest.profiling import read_profile
from precice_lb.store import find_stores, read_store

SECTIONED = SOLVER.replace("import sys\n", "import sys, time\n").replace(
    '    participant.write_data(mesh, f"{name}-Data", ids, value)\n',
    """    participant.start_profiling_section("assemble")
    time.sleep(0.002)
    participant.start_profiling_section("inner é")
    time.sleep(0.004)
    participant.stop_last_profiling_section()
    participant.stop_last_profiling_section()
    participant.write_data(mesh, f"{name}-Data", ids, value)
""",
)


@pytest.mark.parametrize("backend", BACKENDS)
def test_profiling_sections_work_and_are_stored(tmp_path: Path, backend: str) -> None:
    plain, ours = (
        run_pair(tmp_path / switch, solver=SECTIONED, backend=backend, PRECICE_LB_RECORD=switch) for switch in "01"
    )
    assert [ours[name].stdout for name in "AB"] == [plain[name].stdout for name in "AB"]
    stores = rank_stores(tmp_path / "1")
    assert set(stores) == {("A", 0), ("B", 0)}
    for (name, _), store in stores.items():
        assert store.names("sections") == ("inner é", "assemble")
        assert store.rows("sections")["name"].tolist() == [0, 1] * WINDOWS
        assert store.rows("sections")["window"].tolist() == np.repeat(np.arange(1, WINDOWS + 1), 2).tolist()
        inner, outer = store.rows("sections")["duration_ns"][::2], store.rows("sections")["duration_ns"][1::2]
        assert (inner >= 4e6).all()
        assert (outer - inner >= 2e6).all()
        assert (outer <= store.advances["solve_ns"]).all()
        ends = (store.rows("sections")["begin_ns"] + store.rows("sections")["duration_ns"])[1::2]
        assert (ends <= store.advances["begin_ns"]).all()
        if backend == "libprecice":
            for directory in ("0", "1"):
                path = tmp_path / directory / "precice-profiling" / f"{name}-0-1.txt"
                counts = {event: count for event, (count, _) in event_totals(read_profile(path)).items()}
                assert counts["solver.advance/assemble"] == counts["solver.advance/assemble/inner é"] == WINDOWS


def test_sections_stay_within_their_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorder, _ = new_recorder(tmp_path)
    for number in range(2700):
        recorder.section_started(b"bytes" if number % 2 else f"step {number % 2400}")
        recorder.section_stopped(2**47)
    recorder.section_stopped(0)
    recorder.close(finished=False)
    store = only_store(tmp_path)
    assert len(store.names("sections")) == len(set(store.names("sections"))) == 1000
    kept = [store.names("sections")[number] for number in store.rows("sections")["name"]]
    expected = ["bytes" if n % 2 else f"step {n % 2400}" for n in range(2700)]
    assert kept == [name for name in expected if name in store.names("sections")]
    assert capsys.readouterr().err.count("recorded for the first 1000 names only") == 1


TWICE = SOLVER.replace(
    "participant = precice.Participant(", "for run in range(2):\n  participant = precice.Participant("
)
_HEAD, _LOOP = TWICE.split("  participant = ")
_LOOP, _TAIL = _LOOP.split("np.save(")
TWICE = _HEAD + "".join(f"  {line}\n" for line in f"participant = {_LOOP}".splitlines()) + f"np.save({_TAIL}"


def test_one_participant_after_the_other_in_one_process(tmp_path: Path) -> None:
    run_pair(tmp_path, "parallel-explicit", solver=TWICE)
    stores = [read_store(path) for path in find_stores([tmp_path / "precice-lb-store"])]
    attempts = sorted((store.metadata["participant"], store.metadata["attempt"]) for store in stores)
    assert attempts == [("A", 1), ("A", 2), ("B", 1), ("B", 2)]
    for store in stores:
        assert store.metadata["finished"] is True
        assert store.advances["window"].tolist() == list(range(1, WINDOWS + 1))


def test_guesses_are_written_with_the_flush_and_what_comes_after_it_with_the_next(tmp_path: Path) -> None:
    recorder, advance = new_recorder(tmp_path)
    planted = []
    for window in range(1, 101):
        advance(window, window + 1, True)
        planted.append((window, ("hold", "reduced", "linear")[window % 7 // 3], 1000 * window, window / 10))
        recorder.guessed(*planted[-1])
    # After window 96 the rows up to it were written, and what was known then.
    assert only_store(tmp_path).rows("guesses")["window"].tolist() == list(range(1, 96))
    recorder.section_started("s")
    recorder.close(finished=True)
    store = only_store(tmp_path)
    assert store.names("guesses") == ("hold", "reduced", "linear")
    assert [(w, store.names("guesses")[n], c, e) for w, n, c, e in store.rows("guesses").tolist()] == planted
    assert store.advances["window"].tolist() == list(range(1, 101))
