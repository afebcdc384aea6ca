"""The documentation: it builds without warnings, and its generated parts are whole."""

from __future__ import annotations

import subprocess
import sys

import pytest
from markdown_helpers import ROOT, pages


def test_documentation_builds_without_warnings() -> None:
    """With every warning an error; after `make docs` there is little to build."""
    pytest.importorskip("sphinx", reason="the extra docs is not installed")
    pytest.importorskip("myst_parser", reason="the extra docs is not installed")
    pytest.importorskip("furo", reason="the extra docs is not installed")
    target = ROOT / "docs" / "_build" / "html"
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", str(target)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    for page in pages():
        if page.is_relative_to(ROOT / "docs"):
            html = target / page.relative_to(ROOT / "docs").with_suffix(".html")
            assert html.is_file(), page
