"""Whole texts of commands, compared with those kept in tests/golden/texts: see tests/golden/README.md."""

from __future__ import annotations

import difflib
import itertools
import json
import os
import re
import shlex
import sys
import textwrap
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from archive_helpers import unpack
from calibrate_helpers import program

from precice_lb.cli import main

TEXTS = Path(__file__).parent / "golden" / "texts"
# When it was, and what another printer of formulas says.
LEFT_OUT = ("latex", "python", "unix_seconds")
SLURM = ("srun", "sbatch", "squeue", "scancel", "sacct", "scontrol", "sinfo")
# Left by rounding, in seconds and shares.
NOTHING = 1e-12
WIDTH, WIDTH_OF_JSON, WHOLE = 120, 160, {"break_long_words": False, "break_on_hyphens": False}
FLOAT = re.compile(r"(?<![\w.])-?(\d+\.\d+|\d+(?=e))(e[+-]?\d+)?(?![\w.]*\w)")
# What differs between machines, days and versions; the first that fits.
STEADY = (
    (re.compile(r"^(made) .*", re.MULTILINE), r"\1 NOW"),
    (re.compile(r"^(versions) .*", re.MULTILINE), r"\1 VERSIONS"),
    (re.compile(r"^(report made on) .*", re.MULTILINE), r"\1 MACHINE"),
    (re.compile(r"(?<=-)[0-9a-f]{16}\b|(?<=precice-lb-)[0-9a-f]{8}\b"), "TOKEN"),
    (re.compile(r"^( *export PATH=).*", re.MULTILINE), r"\1PATH"),
)


@dataclass(frozen=True)
class Golden:
    """A command in a directory with its inputs (below tests/data), and patterns of files whose text is kept with it."""

    name: str
    inputs: str
    command: str
    files: str = ""

    def __str__(self) -> str:
        return self.name


def goldens(*kinds: str) -> list[Golden]:
    """Read those of commands.txt whose name begins with one of these words; all of them without any."""
    lines = (TEXTS.parent / "commands.txt").read_text(encoding="utf-8").replace("\n  && ", " && ").splitlines()
    listed = [Golden(*line.split(" | ")) for line in lines if line and not line.startswith("#")]
    return [golden for golden in listed if not kinds or golden.name.split("-")[0] in kinds]


def check(golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Run a command and compare everything that it says with what is kept."""
    # Jobs have their directory's name.
    directory = tmp_path / "golden"
    directory.mkdir()
    for archive in golden.inputs.split():
        unpack(archive, directory)
    programs = directory / ".programs"
    for name in SLURM:
        program(programs / name, "echo slurm 23.11.4")
    environment = {"COLUMNS": "10000", "TERM": "dumb", "NO_COLOR": "1", "PATH": str(programs), "TZ": "UTC"}
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(directory)
    parts = []
    for command in golden.command.split(" && "):
        # A report says which command it was made with.
        monkeypatch.setattr(sys, "argv", ["precice-lb", *shlex.split(command)])
        code = main(sys.argv[1:])
        out, err = capsys.readouterr()
        parts += [(f"precice-lb {command}: exit code {code}", out), ("standard error", err)]
    for pattern in golden.files.split():
        paths = sorted(path for path in directory.glob(pattern) if path.is_file())
        assert paths, f"{golden.command}: wrote no {pattern}"
        parts += [(str(path.relative_to(directory)), readable(path)) for path in paths]
    shown = [(title, steady(part, directory)) for title, part in parts if part or title != "standard error"]
    compare(golden.name, "\n".join(f"=== {title}\n{part}\n" if part else f"=== {title}\n" for title, part in shown))


def compare(name: str, text: str) -> None:
    """Fail where a text is not the one kept, and leave it beside that."""
    kept, new = TEXTS / f"{name}.txt", TEXTS / f"{name}.new.txt"
    before = kept.read_text(encoding="utf-8") if kept.exists() else ""
    if text == before:
        new.unlink(missing_ok=True)
        return
    new.write_text(text, encoding="utf-8")
    changes = difflib.unified_diff(before.splitlines(), text.splitlines(), kept.name, new.name, lineterm="", n=2)
    accept = f"python tests/golden/accept.py {name}"
    pytest.fail("\n".join([f"{name} says something else; to accept it: {accept}", *changes]), pytrace=False)


def readable(path: Path) -> str:
    """Text of a file; of a page what its reader sees, without its drawings."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".html":
        return text
    parser = _Page()
    parser.feed(text)
    lines = (" ".join(line.split()) for line in "".join(parser.text).splitlines())
    return "\n".join(line for line in lines if line)


def steady(text: str, directory: Path) -> str:
    """Text without what differs between machines and days: six digits of floating point numbers are kept."""
    if text.lstrip()[:1] in ("{", "["):
        text = _as_lines(json.loads(text, parse_float=lambda digits: x if abs(x := float(digits)) > NOTHING else 0))
    places = {str(directory): "DIRECTORY", os.path.realpath(directory): "DIRECTORY", sys.executable: "PYTHON"}
    for place, name in places.items():
        text = re.sub(rf"(?<![\w/]){re.escape(place)}(?!\w)", name, text)
    for pattern, replacement in STEADY:
        text = pattern.sub(replacement, text)
    text = FLOAT.sub(_rounded, text)
    # A table's rows stay whole.
    lines = [[line.rstrip()] if "  " in line else textwrap.wrap(line, WIDTH, **WHOLE) for line in text.splitlines()]
    return "\n".join(itertools.chain.from_iterable(wrapped or [""] for wrapped in lines)).strip("\n")


def _rounded(number: re.Match[str]) -> str:
    """Write six digits of a number that has more, and what is next to nothing as 0."""
    if number[2] and abs(float(number[0])) < NOTHING:
        return "0"
    digits = number[1].replace(".", "").lstrip("0")
    return f"{float(number[0]):.6g}" if len(digits) > 6 else number[0]


def _as_lines(value: Any, indent: str = "") -> str:
    """Write JSON with a line for whatever fits into one."""
    if isinstance(value, dict):
        value = {key: part for key, part in value.items() if key not in LEFT_OUT}
    line = FLOAT.sub(_rounded, json.dumps(value, ensure_ascii=False))
    if not isinstance(value, dict | list) or len(line) <= WIDTH_OF_JSON:
        return line
    inner = f"{indent} "
    parts = [_as_lines(part, inner) for part in (value.values() if isinstance(value, dict) else value)]
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {part}" for key, part in zip(value, parts, strict=True)]
    start, end = "{}" if isinstance(value, dict) else "[]"
    return f"{start}\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}{end}"


class _Page(HTMLParser):
    """Collects the text of a page, a line for each block and each row of a table; a drawing is its description."""

    BLOCKS = ("h1", "h2", "h3", "p", "li", "tr", "div", "figcaption", "caption", "pre", "section", "figure", "br")
    SILENT = ("style", "script", "svg", "title")

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "svg" and not self.silent:
            self.text.append(f"\n[{dict(attrs).get('aria-label')}]\n")
        self.silent += tag in self.SILENT
        if not self.silent and tag in self.BLOCKS:
            self.text.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self.silent -= tag in self.SILENT
        if not self.silent:
            self.text.append(
                "\n" if tag in self.BLOCKS else " | " if tag in ("td", "th") else " " if tag == "dt" else ""
            )

    def handle_data(self, data: str) -> None:
        if not self.silent:
            self.text.append(data.replace("\n", " "))
