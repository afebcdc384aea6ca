"""The documentation: it builds without warnings, and its generated parts are whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from markdown_helpers import ROOT, generated, pages


@pytest.fixture(scope="module")
def built() -> Path:
    """Build the pages, with every warning an error; after `make docs` there is little to build."""
    for package in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(package, reason="the extra docs is not installed")
    target = ROOT / "docs" / "_build" / "html"
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", str(target)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    return target


def test_documentation_builds_without_warnings(built: Path) -> None:
    for page in pages():
        if page.is_relative_to(ROOT / "docs"):
            html = built / page.relative_to(ROOT / "docs").with_suffix(".html")
            assert html.is_file(), page


def test_every_tutorial_and_every_room_has_a_page(built: Path) -> None:
    tutorials = {path.parent.name for path in ROOT.glob("tutorials/*/README.md")}
    assert {path.stem for path in (built / "tutorials").glob("*.html")} == tutorials
    assert "pulse" in tutorials
    packages = generated().packages()
    assert {path.name.removesuffix(".html") for path in (built / "api").glob("*.html")} == set(packages)
    assert {"precice_lb.split", "precice_lb.recommend", "precice_lb.exceptions"} <= set(packages)
    for package in packages:
        assert package in (built / "reference" / "python.html").read_text(encoding="utf-8")
