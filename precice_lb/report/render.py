"""Blocks on a terminal, or in a pipe, as plain text; as one HTML file that needs no network and no script; and files.

What cannot be rendered costs nothing but itself.
"""

from __future__ import annotations

import html
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from precice_lb.exceptions import DataError, PreciceLBError
from precice_lb.report.blocks import Block, Chart, DefinitionList, Missing, Page, Paragraph, Section, Table
from precice_lb.rooms import hooks
from precice_lb.text import json_text, say, visible

if TYPE_CHECKING:
    from precice_lb.recommend import Recommendation

HTML_NAME = "report.html"
_STYLES = {"lead": "bold", "warning": "yellow", "missing": "yellow"}
# What a drawing says about itself, and a style sheet that would be valid for all of the page.
_NO_DRAWING = re.compile(r"<(metadata|style)\b.*?</\1>", re.DOTALL)
_IDS = re.compile(r'\bid="|\burl\(#|\bhref="#')
# What Markdown, or HTML in it, takes for more than a character.
_MARKED = re.compile(r"[\\`*_<\[\]|#&@]")

Made = TypeVar("Made")


def console(stream: TextIO | None = None) -> Console:
    """Make a console for standard output or another stream that shows texts as they are: no markup, no emoji."""

    class _Console(Console):
        def on_broken_pipe(self) -> None:
            """Leave it to the command line, instead of ending the program with exit code 1."""
            raise BrokenPipeError

    return _Console(file=stream, markup=False, emoji=False, highlight=False)


def rendered(blocks: Iterable[Block]) -> RenderableType:
    """Make a screen of blocks: what speaks against them comes last, where the eye is."""
    parts: list[RenderableType] = []
    for block in sorted(blocks, key=lambda block: isinstance(block, Paragraph) and block.role == "warning"):
        if isinstance(block, Table):
            # Of several parts of text, a table stands apart.
            blank = [Text()] if parts and not (isinstance(parts[-1], Text) and not parts[-1].plain) else []
            parts += [*blank, *_table(block), Text()]
        elif isinstance(block, DefinitionList):
            parts += [_line(key, text) for key, text in block.pairs]
        elif isinstance(block, Paragraph):
            parts.append(_line(block.heading, block.text, _STYLES.get(block.role, "")))
    while parts and isinstance(parts[-1], Text) and not parts[-1].plain:
        parts.pop()
    return Group(*parts)


def _table(block: Table) -> list[RenderableType]:
    table = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    for head, numeric in zip(block.header, block.numeric, strict=True):
        table.add_column(Text(head), justify="right" if numeric else "left", no_wrap=numeric, overflow="fold")
    for row in block.rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    return [Text(visible(block.title), style="bold", overflow="fold"), table]


def _line(head: str, text: str, style: str = "") -> Text:
    if not head:
        return Text(visible(text), style=style, overflow="fold")
    return Text.assemble((f"{visible(head)}: ", "bold"), (visible(text), style), overflow="fold")


def markdown(blocks: Iterable[Block]) -> str:
    """Write the same blocks as a screen has as Markdown, such as for a pull request."""
    parts = []
    for block in blocks:
        if isinstance(block, Table):
            rule = ["---:" if numeric else "---" for numeric in block.numeric]
            cells = ([_escaped(cell) for cell in row] for row in (block.header, *block.rows))
            head, *rows = (f"| {' | '.join(row)} |" for row in cells)
            parts.append("\n".join([f"**{_escaped(block.title)}**", "", head, f"| {' | '.join(rule)} |", *rows]))
        elif isinstance(block, DefinitionList):
            parts += [f"**{_escaped(key)}:** {_escaped(text)}" for key, text in block.pairs]
        elif isinstance(block, Paragraph):
            heading = f"**{_escaped(block.heading)}:** " if block.heading else ""
            parts.append(heading + _escaped(block.text))
    return "\n\n".join(parts) + "\n"


def _escaped(text: str) -> str:
    return _MARKED.sub(r"\\\g<0>", visible(text))


def page_html(page: Page) -> str:
    """Render a page as HTML."""
    # Loaded late: few commands make a page.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    def shown(value: Any) -> Any:
        """Write out control characters, except in what was escaped or made here, and keep numbers with their %."""
        plain = isinstance(value, str) and not hasattr(value, "__html__")
        return visible(value).replace(" %", "\N{NO-BREAK SPACE}%") if plain else value

    environment = Environment(
        loader=PackageLoader("precice_lb.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template("report.html.j2")
    return template.render(page=page, groups=_groups, inline_svg=_inline_svg)


def _groups(section: Section) -> Iterable[tuple[bool, Iterable[Block]]]:
    """Join neighbouring charts and tables: they stand side by side where there is room."""
    return itertools.groupby(section.blocks, lambda block: isinstance(block, Chart | Table))


def _inline_svg(chart: Chart) -> str:
    """Return the SVG element of a chart, whose ids are its own in the page."""
    body = chart.svg.decode().partition("<svg ")[2]
    label = html.escape(visible(chart.caption))
    return f'<svg role="img" aria-label="{label}" ' + _IDS.sub(rf"\g<0>{chart.name}-", _NO_DRAWING.sub("", body))


def attempted(what: str, make: Callable[[], Made]) -> Made | None:
    """Make something that the results do not depend on."""
    try:
        return make()
    except (BrokenPipeError, Missing):
        # Nobody reads any more, or there is nothing to make it of: that is no failure.
        raise
    except Exception as error:
        if os.environ.get("PRECICE_LB_DEBUG") == "1":
            raise
        known = isinstance(error, PreciceLBError | OSError)
        cause = f"{error}" if known else f"{type(error).__name__}: {error}"
        remedy = "" if known else "; please report this defect, PRECICE_LB_DEBUG=1 shows where it is"
        say(f"precice-lb: warning: {what} could not be made: {cause}{remedy}", sys.stderr)
        return None


def write_recommendation(
    recommendation: Recommendation, directory: str | Path, sources: Sequence[str | Path] = ()
) -> list[Path]:
    """Write ``recommendation.json`` into a directory, and what rooms write of its sources beside it.

    Each file is replaced as a whole, so that a reader never sees half of one.
    """
    from precice_lb.recommend.result import RECOMMENDATION_FILE

    contents = {RECOMMENDATION_FILE: json_text(recommendation.to_dict()).encode()}
    written = write_files(directory, contents, "the recommendation")
    for write_beside in hooks("write_beside") if sources else ():
        written += write_beside(sources, recommendation.ranks, directory)
    return written


def write_report(page: Page, directory: str | Path, figures: str | Path | None = None) -> list[Path]:
    """Write a report into a directory, and its figures as SVG into one of their own; the page is the first file."""
    written = write_files(directory, {HTML_NAME: page_html(page).encode()}, "the report")
    if figures is not None:
        written += write_files(figures, {f"{chart.name}.svg": chart.svg for chart in page.charts}, "the figures")
    return written


def write_files(directory: str | Path, contents: Mapping[str, bytes], what: str) -> list[Path]:
    """Write files into a directory, one after the other, each under its name only once it is complete."""
    target = Path(directory)
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            _replace(target / name, content)
    except OSError as error:
        raise DataError(
            f"{target}: expected a directory to write {what} to, found: {error.strerror}; name another one"
        ) from error
    return [target / name for name in contents]


def _replace(path: Path, content: bytes) -> None:
    if path.exists() and not path.is_file():  # a device or a pipe, such as /dev/stdout
        path.write_bytes(content)
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
