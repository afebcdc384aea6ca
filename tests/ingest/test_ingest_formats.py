"""The one door to all formats."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from ingest_helpers import refused, write

from precice_lb.exceptions import DataError
from precice_lb.ingest import READERS, import_measurements
from precice_lb.ingest.csv import Sample, join, whole_number


def test_the_door_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    refused(lambda: import_measurements("excel", [tmp_path]), "formats csv, found 'excel'")
    refused(lambda: import_measurements("csv", []), "at least one path")
    refused(lambda: import_measurements("csv", [tmp_path / "a.csv"], windows=None), "readable CSV file")


@pytest.mark.parametrize("kind", READERS)
def test_every_format_refuses_what_is_not_there(tmp_path: Path, kind: str) -> None:
    refused(lambda: import_measurements(kind, [tmp_path / "nowhere"]), str(tmp_path / "nowhere"))
    assert READERS[kind].__doc__


def test_no_format_is_loaded_before_it_is_asked_for() -> None:
    code = (
        "import sys, precice_lb.ingest as i; i.READERS; "
        "print([m for m in sys.modules if m.startswith('precice_lb.ingest.')])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_different_parameters_or_names_of_columns_are_refused(tmp_path: Path) -> None:
    first = write(tmp_path / "a.csv", "participant,ranks,seconds,mesh\nA,1,2,3\n")
    second = write(tmp_path / "b.csv", "participant,ranks,seconds,grid\nA,1,2,3\n")
    refused(lambda: import_measurements("csv", [first, second]), "one case", "mesh", "grid", str(first), str(second))
    with pytest.raises(DataError, match="name of another column"):
        join([Sample("A", 1, 2.0, "a.txt", parameters={"Ranks": 4.0})])


def test_whole_numbers_are_those_that_a_float_holds() -> None:
    texts = (str(2**53 - 1), str(1 - 2**53), str(2**53), "3.0", "3.5", "1_0", "\N{ARABIC-INDIC DIGIT ONE}")
    # 3.0 as a DataFrame writes it; the last two are numbers to Python.
    assert [whole_number(text) for text in texts] == [2**53 - 1, 1 - 2**53, None, 3, None, None, None]
