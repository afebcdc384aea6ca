"""A report as one HTML file that needs nothing else: no network, no script."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from precice_lb.report.blocks import Chart, Page, Section, Table
from precice_lb.report.page.svg import inline_svg
from precice_lb.report.text import visible

__all__ = ["page_html"]

_TEMPLATE = "report.html.j2"
# What a table of half a page has room for.
_COLUMNS_OF_HALF, _CHARACTERS_OF_HALF = 5, 52
_NUMBER_AND_UNIT = re.compile(r"(?<=\d) (?=(?:%|s|ms|µs|ranks?|windows?|core-hours)(?!\w))")


def page_html(page: Page) -> str:
    """Render a page as HTML."""
    environment = Environment(
        loader=PackageLoader("precice_lb.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    drawings = {id(chart): inline_svg(chart, number) for number, chart in enumerate(page.charts, start=1)}
    sections = [{"section": section, "groups": list(_groups(section))} for section in page.sections]
    return environment.get_template(_TEMPLATE).render(
        page=page, sections=sections, drawings=drawings, identity=id, is_wide=_is_wide
    )


def _shown(value: Any) -> Any:
    """Write out control characters and keep numbers with their units, except in what was escaped or made here."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return _NUMBER_AND_UNIT.sub("\N{NO-BREAK SPACE}", visible(value))


def _is_wide(table: Table) -> bool:
    """Tell whether a table needs more than half of a page."""
    columns = zip(*table.rows, strict=True) if table.rows else ((),) * len(table.header)
    # Headers may be broken between words.
    widths = [
        max(map(len, [*head.split(), *cells]), default=0) for head, cells in zip(table.header, columns, strict=True)
    ]
    return len(widths) > _COLUMNS_OF_HALF or sum(widths) > _CHARACTERS_OF_HALF


def _groups(section: Section) -> Iterator[dict[str, Any]]:
    """Join neighbouring charts and tables: they stand side by side where there is room."""
    for beside, blocks in itertools.groupby(section.blocks, lambda block: isinstance(block, Chart | Table)):
        yield {"beside": beside, "blocks": list(blocks)}
