"""Recommendations and reports as files; what cannot be rendered costs nothing but itself."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from precice_lb.exceptions import DataError, PreciceLBError
from precice_lb.plain import plain
from precice_lb.report.blocks import Block, Chart, CodeBlock, DefinitionList, Page, Paragraph, Table
from precice_lb.report.markdown import blocks_markdown, page_markdown
from precice_lb.report.text import visible

if TYPE_CHECKING:
    from precice_lb.recommend import Recommendation
    from precice_lb.report.truth import Truth

__all__ = [
    "HTML_NAME",
    "JSON_NAME",
    "attempted",
    "json_text",
    "page_dict",
    "report_markdown",
    "write_documents",
    "write_files",
    "write_report",
]

JSON_NAME = "recommendation.json"
"""Written first: whatever becomes of the others, the result is there."""
HTML_NAME = "report.html"

_MARKDOWN_NAME = "recommendation.md"
_FIGURES, _DATA = "figures", "data"

Made = TypeVar("Made")


def attempted(what: str, make: Callable[[], Made]) -> Made | None:
    """Make something that the results do not depend on."""
    try:
        return make()
    except BrokenPipeError:
        # Nobody reads any more: that ends the command, which is no failure.
        raise
    except Exception as error:
        if os.environ.get("PRECICE_LB_DEBUG") == "1":
            raise
        known = isinstance(error, PreciceLBError | OSError)
        cause = f"{error}" if known else f"{type(error).__name__}: {error}"
        remedy = "" if known else "; please report this defect, PRECICE_LB_DEBUG=1 shows where it is"
        print(f"precice-lb: warning: {what} could not be made: {visible(cause)}{remedy}", file=sys.stderr)
        return None


def json_text(value: Any) -> str:
    """Write a value as JSON that every reader takes."""
    return json.dumps(plain(value), indent=2, allow_nan=False) + "\n"


def report_markdown(recommendation: Recommendation, *, truth: Truth | None = None) -> str:
    """Write a recommendation as Markdown, with formulas in full."""
    from precice_lb.report.recommendation import recommendation_blocks

    pictures = {f"{stem}.svg": caption for stem, caption in _figures(recommendation).items()}
    names = {who: who for who in recommendation.split}
    blocks = recommendation_blocks(recommendation, names, truth=truth, brief=False, pictures=pictures)
    return blocks_markdown("Recommended split", blocks)


def _figures(recommendation: Recommendation) -> dict[str, str]:
    """Captions of the charts that lie beside the text, by their names."""
    found = {"scaling": "Scaling curves, measured points and the recommended split"}
    if len(recommendation.split) == 2:
        found["landscape"] = "Window time over the split"
    else:
        found["comparison"] = "One window under each split"
    if recommendation.plan is not None:
        found |= {"budget": "Window time over the budget", "cost": "Window time against core-hours"}
    return found


def write_documents(
    recommendation: Recommendation,
    directory: str | Path,
    *,
    truth: Truth | None = None,
) -> list[Path]:
    """Write ``recommendation.json``, ``recommendation.md`` and the figures (SVG and PNG) into a directory.

    Each file is replaced as a whole, so that a reader never sees half of one. JSON comes first, before anything is
    rendered; a figure or text that cannot be made is a line on standard error, and the others are written.
    """
    values = dict(recommendation.to_dict())
    if truth is not None:
        values["emulation"] = truth.to_dict()
    written = write_files(directory, {JSON_NAME: json_text(values).encode()}, "the report")
    text = attempted(_MARKDOWN_NAME, lambda: report_markdown(recommendation, truth=truth).encode())
    if text is not None:
        written += write_files(directory, {_MARKDOWN_NAME: text}, "the report")
    for name in _figures(recommendation):
        drawn = attempted(f"the figure {name}", partial(_drawn, recommendation, name))
        if drawn is not None:
            written += write_files(directory, drawn, "the report")
    return written


def _drawn(recommendation: Recommendation, name: str) -> dict[str, bytes]:
    # Drawing loads matplotlib, which takes longer than everything else here.
    from precice_lb.report.charts import CHARTS
    from precice_lb.report.style import figure_files

    return figure_files(name, CHARTS[name](recommendation).figure)


def write_report(page: Page, directory: str | Path) -> list[Path]:
    """Write a report into a directory."""
    from precice_lb.report.page.html import page_html

    target = Path(directory)
    documents = {
        HTML_NAME: page_html(page).encode(),
        "report.md": page_markdown(page).encode(),
        "report.json": json_text(page_dict(page)).encode(),
    }
    figures = {f"{chart.name}.svg": chart.svg for chart in page.charts}
    data = {f"{chart.name}.csv": _csv(chart) for chart in page.charts}
    # The page last: where it is new, what it names is too.
    written = write_files(target / _FIGURES, figures, "the figures")
    written += write_files(target / _DATA, data, "the figures' numbers")
    return write_files(target, dict(reversed(documents.items())), "the report")[::-1] + written


def page_dict(page: Page) -> dict[str, Any]:
    """Give a report as JSON-ready values: its sections block by block, and what programs want to know beside them."""
    return {
        "format": "precice-lb-report",
        "format_version": 1,
        "title": page.title,
        "subtitle": page.subtitle,
        "sections": [
            {"name": each.name, "title": each.title, "blocks": [_block(block) for block in each.blocks]}
            for each in page.sections
        ],
        **page.values,
    }


def _block(block: Block) -> Mapping[str, Any]:
    if isinstance(block, Paragraph):
        head = {"head": block.head} if block.head else {}
        return {"kind": block.kind, "role": block.role, **head, "text": block.text}
    if isinstance(block, DefinitionList):
        return {"kind": block.kind, "pairs": [{"key": key, "text": text} for key, text in block.pairs]}
    if isinstance(block, CodeBlock):
        return {"kind": block.kind, "caption": block.caption, "text": block.text}
    if isinstance(block, Chart):
        files = {"figure": f"{_FIGURES}/{block.name}.svg", "data": f"{_DATA}/{block.name}.csv"}
        return {"kind": block.kind, "name": block.name, "caption": block.caption, **files}
    assert isinstance(block, Table)
    return {"kind": block.kind, "title": block.title, "header": block.header, "rows": block.rows}


def _csv(chart: Chart) -> bytes:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([_cell(each) for each in chart.header])
    writer.writerows([_cell(each) for each in row] for row in chart.rows)
    return stream.getvalue().encode()


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        text = visible(value)
        # Spreadsheets run what begins like a formula.
        return f"'{text}" if text[:1] in "=+-@" and text else text
    if not isinstance(value, float):
        return value
    # Seven digits are more than any clock knows; where a model has no value, there is none.
    return f"{float(value):.7g}" if math.isfinite(value) else ""


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
