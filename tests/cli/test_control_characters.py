"""Names from files and words of solvers reach a terminal as text: no control character of theirs does."""

from __future__ import annotations

import io
import json
from pathlib import Path

import h5py
import pytest
from store_helpers import row, write_store

from precice_lb.cli import main
from precice_lb.text import say, visible

# Clears the screen, rings, sets the window's title (one byte CSI of C1), reads from right to left.
BAD = "A\x1b[2J\x07\x9b31m\u202e"
CONFIG = "<precice-configuration>{}</precice-configuration>"


def csv(place: Path) -> list[str]:
    place.joinpath("m.csv").write_text(f"participant,ranks,seconds\n{BAD},1,1\n{BAD},x,1\n")
    return ["recommend", str(place / "m.csv"), "--ranks", "4"]


def xml(place: Path) -> list[str]:
    text = CONFIG.format(f'<participant name="A\x9b\u202e"><x:{visible("x")}/></participant>')
    place.joinpath("precice-config.xml").write_text(text, encoding="utf-8")
    return ["guess", "patch", str(place / "precice-config.xml"), "-o", str(place / "guess.xml")]


def profiling(place: Path) -> list[str]:
    folder = place / "precice-profiling"
    folder.mkdir()
    meta = {"name": BAD, "rank": 0, "size": 1, "unix_us": 1, "mode": BAD, "file_version": 1}
    folder.joinpath(f"{BAD}-0-1.txt").write_text(json.dumps(meta) + f"\n{BAD}\n")
    return ["import", "precice-profiling", str(folder), "--output", str(place / "store")]


def store(place: Path) -> list[str]:
    write_store(place, [row(w, 0.1, 0.2, 0.1) for w in range(1, 5)], BAD, run=BAD, timing_problem=BAD)
    return ["summary", str(place)]


def damaged(place: Path) -> list[str]:
    path = write_store(place, [row(1, 0.1, 0.2, 0.1)])
    with h5py.File(path, "a") as file:
        file.attrs["format"] = BAD
    return ["check", str(place)]


def file_name(place: Path) -> list[str]:
    return ["export", str(place / BAD)]


def option(place: Path) -> list[str]:
    return ["recommend", str(place), f"--{BAD}"]


@pytest.mark.parametrize("source", [csv, xml, profiling, store, damaged, file_name, option])
def test_no_control_character_of_a_file_is_printed(
    source: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(source)
    main(source(tmp_path))
    out, err = capsys.readouterr()
    assert out + err
    assert {char for char in out + err if not char.isprintable()} <= {"\n"}


def test_lines_and_tabs_stay() -> None:
    screen = io.StringIO()
    say("one\ttwo\r\n\x1b[31mthree", screen)
    assert screen.getvalue() == "one\ttwo\\r\n\\x1b[31mthree\n"
