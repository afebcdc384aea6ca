"""Case folders: the published measurements go through case.ini and come out as they went in."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from ingest_helpers import csv_log, json_log, read_or_refusal, refused, steady, write
from test_ingest_formats import HEADER, TIMEINFO

from precice_lb.ingest import import_measurements, write_csv
from precice_lb.ingest.csv import read_csv

COUPLED = "[DEFAULT]\nd=1\n\n[Inner]\nevents=inner.log\n\n[Outer]\nevents=outer.log\n"
MONOLITHIC = "[DEFAULT]\nd=3\nmesh_header=header.lua\nadditional=params.ini\n\n[Inner]\ntimeinfo=timeinfo_inner\n"


def _coupled(directory: Path, splits: dict[str, tuple[int, int]] | None = None) -> Path:
    """A case of two participants; ranks in the files as given by the folders' names, or by `splits`."""
    write(directory / "case.ini", COUPLED)
    for name, (inner, outer) in (splits or {"1_2": (1, 2), "2_4": (2, 4)}).items():
        write(directory / name / "inner.log", csv_log(steady(120 // inner) * inner))
        write(directory / name / "outer.log", json_log(steady(200 // outer) * outer))
    return directory


def _monolithic(directory: Path) -> Path:
    write(directory / "case.ini", MONOLITHIC)
    for processes, elements in itertools.product([16, 32], [1000, 2000]):
        run = directory / f"{processes}_{elements}_vulcan"
        write(run / "timeinfo_inner", TIMEINFO.replace("16 p", f"{processes} p"))
        write(run / "header.lua", HEADER.replace("3584", str(elements)))
        write(run / "params.ini", "[DEFAULT]\nclock_rate=2600\ncores_per_node=28\n")
    return directory


def test_coupled_cases_give_a_row_per_run_and_participant(tmp_path: Path) -> None:
    case = _coupled(tmp_path)
    (tmp_path / ".git").mkdir()
    for path in (case, case / "case.ini"):
        found = import_measurements("case", [path])
        np.testing.assert_allclose(found.samples["Inner"], [[1, 0.120], [2, 0.060]])
        np.testing.assert_allclose(found.samples["Outer"], [[2, 0.100], [4, 0.050]])


def test_monolithic_cases_bring_their_parameters_into_the_table(tmp_path: Path) -> None:
    found = import_measurements("case", [_monolithic(tmp_path / "case")], windows=1000)
    np.testing.assert_allclose(found.samples["Inner"], [[16, 1.23575]] * 2 + [[32, 1.23575]] * 2)
    assert {key: values.tolist() for key, values in found.parameters["Inner"].items()} == {
        "nElems": [1000.0, 2000.0, 1000.0, 2000.0],
        "clock_rate": [2600.0] * 4,
        "cores_per_node": [28.0] * 4,
    }
    write_csv(found, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().splitlines()[:2] == [
        "participant,ranks,seconds,nElems,clock_rate,cores_per_node",
        "Inner,16,1.23575,1000,2600,28",
    ]


def test_files_of_all_runs_may_lie_beside_case_ini(tmp_path: Path) -> None:
    case = _monolithic(tmp_path)
    for run in case.iterdir():
        if run.is_dir():
            (run / "params.ini").unlink()
    refused(lambda: import_measurements("case", [case]), "16_1000_vulcan", "'params.ini'")
    write(case / "params.ini", "[DEFAULT]\nclock_rate=1800\n")
    assert set(import_measurements("case", [case]).parameters["Inner"]["clock_rate"]) == {1800.0}


def test_published_measurements_come_out_as_they_went_in(tmp_path: Path) -> None:
    published = read_csv(Path(__file__).parents[1] / "data" / "schroeder2019.csv")
    write(tmp_path / "case" / "case.ini", COUPLED)
    inner, outer = (published.samples[name] for name in ("Inner", "Outer"))
    for number, row in enumerate(outer):
        pair = inner[number % len(inner)], row
        run = tmp_path / "case" / "_".join(str(int(ranks)) for ranks, _ in pair)
        for name, (ranks, seconds) in zip(("inner", "outer"), pair, strict=True):
            write(run / f"{name}.log", json_log(steady(round(seconds * 1000), 3) * int(ranks), run.name))
    imported = import_measurements("case", [tmp_path / "case"])
    write_csv(imported, tmp_path / "out.csv")
    found = read_csv(tmp_path / "out.csv")
    for name in ("Inner", "Outer"):
        expected = {(ranks, round(seconds, 3)) for ranks, seconds in published.samples[name]}
        assert {(ranks, round(seconds, 3)) for ranks, seconds in found.samples[name]} == expected
        assert np.isfinite(found.spread[name]).all()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["one section per participant"]),
        ("nonsense", ["a case.ini", "[DEFAULT]"]),
        ("[DEFAULT]\nd=1\n", ["one section per participant"]),
        ("[A]\nevent=a.log\n", ["[A]", "'event'"]),
        ("[A]\nd=1\n", ["[A]", "either events=FILE or timeinfo=FILE", "neither"]),
        ("[A]\nevents=a\ntimeinfo=b\n", ["[A]", "both"]),
        ("[DEFAULT]\nd=0\n[A]\nevents=a\n", ["[DEFAULT]", "'0'"]),
        ("[DEFAULT]\nd=two\n[A]\nevents=a\n", ["[DEFAULT]", "'two'"]),
        ("[DEFAULT]\nd=2\n[Inner]\nevents=inner.log\n", ["1_2", "d = 2 inputs", "found the ranks and nothing"]),
        ("[Inner]\nevents=other.log\n", ["1_2", "'other.log'", "move others away"]),
        ("[Inner]\nevents=\n", ["1_2", "''"]),
        ("[Inner]\ntimeinfo=inner.log\n", ["inner.log", "Timings for a run on"]),
    ],
)
def test_wrong_case_files_are_refused(tmp_path: Path, text: str, words: list[str]) -> None:
    case = _coupled(tmp_path)
    write(case / "case.ini", text)
    refused(lambda: import_measurements("case", [case]), str(tmp_path), *words)


@pytest.mark.parametrize("name", ["2_1", "1_2_1", "1", "results", "1_2 "])
def test_folders_not_named_after_their_ranks_are_refused(tmp_path: Path, name: str) -> None:
    case = _coupled(tmp_path, {name: (1, 2)})
    refused(lambda: import_measurements("case", [case]), repr(name), "1_2", "rename it")
    write(case / "case.ini", COUPLED.replace("d=1\n", ""))
    assert list(import_measurements("case", [case]).samples) == ["Inner", "Outer"]


def test_a_case_without_runs_or_without_case_ini_is_refused(tmp_path: Path) -> None:
    refused(lambda: import_measurements("case", [tmp_path]), str(tmp_path / "case.ini"))
    write(tmp_path / "case.ini", COUPLED)
    refused(lambda: import_measurements("case", [tmp_path]), "one folder per run", "found none")


def test_cases_with_different_parameters_are_refused(tmp_path: Path) -> None:
    one, two = _monolithic(tmp_path / "one"), _monolithic(tmp_path / "two")
    write(two / "case.ini", "[Inner]\ntimeinfo=timeinfo_inner\n")
    message = refused(lambda: import_measurements("case", [one, two]), "one case", "nElems, clock_rate", "none")
    assert str(one) in message
    assert str(two) in message


def test_a_case_file_cut_short_anywhere_is_refused_or_read(tmp_path: Path) -> None:
    case = _monolithic(tmp_path)
    for end in range(len(MONOLITHIC)):
        write(case / "case.ini", MONOLITHIC[:end])
        found = read_or_refusal(lambda: import_measurements("case", [case]))
        assert isinstance(found, str) or list(found.samples) == ["Inner"]
