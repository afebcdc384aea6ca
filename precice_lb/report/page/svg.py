"""Figures as part of a page: names of elements that are its own, and colours that follow the page's light or dark."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from precice_lb.report.blocks import Chart
from precice_lb.report.style import COLOURS, GREY, GRID

__all__ = ["COLOUR_NAMES", "inline_svg"]

_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
#: Colours that depend on whether the page is light or dark, and the CSS variables that stand for them.
COLOUR_NAMES = {
    "#000000": "--ink",
    "#ffffff": "--paper",
    GREY.lower(): "--grey",
    GRID.lower(): "--grid",
    **{colour.lower(): f"--series-{index}" for index, colour in enumerate(COLOURS)},
}
_COLOUR = re.compile(r"#[0-9a-f]{6}\b", re.IGNORECASE)
_FONT = re.compile(r"font: ([^;]*?px) [^;]*")
_REFERENCE = re.compile(r"url\(#([^)]*)\)")


def inline_svg(chart: Chart, number: int) -> str:
    """Render a chart as an SVG element of a page."""
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
    name = COLOUR_NAMES.get(found[0].lower())
    return f"var({name})" if name else found[0]
