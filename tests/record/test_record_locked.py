"""Clusters where little may be installed: Python environments without h5py and mpi4py, and with numpy alone."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest
from record_helpers import SOLVER, assert_whole, configuration, finish, only_store, start

from precice_lb import recommend_split
from precice_lb.__main__ import main
from precice_lb.store import find_stores, write_hdf5

ROOT = Path(__file__).parents[2]


def environment_of(directory: Path, wanted: Callable[[str], bool]) -> Path:
    """Make a virtual environment with those of the packages here whose file or directory is ``wanted``; its Python."""
    venv.create(directory, symlinks=True)
    (packages,) = directory.glob("lib/python*/site-packages")
    for place in (Path(path) for path in sys.path if path.endswith("-packages")):
        for path in place.iterdir():
            if wanted(path.name) and path.suffix != ".pth" and not (packages / path.name).exists():
                (packages / path.name).symlink_to(path)
    # The wheel of mpich puts it here, where that of mpi4py looks for it.
    for library in Path(sys.prefix, "lib").glob("libmpi*"):
        (directory / "lib" / library.name).symlink_to(library)
    return directory / "bin" / "python"


NO_H5PY = "expected h5py, which HDF5 files need, found that it cannot be imported (No module named 'h5py')"


def _run(python: Path, directory: Path, *arguments: str, home: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, *arguments], cwd=directory, env=_environment(PYTHONPATH=str(home)), capture_output=True, text=True,
        check=False,
    )  # fmt: skip


def _environment(**variables: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **variables}


def test_recording_reading_and_recommending_work_without_h5py_and_mpi4py(tmp_path: Path) -> None:
    python = environment_of(tmp_path / "environment", lambda name: not name.startswith(("h5py", "mpi4py")))
    for module in ("h5py", "mpi4py"):
        assert _run(python, tmp_path, "-c", f"import {module}").returncode == 1

    (tmp_path / "precice-config.xml").write_text(configuration("serial-explicit"))
    (tmp_path / "solver.py").write_text(SOLVER)
    command = [str(python), "-m", "precice_lb", "run", "solver.py"]
    # A participant's name, and its partner's.
    commands = {"A": [*command, "A", "B"], "B": [*command, "B", "A"]}
    results = finish(start(tmp_path, commands, dict.fromkeys("AB", _environment(PRECICE_LB_BACKEND="embedded"))))
    for name, result in results.items():
        assert result.returncode == 0
        assert [line for line in result.stderr.splitlines() if "h5py" in line] == [
            f"precice-lb: {tmp_path}/precice-lb-store/{name}-1 keeps its spools, as h5py is not installed; every "
            "command of precice-lb reads them"
        ]
    assert_whole(tmp_path)
    assert {path.suffix for path in find_stores([tmp_path])} == {".spool"}

    summary = ["-m", "precice_lb", "summary", "precice-lb-store"]
    without_h5py = _run(python, tmp_path, *summary).stdout
    assert "Run A:1 B:1: mean time per time window" in without_h5py
    assert without_h5py == _run(Path(sys.executable), tmp_path, *summary).stdout

    samples = {"Fluid": [[1, 8], [2, 4], [4, 2]], "Solid": [[1, 2], [2, 1], [4, 0.5]]}
    question = f"import precice_lb; print(precice_lb.recommend_split({samples}, 5).split)"
    answer = _run(python, tmp_path, "-c", question)
    assert (answer.stdout, answer.stderr) == (f"{recommend_split(samples, 5).split}\n", "")

    write_hdf5(next(tmp_path.rglob("A-0-1.spool")), tmp_path / "A-0-1.h5")
    refused = _run(python, tmp_path, "-m", "precice_lb", "summary", "A-0-1.h5")
    assert (refused.returncode, refused.stderr) == (
        2,
        f"precice-lb: error: {tmp_path}/A-0-1.h5: {NO_H5PY}; pip install h5py\n",
    )


# Its time is what it says: 2 s a call of advance, and 3 s between two.
STAND_IN = """
import time
seconds = 0
time.perf_counter_ns = lambda: 1_000_000_000 * seconds
__version__ = "3.4.1"
get_version_information = lambda: b"3.4.1"
class Participant:
    window = 0
    def __init__(self, name, configuration, rank, size): pass
    def initialize(self): pass
    def advance(self, dt):
        global seconds
        seconds, self.window = seconds + 2, self.window + 1
    def is_time_window_complete(self): return True
    def is_coupling_ongoing(self): return self.window < 5
    def requires_reading_checkpoint(self): return False
    def start_profiling_section(self, name): pass
    def stop_last_profiling_section(self): pass
    def finalize(self): pass
"""
TIMED = """
import precice
from precice_lb_recorder import Participant, __version__
participant = Participant("A", "precice-config.xml", 0, 1)
participant.initialize()
while participant.is_coupling_ongoing():
    participant.start_profiling_section("assemble")
    precice.seconds += 3
    participant.stop_last_profiling_section()
    participant.advance(0.1)
participant.count("cells", 9)
participant.finalize()
import sys
print(__version__, sorted({"precice_lb", "h5py", "scipy"} & {name.partition(".")[0] for name in sys.modules}))
"""


def _with_numpy_alone(directory: Path, *more: str) -> Path:
    python = environment_of(directory / "env", lambda name: name.startswith(("numpy", *more)))
    assert main(["export", "--recorder", "--output", str(directory / "precice_lb_recorder.py")]) == 0
    assert _run(python, directory, "-c", "import scipy").returncode == 1
    return python


def test_one_file_records_with_numpy_alone(tmp_path: Path) -> None:
    python = _with_numpy_alone(tmp_path)
    (tmp_path / "precice-config.xml").write_bytes(configuration("serial-explicit").encode("utf-16"))
    (tmp_path / "precice.py").write_text(STAND_IN)
    (tmp_path / "solver.py").write_text(TIMED)
    result = _run(python, tmp_path, "solver.py", home=tmp_path)
    assert (result.stdout, result.stderr) == ("3.4.1 []\n", "")
    store = only_store(tmp_path)
    assert store.path.name == "A-0-1.spool"
    assert store.advances["window"].tolist() == [1, 2, 3, 4, 5]
    assert store.advances["solve_ns"].tolist() == [3_000_000_000] * 5
    assert store.advances["advance_ns"].tolist() == [2_000_000_000] * 5
    assert store.names("sections") == ("assemble",)
    assert store.rows("sections")["duration_ns"].tolist() == [3_000_000_000] * 5
    assert (store.metadata["finished"], store.metadata["backend"]) == (True, "libprecice")


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("PRECICE_LB_AT_END", "recommend", "run precice-lb recommend on its stores\n"),
        ("PRECICE_LB_AT_END", "summary", "run precice-lb summary on its stores\n"),
        ("PRECICE_LB_GUESS", "auto", ""),
    ],
)
def test_one_file_has_neither_a_result_at_the_end_nor_a_first_guess(
    variable: str, value: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = _with_numpy_alone(tmp_path)
    (tmp_path / "precice-config.xml").write_text(configuration("serial-explicit"))
    (tmp_path / "precice.py").write_text(STAND_IN)
    (tmp_path / "solver.py").write_text(TIMED)
    monkeypatch.setenv(variable, value)

    result = _run(python, tmp_path, "solver.py", home=tmp_path)

    assert result.stdout == "3.4.1 []\n"
    expected = f"PRECICE_LB_AT_END is ignored: this recorder has no commands; {words}" if words else ""
    assert result.stderr.endswith(expected)
    assert (result.stderr == "") == (words == "")
    store = only_store(tmp_path)
    assert store.metadata["finished"] is True
    assert "guess" not in store.metadata
    assert list(tmp_path.rglob("at-end*")) == []


def test_one_file_has_no_embedded_backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = _with_numpy_alone(tmp_path)
    (tmp_path / "precice-config.xml").write_text(configuration("serial-explicit"))
    (tmp_path / "solver.py").write_text("from precice_lb_recorder import Participant\n")
    monkeypatch.setenv("PRECICE_LB_BACKEND", "embedded")

    result = _run(python, tmp_path, "solver.py", home=tmp_path)

    assert result.returncode == 1
    assert "expected the embedded backend or an importable pyprecice, found neither" in result.stderr


@pytest.mark.precice
def test_one_file_records_solvers_on_libprecice(tmp_path: Path) -> None:
    python = _with_numpy_alone(tmp_path, "precice", "cyprecice", "pyprecice", "mpi4py")
    (tmp_path / "precice-config.xml").write_text(configuration("serial-explicit"))
    (tmp_path / "solver.py").write_text(SOLVER.replace("import precice", "import precice_lb_recorder as precice"))
    commands = {names[0]: [str(python), "solver.py", *names] for names in ("AB", "BA")}
    results = finish(start(tmp_path, commands, dict.fromkeys("AB", _environment(PYTHONPATH=str(tmp_path)))))
    assert [(result.returncode, "warning" in result.stderr) for result in results.values()] == [(0, False)] * 2
    assert_whole(tmp_path)
    assert {path.suffix for path in find_stores([tmp_path])} == {".spool"}
