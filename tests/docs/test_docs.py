"""The documentation: it builds without warnings, and its generated parts are whole."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from markdown_helpers import ROOT, generated, pages

from precice_lb.cli import add_readers, app


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


def test_every_command_and_option_is_in_the_reference(built: Path) -> None:
    text = (built / "reference" / "command-line.html").read_text(encoding="utf-8")

    def look(command: object, words: tuple[str, ...]) -> None:
        for name in command:  # type: ignore[attr-defined]
            if name.startswith("-"):
                continue
            below = command[name]  # type: ignore[index]
            assert " ".join(("precice-lb", *words, name)) in re.sub(r"<[^>]+>", "", text)
            if below.default_command is None:
                look(below, (*words, name))
            else:
                for argument in below.assemble_argument_collection():
                    for option in argument.names[:1]:
                        assert not option.startswith("--") or option in text, (name, option)

    add_readers()
    look(app, ())
    assert "[default: None]" not in text
    assert " -m " not in "".join(re.findall(r"precice-lb [^\n]*\[OPTIONS\]", re.sub(r"<[^>]+>", "", text)))


def test_links_out_of_the_documentation_follow_their_files() -> None:
    text = "[a](../configs/README.md#runs) [b](../pyproject.toml) [c](partners.md) [d](../tutorials/pulse/README.md)"
    moved = generated().relinked(text, ROOT / "docs", "how-to/cluster.md")
    assert moved == "[a](../reference/study.md#runs) b [c](../partners.md) [d](../tutorials/pulse.md)"
    assert generated().relinked("```\n[b](x.md)\n```", ROOT, "index.md") == "```\n[b](x.md)\n```"
