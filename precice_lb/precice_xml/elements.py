"""From the file's bytes to elements with their lines and positions, and typed access to their attributes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn, TypeVar
from xml.parsers import expat

from precice_lb.exceptions import ConfigurationError
from precice_lb.precice_xml.records import Element

_Named = TypeVar("_Named")
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


def _suggestion(name: str, known: Iterable[str]) -> str:
    """Say what may have been meant by `name`: the closest of `known`, or all of them."""
    choices = list(known)
    close = difflib.get_close_matches(name, choices, n=1, cutoff=0.7)
    if close:
        return f'did you mean "{close[0]}"?'
    return f"known are {', '.join(choices)}" if choices else "none is defined"


def load(path: Path) -> tuple[str, str]:
    """Return a file's text with its line ends, and the encoding with which it can be written byte for byte.

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
    except (ValueError, LookupError):
        # Some codecs that Python knows by name raise no more than a ValueError.
        fail(path, 1, f"text in {encoding}", "bytes that are not", "save the file as UTF-8")


def parse(path: Path, text: str) -> Element:
    """Return the root element, parsed without namespaces: preCICE's undeclared prefixes are parts of a name.

    Comments and character data are left out.

    Raises
    ------
    ConfigurationError
        If the text is not well-formed, with the line.
    """
    # What is no text in the store of a run is no text here: an error with its line.
    encoded = text.encode("utf-8", "surrogatepass")
    parser = expat.ParserCreate("utf-8")
    # Of the elements that are open: tag, line, attributes, span, and the children so far.
    stack: list[tuple[str, int, dict[str, str], tuple[int, int], list[Element]]] = [("", 0, {}, (0, 0), [])]

    # The place that was last asked for, in bytes and in characters: the parser only goes forwards.
    known = (0, 0)

    def position() -> int:
        nonlocal known
        index = parser.CurrentByteIndex
        known = index, known[1] + len(encoded[known[0] : index].decode("utf-8"))
        return known[1]

    def start(tag: str, attributes: dict[str, str]) -> None:
        match = _START_TAG.match(text, position())
        if match is None:
            raise ConfigurationError(f"{path}:{parser.CurrentLineNumber}: cannot find the start tag of <{tag}>")
        stack.append((tag, parser.CurrentLineNumber, attributes, match.span(), []))

    def end(_: str) -> None:
        tag, line, attributes, span, children = stack.pop()
        closed = span[1] if text[span[1] - 2] == "/" else text.index(">", position()) + 1
        stack[-1][-1].append(Element(tag, line, attributes, tuple(children), span, closed))

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    try:
        parser.Parse(encoded, True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        fail(path, error.lineno, "well-formed XML", f"{reason} in column {error.offset + 1}", "correct the file")
    return stack[0][-1][0]


def is_true(value: str) -> bool:
    """Whether preCICE takes an attribute's value for true: 1, yes, true and on in any case, and nothing else."""
    return value.lower() in ("1", "yes", "true", "on")


class Reader:
    """Typed access to elements of one file, with errors that name file and line."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fail(self, element: Element, expected: str, found: str, remedy: str) -> NoReturn:
        """Refuse `element`; see `fail`."""
        fail(self.path, element.line, f"{expected} in <{element.tag}>", found, remedy)

    def text(self, element: Element, name: str, default: str | None = None) -> str:
        """Attribute `name` of `element`; without a default it must be there."""
        value = element.attributes.get(name, default)
        if value is None:
            self.fail(element, f'an attribute "{name}"', "none", "add it")
        return value

    def integer(self, element: Element, name: str, default: str | None = None, *, least: int | None = None) -> int:
        """Attribute `name` as a whole number, at least `least`."""
        value = self.text(element, name, default)
        try:
            number = int(value)
        except ValueError:
            self.fail(element, f'a whole number as "{name}"', f'"{value}"', "correct it")
        if least is not None and number < least:
            self.fail(element, f'at least {least} as "{name}"', f'"{value}"', "correct it")
        return number

    def number(self, element: Element, name: str, default: str | None = None) -> float:
        """Attribute `name` as a number; preCICE also takes a quotient such as ``1/3``."""
        value = self.text(element, name, default)
        try:
            numerator, *denominator = value.split("/", 1)
            return float(numerator) / float(denominator[0]) if denominator else float(numerator)
        except (ValueError, ZeroDivisionError):
            self.fail(element, f'a number as "{name}"', f'"{value}"', "correct it")

    def boolean(self, element: Element, name: str, default: bool = False) -> bool:
        """Attribute `name` as a truth value, as of `is_true`."""
        value = element.attributes.get(name)
        return default if value is None else is_true(value)

    def choice(self, element: Element, name: str, options: Iterable[str], default: str | None = None) -> str:
        """Attribute `name`, one of `options`."""
        value = self.text(element, name, default)
        known = tuple(options)
        if value not in known:
            self.fail(element, f'one of {", ".join(known)} as "{name}"', f'"{value}"', "correct it")
        return value

    def known(self, element: Element, name: str, what: str, names: Iterable[str]) -> str:
        """Attribute `name`, which must be the name of one of the things defined elsewhere in the file."""
        value = self.text(element, name)
        choices = tuple(dict.fromkeys(names))
        if value not in choices:
            self.fail(element, f'a defined {what} as "{name}"', f'"{value}"', _suggestion(value, choices))
        return value

    def add(self, records: dict[str, _Named], name: str, record: _Named, element: Element) -> None:
        """Put a record under its name, which must be new."""
        if name in records:
            self.fail(element, "a name of its own", f'"{name}" a second time', "rename one of them")
        records[name] = record

    def check_tags(self, parent: Element, *tags: str) -> None:
        """Refuse children that preCICE does not know, so that a misspelt tag is not silently without effect."""
        for child in parent.children:
            if not child.has_tag(*tags):
                remedy = _suggestion(child.tag, [f"{tag}…" if tag.endswith(":") else tag for tag in tags])
                self.fail(child, f"a tag that preCICE knows inside <{parent.tag}>", "an unknown one", remedy)
