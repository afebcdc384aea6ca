"""Tables of counts and seconds: read as they stand, and refused with one line where they do not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from precice_lb.exceptions import DataError
from precice_lb.inside.loads import loads_of_tables, read_counts, read_seconds

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


def test_one_run_needs_no_name_and_rows_no_order(tmp_path: Path) -> None:
    counts = _file(tmp_path, "c.csv", "Count;Feature;Rank\n2;cells;1\n1;cells;0\n")
    seconds = _file(tmp_path, "s.csv", "seconds;rank\n4;1\n3;0\n")
    (load,) = loads_of_tables(read_counts(counts), read_seconds(seconds))
    assert (load.run, load.counts.tolist(), load.seconds.tolist()) == ("", [[1], [2]], [3, 4])
    assert np.issubdtype(load.counts.dtype, np.float64)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rank,count\n0,1\n", "line 1: expected the columns rank, feature, count, found rank, count; missing feature"),
        ("", "expected a header with the columns rank, feature, count, found an empty file"),
        (COUNTS.replace("10", "ten"), "line 2: expected a number of at least 0 in column count, found 'ten'"),
        (COUNTS.replace("10", "-1"), "line 2: expected a number of at least 0 in column count, found '-1'"),
        (COUNTS.replace("10", "nan"), "line 2: expected a number of at least 0 in column count, found 'nan'"),
        (COUNTS.replace("a,1,porous", "a,1.5,porous"), "line 4: expected a rank, .* found '1.5'"),
        (COUNTS.replace("a,1,porous", "a,1,"), "line 4: expected the name of a feature in column feature"),
        (COUNTS.replace("a,1,porous", "a,1,cells"), "line 4: expected each feature of a rank once in run 'a'"),
        (COUNTS.replace("b,0", "b,1"), "run 'b': expected ranks from 0 to 1, found none with number 0"),
    ],
)
def test_counts_that_cannot_be(tmp_path: Path, text: str, message: str) -> None:
    path = _file(tmp_path, "c.csv", text)
    with pytest.raises(DataError, match=message) as refused:
        read_counts(path)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("run,rank,time\na,0,1\n", "expected the columns rank, seconds, found run, rank, time; missing seconds"),
        (SECONDS.replace("1.5", "-2"), "line 2: expected seconds of at least 0 in column seconds, found '-2'"),
        (SECONDS.replace("1.5", ""), "line 2: expected seconds of at least 0 in column seconds, found ''"),
        (SECONDS + "a,1,2\n", "line 5: expected each rank once in run 'a', found this one again"),
        (SECONDS.replace("a,1", "a,2"), "run 'a': expected ranks from 0 to 2, found none with number 1"),
    ],
)
def test_seconds_that_cannot_be(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_seconds(_file(tmp_path, "s.csv", text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SECONDS.replace("b,0,3\n", ""), "found run 'b' in that of counts alone; add it to that of seconds"),
        (SECONDS + "c,0,3\n", "found run 'c' in that of seconds alone; add it to that of counts"),
        (SECONDS + "a,2,3\n", "run 'a': expected counts and seconds of the same ranks, found counts of 2 ranks and se"),
        ("rank,seconds\n0,1\n", "found run 'a' in that of counts alone"),
    ],
)
def test_tables_that_do_not_belong_together(tmp_path: Path, text: str, message: str) -> None:
    counts, seconds = _file(tmp_path, "c.csv", COUNTS), _file(tmp_path, "s.csv", text)
    with pytest.raises(DataError, match=message):
        loads_of_tables(read_counts(counts), read_seconds(seconds))
