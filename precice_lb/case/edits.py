"""Edits in a configuration's text itself, so that everything else stays as it was, byte for byte."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from precice_lb.case.config import Configuration, parse_configuration
from precice_lb.case.elements import Element, fail, load
from precice_lb.exceptions import ConfigurationError

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
    return place, place, "".join(f"{_gap(text, element)}{line}" for line in new)


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


def patch_configuration(
    source: str | Path,
    target: str | Path,
    *,
    max_time_windows: int | None = None,
    exchange_directory: str | None = None,
    network: str | None = None,
) -> None:
    """Write a copy of `source` that ends early or meets elsewhere; all the rest stays as it is, byte for byte.

    Parameters
    ----------
    source, target
        Paths of the configuration to read and of the copy to write. They may be the same.
    max_time_windows
        Number of time windows after which the coupling ends. Where coupling schemes have windows of different size,
        it counts the longest ones and the others get as many as fit, so that all end at the same time. A
        ``<max-time>`` is kept: preCICE stops at whichever limit comes first.
    exchange_directory
        Directory that every ``<m2n:…>`` gets for meeting its partner.
    network
        Interface on which the sockets between participants, and inside them, are opened.

    Raises
    ------
    ConfigurationError
        If `source` cannot be read, if the limit is not positive, or if the windows of the schemes do not fit into
        one another.
    """
    path = Path(source)
    text, encoding = load(path)
    configuration = parse_configuration(text, path)
    edits: list[Edit] = []
    if max_time_windows is not None:
        if max_time_windows < 1:
            raise ConfigurationError(f"expected at least 1 as max_time_windows, found {max_time_windows}")
        edits += _limit_edits(configuration, max_time_windows)
    if exchange_directory is not None:
        edits += [
            set_attribute(text, element, "exchange-directory", exchange_directory)
            for element in configuration.root.named("m2n:")
        ]
    if network is not None:
        sockets = [e for e in _elements(configuration.root) if e.tag in {"m2n:sockets", "intra-comm:sockets"}]
        edits += [set_attribute(text, element, "network", network) for element in sockets]
    Path(target).write_bytes(apply(text, edits).encode(encoding))


def _elements(element: Element) -> Iterator[Element]:
    for child in element.children:
        yield child
        yield from _elements(child)


def _limit_edits(configuration: Configuration, windows: int) -> Iterator[Edit]:
    """Let every scheme end after as many of its own windows as `windows` of the longest ones take."""
    schemes = configuration.coupling_schemes
    longest = configuration.longest_window
    for element, scheme in zip(configuration.root.named("coupling-scheme:"), schemes, strict=True):
        count = windows if scheme.window_size_from_first else windows * longest / scheme.time_window_size
        if abs(count - round(count)) > 1e-6 * count:
            fail(
                configuration.path,
                scheme.line,
                f"time windows that fit {windows} times into the longest of {longest:g}",
                f"a time-window-size of {scheme.time_window_size:g}",
                "choose another number of time windows",
            )
        limit, value = element.first("max-time-windows"), str(round(count))
        if limit is not None:
            yield set_attribute(configuration.text, limit, "value", value)
        else:
            # There is another limit, or the reader would have refused the file.
            new = written("max-time-windows", {"value": value})
            yield insert_before(configuration.text, element.named("max-time")[0], new)
