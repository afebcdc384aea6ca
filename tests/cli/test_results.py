"""How results are written: times in a unit that is asked for, and into a file in place of the screen."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cyclopts import App
from report_helpers import refused
from store_helpers import row, write_store

from precice_lb.cli import add_readers, app, main
from precice_lb.cli.flow import OUTPUT, Unit
from precice_lb.report.blocks import seconds_text, seconds_unit, times_in

TABLE = Path(__file__).parents[1] / "data" / "schroeder2019.csv"
PER_SECOND = {"h": 1 / 3600, "m": 1 / 60, "s": 1.0, "ms": 1e3, "us": 1e6}


@pytest.fixture
def stores(tmp_path: Path) -> Path:
    write_store(tmp_path / "stores", [row(w, 0.125, 0.25, 0.125) for w in range(1, 31)])
    return tmp_path / "stores"


def _functions(below: App) -> Iterator[Any]:
    for name in below:
        if not name.startswith("-"):
            yield below[name].default_command
            yield from _functions(below[name])


def test_output_and_unit_have_the_same_short_names_everywhere() -> None:
    add_readers()
    found: dict[str, set[str]] = {"output": set(), "unit": set()}
    for function in filter(None, _functions(app)):
        parameters = inspect.signature(function, eval_str=True).parameters
        for name in found.keys() & parameters.keys():
            hint = parameters[name].annotation
            assert hint == Unit if name == "unit" else OUTPUT in hint.__metadata__, function
            found[name].add(function.__name__)
    assert {"summary", "check", "inside", "partners"} == found["unit"]
    assert {"summary", "check", "recommend", "report", "export", "guess_patch", "csv"} <= found["output"]


def test_times_are_in_the_unit_that_was_asked_for() -> None:
    assert seconds_unit([0.02]).text(0.02) == "20.00 ms"
    for unit, per_second in PER_SECOND.items():
        with times_in(unit):
            assert float(seconds_unit([1.5]).number(1.5)) == pytest.approx(1.5 * per_second, rel=0.001)
            assert float(seconds_text(0.02, 3).split()[0]) == pytest.approx(0.02 * per_second, rel=0.01)
    with times_in("h"):
        # However small.
        assert float(seconds_unit([1e-6]).number(1e-6)) == pytest.approx(1e-6 / 3600, rel=1e-3)
    assert seconds_text(0.02, 3) == "0.02 s"
    with times_in("us"):
        assert seconds_text(12.34, 2) == "12000000 µs"  # as the others, without an exponent


@pytest.mark.parametrize("unit", PER_SECOND)
def test_summaries_are_in_it(stores: Path, capsys: pytest.CaptureFixture[str], unit: str) -> None:
    assert main(["summary", str(stores), "-u", unit]) == 0
    (window,) = re.findall(r"window +([\d.]+)", capsys.readouterr().out)
    assert float(window) == pytest.approx(0.375 * PER_SECOND[unit], rel=0.01)
    assert main(["check", str(stores), "--unit", unit]) == 0
    assert f"median compute ({ {'m': 'min', 'us': 'µs'}.get(unit, unit) })" in capsys.readouterr().out


def test_a_file_has_what_the_screen_would_have(
    stores: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command, formats in (("summary", ("table", "json", "csv")), ("check", ("table", "json"))):
        for format in formats:
            assert main([command, str(stores), "--format", format]) == 0
            shown = capsys.readouterr().out
            named, ended = tmp_path / "out", (tmp_path / "new" / "out").with_suffix(f".{format}")
            assert main([command, str(stores), "--format", format, "-o", str(named)]) == 0
            assert capsys.readouterr().out == f"wrote {named}\n"
            assert main([command, str(stores), "--output", str(ended)]) == 0
            assert capsys.readouterr().out == f"wrote {ended}\n"
            assert named.read_text() == ended.read_text() == shown
    line = refused(capsys, "check", stores, "-o", tmp_path / "out.csv")
    assert "--output: expected a name ending in .json or .txt, found" in line
    refused(capsys, "summary", stores, "-u", "ns")
    assert main(["summary", str(stores), "-o", str(stores)]) == 2
    assert f"--output: expected the name of a file, found the directory {stores}" in capsys.readouterr().err
    assert main(["recommend", str(stores), "--ranks", "12", "-o", "out.json"]) == 2
    assert "--output: expected a directory for several files, found out.json" in capsys.readouterr().err


def test_a_pipe_stays_what_it_is(stores: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "precice_lb", "summary", str(stores), "-o", "/dev/stdout"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "window" in done.stdout
