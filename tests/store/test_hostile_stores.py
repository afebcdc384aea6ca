"""Stores that are damaged, or made by a stranger: read, or refused in one line, without following or allocating."""

from __future__ import annotations

import functools
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
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from report_helpers import refused
from store_helpers import row, write_store

from precice_lb.check import check_runs
from precice_lb.cli import main
from precice_lb.dataset import load_runs
from precice_lb.exceptions import PreciceLBError, StoreError
from precice_lb.export import export_merged, exported_ranks
from precice_lb.report.render import rendered
from precice_lb.report.summary import summarise
from precice_lb.report.summary_view import summary_blocks
from precice_lb.store.columns import MESHES, RecordedMeshes, recorded_meshes
from precice_lb.store.rank_file import Tail
from precice_lb.store.reader import read_store, read_stores

HUGE = 2**62


def fill(directory: Path, ranks: int = 2, *, spool: bool = False) -> list[Path]:
    """Ranks with rows in every table."""
    paths = []
    for rank in range(ranks):
        mesh = np.zeros(1, MESHES.dtype)
        mesh["rank"], mesh["dimensions"], mesh["vertices"], mesh["edges"], mesh["coordinates"] = rank, 2, 2, 1, True
        calls = [row(w, 0.1 + 0.01 * w, 0.05, 0.01) for w in range(1, 7)]
        more = {"run": "r", "hostname": "h", "configuration": "<x/>", "spool": spool}
        path = write_store(
            directory, calls, "A", rank, ranks, sections=[("a", 1, 100, 5), ("b", 2, 300, 5)],
            guesses=[(1, "g", 5e-9, 0.5)], counts={"cells": 7.0}, mpi=[(1, 5e-9)], cpu=[(1, 5e-9)],
            meshes=RecordedMeshes(("M",), mesh, np.arange(4.0), np.array([0, 1], np.int32)), **more,
        )  # fmt: skip
        paths.append(path)
    return paths


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One file of each kind, of which mutations are made."""
    place = tmp_path_factory.mktemp("valid")
    hdf5, spool = fill(place / "hdf5")[0], fill(place / "spool", spool=True)[0]
    return {"hdf5": hdf5, "spool": spool, "merged": export_merged([place / "hdf5"], place / "merged")[0]}


def everything(path: Path) -> None:
    """Read all that commands read, with 2 GiB of further memory at most."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 30), hard))
    try:
        for store in read_stores([path]):
            recorded_meshes(store)
        exported_ranks([path])
        runs = load_runs([path])
        rendered(summary_blocks(summarise(runs)))
        check_runs(runs)
        tail = Tail(path)
        if not path.name.endswith(".merged.h5"):
            tail.read()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def refusal(path: Path) -> str:
    """Read a file, or return the one line that refuses it, which names the file."""
    message = path.name
    try:
        everything(path)
    except PreciceLBError as error:
        message = str(error)
    assert re.fullmatch(f".*{re.escape(path.name)}.*", message)
    return message.removeprefix(path.name)


def copied(source: Path, directory: Path, change: Callable[[h5py.File], object]) -> Path:
    """A changed copy of an HDF5 file in a directory of its own."""
    directory.mkdir()
    path = Path(shutil.copy(source, directory))
    with h5py.File(path, "a") as file:
        change(file)
    return path


def datasets(path: Path) -> list[str]:
    found: list[str] = []
    with h5py.File(path) as file:
        file.visititems(lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) else None)
    return found


Change = Callable[[h5py.File, str], None]


def replaced(value: Callable[[h5py.Dataset], Any]) -> Change:
    """Put another value in place of a dataset; None for none, a type for an empty group."""

    def change(file: h5py.File, name: str) -> None:
        changed = value(file[name])
        del file[name]
        if changed is h5py.Group:
            file.create_group(name)
        elif changed is not None:
            file[name] = changed

    return change


def declared(rows: int, **more: Any) -> Change:
    """Put a dataset in place of another that says to be this large, and holds nothing."""

    def change(file: h5py.File, name: str) -> None:
        shape = (rows, 3)[: max(file[name].ndim, 1)]
        options = {"dtype": file[name].dtype, **more}
        del file[name]
        file.create_dataset(name, shape, chunks=tuple(min(n, 8) for n in shape), **options)

    return change


def numbers(value: float) -> Change:
    """Set all numbers of a dataset, of a table by column."""

    def change(file: h5py.File, name: str) -> None:
        values = file[name][...]
        for part in [values[column] for column in values.dtype.names] if values.dtype.names else [values]:
            if part.dtype.kind in "if":
                part[...] = min(value, np.iinfo(part.dtype).max) if part.dtype.kind == "i" else value
        file[name][...] = values

    return change


def made(values: Callable[[h5py.Dataset], Any], text: Any) -> Change:
    """Put other values in place of those of a dataset, or of a text."""
    return replaced(lambda old: text if old.dtype.kind == "O" else values(old))


SHAPES: dict[str, Change] = {
    "missing": replaced(lambda old: None),
    "group": replaced(lambda old: h5py.Group),
    "scalar": made(lambda old: np.zeros((), old.dtype), "text"),
    "empty": made(lambda old: np.empty((0,) * old.ndim, old.dtype), 1.5),
    "one more dimension": replaced(lambda old: np.zeros((2, *old.shape), old.dtype if old.dtype.kind != "O" else "S3")),
    "half": replaced(lambda old: old[: len(old) // 2] if old.shape else b"\xff"),
    "twice": replaced(lambda old: np.concatenate([old[...], old[...]]) if old.shape else b"text"),
    "floats": replaced(lambda old: np.ones(old.shape)),
    "texts": replaced(lambda old: np.full(old.shape, b"text")),
    "54 PiB": declared(1 << 50),
    "54 PiB packed": declared(1 << 50, compression="gzip", shuffle=True),
    "2 GiB": declared(1 << 28, dtype="<i8"),
}
NUMBERS: dict[str, Change] = {
    **{name: numbers(value) for name, value in (("negative", -7), ("zero", 0), ("one", 1), ("large", 2**52))},
    "huge": numbers(2**63 - 1),
    "backwards": replaced(lambda old: old[...][::-1]),
}


@pytest.mark.parametrize("kind", ["hdf5", "merged"])
@pytest.mark.parametrize("what", [*SHAPES, *NUMBERS])
def test_every_dataset_of_another_shape_or_with_other_numbers_is_read_or_refused(
    what: str, kind: str, valid: dict[str, Path], tmp_path: Path
) -> None:
    refused = 0
    for name in datasets(valid[kind]):
        with h5py.File(valid[kind]) as file:
            if what in NUMBERS and (not file[name].shape or file[name].dtype.kind == "O"):
                continue
        change = functools.partial((SHAPES | NUMBERS)[what], name=name)
        refused += bool(refusal(copied(valid[kind], tmp_path / name.replace("/", "_"), change)))
    assert refused or what in ("zero", "one", "backwards")


VALUES = [-1, 0, 10**9, HUGE, -HUGE, 2**63 - 1, 1.5, float("nan"), "", "x\x1b\n", b"\xff", [1, 2], np.zeros((3, 3))]


@pytest.mark.parametrize("kind", ["hdf5", "merged"])
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_every_attribute_of_another_value_is_read_or_refused(
    value: Any, kind: str, valid: dict[str, Path], tmp_path: Path
) -> None:
    """A size of 10^9 once took 8 GB for each quantity, from a file of 20 KB."""
    with h5py.File(valid[kind]) as file:
        names = list(file.attrs)
    for name in names:
        refusal(copied(valid[kind], tmp_path / name, lambda file, name=name: file.attrs.update({name: value})))


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("window", [1, 2, 2, 3], "calls in the order they were made"),
        ("window", [1, 2, 1, 2], "calls in the order they were made"),
        ("begin_ns", [-5, 0, 1, 2], "column begin_ns: expected numbers from 0"),
        (
            "solve_ns",
            [1, 2, 3, 2**63 - 1],
            "expected numbers from -9007199254740992 to 9007199254740992, found some from 1 to 9223372036854775807",
        ),
        ("advance_ns", [1, 2, 3, -(2**62)], "column advance_ns: expected numbers from -9007199254740992"),
    ],
)
def test_numbers_that_no_run_has_are_refused(column: str, value: list[int], words: str, tmp_path: Path) -> None:
    path = write_store(tmp_path, [row(w, 0.1, 0.2, 0.0) for w in range(1, 5)])
    (merged,) = export_merged([tmp_path], tmp_path / "merged")
    with h5py.File(path, "a") as file:
        table = file["advances"][...]
        table[column] = value
        file["advances"][...] = table
    with h5py.File(merged, "a") as file:
        replaced(lambda old: np.array([value]))(file["advances"], column)
    assert words in refusal(path)
    assert words in refusal(merged)


def test_times_that_are_all_zero_are_no_division_by_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in "AB":
        write_store(tmp_path, [row(w, 0.0, 0.0, 0.0) for w in range(1, 20)], name)
    assert main(["summary", str(tmp_path)]) == 0
    assert main(["check", str(tmp_path)]) in (0, 1)
    capsys.readouterr()
    refused(capsys, "recommend", tmp_path, "--ranks", "4", "--coupling", "parallel")


# A store is read, never followed out of itself.

SECRET = b"another user's file, which is none of a store's" + bytes(2000)


def external_storage(file: h5py.File, secret: Path) -> None:
    dtype = file["advances"].dtype
    del file["advances"]
    file.create_dataset("advances", (4,), dtype, external=[(str(secret), 0, 4 * dtype.itemsize)])


def virtual(file: h5py.File, secret: Path) -> None:
    old = file["advances"]
    layout = h5py.VirtualLayout(old.shape, old.dtype)
    layout[:] = h5py.VirtualSource(str(secret.with_suffix(".h5")), "advances", old.shape, old.dtype)
    del file["advances"]
    file.create_virtual_dataset("advances", layout)


def link(name: str, to: str = "") -> Callable[[h5py.File, Path], None]:
    """Put a link in place of a dataset: to the secret, or to another dataset of the file."""

    def change(file: h5py.File, secret: Path) -> None:
        del file[name]
        file[name] = h5py.SoftLink(to) if to else h5py.ExternalLink(str(secret.with_suffix(".h5")), name)

    return change


ELSEWHERE: dict[str, tuple[bool, Callable[[h5py.File, Path], None]]] = {
    "external storage": (False, external_storage),
    "virtual": (False, virtual),
    "external link": (False, link("advances")),
    "external text": (False, link("configuration")),
    "soft link": (False, link("advances", "/cpu")),
    "external link of a merged file": (True, link("advances")),
    "external text of a merged file": (True, link("configurations")),
}


@pytest.mark.parametrize("what", ELSEWHERE)
def test_nothing_is_read_from_outside_of_a_file(what: str, valid: dict[str, Path], tmp_path: Path) -> None:
    is_merged, change = ELSEWHERE[what]
    source, secret = valid["merged" if is_merged else "hdf5"], tmp_path / "secret"
    secret.write_bytes(SECRET)
    shutil.copy(source, secret.with_suffix(".h5"))
    path = copied(source, tmp_path / "store", lambda file: change(file, secret))
    message = refusal(path)
    assert message.startswith(str(path))
    assert "in the file itself" in message
    with pytest.raises(StoreError):
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


# Spools.


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


def with_head(path: Path, text: bytes) -> None:
    """Put another head in place of a spool's."""
    write_blocks(path, [np.array([(text,)], [("head", f"S{len(text)}")]), *blocks(path)[1:]])


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
    b"{'descr': [('window', '<i8')], 'fortran_order': False, 'shape': (), }",
    b"{'descr': [('window', '<i8')], 'fortran_order': False, 'shape': (9007199254740992,), }",
    b"{'descr': [('window', '<i8')], 'fortran_order': False, 'shape': (-1,), }",
    b"{'descr': [('window', '<i8')], 'fortran_order': False, 'shape': (1, 1), }",
    b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
    b"{'descr': '|V0', 'fortran_order': False, 'shape': (1,), }",
    b"{'descr': [('head', '<i8')], 'fortran_order': False, 'shape': (1,), }",
    b"{'descr': [('head', '|S1')], 'fortran_order': False, 'shape': (0,), }",
    b"{'descr': [('advances', '|S1')], 'fortran_order': False, 'shape': (1,), ",
    b"{'descr': [('window', '<i8')]",
    b"(" * 4000,
    b"1" * 4000,
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


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("size", 10**9),
        ("rank", 1),
        ("threads", 10**400),
        ("degrees_of_freedom", {"A": 10**400}),
        ("parameters", {"a": 10**400}),
        ("started_clock_ns", -(2**70)),
        ("started_unix_ns", 2**63),
        ("warmup_windows", 2**70),
        ("participant", ["A"]),
    ],
)
def test_metadata_of_a_spool_that_no_run_has_are_refused(key: str, value: Any, tmp_path: Path) -> None:
    (path,) = fill(tmp_path, 1, spool=True)
    values = json.loads(blocks(path)[0]["head"][0])
    values["metadata"][key] = value
    with_head(path, json.dumps(values).encode())
    assert f"metadata {key}" in refusal(path)


def test_deep_metadata_and_a_configuration_that_is_no_text_are_refused(tmp_path: Path) -> None:
    (path,) = fill(tmp_path, 1, spool=True)
    head = blocks(path)[0]["head"][0]
    for text in (b"[" * 10**5, head.replace(b'"<x/>"', b"17"), b"[]", b'{"format": 1}'):
        with_head(path, text)
        assert refusal(path)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
    at = next(at for at, array in enumerate(arrays) if "solve_ns" in array.dtype.names)
    write_blocks(path, [*arrays[:at], arrays[at], arrays[at][4:], *arrays[at + 1 :]])
    (after,) = read_stores([path])
    np.testing.assert_array_equal(after.advances, before.advances)
    np.testing.assert_array_equal(Tail(path).read(), before.advances)
