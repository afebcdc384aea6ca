"""Sections, blocks, links and anchors of the Markdown files of this repository."""

from __future__ import annotations

import importlib.util
import itertools
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[1]
SHELLS = ("bash", "sh", "shell", "console")
# First words of lines that are commands where a block does not name its language.
PROGRAMS = ("make ", "precice-lb ", "python ", "pip ", "mpiexec ", "srun ", "sbatch ", "export ", "cd ", "PRECICE_LB_")
# Written by docs/generated.py from other files.
_MADE = ("docs/api/", "docs/tutorials/", "docs/_build/")
_MARKER = re.compile(r"<!-- (not run|run in full|run in|not compared|printed in full by): (.+?) -->", re.DOTALL)
# What `docs/generated.py` puts other text for.
_DIRECTIVE = re.compile(r"\{[\w-]+\}")


@cache
def generated() -> ModuleType:
    """The module that writes pages of the documentation, which stands beside them."""
    spec = importlib.util.spec_from_file_location("generated", ROOT / "docs" / "generated.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class _PartOfPage:
    """A part of a page, which begins on a line."""

    path: Path
    line: int

    @property
    def name(self) -> str:
        return f"{self.path.relative_to(ROOT).as_posix()}:{self.line}"


@dataclass(frozen=True)
class Block(_PartOfPage):
    """A fenced block, and what the HTML comment on the line before it says about running it."""

    language: str
    text: str
    marker: str
    reason: str


def pages() -> list[Path]:
    """All Markdown files that users read, in order of their paths."""
    patterns = ("*.md", "configs/*.md", "docs/**/*.md", "tutorials/*/*.md", "benchmarks/*.md", "docker/*.md")
    found = sorted({path for pattern in patterns for path in ROOT.glob(pattern)})
    return [path for path in found if not path.relative_to(ROOT).as_posix().startswith(_MADE)]


@cache
def _tokens(path: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(path.read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Passage(_PartOfPage):
    """A paragraph, list or table, and what the HTML comment on the line before it says about its figures.

    Code in it, and what describes its pictures, is no part of the text.
    """

    text: str
    marker: str
    reason: str


def _prose(inline: Token) -> str:
    """Return the text of a paragraph, item or cell without code and pictures."""
    words = []
    for child in inline.children or ():
        if child.type == "text":
            words.append(child.content)
        elif child.type in ("softbreak", "hardbreak", "code_inline"):
            words.append(" ")
    return "".join(words)


@cache
def sections(path: Path) -> list[list[Block | Passage]]:
    """Return blocks and passages of a page, by the headings that they stand below.

    Directives of the documentation's builder are no blocks.
    """
    found: list[list[Block | Passage]] = [[]]
    marker = ("", "")
    passage_line = 0
    passage_marker = ("", "")
    passage_texts: list[str] = []
    for token in _tokens(path):
        if token.type == "heading_open":
            found.append([])
        if token.type == "html_block":
            match = _MARKER.fullmatch(token.content.strip())
            marker = (match[1], " ".join(match[2].split())) if match else ("", "")
        elif token.type == "fence" and token.map is not None:
            words = token.info.split()
            language = words[0] if words else ""
            if not _DIRECTIVE.fullmatch(language):
                found[-1].append(Block(path, token.map[0] + 1, language, token.content, *marker))
            marker = ("", "")
        elif token.type == "inline":
            passage_texts.append(_prose(token))
        elif token.level == 0 and token.nesting == 1 and token.map is not None:
            passage_line = token.map[0] + 1
            passage_marker = marker
            passage_texts = []
            marker = ("", "")
        elif token.level == 0 and token.nesting == -1 and token.type != "heading_close":
            found[-1].append(Passage(path, passage_line, "\n".join(passage_texts), *passage_marker))
        elif token.nesting >= 0:
            marker = ("", "")
    return found


def blocks(path: Path) -> list[Block]:
    """Return the fenced blocks of a page."""
    return [part for section in sections(path) for part in section if isinstance(part, Block)]


def command_lines(block: Block) -> list[str]:
    """Command lines of a block: continued lines joined, prompts and what follows them in a session left out."""
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.language == "console":
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def is_commands(block: Block) -> bool:
    if block.text.startswith("#!"):
        return False
    if block.language in SHELLS:
        return True
    return (
        block.language == ""
        and bool(command_lines(block))
        and all(line.startswith(PROGRAMS) for line in command_lines(block))
    )


def links(path: Path) -> list[str]:
    """Targets of the links and images of a page."""
    found = []
    for token in _tokens(path):
        for child in token.children or ():
            target = child.attrs.get("href") or child.attrs.get("src")
            if target is not None:
                found.append(str(target))
    return found


@cache
def anchors(path: Path) -> frozenset[str]:
    """Anchors of a page's headings, as GitHub and the documentation's builder make them."""
    found: dict[str, int] = {}
    tokens = _tokens(path)
    for heading, inline in itertools.pairwise(tokens):
        if heading.type == "heading_open":
            text = "".join(child.content for child in inline.children or () if child.type in ("text", "code_inline"))
            slug = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
            count = found.get(slug, 0)
            found[slug] = count + 1
    return frozenset(
        slug if number == 0 else f"{slug}-{number}" for slug, last in found.items() for number in range(last)
    )


def link_problem(path: Path, target: str) -> str | None:
    """Say what is wrong with a link to something in this repository; None for links that leave it."""
    if re.match(r"[a-z][a-z+.-]*:", target):
        return None
    place, _, anchor = target.partition("#")
    reached = (path.parent / place).resolve() if place else path
    if not reached.exists():
        return f"{path.relative_to(ROOT)}: {target}: no such file"
    if not reached.is_relative_to(ROOT):
        return f"{path.relative_to(ROOT)}: {target}: not in this repository"
    if anchor and (reached.suffix != ".md" or anchor not in anchors(reached)):
        return f"{path.relative_to(ROOT)}: {target}: no such heading"
    return None
