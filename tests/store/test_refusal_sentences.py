"""What is wrong with a file is said in a sentence: what was expected, what was found, and what to do."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from store_helpers import metadata, row, rows
from test_hostile_stores import Change, attributes, changed, column, fill, head, put, told, valid

from precice_lb.exceptions import StoreError
from precice_lb.store import ADVANCES, TABLES, RankFile, Tail, read_store, read_stores
from precice_lb.store.columns import Column, register
from precice_lb.store.merged import merged_image
from precice_lb.store.records import in_order
from precice_lb.store.schema import decode, validate

# A fixture, of one file of each kind.
__all__ = ["valid"]

REMEDY = "; leave the file out, or copy it anew where it was damaged"


def field(name: str, table: str, value: Any) -> Change:
    """Set a column of a table of rows."""

    def change(path: Path) -> None:
        with h5py.File(path, "a") as file:
            table_rows = file[table][...]
            table_rows[name] = value
            file[table][...] = table_rows

    return change


def text(name: str, position: int, value: str) -> Change:
    """Put another text into a dataset of texts."""

    def change(path: Path) -> None:
        with h5py.File(path, "a") as file:
            file[name][position] = value

    return change


def only_columns(*names: str) -> Callable[[h5py.Dataset], Any]:
    """Rows with these columns only."""
    return lambda old: np.zeros(len(old), [(name, old.dtype[name]) for name in names])


def another_block(block: np.ndarray) -> Change:
    """Append a block to a spool."""

    def change(path: Path) -> None:
        with path.open("ab") as file:
            np.save(file, block)

    return change


def headless(path: Path) -> None:
    """Leave the first block of a spool out."""
    content = path.read_bytes()
    path.write_bytes(content[content.index(np.lib.format.magic(1, 0), 1) :])


SENTENCES: list[tuple[str, Change, str]] = [
    ("spool", told(rank=2), "metadata rank: expected one below the size 2, found 2"),
    ("hdf5", attributes(rank=2), "metadata rank: expected one below the size 2, found 2"),
    ("spool", told(rank=-1), "metadata rank: expected at least 0, found -1"),
    ("spool", told(attempt=0), "metadata attempt: expected at least 1, found 0"),
    ("spool", told(size=0), "metadata size: expected from 1 to 1048576, found 0"),
    ("spool", told(size=1048577), "metadata size: expected from 1 to 1048576, found 1048577"),
    ("hdf5", attributes(case=None), "metadata case: expected a value, found none"),
    ("hdf5", attributes(case=None, clock=None), "metadata case, clock: expected a value, found none"),
    ("hdf5", attributes(rank=[0, 1]), "attribute rank: expected one value, found an array"),
    ("hdf5", put("advances", lambda old: None), "expected /advances, found none"),
    ("merged", put("advances", lambda old: None), "expected /advances, found none"),
    ("hdf5", put("initialize", lambda old: None), "expected /initialize, found none"),
    ("hdf5", put("configuration", lambda old: 1.5), "expected texts in /configuration, found float64"),
    ("merged", put("configurations", lambda old: [1.5]), "expected texts in /configurations, found float64"),
    (
        "hdf5",
        put("configuration", lambda old: [b"<x/>"]),
        "expected /configuration to have 0 dimensions, found shape (1,)",
    ),
    ("hdf5", put("advances", lambda old: h5py.Group), "expected /advances to be a dataset, found a group"),
    ("merged", put("advances", lambda old: np.zeros(3)), "expected /advances to be a group, found a dataset"),
    (
        "hdf5",
        put("initialize", lambda old: h5py.SoftLink("/mpi")),
        "expected /initialize in the file itself, found a link to elsewhere",
    ),
    (
        "hdf5",
        put("advances", only_columns("window", "begin_ns")),
        "expected column iteration in /advances, found window, begin_ns",
    ),
    (
        "hdf5",
        put("advances", lambda old: np.zeros(len(old))),
        "expected column window in /advances, found no columns",
    ),
    ("merged", put("advances", lambda old: h5py.Group), "expected column window in /advances, found no columns"),
    (
        "hdf5",
        put("mpi", lambda old: np.zeros(len(old), [("window", "<f8"), ("mpi_ns", "<i8")])),
        "expected column window in /mpi of type int64, found float64",
    ),
    (
        "hdf5",
        put("coordinates", lambda old: np.zeros(4, "<i8")),
        "expected values in /coordinates of type float64, found int64",
    ),
    ("merged", field("rank", "ranks", [1, 0]), "expected every rank once, rising, found others in /ranks"),
    ("merged", field("rank", "ranks", [0, 0]), "expected every rank once, rising, found others in /ranks"),
    ("merged", field("rank", "ranks", [0, 2]), "expected metadata and the configuration of rank 2, found others"),
    (
        "merged",
        field("configuration", "ranks", [0, 1]),
        "expected metadata and the configuration of rank 1, found others",
    ),
    (
        "merged",
        field("configuration", "ranks", [-1, 0]),
        "expected metadata and the configuration of rank 0, found others",
    ),
    (
        "merged",
        put("metadata", lambda old: old[:1]),
        "expected metadata and a row of /initialize of each of the 2 ranks",
    ),
    (
        "merged",
        put("initialize", lambda old: old[:1]),
        "expected metadata and a row of /initialize of each of the 2 ranks",
    ),
    ("merged", field("sections", "ranks", [2, 3]), "expected the rows of a rank in /sections, found 2 to 5 of 4"),
    (
        "hdf5",
        column("window", [1, 2, 3, 4, 5, -1]),
        "column window: expected numbers from 0 to 9007199254740992, found some from -1 to 5",
    ),
    (
        "hdf5",
        column("window", [1, 2, 3, 5, 4, 6]),
        "expected calls in the order they were made, each window once, found window 4, iteration 1 after window 5, "
        "iteration 1",
    ),
    ("hdf5", field("count", "counts", -1.0), "column count: expected finite numbers from 0, found others"),
    ("hdf5", field("count", "counts", np.inf), "column count: expected finite numbers from 0, found others"),
    ("spool", headless, "expected a spool with a head, found none; its process ended before it was written"),
    (
        "spool",
        head(lambda old: json.dumps(old | {"configuration": 17}).encode()),
        "expected the text of a configuration, found 17",
    ),
    (
        "spool",
        another_block(np.zeros(2, [("advances", ADVANCES.dtype, (3,))])),
        "expected one value in each row of advances, found an array of shape (3,)",
    ),
    (
        "spool",
        another_block(np.zeros(1, [("mpi", "<i8"), ("cpu", "<i8")])),
        "expected blocks with one field, called as their table, found one with [('mpi', '<i8'), ('cpu', '<i8')]",
    ),
    (
        "spool",
        another_block(np.zeros((1, 2), [("mpi", "<i8")])),
        "expected blocks of rows, found one of [('mpi', '<i8')] with shape (1, 2)",
    ),
]


@pytest.mark.parametrize(("kind", "change", "sentence"), SENTENCES)
def test_what_is_wrong_with_a_file_is_said_once_with_its_name_and_a_remedy(
    kind: str, change: Change, sentence: str, valid: dict[str, Path], tmp_path: Path
) -> None:
    path = changed(valid[kind], tmp_path / "store", change)
    with pytest.raises(StoreError) as caught:
        [store.loaded() for store in read_stores([path])]
    assert str(caught.value) == f"{path}: {sentence}{REMEDY}"


def test_columns_of_a_merged_file_that_are_too_short_are_refused(valid: dict[str, Path], tmp_path: Path) -> None:
    path = changed(valid["merged"], tmp_path / "store", field("rows", "ranks", [6, 7]))
    with pytest.raises(StoreError, match=r"expected columns of 2 ranks with 7 rows in /advances, found \{'window': "):
        read_stores([path])


def test_a_merged_file_with_a_negative_number_of_rows_is_refused(valid: dict[str, Path], tmp_path: Path) -> None:
    path = changed(valid["merged"], tmp_path / "store", field("rows", "ranks", [6, -1]))
    with pytest.raises(StoreError, match=r"expected columns of 2 ranks with 6 rows in /advances, found \{'window': "):
        read_stores([path])


def test_an_object_among_the_metadata_that_is_no_json_is_refused() -> None:
    with pytest.raises(StoreError) as caught:
        decode("parameters", "{1")
    assert str(caught.value) == "metadata parameters: expected a JSON object, found '{1'"


def test_a_table_that_is_read_later_is_refused_with_one_name_of_the_file(
    valid: dict[str, Path], tmp_path: Path
) -> None:
    path = changed(valid["hdf5"], tmp_path / "store", column("window", [2, 1, 3, 4, 5, 6]))
    tail = Tail(path)
    assert len(tail.read()) == 0
    assert tail.problem == (
        f"{path}: expected calls in the order they were made, each window once, found window 1, iteration 1 after "
        f"window 2, iteration 1{REMEDY}"
    )


@pytest.mark.parametrize("spool", [False, True])
def test_a_link_is_refused_in_a_sentence_that_names_it_once(spool: bool, tmp_path: Path) -> None:
    (target,) = fill(tmp_path / "other", 1, spool=spool)
    (tmp_path / "store").mkdir()
    link = tmp_path / "store" / target.name
    link.symlink_to(target)
    with pytest.raises(StoreError) as caught:
        read_store(link)
    assert str(caught.value) == (
        f"{link}: expected a store in its own place, found a symbolic link to {target}; name that file itself"
    )


def test_the_largest_number_that_a_float_holds_is_taken_and_no_larger_one() -> None:
    largest = sys.float_info.max
    for key in ("degrees_of_freedom", "parameters"):
        assert validate({key: {"A": largest}}) == {key: {"A": largest}}
        with pytest.raises(StoreError, match=f"metadata {key}: expected "):
            validate({key: {"A": 2 * int(largest)}})
    assert validate({"parameters": {"x": -largest}}) == {"parameters": {"x": -largest}}


def test_the_last_rank_is_one_below_the_size() -> None:
    values = metadata(rank=3, size=4, attempt=1, finished=True)
    assert validate(values, complete=True) == values


def test_a_rank_without_indispensable_metadata_is_not_merged() -> None:
    data = metadata(attempt=1, finished=True)
    del data["case"]
    store = RankFile(Path("A-0-1.h5"), data, "<x/>", {"advances": rows([row(1, 0.1, 0.1, 0.0)])})
    with pytest.raises(StoreError, match=r"^metadata case: expected a value, found none$"):
        merged_image([store])


@pytest.fixture
def tables() -> Iterator[dict[str, Any]]:
    """The registered tables, from which those that a test adds go away."""
    before = dict(TABLES)
    yield TABLES
    TABLES.clear()
    TABLES.update(before)


@pytest.mark.parametrize(("name", "names", "taken"), [("cpu", "", "cpu"), ("colors", "mesh_names", "mesh_names")])
def test_a_name_of_a_table_is_given_once(tables: dict[str, Any], name: str, names: str, taken: str) -> None:
    count = len(tables)
    with pytest.raises(ValueError, match="this name is already taken") as caught:
        register(name, Column("name", "<i4", "1", "a color", None), names=names)
    assert str(caught.value) == f"table {taken}: this name is already taken; choose another name"
    assert len(tables) == count


def test_a_table_is_registered_with_the_table_of_its_names(tables: dict[str, Any]) -> None:
    colors = register("colors", Column("name", "<i4", "1", "a color", None), names="color_names")
    assert tables["colors"] is colors
    assert tables["color_names"].dtype == np.dtype("S128")
    register("shades", kind="<f8")
    register("tones", kind="<f8")
    assert "" not in tables


def calls(*these: tuple[int, int, bool]) -> np.ndarray:
    """Rows by window, iteration and whether the window was complete."""
    return rows(row(window, 0.1, 0.1, 0.0, iteration=number, complete=whole) for window, number, whole in these)


def test_iterations_of_a_window_follow_each_other_until_it_is_complete() -> None:
    given = calls((1, 1, True), (2, 1, False), (2, 2, True), (3, 1, False), (3, 1, False), (3, 2, True))
    given["begin_ns"] = np.arange(6)
    assert in_order(given).tolist() == given.tolist()


@pytest.mark.parametrize(
    ("these", "found"),
    [
        ([(1, 1, False), (1, 2, True), (1, 3, True)], "window 1, iteration 3 after window 1, iteration 2"),
        ([(1, 1, False), (1, 3, False), (1, 2, True)], "window 1, iteration 2 after window 1, iteration 3"),
        ([(2, 1, True), (1, 1, True)], "window 1, iteration 1 after window 2, iteration 1"),
    ],
)
def test_calls_in_no_order_are_refused(these: list[tuple[int, int, bool]], found: str) -> None:
    with pytest.raises(StoreError) as caught:
        in_order(calls(*these))
    assert str(caught.value) == f"expected calls in the order they were made, each window once, found {found}"
