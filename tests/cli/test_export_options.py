"""What ``precice-lb export`` and the readers of ``import`` write, where, and which options exclude each other."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_helpers import refused
from store_helpers import row, write_store

from precice_lb.cli import main


@pytest.fixture(autouse=True)
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Record a run of seven windows on one rank, and go where it is."""
    monkeypatch.chdir(tmp_path)
    write_store(tmp_path / "stores", [row(window, 0.1, 0.2, 0.1) for window in range(1, 8)])


@pytest.mark.parametrize(
    ("words", "written"),
    [
        (["--recorder"], "precice_lb_recorder.py"),
        (["stores"], "trace.json"),
        (["stores", "--format", "perfetto"], "trace.json"),
        (["stores", "--format", "csv"], "runs.csv"),
        (["stores", "--format", "csv", "-o", "elsewhere.csv"], "elsewhere.csv"),
        (["stores", "--merged"], "merged"),
        (["stores", "--merged", "-o", "elsewhere"], "elsewhere"),
    ],
)
def test_one_place_is_written_and_named(words: list[str], written: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", *words]) == 0

    assert sorted(path.name for path in Path().iterdir()) == sorted(["stores", written])
    assert capsys.readouterr().out.startswith(f"wrote {written}")


@pytest.mark.parametrize(
    ("words", "name", "what"),
    [
        (["--recorder"], "precice_lb_recorder.py", "file"),
        (["stores"], "trace.json", "file"),
        (["stores", "--format", "csv"], "runs.csv", "file"),
        (["stores", "--merged"], "merged", "directory"),
    ],
)
def test_what_is_there_is_replaced_by_force_alone(
    words: list[str], name: str, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Path(name)
    if what == "directory":
        place.mkdir()
    else:
        place.write_text("of yesterday")
    expected = f"--output: expected the name of a new {what}, found {name}; give another, or --force"

    assert expected in refused(capsys, "export", *words)
    assert what == "directory" or place.read_text() == "of yesterday"

    assert main(["export", *words, "--force"]) == 0
    assert any(place.iterdir()) if what == "directory" else place.read_text() != "of yesterday"


def test_recorder_has_the_name_that_solvers_import(capsys: pytest.CaptureFixture[str]) -> None:
    expected = "--output: expected a file called precice_lb_recorder.py, which solvers import, found elsewhere.py"
    assert expected in refused(capsys, "export", "--recorder", "-o", "elsewhere.py")


@pytest.mark.parametrize("words", [["stores"], ["--merged"], ["--format", "csv"]], ids=" ".join)
def test_recorder_is_exported_alone(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    expected = "--recorder: expected it alone, found sources or another form of export; leave them out"
    assert expected in refused(capsys, "export", "--recorder", *words)


def test_merged_stores_have_no_other_format(capsys: pytest.CaptureFixture[str]) -> None:
    expected = "--format: expected none with --merged, found csv; leave one of them out"
    assert expected in refused(capsys, "export", "stores", "--merged", "--format", "csv")


@pytest.mark.parametrize("words", [[], ["--merged"], ["--format", "csv"]], ids=" ".join)
def test_export_needs_a_source(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert "expected at least one directory of stores, found none; " in refused(capsys, "export", *words)


def test_settings_of_a_reader_reach_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Text input of Extra-P: of two ranks counts, seconds of all windows together."""
    Path("input.txt").write_text(
        "PARAMETER p\nPOINTS 2 4\nREGION Fluid\nMETRIC time\nDATA 300\nDATA 160\nMETRIC bytes\nDATA 1\nDATA 2\n"
    )
    settings = ["--set", "metric=time", "--set", "windows=100"]

    assert main(["import", "extrap", "input.txt", *settings, "--output", "times.csv"]) == 0

    assert capsys.readouterr().out == "wrote times.csv: 2 samples of Fluid\n"
    assert Path("times.csv").read_text() == "participant,ranks,seconds\nFluid,2,3.0\nFluid,4,1.6\n"
