"""The page on commands in scripts and in Python names what there is, for every command."""

from __future__ import annotations

import importlib
import re

from markdown_helpers import ROOT

from precice_lb.cli import app

PAGE = (ROOT / "docs" / "exit-codes.md").read_text(encoding="utf-8")
# Commands, and the names of what does the same in Python.
ROWS = re.findall(r"^\| `([a-z -]+)` \| (`precice_lb\..*) \|$", PAGE, flags=re.MULTILINE)


def test_table_has_what_does_the_same_in_python_for_every_command() -> None:
    in_table = {command.split()[0] for command, _ in ROWS}
    # Python needs no completion.
    assert in_table == {name for name in app if not name.startswith("-")} - {"completion"}


def test_names_in_the_table_can_be_imported() -> None:
    names = [name for _, cell in ROWS for name in re.findall(r"`([\w.]+)`", cell)]
    assert len(names) > 20
    for name in names:
        module, _, attribute = name.rpartition(".")
        assert callable(getattr(importlib.import_module(module), attribute)), name
