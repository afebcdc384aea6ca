"""How a spool ends: closed by its writer or by others, made HDF5 or kept, under a name that nobody else has."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from store_helpers import PARALLEL, START, metadata, row, rows

from precice_lb.store import StoreWriter, note_stop, read_store
from precice_lb.store.spool import publish


def begun(directory: Path) -> StoreWriter:
    """A writer that has written two windows."""
    writer = StoreWriter(directory, metadata(), PARALLEL)
    writer.append(rows([row(1, 0.1, 0.2, 0.0), row(2, 0.1, 0.2, 0.0)]))
    return writer


def test_a_writer_holds_one_descriptor_until_it_is_closed(tmp_path: Path) -> None:
    writer = begun(tmp_path)
    spool = writer.path
    held = os.listdir("/proc/self/fd")
    writer.close(finished=True, ended_unix_ns=START)
    assert len(os.listdir("/proc/self/fd")) == len(held) - 1
    assert not spool.exists()


def test_a_file_that_has_got_the_number_of_the_closed_descriptor_is_left_alone(tmp_path: Path) -> None:
    writer = begun(tmp_path)
    content = writer.path.read_bytes()
    numbers = [int(entry) for entry in os.listdir("/proc/self/fd") if _is_open_on(entry, writer.path)]
    assert len(numbers) == 1
    os.close(numbers[0])
    other = os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT)
    try:
        if other != numbers[0]:
            os.dup2(other, numbers[0])
        with pytest.raises(OSError, match="the solver has closed the file") as caught:
            writer.close(finished=True, ended_unix_ns=START)
        assert caught.value.errno == errno.EBADF
        assert os.write(numbers[0], b"x") == 1
    finally:
        for number in {other, numbers[0]}:
            os.close(number)
    assert (tmp_path / "other").read_bytes() == b"x"
    assert writer.path.read_bytes() == content


def _is_open_on(entry: str, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(int(entry)), path.stat())
    except OSError:
        return False


@pytest.mark.parametrize("cut", [0, 1])
def test_a_stop_is_noted_behind_the_last_complete_block(cut: int, tmp_path: Path) -> None:
    path = begun(tmp_path).path
    path.write_bytes(path.read_bytes()[: path.stat().st_size - cut])
    note_stop(path, "enough")
    store = read_store(path)
    assert store.metadata["stopped"] == "enough"
    assert store.metadata["finished"] is False
    assert store.metadata["ended_unix_ns"] > START
    assert store.advances["window"].tolist() == [[1, 2], []][cut]
    assert store.configuration == PARALLEL


WRITE = """
import mmap, sys
from precice_lb.store.spool import StoreWriter
from store_helpers import PARALLEL, START, metadata
assert "h5py" not in sys.modules
for library in sys.argv[2:]:
    file = open(library, "rb")
    mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
writer = StoreWriter(sys.argv[1], metadata(), PARALLEL)
writer.close(finished=True, ended_unix_ns=START)
print(writer.path.suffix, writer.lacks_h5py, "h5py" in sys.modules)
"""


@pytest.mark.parametrize(("library", "said"), [("", ".h5 False True"), ("libhdf5.so.103", ".spool False False")])
def test_a_spool_becomes_hdf5_unless_the_solver_has_another_hdf5(library: str, said: str, tmp_path: Path) -> None:
    libraries = []
    if library:
        (tmp_path / library).write_bytes(b"x")
        libraries.append(str(tmp_path / library))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    command = [sys.executable, "-c", WRITE, str(tmp_path / "store"), *libraries]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert (result.stdout.strip(), result.stderr) == (said, "")


def test_without_h5py_the_spool_stays_and_that_is_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = begun(tmp_path)
    monkeypatch.setitem(sys.modules, "h5py", None)
    writer.close(finished=True, ended_unix_ns=START)
    monkeypatch.undo()
    assert writer.lacks_h5py is True
    assert writer.path.suffix == ".spool"
    assert read_store(writer.path).metadata["finished"] is True


def test_with_h5py_it_is_not_why_the_spool_stays(tmp_path: Path) -> None:
    writer = begun(tmp_path)
    draft = writer.path.with_name(f".{writer.path.with_suffix('.h5').name}.{os.getpid()}")
    draft.write_bytes(b"in the way")
    writer.close(finished=True, ended_unix_ns=START)
    assert writer.lacks_h5py is False
    assert writer.path.suffix == ".spool"
    assert read_store(writer.path).metadata["finished"] is True


@pytest.fixture(params=["hard links", "no hard links"])
def links(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that has hard links, and one that has none."""

    def refuse(*paths: Path) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    if request.param == "no hard links":
        monkeypatch.setattr(os, "link", refuse)


@pytest.mark.usefixtures("links")
def test_a_draft_gets_a_free_name(tmp_path: Path) -> None:
    draft, target = tmp_path / "draft", tmp_path / "target"
    draft.write_bytes(b"new")
    assert publish(draft, target) is True
    assert target.read_bytes() == b"new"
    assert not draft.exists()


@pytest.mark.usefixtures("links")
def test_a_draft_stays_where_another_file_has_the_name(tmp_path: Path) -> None:
    draft, target = tmp_path / "draft", tmp_path / "target"
    draft.write_bytes(b"new")
    target.write_bytes(b"old")
    assert publish(draft, target) is False
    assert (draft.read_bytes(), target.read_bytes()) == (b"new", b"old")
