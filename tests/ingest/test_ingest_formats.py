"""Timer tables, mesh headers, ini files, and the one door to all formats."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ingest_helpers import read_or_refusal, refused, write

from precice_lb.exceptions import DataError
from precice_lb.ingest import READERS, import_measurements
from precice_lb.ingest.files import read_mesh_elements, read_parameters, whole_number

TIMEINFO = """\
 Timings for a run on           16 processes
                   timer              min              max              sum
              initialize    12.300000E-03   500.000000E-03     4.200000E+00
                 simLoop     1.234568E+03     1.235750E+03    19.760200E+03
              preciceAdv     0.000000E+00     0.000000E+00     0.000000E+00
U                 nosuch     .:!UNKNOWN!:.
"""
DETAILED = TIMEINFO.replace(TIMEINFO.splitlines()[3], "D               simLoop: timeinfo_simLoop.details")
DETAILS = "Detailed timings for simLoop\n    min:     1.5E+00\n    max:     1.235750E+03\n    sum:     2.5E+00\n \n"
HEADER = """\
 version = 1
 label = 'fluidTree nElems = 5'
 comment = "nElems = 6" -- nElems = 7
 --[[ nElems = 8
 ]]
 boundingbox = {
    origin = { -6.0E+00, -6.0E+00, -6.0E+00 },
    length =   12.0E+00
}
 nElems = 3584
 property = {
    {
        label = 'has boundaries',
        nElems = 1840
    }
}
"""


@pytest.mark.parametrize(
    "text", [TIMEINFO, DETAILED, TIMEINFO.replace("sum\n", "avg\n"), TIMEINFO.replace("16 p", "16p")]
)
def test_the_slowest_rank_of_a_timer_table_counts(tmp_path: Path, text: str) -> None:
    path = write(tmp_path / "timeinfo", text)
    write(tmp_path / "timeinfo_simLoop.details", DETAILS)
    found = import_measurements("ateles-timeinfo", [path], participant="Inner", windows=100)
    np.testing.assert_allclose(found.samples["Inner"], [[16, 12.3575]])
    assert np.isnan(found.standard_errors["Inner"]).all()
    whole = import_measurements("ateles-timeinfo", [path], participant="Inner")
    np.testing.assert_allclose(whole.samples["Inner"], [[16, 1235.75]])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["Timings for a run on N processes"]),
        (TIMEINFO.replace("16", "none"), ["line 1", "'none'"]),
        (TIMEINFO.replace("16", "0"), ["line 1", "'0'"]),
        (TIMEINFO.splitlines()[0], ["line 2", "timer and max"]),
        (TIMEINFO.replace("max", "top"), ["line 2", "timer and max"]),
        (TIMEINFO.replace("simLoop", "simLost"), ["simLoop", "found none", "cut short"]),
        (TIMEINFO.replace("1.235750E+03", "************"), ["line 4", "'************'"]),
        (TIMEINFO.replace("1.235750E+03", "nan"), ["line 4", "'nan'"]),
        (TIMEINFO.replace("1.235750E+03", "0.0E+00"), ["above 0"]),
        (TIMEINFO.replace("    19.760200E+03", ""), ["line 4", "4 cells"]),
        (TIMEINFO.replace("0.000000E+00     0.000000E+00\nU", "2.500000E+00  9.0\nU"), ["uncoupled", "2.5 seconds"]),
        (DETAILED, ["timeinfo_simLoop.details"]),
        (DETAILED.replace("timeinfo_simLoop.details", "timeinfo"), ["line max: SECONDS"]),
    ],
)
def test_damaged_timer_tables_are_refused(tmp_path: Path, text: str, words: list[str]) -> None:
    path = write(tmp_path / "timeinfo", text)
    refused(lambda: import_measurements("ateles-timeinfo", [path], participant="A"), str(path), *words)


def test_a_timer_table_needs_a_participant_and_windows_from_one(tmp_path: Path) -> None:
    path = write(tmp_path / "timeinfo", TIMEINFO)
    refused(lambda: import_measurements("ateles-timeinfo", [path]), str(path), "name of the participant")
    refused(lambda: import_measurements("ateles-timeinfo", [path], participant="A", windows=0), "at least 1")


def test_the_mesh_header_gives_the_elements_of_the_mesh_alone(tmp_path: Path) -> None:
    assert read_mesh_elements(write(tmp_path / "header.lua", HEADER)) == 3584


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["found none"]),
        (HEADER.replace("3584", "many"), ["line 10", "'many'"]),
        (HEADER.replace("3584", "-1"), ["line 10", "'-1'"]),
        (HEADER.replace("3584", "12.5"), ["line 10", "'12.5'"]),
        (HEADER.replace(" nElems = 3584", ""), ["found none"]),
        (HEADER + " nElems = 2\n", ["found 2", "lines 10, 17"]),
        (b"\xff\xff", ["UTF-8"]),
    ],
)
def test_damaged_mesh_headers_are_refused(tmp_path: Path, text: str | bytes, words: list[str]) -> None:
    path = write(tmp_path / "header.lua", text)
    refused(lambda: read_mesh_elements(path), str(path), *words)


def test_ini_values_are_those_of_all_and_of_the_participant(tmp_path: Path) -> None:
    text = "[DEFAULT]\nclock_rate=2600\nkind = fat  node\n[Inner]\nOrder=7\n[Outer]\nOrder=3\n[net]\nbandwidth=5100\n"
    path = write(tmp_path / "params.ini", text)
    shared = {"clock_rate": 2600.0, "kind": "fat node", "net.bandwidth": 5100.0}
    assert read_parameters(path, "Inner", ["Outer"]) == shared | {"Order": 7.0}
    assert read_parameters(path, "Solid") == shared | {"Inner.Order": 7.0, "Outer.Order": 3.0, "net.bandwidth": 5100.0}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["at least one parameter"]),
        ("clock_rate=2600\n", ["[DEFAULT]", "no section headers"]),
        ("[DEFAULT]\nclock_rate\n", ["[line 2]"]),
        ("[DEFAULT]\nclock_rate=\n", ["clock_rate", "found nothing"]),
        ("[DEFAULT]\na=1\na=2\n", ["already exists"]),
        ("[A]\na=1\n[A]\nb=2\n", ["already exists"]),
    ],
)
def test_damaged_ini_files_are_refused(tmp_path: Path, text: str, words: list[str]) -> None:
    path = write(tmp_path / "params.ini", text)
    refused(lambda: read_parameters(path, "A"), str(path), *words)


@given(
    base=st.sampled_from([TIMEINFO, DETAILED, HEADER, "[DEFAULT]\na=1\nb=%(c)s\n[A]\nd=x\n"]),
    cut=st.integers(0, 700),
    place=st.integers(0, 600),
    damage=st.binary(max_size=6) | st.sampled_from([b"{", b"--[[", b"=", b"[", b"%(x)s", b"9" * 400, b"'", b"\n  "]),
)
def test_random_damage_is_refused_in_one_line_or_read(
    base: str, cut: int, place: int, damage: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("damage")
    content = base.encode()[:cut]
    path = write(directory / "file", content[:place] + damage + content[place:])
    table = write(directory / "timeinfo", TIMEINFO)
    for files in ({}, {"mesh_header": path}, {"parameters": path}):
        given_path = table if files else path
        call = lambda: import_measurements("ateles-timeinfo", [given_path], participant="A", **files)  # noqa: B023, E731
        found = read_or_refusal(call)
        assert isinstance(found, str) or (found.samples["A"] > 0).all()


def test_the_door_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    refused(lambda: import_measurements("excel", [tmp_path]), "csv, precice-events, ateles-timeinfo, case", "'excel'")
    refused(lambda: import_measurements("csv", []), "at least one path")
    refused(lambda: import_measurements("csv", [tmp_path / "a.csv"], windows=3), "(none)", "'windows'")
    refused(lambda: import_measurements("case", [tmp_path], participant="A"), "every_rank", "'participant'")
    refused(lambda: import_measurements("csv", [tmp_path / "a.csv"], windows=None), "readable CSV file")


@pytest.mark.parametrize("kind", READERS)
def test_every_format_refuses_what_is_not_there(tmp_path: Path, kind: str) -> None:
    options = {"participant": "A"} if kind == "ateles-timeinfo" else {}
    refused(lambda: import_measurements(kind, [tmp_path / "nowhere"], **options), str(tmp_path / "nowhere"))
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
    table = write(tmp_path / "timeinfo", TIMEINFO)
    ini = write(tmp_path / "params.ini", "[DEFAULT]\nRanks=4\n")
    with pytest.raises(DataError, match="name of another column"):
        import_measurements("ateles-timeinfo", [table], participant="A", parameters=ini)


def test_whole_numbers_are_those_that_a_float_holds() -> None:
    assert whole_number(str(2**53)) == 2**53
    assert whole_number(str(-(2**53))) == -(2**53)
    assert whole_number(str(2**53 + 1)) is None
    assert whole_number("3.0") is None
