"""From the file's bytes to elements with their lines and positions, and typed access to their attributes."""

from __future__ import annotations

import codecs
import difflib
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from precice_lb.exceptions import ConfigurationError

_DECLARED_ENCODING = re.compile(rb"""^\s*<\?xml[^>]*?encoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")
_START_TAG = re.compile(r"""<[^\s/>]+(?:[^>"']|"[^"]*"|'[^']*')*>""")
# With what a file begins that is not told by its declaration, as libxml2 knows it; a mark stays in the text.
_BEGINNINGS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
    "<?".encode("utf-16-le"): "utf-16-le",
    "<?".encode("utf-16-be"): "utf-16-be",
}
_NUMBER = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_INTEGER = re.compile(r"\s*[+-]?\d+", re.ASCII)


def fail(path: Path, line: int | None, expected: str, actual: str, remedy: str = "correct it") -> NoReturn:
    """Raise the one-line error that says where, what was expected, what was found and what to do."""
    place = f"{path}:{line}" if line is not None else str(path)
    raise ConfigurationError(f"{place}: expected {expected}, found {actual}; {remedy}")


def _suggestion(name: str, known: Iterable[str]) -> str:
    """Say what may have been meant by `name`: the closest of `known`, or all of them."""
    choices = list(known)
    if close := difflib.get_close_matches(name, choices, n=1, cutoff=0.7):
        return f'did you mean "{close[0]}"?'
    return f"known are {', '.join(choices)}" if choices else "none is defined"


@dataclass(frozen=True)
class Element:
    """One XML element as it stands in the file, with typed access to its attributes: errors name file and line."""

    # With its prefix, as in the file.
    tag: str
    line: int
    attributes: dict[str, str] = field(default_factory=dict)
    children: tuple[Element, ...] = ()
    # Positions of its start tag in the file's text, from ``<`` to just behind ``>``.
    span: tuple[int, int] = (0, 0)
    # Just behind all of it.
    end: int = 0
    path: Path = Path("precice-config.xml")

    @property
    def kind(self) -> str:
        """What stands behind the prefix of its tag."""
        return self.tag.partition(":")[2]

    def named(self, *tags: str) -> list[Element]:
        """Children of these tags; ``m2n:`` stands for all that begin so."""
        families = tuple(tag for tag in tags if tag.endswith(":"))
        return [child for child in self.children if child.tag in tags or child.tag.startswith(families)]

    def first(self, *tags: str) -> Element | None:
        """Return the first child of these tags."""
        return next(iter(self.named(*tags)), None)

    def fail(self, expected: str, actual: str, remedy: str = "correct it") -> NoReturn:
        """Refuse it; see `fail`."""
        fail(self.path, self.line, f"{expected} in <{self.tag}>", actual, remedy)

    def text(self, name: str, default: str | None = None) -> str:
        """Attribute `name`; without a default it must be there."""
        value = self.attributes.get(name, default)
        if value is None:
            self.fail(f'an attribute "{name}"', "none", "add it")
        return value

    def integer(self, name: str, default: str | None = None, *, least: float = -math.inf) -> int:
        """Attribute `name` as a whole number, at least `least`."""
        value = self.text(name, default)
        if not _INTEGER.fullmatch(value):
            self.fail(f'a whole number as "{name}"', f'"{value}"')
        return int(self._at_least(name, int(value), least))

    def number(self, name: str, default: str | None = None, *, least: float = -math.inf) -> float:
        """Attribute `name` as a number, at least `least`; preCICE also takes a quotient such as ``1/3``."""
        value = self.text(name, default)
        parts = value.split("/", 1)
        try:
            if not all(_NUMBER.fullmatch(part) for part in parts):
                raise ValueError(value)
            number = float(parts[0]) / float(parts[1]) if len(parts) > 1 else float(parts[0])
        except (ValueError, ZeroDivisionError):
            self.fail(f'a number as "{name}"', f'"{value}"')
        return self._at_least(name, number, least)

    def positive(self, name: str) -> float:
        """Attribute `name` as a number above 0."""
        value = self.number(name)
        if not value > 0:
            self.fail(f'a positive "{name}"', f"{value:g}")
        return value

    def _at_least(self, name: str, number: float, least: float) -> float:
        if number < least:
            self.fail(f'at least {least:g} as "{name}"', f'"{number:g}"')
        return number

    def boolean(self, name: str, default: bool = False) -> bool:
        """Attribute `name` as a truth value, as preCICE takes it: 1, yes, true and on in any case are true."""
        value = self.attributes.get(name)
        return default if value is None else value.lower() in ("1", "yes", "true", "on")

    def known(self, name: str, what: str, names: Iterable[str]) -> str:
        """Attribute `name`, which must be the name of one of the things defined elsewhere in the file."""
        value, defined = self.text(name), tuple(dict.fromkeys(names))
        if value not in defined:
            self.fail(f'a defined {what} as "{name}"', f'"{value}"', _suggestion(value, defined))
        return value


def load(path: Path) -> tuple[str, str]:
    """Return a file's text with its line ends, and the encoding with which it can be written byte for byte."""
    try:
        content = path.read_bytes()
    except OSError as error:
        fail(path, None, "a preCICE configuration file", error.strerror or "no readable file", "check the path")
    encoding = _encoding(content)
    try:
        return _decode(content, encoding), encoding
    except (ValueError, LookupError):
        # Some codecs that Python knows by name raise no more than a ValueError.
        fail(path, 1, f"text in {encoding}", "bytes that are not", "save the file as UTF-8")


def text_of(content: bytes) -> str:
    """Return the text of a configuration, whatever is wrong with its bytes."""
    try:
        return _decode(content, _encoding(content))
    except (ValueError, LookupError):
        return content.decode("utf-8", "replace")


def _encoding(content: bytes) -> str:
    for beginning, encoding in _BEGINNINGS.items():
        if content.startswith(beginning):
            return encoding
    declared = _DECLARED_ENCODING.match(content)
    return declared.group(1).decode("ascii") if declared else "utf-8"


def _decode(content: bytes, encoding: str) -> str:
    text = content.decode(encoding)
    # Bytes in which a declaration can be read are not in two bytes a character, whatever it says.
    if "\0" in text or (content.lstrip().startswith(b"<?xml") and not text.lstrip().startswith("<?xml")):
        raise ValueError(encoding)
    return text


def parse(path: Path, text: str) -> Element:
    """Return the root element, parsed without namespaces: preCICE's undeclared prefixes are parts of a name."""
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
        assert match is not None, tag
        # preCICE takes attributes by the local part of their names, and namespaces for nothing.
        local = {name.rpartition(":")[2]: text for name, text in attributes.items() if not name.startswith("xmlns")}
        stack.append((tag, parser.CurrentLineNumber, local, match.span(), []))

    def end(_: str) -> None:
        tag, line, attributes, span, children = stack.pop()
        closed = span[1] if text[span[1] - 2] == "/" else text.index(">", position()) + 1
        stack[-1][-1].append(Element(tag, line, attributes, tuple(children), span, closed, path))

    def declared(name: str, *_: object) -> None:
        expected = "no entities but &lt; &gt; &amp; &quot; &apos;"
        fail(path, parser.CurrentLineNumber, expected, f"a declaration of &{name};", "write its text in its place")

    parser.StartElementHandler, parser.EndElementHandler, parser.EntityDeclHandler = start, end, declared
    try:
        parser.Parse(encoded, True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        fail(path, error.lineno, "well-formed XML", f"{reason} in column {error.offset + 1}", "correct the file")
    return stack[0][-1][0]


@dataclass(frozen=True)
class Tag:
    """What preCICE knows of a tag."""

    # How often in what it stands in: ``1``, ``?`` (at most once), ``+`` (at least once) or ``*``.
    occurs: str
    # By name: kind of the value, with its options after ``=``; and whether it must be there.
    attributes: dict[str, tuple[str, bool]]
    # By name.
    children: dict[str, Tag] = field(default_factory=dict)

    def check(self, element: Element) -> None:
        """Hold an element and all inside it against what preCICE knows: tags, how often they occur, attributes."""
        for name in element.attributes:
            if name not in self.attributes:
                remedy = f"remove or rename it: {_suggestion(name, self.attributes)}"
                element.fail("attributes that preCICE knows there", f'"{name}"', remedy)
        for name, (kind, required) in self.attributes.items():
            if required or name in element.attributes:
                _check_value(element, name, kind)
        for child in element.children:
            if child.tag not in self.children:
                remedy = _suggestion(child.tag, self.children)
                child.fail(f"a tag that preCICE knows inside <{element.tag}>", "an unknown one", remedy)
            self.children[child.tag].check(child)
        # Of two families one, which preCICE's table of tags does not say.
        occurs = {name: inside.occurs for name, inside in self.children.items()} | {"acceleration:": "?"}
        occurs |= {"basis-function:": "1"} if any(name.startswith("basis-function:") for name in self.children) else {}
        for name, times in occurs.items():
            members, tag = element.named(name), f"<{name}…>" if name.endswith(":") else f"<{name}>"
            if len(members) > 1 and times in "1?":
                members[1].fail(f"one {tag} there", "a second", "remove one")
            if not members and times in "1+":
                element.fail(tag, "none", "add it")


def _check_value(element: Element, name: str, kind: str) -> None:
    kind, _, options = kind.partition("=")
    value = element.text(name)
    if options and value not in options.split("|"):
        element.fail(f'one of {options.replace("|", ", ")} as "{name}"', f'"{value}"')
    if value and kind in ("integer", "float"):  # preCICE lets an empty number pass
        (element.integer if kind == "integer" else element.number)(name)


@cache
def schema() -> Tag:
    """Return the root of what preCICE 3.4 knows, which ``benchmarks/configurations.py --schema`` writes."""
    open_tags = [Tag("1", {})]
    for line in (Path(__file__).parent / "schema.txt").read_text(encoding="utf-8").splitlines():
        name, occurs, *texts = line.split()
        attributes = {}
        for text in texts:
            attribute, _, kind = text.partition(":")
            attributes[attribute.removesuffix("!")] = kind, attribute.endswith("!")
        depth = (len(line) - len(line.lstrip())) // 2
        del open_tags[depth + 1 :]
        open_tags.append(Tag(occurs, attributes))
        open_tags[depth].children[name] = open_tags[-1]
    return open_tags[0].children["precice-configuration"]
