"""The same coupling with participants that take turns, so that each computes while the other waits."""

from __future__ import annotations

from pathlib import Path

from precice_lb.precice_xml.edits import Edit, apply, set_attribute
from precice_lb.precice_xml.elements import fail, load
from precice_lb.precice_xml.reader import parse_configuration

__all__ = ["take_turns"]

_PARALLEL, _SERIAL = "coupling-scheme:parallel-explicit", "coupling-scheme:serial-explicit"


def take_turns(source: str | Path, target: str | Path | None = None) -> None:
    """Write a copy of a configuration whose one parallel-explicit scheme is serial; without ``target``, check it alone.

    Parameters
    ----------
    source, target
        Paths of the configuration to read and of the copy to write. They may be the same.

    Raises
    ------
    ConfigurationError
        If `source` cannot be read, or its coupling is not one parallel-explicit scheme of two participants: implicit
        ones would iterate otherwise in turns, and of three two may still compute at once.
    """
    path = Path(source)
    text, encoding = load(path)
    root = parse_configuration(text, path).root
    scheme, *others = root.named("coupling-scheme:")
    if others or scheme.tag != _PARALLEL:
        found = ", ".join(each.tag for each in (scheme, *others))
        fail(path, scheme.line, f"one {_PARALLEL}, which can be made serial", found, "leave out runs.beside")
    first = scheme.named("participants")[0].attributes["first"]
    end = scheme.end - len(f"{_PARALLEL}>")
    edits: list[Edit] = [(begin, begin + len(_PARALLEL), _SERIAL) for begin in (scheme.span[0] + 1, end)]
    # In turns, the second participant alone may begin with data of its own.
    edits += [
        set_attribute(text, each, "initialize", "false")
        for each in scheme.named("exchange")
        if each.attributes["from"] == first and "initialize" in each.attributes
    ]
    if target is not None:
        Path(target).write_bytes(apply(text, edits).encode(encoding))
