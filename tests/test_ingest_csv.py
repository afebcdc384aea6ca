"""CSV files of measurements: what is read, and what is refused with its line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precice_lb.exceptions import DataError
from precice_lb.ingest.csv import read_csv


def _write(directory: Path, text: str) -> Path:
    path = directory / "measurements.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_rows_are_read_by_participant_and_sorted_by_ranks(tmp_path: Path) -> None:
    text = "ranks, participant, seconds, mesh, machine\n4,Inner,2.5,100,a\n2,Inner,5e0,100,b\n\n8,Outer,0.5,200,c\n"
    found = read_csv(_write(tmp_path, text))
    np.testing.assert_array_equal(found.samples["Inner"], [[2, 5.0], [4, 2.5]])
    np.testing.assert_array_equal(found.samples["Outer"], [[8, 0.5]])
    np.testing.assert_array_equal(found.parameters["Inner"]["mesh"], [100.0, 100.0])
    assert list(found.parameters["Inner"]["machine"]) == ["b", "a"]
    assert np.isnan(found.spread["Inner"]).all()
    assert found.configuration is None
    assert found.sources == (str(tmp_path / "measurements.csv"),)


def test_a_byte_order_mark_and_capitals_in_the_header_are_accepted(tmp_path: Path) -> None:
    found = read_csv(_write(tmp_path, "\ufeffParticipant,Ranks,Seconds\nA,1,2\n"))
    np.testing.assert_array_equal(found.samples["A"], [[1, 2]])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("participant,ranks,seconds\nA,1,2\nA,four,2\n", ["line 3", "ranks", "'four'"]),
        ("participant,ranks,seconds\nA,1.5,2\n", ["line 2", "ranks", "'1.5'"]),
        ("participant,ranks,seconds\nA,0,2\n", ["line 2", "ranks", "'0'"]),
        ("participant,ranks,seconds\nA,1,-2\n", ["line 2", "seconds", "'-2'"]),
        ("participant,ranks,seconds\nA,1,nan\n", ["line 2", "seconds", "'nan'"]),
        ("participant,ranks,seconds\nA,1,inf\n", ["line 2", "seconds", "'inf'"]),
        ("participant,ranks,seconds\nA,1,0\n", ["line 2", "seconds", "'0'"]),
        ("participant,ranks,seconds\nA,1\n", ["line 2", "3 columns", "found 2"]),
        ("participant,ranks,seconds\n,1,1\n", ["line 2", "participant"]),
        ("participant,ranks\nA,1\n", ["line 1", "missing seconds"]),
        ("participant,ranks,seconds,ranks\nA,1,1,1\n", ["ranks more than once"]),
        ("participant,ranks,seconds\n", ["at least one row"]),
        ("", ["empty file"]),
    ],
)
def test_bad_rows_are_refused_with_their_line(tmp_path: Path, text: str, words: list[str]) -> None:
    path = _write(tmp_path, text)
    with pytest.raises(DataError) as caught:
        read_csv(path)
    message = str(caught.value)
    assert "\n" not in message
    assert all(word in message for word in [str(path), *words]), message


def test_files_that_are_not_there_or_not_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="readable CSV file"):
        read_csv(tmp_path / "nowhere.csv")
    (tmp_path / "binary.csv").write_bytes(b"participant,ranks,seconds\n\xff\xfe\x00,1,1\n")
    with pytest.raises(DataError, match="readable CSV file"):
        read_csv(tmp_path / "binary.csv")


@given(
    rows=st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), min_size=1, max_size=8),
            st.integers(1, 10**6),
            st.floats(1e-9, 1e9),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_what_was_written_is_read(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, int, float]]) -> None:
    import csv

    path = tmp_path_factory.mktemp("csv") / "m.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("participant", "ranks", "seconds"), *rows])
    samples = read_csv(path).samples
    for name in {row[0] for row in rows}:
        expected = sorted((float(ranks), seconds) for other, ranks, seconds in rows if other == name)
        assert [tuple(row) for row in samples[name]] == expected
