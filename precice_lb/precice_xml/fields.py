"""Typed access to the attributes of elements, with errors that name file and line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn, TypeVar

from precice_lb.precice_xml import markup
from precice_lb.precice_xml.records import Element

__all__ = ["Reader", "is_true"]

_Named = TypeVar("_Named")


def is_true(value: str) -> bool:
    """Whether preCICE takes an attribute's value for true: 1, yes, true and on in any case, and nothing else.

    Parameters
    ----------
    value : str
        As in the file.

    Returns
    -------
    bool
    """
    return value.lower() in ("1", "yes", "true", "on")


class Reader:
    """Typed access to elements of one file, with errors that name file and line."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fail(self, element: Element, expected: str, found: str, remedy: str) -> NoReturn:
        """Refuse `element`; see `precice_lb.precice_xml.markup.fail`."""
        markup.fail(self.path, element.line, f"{expected} in <{element.tag}>", found, remedy)

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
            self.fail(element, f'a defined {what} as "{name}"', f'"{value}"', markup.suggestion(value, choices))
        return value

    def add(self, records: dict[str, _Named], name: str, record: _Named, element: Element) -> None:
        """Put a record under its name, which must be new."""
        if name in records:
            self.fail(element, "a name of its own", f'"{name}" a second time', "rename one of them")
        records[name] = record

    def check_tags(self, parent: Element, tags: tuple[str, ...], prefixes: tuple[str, ...] = ()) -> None:
        """Refuse children that preCICE does not know, so that a misspelt tag is not silently without effect."""
        for child in parent.children:
            if child.tag in tags or child.tag.partition(":")[0] in prefixes:
                continue
            known = tags + tuple(f"{prefix}:…" for prefix in prefixes)
            self.fail(
                child,
                f"a tag that preCICE knows inside <{parent.tag}>",
                "an unknown one",
                markup.suggestion(child.tag, known),
            )
