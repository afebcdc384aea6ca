"""Stores that are damaged, or made by a stranger: read, or refused in one line, without following or allocating."""

from __future__ import annotations

import itertools
import json
import re
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from conftest import FULL_COUNTS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pickle_helpers import TouchesWhenLoaded
from report_helpers import refused
from store_helpers import row, write_store

from precice_lb.check import check_runs
from precice_lb.cli import main
from precice_lb.dataset import load_runs
from precice_lb.exceptions import PreciceLBError, StoreError
from precice_lb.export import export_merged, exported_ranks
from precice_lb.report import rendered, summarise, summary_blocks
from precice_lb.store import RecordedMeshes, Tail, read_store, read_stores, recorded_meshes
from precice_lb.store.columns import MESHES

Change = Callable[[Path], None]


def fill(directory: Path, ranks: int = 2, *, spool: bool = False) -> list[Path]:
    """Ranks with rows in every table."""
    mesh = np.zeros(1, MESHES.dtype)
    mesh["dimensions"], mesh["vertices"], mesh["edges"], mesh["coordinates"] = 2, 2, 1, True
    meshes = RecordedMeshes(("M",), mesh, np.arange(4.0), np.array([0, 1], np.int32))
    paths = []
    for rank in range(ranks):
        mesh["rank"] = rank
        path = write_store(
            directory, [row(w, 0.1 + 0.01 * w, 0.05, 0.01) for w in range(1, 7)], "A", rank, ranks, meshes=meshes,
            sections=[("a", 1, 100, 5), ("b", 2, 300, 5)], guesses=[(1, "g", 5e-9, 0.5)], counts={"cells": 7.0},
            mpi=[(1, 5e-9)], cpu=[(1, 5e-9)], run="r", hostname="h", configuration="<x/>", spool=spool,
        )  # fmt: skip
        paths.append(path)
    return paths


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One file of each kind, of which changed copies are made."""
    place = tmp_path_factory.mktemp("valid")
    hdf5, spool = fill(place / "hdf5")[0], fill(place / "spool", spool=True)[0]
    return {"hdf5": hdf5, "spool": spool, "merged": export_merged([place / "hdf5"], place / "merged")[0]}


def refusal(path: Path) -> str:
    """Read all that commands read, with 2 GiB of further memory at most; return the one line of a refusal."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 30), hard))
    try:
        stores = read_stores([path])
        assert stores
        for store in stores:
            recorded_meshes(store)
        exported_ranks([path])
        runs = load_runs([path])
        rendered(summary_blocks(summarise(runs)))
        check_runs(runs)
        tail = Tail(path)
        if not path.name.endswith(".merged.h5"):
            tail.read()
        line = path.name
    except PreciceLBError as error:
        line = str(error)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert re.fullmatch(f".*{re.escape(path.name)}.*", line)
    return line.removeprefix(path.name)


def changed(source: Path, directory: Path, change: Change) -> Path:
    """A changed copy of a file in a directory of its own, beside another user's file."""
    directory.mkdir()
    shutil.copy(source, directory / "secret")
    path = Path(shutil.copy(source, directory))
    change(path)
    return path


def put(name: str, value: Callable[[h5py.Dataset], Any]) -> Change:
    """Put another value in place of a dataset; None for none, a type for an empty group."""

    def change(path: Path) -> None:
        with h5py.File(path, "a") as file:
            value_there = value(file[name])
            del file[name]
            if value_there is h5py.Group:
                file.create_group(name)
            elif isinstance(value_there, dict):
                file.create_dataset(name, **value_there)
            elif value_there is not None:
                file[name] = value_there

    return change


def column(name: str, values: list[int]) -> Change:
    """Set a column of ``advances``."""

    def change(path: Path) -> None:
        with h5py.File(path, "a") as file:
            calls = file["advances"]
            target = (calls[name], ...) if isinstance(calls, h5py.Group) else (calls, name)
            target[0][target[1]] = values

    return change


def numbers(value: float) -> Callable[[h5py.Dataset], Any]:
    """All numbers of a dataset, of a table by column, become this one."""

    def new(old: h5py.Dataset) -> Any:
        values = old[...]
        for part in [values[name] for name in values.dtype.names] if values.dtype.names else [values]:
            if part.dtype.kind in "if":
                part[...] = min(value, np.iinfo(part.dtype).max) if part.dtype.kind == "i" else value
        return values

    return new


def declared(rows: int, **more: Any) -> Callable[[h5py.Dataset], Any]:
    """A dataset that says to be this large, and holds nothing."""

    def new(old: h5py.Dataset) -> Any:
        shape = (rows, 3)[: max(old.ndim, 1)]
        return {"shape": shape, "chunks": tuple(min(n, 8) for n in shape), "dtype": old.dtype, **more}

    return new


DATASETS: dict[str, Callable[[h5py.Dataset], Any]] = {
    "missing": lambda old: None,
    "group": lambda old: h5py.Group,
    "scalar": lambda old: "text" if old.dtype.kind == "O" else np.zeros((), old.dtype),
    "empty": lambda old: 1.5 if old.dtype.kind == "O" else np.empty((0,) * old.ndim, old.dtype),
    "one more dimension": lambda old: np.zeros((2, *old.shape), old.dtype if old.dtype.kind != "O" else "S3"),
    "half": lambda old: old[: len(old) // 2] if old.shape else b"\xff",
    "twice": lambda old: np.concatenate([old[...], old[...]]) if old.shape else b"text",
    "floats": lambda old: np.ones(old.shape),
    "texts": lambda old: np.full(old.shape, b"text"),
    "54 PiB packed": declared(1 << 50, compression="gzip", shuffle=True),
    "2 GiB": declared(1 << 28, dtype="<i8"),
    "negative": numbers(-7),
    "zero": numbers(0),
    "huge": numbers(2**63 - 1),
    "backwards": lambda old: old[...][::-1] if old.shape else None,
}


@pytest.mark.parametrize("kind", ["hdf5", "merged"])
@pytest.mark.parametrize("what", DATASETS)
def test_any_dataset_of_another_shape_or_with_other_numbers_is_read_or_refused(
    what: str, kind: str, valid: dict[str, Path], tmp_path: Path
) -> None:
    names: list[str] = []
    with h5py.File(valid[kind]) as file:
        file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    places = {name: tmp_path / name.replace("/", "_") for name in names}
    # An eighth of them unless counts are full, each with some changes.
    some = names if FULL_COUNTS else names[list(DATASETS).index(what) % 8 :: 8]
    lines = [refusal(changed(valid[kind], places[name], put(name, DATASETS[what]))) for name in some]
    assert any(lines) or what in ("zero", "backwards") or not FULL_COUNTS


@pytest.mark.parametrize("kind", ["hdf5", "merged"])
def test_any_attribute_of_another_value_is_read_or_refused(kind: str, valid: dict[str, Path], tmp_path: Path) -> None:
    """A size of 10^9 once took 8 GB for each quantity, from a file of 20 KB."""
    with h5py.File(valid[kind]) as file:
        names = list(file.attrs)
    values = [-1, 10**9, -(2**62), 2**63 - 1, 1.5, float("nan"), "", "x\x1b\n", b"\xff", [1, 2], np.zeros((3, 3))]
    lines = []
    for name, value in itertools.product(names, values):
        path = changed(valid[kind], tmp_path / str(len(lines)), attributes(**{name: value}))
        lines.append(refusal(path))
    # Neither the format nor its version is among these values.
    assert sum(map(bool, lines)) >= 2 * len(values)


def attributes(**values: Any) -> Change:
    """Set attributes of the file; None for none."""

    def change(path: Path) -> None:
        with h5py.File(path, "a") as file:
            for name, value in values.items():
                del file.attrs[name]
                if value is not None:
                    file.attrs[name] = value

    return change


def external_storage(path: Path) -> None:
    with h5py.File(path, "a") as file:
        dtype = file["advances"].dtype
        del file["advances"]
        file.create_dataset("advances", (4,), dtype, external=[(path.with_name("secret"), 0, 4 * dtype.itemsize)])


def virtual(path: Path) -> None:
    with h5py.File(path, "a") as file:
        old = file["advances"]
        layout = h5py.VirtualLayout(old.shape, old.dtype)
        layout[:] = h5py.VirtualSource(path.with_name("secret"), "advances", old.shape, old.dtype)
        del file["advances"]
        file.create_virtual_dataset("advances", layout)


def link(name: str) -> Change:
    return lambda path: put(name, lambda old: h5py.ExternalLink(path.with_name("secret"), name))(path)


def blocks(path: Path) -> list[np.ndarray]:
    arrays = []
    with path.open("rb") as file:
        while file.peek(1):
            arrays.append(np.load(file))
    return arrays


def write_blocks(path: Path, arrays: list[np.ndarray]) -> None:
    with path.open("wb") as file:
        for array in arrays:
            np.save(file, array)


def head(new: Callable[[dict[str, Any]], bytes]) -> Change:
    """Put another head in place of a spool's."""

    def change(path: Path) -> None:
        first, *others = blocks(path)
        text = new(json.loads(first["head"][0]))
        write_blocks(path, [np.array([(text,)], [("head", f"S{len(text)}")]), *others])

    return change


def told(**values: Any) -> Change:
    """Change metadata of a spool."""
    return head(lambda old: json.dumps(old | {"metadata": old["metadata"] | values}).encode())


REFUSED: list[tuple[str, Change, str]] = [
    ("hdf5 merged", column("window", [1, 2, 2, 3, 4, 5]), "calls in the order they were made"),
    ("hdf5 merged", column("window", [1, 2, 3, 1, 2, 3]), "calls in the order they were made"),
    ("hdf5 merged", column("begin_ns", [-5, 0, 1, 2, 3, 4]), "column begin_ns: expected numbers from 0"),
    (
        "hdf5 merged",
        column("solve_ns", [1, 2, 3, 4, 5, 2**63 - 1]),
        "expected numbers from -9007199254740992 to 9007199254740992, found some from 1 to 9223372036854775807",
    ),
    ("hdf5 merged", column("advance_ns", [1] * 5 + [-(2**62)]), "column advance_ns: expected numbers from -90071992"),
    ("hdf5", external_storage, "in the file itself"),
    ("hdf5", virtual, "in the file itself"),
    ("hdf5 merged", link("advances"), "in the file itself"),
    ("hdf5", link("configuration"), "in the file itself"),
    ("merged", link("configurations"), "in the file itself"),
    ("hdf5", put("advances", lambda old: h5py.SoftLink("/cpu")), "in the file itself"),
    ("spool", told(size=10**9), "metadata size"),
    ("spool", told(threads=10**400), "metadata threads"),
    ("spool", told(degrees_of_freedom={"A": 10**400}), "metadata degrees_of_freedom"),
    ("spool", told(parameters={"a": 10**400}), "metadata parameters"),
    ("spool", told(started_unix_ns=2**63), "metadata started_unix_ns"),
    ("spool", told(participant=["A"]), "metadata participant"),
    ("hdf5", lambda path: path.write_bytes(b"participant,ranks\n"), "found a file that cannot be read as one ("),
    ("hdf5", lambda path: path.write_bytes(b""), "found a file that cannot be read as one ("),
    (
        "hdf5 merged",
        lambda path: path.write_bytes(path.read_bytes()[:1000]),
        "found a file that cannot be read as one (",
    ),
    ("hdf5", attributes(format=None), "expected format 'precice-lb-store' in version 1, found None in version 1"),
    ("hdf5 merged", attributes(format_version=99), "in version 99; read it with the version of precice_lb that wrote"),
    ("spool", head(lambda old: b"[" * 10**5), "expected a store"),
    ("spool", head(lambda old: json.dumps(old | {"configuration": 17}).encode()), "configuration"),
    ("spool", head(lambda old: b"[]"), "expected a store"),
    ("spool", head(lambda old: b'{"format": 1}'), "format"),
]


@pytest.mark.parametrize(
    ("kind", "change", "words"), [(kind, *case) for kinds, *case in REFUSED for kind in kinds.split()]
)
def test_a_hostile_file_is_refused_in_one_line(
    kind: str, change: Change, words: str, valid: dict[str, Path], tmp_path: Path
) -> None:
    path = changed(valid[kind], tmp_path / "store", change)
    line = refusal(path)
    assert line.startswith(str(path))
    assert words in line
    with pytest.raises(StoreError, match=re.escape(path.name)):
        export_merged([path], tmp_path / "again")


@pytest.mark.parametrize("spool", [False, True])
def test_a_symbolic_link_in_a_store_directory_is_refused(spool: bool, tmp_path: Path) -> None:
    (path,) = fill(tmp_path / "other", 1, spool=spool)
    (tmp_path / "store").mkdir()
    link = tmp_path / "store" / path.name
    link.symlink_to(path)
    with pytest.raises(StoreError, match="symbolic link") as caught:
        load_runs([tmp_path / "store"])
    assert str(caught.value).startswith(str(link))
    tail = Tail(link)
    assert len(tail.read()) == 0
    assert "symbolic link" in tail.problem
    # Named by whoever asks, it is meant.
    assert len(load_runs([link])) == 1
    (tmp_path / "here").symlink_to(tmp_path / "other")
    assert len(load_runs([tmp_path / "here"])) == 1


@pytest.mark.parametrize("spool", [False, True])
def test_a_store_with_a_column_more_is_read_by_the_names_of_its_columns(spool: bool, tmp_path: Path) -> None:
    (path,) = fill(tmp_path, 1, spool=spool)
    before = read_store(path)

    def wider(old: np.ndarray) -> np.ndarray:
        rows = np.zeros(old.shape, [("new_ns", "<i8"), *old.dtype.descr[::-1]])
        for column in old.dtype.names:
            rows[column] = old[column]
        return rows

    if spool:
        write_blocks(path, [wider(array) if len(array.dtype.names) > 1 else array for array in blocks(path)])
    else:
        with h5py.File(path, "a") as file:
            for name in ("advances", "initialize", "sections", "mpi"):
                rows = wider(file[name][...])
                del file[name]
                file[name] = rows
    (after,) = read_stores([path])
    assert len(after.advances) == len(Tail(path).read()) == 6
    for name, table in before.tables.items():
        np.testing.assert_array_equal(after.rows(name), table)


HEADERS = [
    b"{'descr': [('window', '<i8')], 'fortran_order': False, 'shape': (9007199254740992,), }",
    b"{'descr': [('window', '<i8')], 'fortran_order': False, 'shape': (-1,), }",
    b"{'descr': [('window', '<i8')], 'fortran_order': False, 'shape': (1, 1), }",
    b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
    b"{'descr': '|V0', 'fortran_order': False, 'shape': (1,), }",
    b"{'descr': [('head', '|S1')], 'fortran_order': False, 'shape': (0,), }",
    b"{'descr': [('window', '<i8')]",
    b"(" * 4000,
    b"\xff\x00",
]


@pytest.mark.parametrize("header", HEADERS, ids=lambda text: repr(text[:70]))
@pytest.mark.parametrize("at", [0, 1])
def test_a_block_with_a_strange_header_is_passed_over_or_refused(header: bytes, at: int, tmp_path: Path) -> None:
    (path,) = fill(tmp_path, 1, spool=True)
    content = path.read_bytes()
    begin = [0, content.index(np.lib.format.magic(1, 0), 1)][at]
    text = header + b"\n"
    strange = np.lib.format.magic(1, 0) + len(text).to_bytes(2, "little") + text + bytes(8)
    path.write_bytes(content[:begin] + strange + content[begin:])
    refusal(path)


@settings(max_examples=300 if FULL_COUNTS else 20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.parametrize("kind", ["hdf5", "spool", "merged"])
def test_random_damage_is_one_line_or_nothing(
    kind: str, data: st.DataObject, valid: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Bytes cut out, overwritten, put in twice: in spools each of them, in HDF5 files where it is about structure."""
    content = valid[kind].read_bytes()
    place = data.draw(st.integers(0, len(content) - 1))
    length = data.draw(st.integers(0, 64))
    put = data.draw(
        st.binary(max_size=64)
        | st.just(content[place : place + length] * 2)
        | st.sampled_from([b"\xff" * 8, b"\0" * 8, b"9" * 30, b"(" * 50, np.lib.format.magic(1, 0)])
    )
    kept = data.draw(st.booleans()) or kind != "spool"
    end = content[place + (len(put) if kept else length) :]
    path = tmp_path_factory.mktemp("damage") / valid[kind].name
    path.write_bytes((content[:place] + put + end)[: len(content) if kept else None])
    refusal(path)


def test_rows_that_an_interrupted_flush_wrote_again_count_once(tmp_path: Path) -> None:
    (path,) = fill(tmp_path, 1, spool=True)
    before = read_store(path)
    arrays = blocks(path)
    at = next(at for at, array in enumerate(arrays) if array.dtype.names == ("advances",))
    write_blocks(path, [*arrays[:at], arrays[at], arrays[at][4:], *arrays[at + 1 :]])
    (after,) = read_stores([path])
    np.testing.assert_array_equal(after.advances, before.advances)
    np.testing.assert_array_equal(Tail(path).read(), before.advances)


def test_times_that_are_all_zero_are_no_division_by_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in "AB":
        write_store(tmp_path, [row(w, 0.0, 0.0, 0.0) for w in range(1, 20)], name)
    assert main(["summary", str(tmp_path)]) == 0
    assert main(["check", str(tmp_path)]) == 0
    capsys.readouterr()
    refused(capsys, "recommend", tmp_path, "--ranks", "4", "--coupling", "parallel")


def test_a_pickled_object_in_a_spool_is_refused_and_never_loaded(tmp_path: Path) -> None:
    (path,) = fill(tmp_path / "stores", 1, spool=True)
    marker = tmp_path / "loaded"
    block = np.array([(TouchesWhenLoaded(marker),)], [("advances", object)])
    with path.open("ab") as file:
        np.save(file, block, allow_pickle=True)

    assert "expected blocks of rows, found one of" in refusal(path)
    assert not marker.exists()
