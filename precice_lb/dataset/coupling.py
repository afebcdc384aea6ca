"""Which participants a serial coupling scheme lets wait for the next window already at the end of one."""

from __future__ import annotations

from xml.parsers import expat

__all__ = ["serial_second_participants"]


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

    # Without a namespace separator expat takes preCICE's undeclared prefixes as plain names.
    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    try:
        parser.Parse(configuration, True)
    except (expat.ExpatError, ValueError):
        return None
    return frozenset(names) if schemes else None
