"""Nothing of ours ever hurts the run: whatever breaks, results and exit code are the solver's, and one line says so."""

from __future__ import annotations

import errno
import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
from conftest import FULL_COUNTS
from record_helpers import BACKENDS, SOLVER, assert_whole, new_recorder, only_store, rank_stores, run_pair, warnings_of

from precice_lb.record import Recorder, recorder
from precice_lb.store import find_stores, read_store

FOURTH = SOLVER.replace("    log.append", "    if len(log) == 3: exec(open('trouble.py').read())\n    log.append")


@pytest.fixture(autouse=True)
def _nothing_said_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "_warned", set())


Plain = tuple[Path, dict[str, subprocess.CompletedProcess[str]]]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Plain:
    """A run without recording and without trouble, and where."""
    directory = tmp_path_factory.mktemp("plain")
    return directory, run_pair(directory, PRECICE_LB_RECORD="0")


def _compare(directory: Path, solver: str, trouble: str = "", plain: Plain | None = None, **more: str) -> list[str]:
    """Run with recording and find the same as without; return the warnings of A.

    Without it there is the same trouble, unless a plain run is given, where trouble shows in no result.
    """
    runs = [] if plain is None else [plain]
    for switch in "1" if runs else "01":
        place = directory / switch
        place.mkdir()
        (place / "trouble.py").write_text(trouble)
        runs.append((place, run_pair(place, solver=solver, PRECICE_LB_RECORD=switch, **more)))
    for name in "AB":
        without, ours = (results[name] for _, results in runs)
        assert ours.stdout == without.stdout
        kept = [line for line in ours.stderr.splitlines() if line not in warnings_of(ours)]
        # From 3.12 on Python warns of fork(), with the number of the process.
        kept, others = (re.sub(r"pid=\d+", "", "\n".join(lines)) for lines in (kept, without.stderr.splitlines()))
        assert kept == others
        result = f"{name}-0.npy"
        assert (directory / "1" / result).read_bytes() == (runs[0][0] / result).read_bytes()
    return warnings_of(runs[1][1]["A"])


def _record(directory: Path) -> Recorder:
    """Record 70 windows."""
    recorder, advance = new_recorder(directory)
    recorder.initialized(1, 2)
    for window in range(1, 71):
        advance(window, window + 1, True)
    return recorder


def test_a_quota_that_is_met_at_any_byte(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The system takes part of a write, and then none: at every 97th byte (at each of them, if counts are full)."""
    recorder = _record(tmp_path / "all")
    size = recorder._writer.path.stat().st_size
    recorder.close(finished=True)
    assert capsys.readouterr().err == ""
    unlimited, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    lengths = []
    for limit in range(0, size + 98, 1 if FULL_COUNTS else 97):
        place = tmp_path / str(limit)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            _record(place).close(finished=True)
        except OSError as error:
            if error.errno != errno.EFBIG:
                raise
            assert not [path for path in place.rglob("*") if path.is_file()]
            continue
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (unlimited, hard))
        (printed,) = capsys.readouterr().err.splitlines()
        assert os.strerror(errno.EFBIG) in printed
        store = only_store(place)
        assert store.advances["window"].tolist() == list(range(1, len(store.advances) + 1))
        assert store.metadata["finished"] is False
        lengths.append(len(store.advances))
    assert sorted(lengths) == lengths
    assert {0, 1, 2, 4, 8, 16, 32, 64} <= set(lengths)


@pytest.mark.parametrize(
    "where", ["rank_file.write_hdf5", "rank_file.hdf5", "rank_file.shutil.copyfileobj", "spool.publish"]
)
def test_an_hdf5_file_that_cannot_be_made_leaves_the_spool(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder = _record(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(f"precice_lb.store.{where}", mock.Mock(side_effect=OSError(errno.ENOSPC, "No space left")))
        recorder.close(finished=True)
    assert capsys.readouterr().err == ""
    (path,) = find_stores([tmp_path])
    assert path.suffix == ".spool"
    assert not list(tmp_path.rglob(".*"))
    assert (read_store(path).metadata["finished"], len(read_store(path).advances)) == (True, 70)


@pytest.mark.parametrize("code", ["raise ImportError('no library')", "import warnings; warnings.warn('other')", ""])
def test_a_missing_or_broken_hdf5_is_of_no_matter(tmp_path: Path, code: str, plain: Plain) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "h5py.py").write_text(code)
    paths = os.pathsep.join([str(tmp_path / "library"), *(path for path in sys.path if path)])
    assert _compare(tmp_path, SOLVER, plain=plain, PYTHONPATH=paths, PYTHONWARNINGS="error") == []
    assert_whole(tmp_path / "1")


OTHER = {
    "netCDF4": "import netCDF4\nother = netCDF4.Dataset(f'{name}.nc', 'w')\nother.createDimension('x', 3)\n",
    "tables": "import tables\nother = tables.open_file(f'{name}.nc', 'w')\nother.create_array('/', 'x', [1, 2, 3])\n",
    "h5py": "import h5py\nother = h5py.File(f'{name}.nc', 'w')\nother['x'] = [1, 2, 3]\n",
}


@pytest.mark.parametrize("library", list(OTHER))
def test_a_solver_with_an_hdf5_library_of_its_own(tmp_path: Path, library: str, plain: Plain) -> None:
    """Another HDF5 in the process, with a file open: no second one is loaded there, and every command reads spools."""
    pytest.importorskip(library)
    solver = SOLVER.replace("value, log, saved", OTHER[library] + "value, log, saved")
    assert _compare(tmp_path, solver.replace("np.save(", "other.close()\nnp.save("), plain=plain) == []
    for name in "AB":
        assert (tmp_path / "1" / f"{name}.nc").stat().st_size > 0
    assert_whole(tmp_path / "1")
    suffixes = {store.path.suffix for store in rank_stores(tmp_path / "1").values()}
    assert suffixes == {".h5" if library == "h5py" else ".spool"}


@pytest.mark.parametrize("hours", [-1000, 1000])
def test_a_system_clock_that_jumps(tmp_path: Path, hours: int, plain: Plain) -> None:
    jump = f"import time; now = time.time_ns; time.time_ns = lambda: now() + {hours} * 3_600_000_000_000"
    assert _compare(tmp_path, FOURTH, jump, plain=plain) == []
    assert_whole(tmp_path / "1")
    for store in rank_stores(tmp_path / "1").values():
        seconds = (store.metadata["ended_unix_ns"] - store.metadata["started_unix_ns"]) / 1e9
        # Not changed by a thousand hours.
        assert 0 < seconds < 3600
        assert (store.advances["solve_ns"] > 0).all()


FORKS = """
import os
for ending in (lambda: os._exit(0), lambda: os.execv(sys.executable, [sys.executable, "-c", ""])):
    child = os.fork()
    if child == 0:
        ending()
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_solver_that_forks(tmp_path: Path, backend: str) -> None:
    assert _compare(tmp_path, FOURTH, FORKS, backend=backend) == []
    assert_whole(tmp_path / "1")


def test_a_store_that_is_removed_during_the_run(tmp_path: Path, plain: Plain) -> None:
    trouble = "import glob, os\nfor path in glob.glob(f'precice-lb-store/*/{name}-0-1.spool'): os.remove(path)"
    (warning,) = _compare(tmp_path, FOURTH, trouble, plain=plain)
    assert "is not complete: it was removed during the run" in warning
    assert not list((tmp_path / "1").rglob("*.h5")) + list((tmp_path / "1").rglob("*.spool"))


CLOSE_OURS = """
import os
for number in range(3, 200):
    try:
        if "precice-lb-store" in os.readlink(f"/proc/self/fd/{number}"): os.close(number)
    except OSError: pass
kept = open(f"{name}.txt", "w+")
kept.write("the solver's own" * 1000)
"""


def test_a_solver_that_closes_what_it_does_not_know(tmp_path: Path) -> None:
    solver = FOURTH.replace("np.save(", "kept.flush(); kept.seek(0); print(kept.read())\nnp.save(")
    (warning,) = _compare(tmp_path, solver, CLOSE_OURS)
    assert "the solver has closed the file" in warning
    stores = rank_stores(tmp_path / "1")
    assert set(stores) == {("A", 0), ("B", 0)}
    for (name, _), store in stores.items():
        assert (tmp_path / "1" / f"{name}.txt").read_text() == "the solver's own" * 1000
        assert store.advances["window"].tolist() == [1, 2, 3, 4]


def test_no_standard_error_to_warn_on(tmp_path: Path) -> None:
    run_pair(tmp_path, launch=["sh", "-c", 'exec "$@" 2>&-', "sh"], PRECICE_LB_DIR="/proc/nowhere")


@pytest.mark.parametrize("error", [MemoryError("no memory"), KeyError("advances")])
def test_whatever_writing_raises(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder, advance = new_recorder(tmp_path)
    real = recorder._writer.append
    # What the solver's own code raises, this file's included, is not caught.
    broken = mock.Mock(wraps=real, side_effect=[mock.DEFAULT, mock.DEFAULT, error])
    monkeypatch.setattr(recorder._writer, "append", broken)
    for window in range(1, 101):
        advance(window, window + 1, True)
    recorder.close(finished=True)
    assert capsys.readouterr().err.count("precice-lb: warning: recording into ") == 1
    store = only_store(tmp_path)
    assert (store.metadata["finished"], store.advances["window"].tolist()) == (False, [1, 2])


UNFINALIZED = SOLVER.replace("participant.finalize()", "")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "ending",
    [
        "",
        "del participant",
        "participant.finalize(); del participant",
        "import gc; cycle = [participant]; cycle.append(cycle); del cycle, participant; gc.collect()",
    ],
)
def test_every_ending_is_silent_and_finished(tmp_path: Path, backend: str, ending: str, plain: Plain) -> None:
    # With warnings of libprecice's log: a call after the end would be told there.
    solver = UNFINALIZED.replace("np.save(", f"{ending}\nnp.save(").replace(
        'participant = precice.Participant(name, "precice-config.xml"',
        "text = open('precice-config.xml').read()\n"
        "text = text.replace(' enabled=\"false\"/>', '><sink filter=\"%Severity% >= warning\"/></log>')\n"
        "open(f'{name}.xml', 'w').write(text)\n"
        'participant = precice.Participant(name, f"{name}.xml"',
    )
    assert _compare(tmp_path, solver, "", plain if backend == "embedded" else None, backend=backend) == []
    assert_whole(tmp_path / "1")


def test_a_solver_that_stops_early_is_not_finished(tmp_path: Path) -> None:
    solver = UNFINALIZED.replace("    log.append", "    if len(log) == 3: break\n    log.append")
    results = run_pair(tmp_path, solver=solver, fails=True)
    assert results["A"].returncode == 0
    store = rank_stores(tmp_path)["A", 0]
    assert (store.metadata["finished"], len(store.advances)) == (False, 4)
