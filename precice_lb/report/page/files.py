"""A report as files: HTML, Markdown, JSON, figures and their numbers."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from precice_lb.report.blocks import Block, Chart, CodeBlock, DefinitionList, Page, Paragraph, Table
from precice_lb.report.documents import json_text, write_files
from precice_lb.report.markdown import page_markdown
from precice_lb.report.page.html import page_html
from precice_lb.report.text import visible

__all__ = ["HTML_NAME", "page_dict", "write_report"]

HTML_NAME = "report.html"
_FIGURES, _DATA = "figures", "data"


def write_report(page: Page, directory: str | Path) -> list[Path]:
    """Write a report into a directory."""
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
