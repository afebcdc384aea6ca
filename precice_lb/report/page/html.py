"""A report as one HTML file that needs nothing else: no network, no script."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from precice_lb.names import visible
from precice_lb.report.blocks import Chart, Page, Section, Table
from precice_lb.report.style import COLOURS, GREY, GRID

_TEMPLATE = "report.html.j2"
# What a table of half a page has room for.
_COLUMNS_OF_HALF, _CHARACTERS_OF_HALF = 5, 52
_NUMBER_AND_UNIT = re.compile(r"(?<=\d) (?=(?:%|s|ms|µs|ranks?|windows?|core-hours)(?!\w))")

_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
# Colours that depend on whether the page is light or dark, and the CSS variables that stand for them.
_COLOUR_NAMES = {
    "#000000": "--ink",
    "#ffffff": "--paper",
    GREY.lower(): "--grey",
    GRID.lower(): "--grid",
    **{colour.lower(): f"--series-{index}" for index, colour in enumerate(COLOURS)},
}
_COLOUR = re.compile(r"#[0-9a-f]{6}\b", re.IGNORECASE)
_FONT = re.compile(r"font: ([^;]*?px) [^;]*")
_REFERENCE = re.compile(r"url\(#([^)]*)\)")


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
    drawings = {id(chart): _inline_svg(chart, number) for number, chart in enumerate(page.charts, start=1)}
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


def _inline_svg(chart: Chart, number: int) -> str:
    """Render a chart as an SVG element: names are its own, colours follow the page's light or dark."""
    ET.register_namespace("", _SVG)
    ET.register_namespace("xlink", _XLINK)
    root = ET.fromstring(chart.svg)
    prefix = f"f{number}-"
    for parent in root.iter():
        for child in list(parent):
            # What is said there about the file has no place in a page, and a style sheet would be valid for all of it.
            if child.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"):
                parent.remove(child)
    seen: set[str] = set()
    for element in root.iter():
        for key, value in list(element.attrib.items()):
            element.set(key, _attribute(key, value, prefix))
        # Two images of the same colours have the same name.
        if "id" in element.attrib:
            while element.attrib["id"] in seen:
                element.attrib["id"] += "-again"
            seen.add(element.attrib["id"])
    width, height = (float(root.attrib.pop(side).removesuffix("pt")) for side in ("width", "height"))
    root.attrib.pop("version", None)
    # Points become pixels of the page, 96 in an inch; up to a quarter more where there is room.
    root.set("style", f"max-width: {1.25 * width / 72 * 96:.0f}px; aspect-ratio: {width:.2f} / {height:.2f}")
    root.set("role", "img")
    root.set("aria-label", chart.caption)
    return ET.tostring(root, encoding="unicode")


def _attribute(key: str, value: str, prefix: str) -> str:
    if key == "id":
        return prefix + value
    if key == f"{{{_XLINK}}}href":
        return f"#{prefix}{value[1:]}" if value.startswith("#") else value
    if key in ("style", "fill", "stroke", "clip-path"):
        value = _REFERENCE.sub(lambda found: f"url(#{prefix}{found[1]})", value)
        value = _COLOUR.sub(_variable, value)
        # Fonts of the page, whatever the reader's machine has.
        return _FONT.sub(r"font: \1 var(--font)", value)
    return value


def _variable(found: re.Match[str]) -> str:
    name = _COLOUR_NAMES.get(found[0].lower())
    return f"var({name})" if name else found[0]
