"""From the file's bytes to elements with their lines and positions."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from precice_lb.exceptions import ConfigurationError
from precice_lb.precice_xml.records import Element

__all__ = ["fail", "load", "parse", "suggestion"]

_DECLARED_ENCODING = re.compile(rb"""^\s*<\?xml[^>]*?encoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")
_START_TAG = re.compile(r"""<[^\s/>]+(?:[^>"']|"[^"]*"|'[^']*')*>""")


def fail(path: Path, line: int | None, expected: str, found: str, remedy: str) -> NoReturn:
    """Raise the one-line error that says where, what was expected, what was found and what to do.

    Raises
    ------
    ConfigurationError
        Always.
    """
    place = f"{path}:{line}" if line is not None else str(path)
    raise ConfigurationError(f"{place}: expected {expected}, found {found}; {remedy}")


def suggestion(name: str, known: Iterable[str]) -> str:
    """Say what may have been meant by `name`: the closest of `known`, or all of them."""
    choices = list(known)
    close = difflib.get_close_matches(name, choices, n=1, cutoff=0.7)
    if close:
        return f'did you mean "{close[0]}"?'
    return f"known are {', '.join(choices)}" if choices else "none is defined"


def load(path: Path) -> tuple[str, str]:
    """Read the file without touching its line ends.

    Returns
    -------
    tuple of str
        The text, and the encoding with which it can be written again byte for byte.

    Raises
    ------
    ConfigurationError
        If there is no such file, or if it is not text in the encoding that it declares.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        fail(path, None, "a preCICE configuration file", error.strerror or "no readable file", "check the path")
    declared = _DECLARED_ENCODING.match(content)
    encoding = declared.group(1).decode("ascii") if declared else "utf-8"
    try:
        return content.decode(encoding), encoding
    except (UnicodeDecodeError, LookupError):
        fail(path, 1, f"text in {encoding}", "bytes that are not", "save the file as UTF-8")


def parse(path: Path, text: str) -> Element:
    """Parse `text` without namespaces, so that preCICE's undeclared prefixes are ordinary parts of a name.

    Returns
    -------
    Element
        The root element, with its comments and character data left out.

    Raises
    ------
    ConfigurationError
        If the text is not well-formed, with the line.
    """
    # What is no text in the store of a run is no text here: an error with its line.
    encoded = text.encode("utf-8", "surrogateescape")
    parser = expat.ParserCreate("utf-8")
    # Of the elements that are open: tag, line, attributes, span, and the children so far.
    stack: list[tuple[str, int, dict[str, str], tuple[int, int], list[Element]]] = [("", 0, {}, (0, 0), [])]

    def start(tag: str, attributes: dict[str, str]) -> None:
        position = parser.CurrentByteIndex
        first = position if len(encoded) == len(text) else len(encoded[:position].decode("utf-8"))
        match = _START_TAG.match(text, first)
        if match is None:
            raise ConfigurationError(f"{path}:{parser.CurrentLineNumber}: cannot find the start tag of <{tag}>")
        stack.append((tag, parser.CurrentLineNumber, attributes, match.span(), []))

    def end(_: str) -> None:
        tag, line, attributes, span, children = stack.pop()
        stack[-1][-1].append(Element(tag, line, attributes, tuple(children), span))

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    try:
        parser.Parse(encoded, True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        fail(path, error.lineno, "well-formed XML", f"{reason} in column {error.offset + 1}", "correct the file")
    return stack[0][-1][0]
