"""Edits in a configuration's text itself, so that everything else stays as it was, byte for byte."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from precice_lb.precice_xml.records import Element

_ATTRIBUTE = re.compile(r"""\s+(?P<name>[^\s=/>]+)\s*=\s*(?P<value>"[^"]*"|'[^']*')""")
_TAG_NAME = re.compile(r"<[^\s/>]+")
# Comments to which the line belongs in whose middle they begin.
_COMMENTS = re.compile(r"(?:[ \t]*<!--(?:(?!-->)[^\r\n])*-->)+(?=[ \t]*[\r\n])")
# By hand: the standard library's ``quoteattr`` would load its network modules.
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})

# One replacement: begin and end in the text, and what comes in between.
Edit = tuple[int, int, str]


def apply(text: str, edits: Iterable[Edit]) -> str:
    """Make edits that do not overlap."""
    for begin, end, replacement in sorted(edits, reverse=True):
        text = text[:begin] + replacement + text[end:]
    return text


def written(tag: str, attributes: Mapping[str, str]) -> str:
    """Write an element without children."""
    return f"<{tag} {' '.join(f'{name}={_quoted(value)}' for name, value in attributes.items())} />"


def insert_before(text: str, element: Element, new: str) -> Edit:
    """Put a new element before another, on a line of its own where that has one."""
    begin = element.span[0]
    return begin, begin, f"{new}{_gap(text, element)}"


def insert_behind(text: str, element: Element, *new: str) -> Edit:
    """Put new elements behind another and the comments in its line, on lines of their own where that has one."""
    comments = _COMMENTS.match(text, element.end)
    place = comments.end() if comments else element.end
    return place, place, "".join(f"{_gap(text, element)}{each}" for each in new)


def set_attribute(text: str, element: Element, name: str, value: str) -> Edit:
    """Give an attribute another value, or add it."""
    begin, end = element.span
    position = _TAG_NAME.match(text, begin)
    cursor = position.end() if position else begin
    while (attribute := _ATTRIBUTE.match(text, cursor, end)) is not None:
        if attribute["name"] == name:
            return attribute.start("value"), attribute.end("value"), _quoted(value)
        cursor = attribute.end()
    return cursor, cursor, f" {name}={_quoted(value)}"


def _quoted(value: str) -> str:
    return f'"{value.translate(_ENTITIES)}"'


def _gap(text: str, element: Element) -> str:
    """Separate elements as they are here: with the end of a line and the indentation, or with a space."""
    begin = element.span[0]
    line_start = text.rfind("\n", 0, begin) + 1
    lead = text[line_start:begin]
    newline = "\r\n" if text[:line_start].endswith("\r\n") else "\n"
    return " " if lead.strip() else newline + lead
