"""CSV files of measurements: what is read, what is refused with its line, and the one door to all formats."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from calibrate_helpers import refusals
from hypothesis import given
from hypothesis import strategies as st

from precice_lb.exceptions import DataError
from precice_lb.ingest import import_measurements, read_csv, read_frame, write_csv

HEAD = "participant,ranks,seconds"


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_rows_are_read_by_participant_and_sorted_by_ranks(tmp_path: Path) -> None:
    text = "ranks, participant, seconds, mesh, machine\n4,Inner,2.5,100,a\n2,Inner,5e0,100,b\n\n8,Outer,0.5,200,c\n"
    result = read_csv(write(tmp_path / "m.csv", text))
    np.testing.assert_array_equal(result.samples["Inner"], [[2, 5.0], [4, 2.5]])
    np.testing.assert_array_equal(result.samples["Outer"], [[8, 0.5]])
    np.testing.assert_array_equal(result.parameters["Inner"]["mesh"], [100.0, 100.0])
    assert list(result.parameters["Inner"]["machine"]) == ["b", "a"]
    assert np.isnan(result.frames["Inner"].standard_error).all()
    assert result.configuration is None
    assert result.sources == (str(tmp_path / "m.csv"),)


@pytest.mark.parametrize("block", refusals("csv-refused.txt"))
def test_bad_rows_are_refused_with_their_line(tmp_path: Path, block: str) -> None:
    rows, message = block.rsplit("\n", 1)
    path = write(tmp_path / "m.csv", f"{rows}\n")
    with pytest.raises(DataError) as caught:
        read_csv(path)
    assert str(caught.value) == f"{path}, {message}"


def test_different_parameters_or_names_of_columns_are_refused(tmp_path: Path) -> None:
    first, second = (write(tmp_path / f"{name}.csv", f"{HEAD},{name}\nA,1,2,3\n") for name in ("mesh", "grid"))
    with pytest.raises(DataError) as caught:
        import_measurements("csv", [first, second])
    words = f"expected runs of one case, found A with the parameters mesh in {first} and grid in {second}; "
    assert str(caught.value).startswith(words)


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
    path = tmp_path_factory.mktemp("csv") / "m.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("participant", "ranks", "seconds"), *rows])
    samples = read_csv(path).samples
    for name in {row[0] for row in rows}:
        # What is there twice was measured twice.
        expected = sorted((float(ranks), seconds) for other, ranks, seconds in rows if other == name)
        assert [tuple(row) for row in samples[name]] == expected


ROWS = '\n\nparticipant,ranks,seconds,note\r\nA,1,2.5,a\r\n"B, C; D",2,1e-3,b\r\n'


@pytest.mark.parametrize(
    ("text", "samples", "notes"),
    [
        (ROWS, {"A": [[1, 2.5]], "B, C; D": [[2, 1e-3]]}, ["a"]),
        (ROWS.replace(",", ";").replace("B; C", "B, C"), {"A": [[1, 2.5]], "B, C; D": [[2, 1e-3]]}, ["a"]),
        (ROWS.replace(",", "\t").replace("B\t C", "B, C"), {"A": [[1, 2.5]], "B, C; D": [[2, 1e-3]]}, ["a"]),
        # What a spreadsheet leaves empty is cut off.
        (f"{HEAD},,\nA,1,2,,\n,,,,\nA,2,1,,\n", {"A": [[1, 2], [2, 1]]}, []),
    ],
)
def test_tables_of_spreadsheets_are_read(
    tmp_path: Path, text: str, samples: dict[str, list[list[float]]], notes: list[str]
) -> None:
    result = read_csv(write(tmp_path / "m.csv", text))
    assert {name: rows.tolist() for name, rows in result.samples.items()} == samples
    assert [*result.parameters["A"].get("note", [])] == notes


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings_of_spreadsheets_are_read(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "m.csv"
    path.write_text("participant;ranks;seconds\nStröm;1;2.5\n", encoding=encoding)
    assert read_csv(path).samples["Ström"].tolist() == [[1, 2.5]]
    path.write_text("participant;ranks;seconds\nStröm;1;2.5\n", encoding="latin-1")
    with pytest.raises(DataError, match="expected a readable CSV file in UTF-8, found"):
        read_csv(path)


def test_a_frame_is_read_as_a_file_is(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    text = "participant,ranks,seconds\nAir,36.0,5.6\nAir,72.0,3.1\nSea,36.0,20\nSea,72.0,12.1\n"
    path = write(tmp_path / "m.csv", text)
    frames = (pandas.read_csv(path), pandas.read_csv(path, dtype=str))
    for measurements in (read_csv(path), *map(read_frame, frames)):
        assert measurements.samples["Air"].tolist() == [[36, 5.6], [72, 3.1]]
    path.write_text(text.replace("36.0", "36.5", 1))
    with pytest.raises(DataError, match=r"DataFrame, row 1: expected a whole number .* in column ranks, found '36.5'"):
        read_frame(pandas.read_csv(path))


def test_error_and_iterations_have_columns_of_their_own(tmp_path: Path) -> None:
    text = "participant,ranks,seconds,Standard_Error,iterations,mesh\nA,1,2,0.5,3,7\nA,2,1,,4,\nB,1,1,,,\n"
    result = read_csv(write(tmp_path / "m.csv", text))
    np.testing.assert_array_equal(result.frames["A"].standard_error, [0.5, np.nan])
    assert result.iterations == {"A": 3.5}
    np.testing.assert_array_equal(result.parameters["A"]["mesh"], [7, np.nan])
    assert result.parameters["B"] == {}


def test_everything_known_of_the_rows_survives_writing(tmp_path: Path) -> None:
    header = "participant,ranks,seconds,standard_error,iterations,mesh,note\n"
    text = header + "A,2,0.1,0.01,2.5,1e-9,x\nB,1,3,,,,y\nB,1,4,,,5,\n"
    first = read_csv(write(tmp_path / "m.csv", text))
    write_csv(first, tmp_path / "again.csv")
    second = read_csv(tmp_path / "again.csv")
    for name in ("A", "B"):
        np.testing.assert_array_equal(second.samples[name], first.samples[name])
        np.testing.assert_array_equal(second.frames[name].standard_error, first.frames[name].standard_error)
        assert second.parameters[name].keys() == first.parameters[name].keys()
        for key, values in first.parameters[name].items():
            np.testing.assert_array_equal(second.parameters[name][key], values)
    assert second.iterations == first.iterations
    write_csv(second, tmp_path / "third.csv")
    assert (tmp_path / "third.csv").read_bytes() == (tmp_path / "again.csv").read_bytes()
    with pytest.raises(DataError, match="place to write"):
        write_csv(first, tmp_path)


@given(
    place=st.integers(0, 90),
    cut=st.integers(0, 95),
    damage=st.binary(max_size=5) | st.sampled_from([b'"', b",", b";", b"\n", b"\x00", b"9" * 5000, b"1e400"]),
)
def test_random_damage_is_refused_in_one_line_or_read(
    place: int, cut: int, damage: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = b"participant,ranks,seconds,standard_error,mesh\nA,1,2.5,0.1,10\nA,2,1.5,,20\nB,4,1e-3,0.2,x\n"[:cut]
    path = write(tmp_path_factory.mktemp("damage") / "m.csv", content[:place] + damage + content[place:])
    try:
        measured = read_csv(path).samples
    except DataError as error:
        if "\n" in str(error):
            raise
    else:
        assert measured
        assert all((rows > 0).all() for rows in measured.values())
