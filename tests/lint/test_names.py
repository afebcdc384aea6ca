"""Names in the package say what a thing is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from markdown_helpers import ROOT

MODULES = sorted((ROOT / "precice_lb").rglob("*.py"))
SAY_NOTHING = {"each", "found", "own", "said", "at", "given", "told"}


def _bound(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id if isinstance(node, ast.Name) else node.attr


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_variable_has_a_name_that_says_nothing(path: Path) -> None:
    bound = _bound(ast.parse(path.read_text(encoding="utf-8")))
    assert [(line, name) for line, name in bound if name.lstrip("_") in SAY_NOTHING] == []


def test_only_rooms_list_what_they_offer() -> None:
    listing = [path for path in MODULES if "__all__ = " in path.read_text(encoding="utf-8")]
    assert [str(path) for path in listing if path.name != "__init__.py"] == []
