"""preCICE's own tutorials, unmodified, with and without recording. They need a copy of the tutorials' repository."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tutorial_runs import CASES, Tutorial, lay_out, run

from precice_lb.dataset import load_runs
from precice_lb.ingest.profiling import enrich
from precice_lb.store import find_stores, read_store

pytestmark = [pytest.mark.precice, pytest.mark.tutorials]


def results(case: Path) -> dict[str, bytes]:
    """Every file in the participants' directories but preCICE's measured times, and stores."""
    return {
        str(path.relative_to(case)): path.read_bytes()
        for path in sorted(case.rglob("*"))
        if path.parent != case and path.is_file() and not {"precice-profiling", "precice-lb-store"} & set(path.parts)
    }


@pytest.mark.parametrize("tutorial", CASES, ids=[case.directory for case in CASES])
def test_results_are_the_same_with_and_without_recording(tmp_path: Path, tutorial: Tutorial) -> None:
    cases, said = {}, {}
    for name, options in (("plain", []), ("recorded", ["-m", "precice_lb", "run"])):
        cases[name] = case = tmp_path / name
        lay_out(tutorial, case)
        said[name] = run(tutorial, case, options)
        assert {participant: code for participant, (code, _, _) in said[name].items()} == dict.fromkeys(
            tutorial.participants, 0
        ), said[name]
    assert said["recorded"] == said["plain"]
    files = results(cases["plain"])
    for pattern in ("precice-*-iterations.log", *tutorial.writes):
        assert any(Path(path).match(pattern) for path in files), pattern
    assert results(cases["recorded"]) == files

    stores = [read_store(path) for path in find_stores([cases["recorded"]])]
    assert sorted(store.metadata["participant"] for store in stores) == sorted(tutorial.participants)
    for store in stores:
        name = store.metadata["participant"]
        log = cases["recorded"] / tutorial.participants[name][0] / f"precice-{name}-iterations.log"
        ends = store.advances[store.advances["window_complete"]]
        np.testing.assert_array_equal(ends["iteration"], np.loadtxt(log, skiprows=1)[:, 2])
        assert store.metadata["finished"] is True
        assert len(ends) == tutorial.windows
    (found,) = load_runs([cases["recorded"]], complete=enrich)
    for participant in found.participants.values():
        assert participant.windows.tolist() == list(range(1, tutorial.windows + 1))
        assert np.isfinite(participant.compute_seconds).all()
        assert (participant.compute_seconds > 0).all()
        assert (participant.wait_seconds >= 0).all()
