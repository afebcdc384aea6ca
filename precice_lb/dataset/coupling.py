"""What the coupling schemes of a configuration mean for the waits of their participants."""

from __future__ import annotations

from collections.abc import Callable
from xml.parsers import expat

__all__ = ["accelerators", "participant_names", "serial_pair", "serial_second_participants"]

# How preCICE spells true.
TRUE = ("true", "yes", "on", "1")


def participant_names(configuration: str) -> tuple[str, ...]:
    """Names of all participants of a configuration.

    Parameters
    ----------
    configuration : str
        Text of ``precice-config.xml``.

    Returns
    -------
    tuple of str
        In the order of the file; empty for text that is not XML.
    """
    names: dict[str, None] = {}

    def start(tag: str, attributes: dict[str, str]) -> None:
        if tag == "participant" and "name" in attributes:
            names[attributes["name"]] = None

    return tuple(names) if _parse(configuration, start, lambda tag: None) else ()


def serial_second_participants(configuration: str) -> frozenset[str] | None:
    """Names of the participants that are second in a serial coupling scheme.

    Such a participant receives the data of its first window (or iteration) inside ``initialize`` and those of every
    later one at the end of the ``advance`` before (preCICE 3.4.1, ``cplscheme/SerialCouplingScheme.cpp``).

    Parameters
    ----------
    configuration : str
        Text of ``precice-config.xml``.

    Returns
    -------
    frozenset of str or None
        None without a serial scheme, and for text that is not XML.
    """
    names: set[str] = set()
    schemes = 0
    serial = False

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal schemes, serial
        if tag.startswith("coupling-scheme:"):
            serial = tag.startswith("coupling-scheme:serial-")
            schemes += serial
        elif serial and tag == "participants" and "second" in attributes:
            names.add(attributes["second"])

    if not _parse(configuration, start, lambda tag: None):
        return None
    return frozenset(names) if schemes else None


def serial_pair(configuration: str) -> tuple[str, str] | None:
    """First and second participant of a serial scheme that is the only scheme of a configuration.

    Parameters
    ----------
    configuration : str
        Text of ``precice-config.xml``.

    Returns
    -------
    (str, str) or None
        None with other schemes, and for text that is not XML.
    """
    schemes: list[str] = []
    pairs: list[tuple[str, str]] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        if tag.startswith("coupling-scheme:"):
            schemes.append(tag)
        elif schemes and tag == "participants" and {"first", "second"} <= attributes.keys():
            pairs.append((attributes["first"], attributes["second"]))

    if not _parse(configuration, start, lambda tag: None):
        return None
    only = len(schemes) == len(pairs) == 1 and schemes[0].startswith("coupling-scheme:serial-")
    return pairs[0] if only else None


def accelerators(configuration: str) -> dict[str, str]:
    """Who accelerates while a participant waits, in every iteration of an implicit scheme with an acceleration.

    That is the second of two participants and the controller of several (preCICE 3.4.1, ``doImplicitStep`` in
    ``cplscheme/BaseCouplingScheme.cpp``).

    Parameters
    ----------
    configuration : str
        Text of ``precice-config.xml``.

    Returns
    -------
    dict of str to str
        From the participants that wait to the one who accelerates; empty for text that is not XML.
    """
    found: dict[str, str] = {}
    members: list[str] = []
    accelerating, inside, accelerates = "", False, False

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal accelerating, inside, accelerates
        if tag.startswith("coupling-scheme:"):
            members.clear()
            accelerating, inside, accelerates = "", True, False
        elif inside and tag == "participants":
            accelerating = attributes.get("second", "")
            members.extend((attributes.get("first", ""), accelerating))
        elif inside and tag == "participant":
            members.append(attributes.get("name", ""))
            accelerating = members[-1] if attributes.get("control", "").lower() in TRUE else accelerating
        elif inside and tag.startswith("acceleration:"):
            accelerates = True

    def end(tag: str) -> None:
        nonlocal inside
        if tag.startswith("coupling-scheme:"):
            inside = False
            if accelerates and accelerating:
                found.update(dict.fromkeys(set(members) - {accelerating}, accelerating))

    return found if _parse(configuration, start, end) else {}


def _parse(configuration: str, start: Callable[[str, dict[str, str]], None], end: Callable[[str], None]) -> bool:
    """Call back for every element; False for text that is not XML."""
    # Without a namespace separator expat takes preCICE's undeclared prefixes as plain names.
    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    try:
        parser.Parse(configuration, True)
    except (expat.ExpatError, ValueError):
        return False
    return True
