"""Names from files and words of solvers reach a terminal as text: no control character of theirs does."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import h5py
import pytest
from store_helpers import row, write_store

from precice_lb.cli import main
from precice_lb.text import say

# Clears the screen, rings, sets the window's title (one byte CSI of C1), reads from right to left.
BAD = "A\x1b[2J\x07\x9b31m\u202e"
BAD_AS_TEXT = r"A\x1b[2J\x07\x9b31m\u202e"
# XML has no characters below a blank.
BAD_IN_XML = "A\x9b31m\u202e"
BAD_IN_XML_AS_TEXT = r"A\x9b31m\u202e"
PAIR = Path(__file__).parents[1] / "data" / "configurations" / "explicit-pair.xml"


def configuration(directory: Path, old: str, new: str) -> Path:
    """Write the configuration of a pair in which a text is replaced."""
    text = PAIR.read_text(encoding="utf-8")
    assert old in text
    path = directory / "precice-config.xml"
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path


def table(directory: Path) -> list[str]:
    rows = [f"{name},{ranks},{1 / ranks}" for name in (BAD, "B") for ranks in (1, 2, 3)]
    (directory / "m.csv").write_text("\n".join(["participant,ranks,seconds", *rows, ""]), encoding="utf-8")
    return ["recommend", str(directory / "m.csv"), "--ranks", "4"]


def refused_table(directory: Path) -> list[str]:
    (directory / "m.csv").write_text(f"participant,ranks,seconds\nA,{BAD},1\n", encoding="utf-8")
    return ["recommend", str(directory / "m.csv"), "--ranks", "4"]


def participant_in_xml(directory: Path) -> list[str]:
    configuration(directory, '"Left"', f'"{BAD_IN_XML}"')
    return ["init", str(directory)]


def refused_xml(directory: Path) -> list[str]:
    path = configuration(directory, 'direction="read"', f'direction="{BAD_IN_XML}"')
    return ["guess", "patch", str(path), "-o", str(directory / "guess.xml")]


def profiling(directory: Path) -> list[str]:
    configuration(directory, '"Left"', f'"{BAD_IN_XML}"')
    folder = directory / "precice-profiling"
    folder.mkdir()
    header = {"name": BAD, "rank": 0, "size": 1, "unix_us": 1, "mode": BAD, "file_version": 1}
    (folder / f"{BAD}-0-1.txt").write_text(json.dumps(header) + f"\n{BAD}\n", encoding="utf-8")
    return ["import", "precice-profiling", str(folder), "--output", str(directory / "store")]


def write_run(directory: Path) -> None:
    """Write a recorded run of four windows whose names and warning are bad."""
    write_store(directory, [row(w, 0.1, 0.2, 0.1) for w in range(1, 5)], BAD, run=BAD, timing_problem=BAD)


def summary(directory: Path) -> list[str]:
    write_run(directory)
    return ["summary", str(directory)]


def check(directory: Path) -> list[str]:
    write_run(directory)
    return ["check", str(directory)]


def watch(directory: Path) -> list[str]:
    write_run(directory)
    return ["watch", "--once", str(directory)]


def damaged_store(directory: Path) -> list[str]:
    path = write_store(directory, [row(1, 0.1, 0.2, 0.1)])
    with h5py.File(path, "a") as file:
        file.attrs["format"] = BAD
    return ["check", str(directory)]


def file_name(directory: Path) -> list[str]:
    return ["export", str(directory / BAD)]


def option(directory: Path) -> list[str]:
    return ["recommend", str(directory), f"--{BAD}"]


@pytest.mark.usefixtures("own_priority")
@pytest.mark.parametrize(
    ("source", "exit_code", "shown"),
    [
        (table, 0, BAD_AS_TEXT),
        (refused_table, 2, BAD_AS_TEXT),
        (participant_in_xml, 0, BAD_IN_XML_AS_TEXT),
        (refused_xml, 2, BAD_IN_XML_AS_TEXT),
        (profiling, 2, BAD_AS_TEXT),
        (summary, 0, BAD_AS_TEXT),
        (check, 1, BAD_AS_TEXT),
        (watch, 0, BAD_AS_TEXT),
        (damaged_store, 2, BAD_AS_TEXT),
        (file_name, 2, BAD_AS_TEXT),
        (option, 2, BAD_AS_TEXT),
    ],
)
def test_no_control_character_of_a_file_is_printed(
    source: Callable[[Path], list[str]],
    exit_code: int,
    shown: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(source(tmp_path)) == exit_code

    out, err = capsys.readouterr()
    # The name is there, written out.
    assert shown in out + err
    unprintable = {char for char in out + err if not char.isprintable()}
    assert unprintable == {"\n"}


def test_lines_and_tabs_stay() -> None:
    screen = io.StringIO()
    say("one\ttwo\r\n\x1b[31mthree", screen)
    assert screen.getvalue() == "one\ttwo\\r\n\\x1b[31mthree\n"
