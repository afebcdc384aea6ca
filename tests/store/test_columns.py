"""Files with one column more, one column less, or columns in another order."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from numpy.lib import recfunctions
from report_helpers import refused
from store_helpers import contents, row, write_store
from test_hostile_stores import blocks, fill, write_blocks

from precice_lb.exceptions import StoreError
from precice_lb.export import export_merged
from precice_lb.rooms import hooks
from precice_lb.store import ADVANCES, TABLES, read_store
from precice_lb.store.columns import INDISPENSABLE, Column
from precice_lb.store.merged import read_merged

hooks("columns")
ROOT = Path(__file__).parents[2]
TABLES_OF_ROWS = [table.name for table in TABLES.values() if table.columns]
COLUMNS = [(table.name, column) for table in TABLES.values() for column in table.columns]
OPTIONAL = [(name, column) for name, column in COLUMNS if column.not_recorded is not INDISPENSABLE]
REQUIRED = [(name, column) for name, column in COLUMNS if column.not_recorded is INDISPENSABLE]


def rewrite_rows(path: Path, table: str, new_rows: np.ndarray) -> None:
    """Put other rows in place of those of a table, in a spool or in an HDF5 file."""
    if path.suffix == ".h5":
        with h5py.File(path, "r+") as file:
            del file[table]
            file.create_dataset(table, data=new_rows, track_times=False)
        return
    arrays = blocks(path)
    for index, array in enumerate(arrays):
        if array.dtype.names == (table,):
            arrays[index] = np.zeros(len(new_rows), [(table, new_rows.dtype)])
            arrays[index][table] = new_rows
    write_blocks(path, arrays)


@pytest.fixture(params=["spool", "hdf5"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """File of one rank with rows in every table."""
    return fill(tmp_path, ranks=1, spool=request.param == "spool")[0]


@pytest.mark.parametrize("table", TABLES_OF_ROWS)
def test_unknown_column_is_ignored(path: Path, table: str) -> None:
    expected = read_store(path).rows(table)
    assert len(expected) > 0
    with_extra_column = recfunctions.append_fields(
        expected, "color", np.arange(len(expected), dtype="<i2"), usemask=False
    )

    rewrite_rows(path, table, with_extra_column)

    np.testing.assert_array_equal(read_store(path).rows(table), expected)


@pytest.mark.parametrize("table", TABLES_OF_ROWS)
def test_columns_are_found_in_any_order(path: Path, table: str) -> None:
    expected = read_store(path).rows(table)
    reversed_columns = list(reversed(expected.dtype.names))
    reordered = np.zeros(len(expected), [(name, expected.dtype[name]) for name in reversed_columns])
    for name in reversed_columns:
        reordered[name] = expected[name]

    rewrite_rows(path, table, reordered)

    np.testing.assert_array_equal(read_store(path).rows(table), expected)


@pytest.mark.parametrize(("table", "column"), OPTIONAL, ids=lambda value: getattr(value, "name", value))
def test_missing_column_is_not_recorded(path: Path, table: str, column: Column) -> None:
    expected = read_store(path).rows(table).copy()
    shorter = recfunctions.drop_fields(expected, column.name, usemask=False)
    expected[column.name] = column.not_recorded

    rewrite_rows(path, table, shorter)

    rows = read_store(path).rows(table)
    for name in expected.dtype.names:
        np.testing.assert_array_equal(rows[name], expected[name])


@pytest.mark.parametrize(("table", "column"), REQUIRED, ids=lambda value: getattr(value, "name", value))
def test_missing_indispensable_column_is_refused(
    path: Path, table: str, column: Column, capsys: pytest.CaptureFixture[str]
) -> None:
    shorter = recfunctions.drop_fields(read_store(path).rows(table), column.name, usemask=False)
    rewrite_rows(path, table, shorter)

    with pytest.raises(StoreError, match=f"expected column {column.name} in /{table}, found "):
        read_store(path).rows(table)

    if table == "advances":
        assert path.name in refused(capsys, "summary", path.parent)


@pytest.fixture
def merged(tmp_path: Path) -> Path:
    """Merged file of two ranks with rows in every table."""
    fill(tmp_path / "ranks", ranks=2)
    return export_merged([tmp_path / "ranks"], tmp_path / "merged")[0]


def test_unknown_columns_of_a_merged_file_are_ignored(merged: Path) -> None:
    expected = [contents(store) for store in read_merged(merged)]
    assert len(expected) == 2
    with h5py.File(merged, "r+") as file:
        # The advances have one dataset per column, the other tables one dataset of rows.
        file["advances"].create_dataset("color", data=file["advances"]["window"][...], fletcher32=True)
        for table in ("initialize", "cpu", "meshes"):
            rows = file[table][...]
            with_extra_column = recfunctions.append_fields(
                rows, "color", np.arange(len(rows), dtype="<i2"), usemask=False
            )
            del file[table]
            file.create_dataset(table, data=with_extra_column, fletcher32=True, chunks=True)

    assert [contents(store) for store in read_merged(merged)] == expected


def test_missing_columns_of_a_merged_file_are_not_recorded(merged: Path) -> None:
    with h5py.File(merged, "r+") as file:
        del file["advances"]["mapping_ns"]
        rows = recfunctions.drop_fields(file["initialize"][...], "wait_ns", usemask=False)
        del file["initialize"]
        file.create_dataset("initialize", data=rows, fletcher32=True, chunks=True)

    stores = read_merged(merged)
    assert len(stores) == 2
    for store in stores:
        assert store.advances["mapping_ns"].tolist() == [-1] * 6
        assert store.advances["window"].tolist() == [1, 2, 3, 4, 5, 6]
        assert store.initialize["wait_ns"].tolist() == [-1]
        assert store.initialize["initialize_ns"].tolist() == [1000]


def test_merged_file_without_an_indispensable_column_is_refused(merged: Path) -> None:
    with h5py.File(merged, "r+") as file:
        del file["advances"]["solve_ns"]

    with pytest.raises(StoreError, match="expected column solve_ns in /advances"):
        [store.advances for store in read_merged(merged)]


def test_unknown_table_is_ignored(path: Path) -> None:
    expected = read_store(path).advances
    assert expected["window"].tolist() == [1, 2, 3, 4, 5, 6]
    if path.suffix == ".h5":
        with h5py.File(path, "r+") as file:
            file.create_dataset("colors", data=np.arange(3))
    else:
        arrays = blocks(path)
        write_blocks(path, [arrays[0], np.zeros(3, [("colors", "<i8")]), *arrays[1:]])

    np.testing.assert_array_equal(read_store(path).advances, expected)


def test_spool_with_further_columns_is_read_up_to_its_last_complete_block(tmp_path: Path) -> None:
    path = fill(tmp_path, ranks=1, spool=True)[0]
    expected = read_store(path).advances
    with_extra_column = recfunctions.append_fields(
        expected, "color", np.arange(len(expected), dtype="<i2"), usemask=False
    )
    flushes = []
    for rows in (with_extra_column[:3], with_extra_column[3:]):
        block = np.zeros(3, [("advances", rows.dtype)])
        block["advances"] = rows
        flushes.append(block)
    others = [array for array in blocks(path)[:-1] if array.dtype.names != ("advances",)]
    write_blocks(path, [*others, flushes[0]])
    end_of_first_flush = path.stat().st_size
    write_blocks(path, [*others, *flushes])
    whole_spool = path.read_bytes()

    for size in range(end_of_first_flush, len(whole_spool)):
        path.write_bytes(whole_spool[:size])
        np.testing.assert_array_equal(read_store(path).advances, expected[:3])

    path.write_bytes(whole_spool)
    np.testing.assert_array_equal(read_store(path).advances, expected)


def test_rows_without_a_column_are_written_as_not_recorded(tmp_path: Path) -> None:
    rows = np.array([row(1, 0.1, 0.05, 0.01)], ADVANCES.dtype)

    completed = ADVANCES.completed(recfunctions.drop_fields(rows, "wait_ns", usemask=False))

    assert completed["wait_ns"].tolist() == [-1]
    assert completed["solve_ns"].tolist() == [100_000_000]


@pytest.mark.parametrize(("dtype", "value"), [("<i8", float("nan")), ("<i4", 0.5), ("?", 2)])
def test_value_for_not_recorded_must_fit_the_column(dtype: str, value: float) -> None:
    with pytest.raises(ValueError, match="column color: expected a value for 'not recorded'"):
        Column("color", dtype, "1", "a color", value)


RECORD_AND_READ = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from store_helpers import contents, row, write_store
from precice_lb.store import read_store
path = write_store(Path(sys.argv[1]), [row(1, 0.1, 0.05, 0.01)])
print(*read_store(path).initialize["cpu_ns"], *read_store(Path(sys.argv[3])).initialize["cpu_ns"])
"""


def test_difference_in_the_how_to_page_adds_a_column(tmp_path: Path) -> None:
    """Applying the page's difference to a copy of the package adds the column."""
    file_without_column = write_store(tmp_path / "other", [row(1, 0.1, 0.05, 0.01)])
    shutil.copytree(ROOT / "precice_lb", tmp_path / "precice_lb", ignore=shutil.ignore_patterns("__pycache__"))
    page = (ROOT / "docs" / "how-to" / "extend.md").read_text(encoding="utf-8")
    section = page.partition("\n## A column\n")[2].partition("\n## ")[0]
    difference = section.partition("```diff\n")[2].partition("```")[0]
    assert "NOT_MEASURED" in difference

    subprocess.run(["patch", "-p1", "--fuzz=0"], input=difference, text=True, cwd=tmp_path, check=True)
    command = [
        sys.executable,
        "-c",
        RECORD_AND_READ,
        str(tmp_path / "new"),
        str(ROOT / "tests"),
        str(file_without_column),
    ]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)

    # -1 in the new file: nothing measures it yet. -1 in the other file: it has no such column.
    assert (result.stdout, result.stderr) == ("-1 -1\n", "")
