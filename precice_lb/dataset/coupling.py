"""What the coupling schemes of a configuration mean for the waits of their participants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from precice_lb.precice_xml import Element, is_true
from precice_lb.precice_xml.reader import root_children

__all__ = ["Roles", "roles_of"]


@dataclass(frozen=True)
class Roles:
    """What participants do in their coupling schemes (preCICE 3.4.1, ``cplscheme/``).

    Attributes
    ----------
    participants : tuple of str
        All names, in the order of the file.
    second : frozenset of str or None
        Who is second in a serial scheme, and so receives the data of its first window (or iteration) inside
        ``initialize`` and those of every later one at the end of the ``advance`` before; None without a serial scheme.
    serial_pair : (str, str) or None
        First and second participant where the only scheme is a serial one.
    accelerating : mapping of str to str
        From those that wait in every iteration of an implicit scheme with an acceleration to the one who accelerates
        meanwhile: the second of two participants, the controller of several.
    """

    participants: tuple[str, ...]
    second: frozenset[str] | None
    serial_pair: tuple[str, str] | None
    accelerating: Mapping[str, str]


@lru_cache(maxsize=64)
def roles_of(configuration: str) -> Roles:
    """Find who does what, of anything that is XML: a run may be older than the rules of today's preCICE."""
    elements = root_children(configuration)
    names = [each.attributes["name"] for each in elements if each.tag == "participant" and "name" in each.attributes]
    schemes = [each for each in elements if each.tag.startswith("coupling-scheme:")]
    pairs = [_pair(scheme) for scheme in schemes]
    serial = [
        pair for scheme, pair in zip(schemes, pairs, strict=True) if scheme.tag.split(":")[1].startswith("serial-")
    ]
    accelerating: dict[str, str] = {}
    for scheme, pair in zip(schemes, pairs, strict=True):
        members = [each.attributes for each in scheme.children if each.tag == "participant"]
        controllers = [each.get("name", "") for each in members if is_true(each.get("control", ""))]
        who = (controllers or pair or [""])[-1]
        if who and any(each.tag.startswith("acceleration:") for each in scheme.children):
            accelerating |= dict.fromkeys({*pair, *(each.get("name", "") for each in members)} - {who}, who)
    return Roles(
        participants=tuple(dict.fromkeys(names)),
        second=frozenset(pair[1] for pair in serial if pair) if serial else None,
        serial_pair=(pairs[0][0], pairs[0][1]) if len(schemes) == len(serial) == 1 and pairs[0] else None,
        accelerating=accelerating,
    )


def _pair(scheme: Element) -> list[str]:
    """First and second participant of a scheme of two; empty for one of several."""
    given = next((each.attributes for each in scheme.children if each.tag == "participants"), {})
    return [given["first"], given["second"]] if {"first", "second"} <= given.keys() else []
