"""Options of the commands that read preCICE's profiling files."""

from __future__ import annotations

from pathlib import Path

import pytest
from profiling_helpers import case
from report_helpers import refused
from store_helpers import row, write_store

from precice_lb.cli import main
from precice_lb.store import find_stores, read_store


def test_threads_of_imported_profiling_files_are_those_stated(tmp_path: Path) -> None:
    folder, stores = case(tmp_path, "fundamental"), tmp_path / "stores"

    assert main(["import", "precice-profiling", str(folder), "--output", str(stores), "--threads", "B=3"]) == 0

    found = [read_store(path).metadata for path in find_stores([stores])]
    assert {data["participant"]: data.get("threads", 1) for data in found} == {"A": 1, "B": 3}


@pytest.mark.parametrize("threads", ["B=three", "B", "=3"])
def test_threads_that_are_no_number_of_a_participant_are_refused(
    threads: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = case(tmp_path, "fundamental")
    expected = f"--threads: expected participant=a whole number above 0, such as Solid=4, found '{threads}'"
    assert expected in refused(capsys, "import", "precice-profiling", folder, "--threads", threads)


def test_a_configuration_beside_recorded_stores_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_store(tmp_path / "stores", [row(window, 0.1, 0.2, 0.1) for window in range(1, 8)])
    configuration = tmp_path / "precice-config.xml"
    expected = f"--config: expected profiling files to read with {configuration}, found recorded stores; leave it out"
    assert expected in refused(capsys, "summary", tmp_path / "stores", "--config", configuration)


def test_a_configuration_that_lies_elsewhere_is_read_with_profiling_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = case(tmp_path / "run", "fundamental")
    configuration = tmp_path / "elsewhere.xml"
    (tmp_path / "run" / "precice-config.xml").rename(configuration)

    assert main(["summary", str(folder), "--config", str(configuration)]) == 0

    assert "Run A:1 B:1" in capsys.readouterr().out
