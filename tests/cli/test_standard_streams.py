"""Results go to standard output and everything else to standard error, so that JSON can be piped."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args, get_type_hints

import pytest
from archive_helpers import unpack
from cyclopts import App

from precice_lb.cli import app, main

# What each command that can print JSON is called with, in a directory with the campaign pulse and the tables inside.
COMMANDS = {
    "summary": ["pulse"],
    "check": ["pulse"],
    "compare": ["pulse/runs/001-Inner4-Outer1", "pulse/runs/002-Inner2-Outer2"],
    "recommend": ["pulse", "--ranks", "6", "-o", "written"],
    "partners": ["pulse/runs/003-Inner3-Outer3", "-o", "written"],
    "watch": ["pulse", "--once"],
    "inside": ["--counts", "inside/counts.csv", "--seconds", "inside/seconds.csv", "-o", "written"],
}


def functions(below: App = app, words: tuple[str, ...] = ()) -> Iterator[tuple[str, object]]:
    """Find the function of every command, also of those below another."""
    for name in below:
        if not name.startswith("-"):
            command = below[name]
            yield " ".join((*words, name)), command.default_command
            yield from functions(command, (*words, name))


def test_every_command_that_prints_json_is_called() -> None:
    printing = set()
    for name, function in functions():
        if inspect.isfunction(function):
            hint = get_type_hints(function, include_extras=False).get("format", Literal["none"])
            choices = {choice for part in (hint, *get_args(hint)) for choice in get_args(part)}
            if "json" in choices:
                printing.add(name)

    assert printing == set(COMMANDS)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("data")
    for archive in ("runs/pulse.zip", "inside"):
        unpack(archive, directory)
    return directory


@pytest.mark.parametrize(("command", "words"), COMMANDS.items(), ids=COMMANDS)
def test_json_alone_is_on_standard_output(
    command: str, words: list[str], data: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(data)
    assert main([command, *words, "--format", "json"]) in (0, 1)
    shown = capfd.readouterr()

    assert isinstance(json.loads(shown.out), dict | list)
    # Names of written files are no result.
    assert ("wrote written" in shown.err) == ("written" in words)
