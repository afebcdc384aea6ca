"""How results are written: on the screen, and into a file in place of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from report_helpers import refused
from store_helpers import row, write_store

from precice_lb.cli import main

# Commands that print a result, which --output writes into a file instead.
COMMANDS = {"summary": ["stores"], "check": ["stores"], "compare": ["stores", "later"]}


@pytest.fixture(autouse=True)
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Record two runs of the same seconds, and go where they are."""
    monkeypatch.chdir(tmp_path)
    for directory in ("stores", "later"):
        write_store(tmp_path / directory, [row(w, 0.125, 0.25, 0.125) for w in range(1, 31)])


def printed(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    """Run a command, and return what it prints."""
    assert main([*command]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(("command", "sources"), COMMANDS.items(), ids=COMMANDS)
@pytest.mark.parametrize(("format", "name"), [("table", "out.txt"), ("json", "out.json")])
def test_end_of_the_name_of_a_file_says_its_format(
    command: str, sources: list[str], format: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = printed(capsys, command, *sources, "--format", format)

    assert printed(capsys, command, *sources, "--output", f"new/{name}") == f"wrote new/{name}\n"
    assert Path("new", name).read_text() == shown


@pytest.mark.parametrize(
    ("command", "whole"), [("summary", False), ("compare", False), ("check", True)], ids=lambda value: str(value)
)
def test_lines_are_as_wide_as_the_screen_but_whole_where_programs_search_them(
    command: str, whole: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")

    main([command, *COMMANDS[command]])

    assert (max(map(len, capsys.readouterr().out.splitlines())) > 60) == whole


@pytest.mark.parametrize(("command", "sources"), COMMANDS.items(), ids=COMMANDS)
def test_file_that_ends_in_md_has_markdown(
    command: str, sources: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    printed(capsys, command, *sources, "-o", "out.md")

    lines = Path("out.md").read_text().splitlines()
    assert any(re.fullmatch(r"\|( :?-+:? \|)+", line) for line in lines), lines
    with pytest.raises(json.JSONDecodeError):
        json.loads("".join(lines))


def test_markdown_of_compare_is_that_of_its_format(capsys: pytest.CaptureFixture[str]) -> None:
    shown = printed(capsys, "compare", "stores", "later", "--format", "markdown")
    printed(capsys, "compare", "stores", "later", "-o", "out.md")

    assert Path("out.md").read_text() == shown


@pytest.mark.parametrize(("command", "sources"), COMMANDS.items(), ids=COMMANDS)
@pytest.mark.parametrize("format", ["table", "json"])
def test_format_that_is_stated_counts_whatever_the_name_of_the_file(
    command: str, sources: list[str], format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = printed(capsys, command, *sources, "--format", format)
    for name in ("out", "out.md", "out.json"):
        printed(capsys, command, *sources, "--format", format, "-o", name)
        assert Path(name).read_text() == shown


@pytest.mark.parametrize(("command", "sources"), COMMANDS.items(), ids=COMMANDS)
def test_file_that_is_there_is_replaced(command: str, sources: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("out.txt").write_text("of yesterday")
    printed(capsys, command, *sources, "-o", "out.txt")

    assert "yesterday" not in Path("out.txt").read_text()


@pytest.mark.parametrize(("command", "sources"), COMMANDS.items(), ids=COMMANDS)
@pytest.mark.parametrize("place", ["stores", "out.csv"], ids=["directory", "csv"])
def test_place_that_is_no_file_of_text_is_refused(
    command: str, sources: list[str], place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = f"--output: expected the name of a file ending in .json or .txt, found {place}"
    assert expected in refused(capsys, command, *sources, "-o", place)
