"""What files beside a measurement say of its run: mesh headers of Seeder, and generic ini files.

The mesh header was checked against headers in the sources of Ateles, the ini file against its description in
J. L. Schröder, Load-balancing for multi-physics simulations, MSc thesis, University of Stuttgart 2019, section 4.2.2.
"""

from __future__ import annotations

import configparser
import re
from collections.abc import Collection
from pathlib import Path

from precice_lb.exceptions import DataError
from precice_lb.ingest.files import number_or_text, one_line, read_text, whole_number

__all__ = ["beside", "parse_ini", "read_mesh_elements", "read_parameters"]

_LUA = re.compile(
    r"""--\[\[.*?\]\] | --[^\n]* | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' | \[\[.*?\]\]
    | (?P<open>\{) | (?P<close>\}) | (?<![\w.])nElems\s*=\s*(?P<count>[^\s,;{}]*)""",
    re.VERBOSE | re.DOTALL,
)


def beside(mesh_header: Path | None, parameters: Path | None, participant: str) -> dict[str, float | str]:
    """Read what the optional files beside a measurement add to it: ``nElems``, then the values of the ini file."""
    found: dict[str, float | str] = {}
    if mesh_header is not None:
        found["nElems"] = float(read_mesh_elements(mesh_header))
    if parameters is not None:
        found |= read_parameters(parameters, participant)
    return found


def read_mesh_elements(path: Path) -> int:
    """Read the number of elements of a mesh from Seeder's ``header.lua``.

    It is Lua text that sets ``nElems`` outside every table; inside ``property`` it counts the elements that have it.
    """
    text = read_text(path, "a mesh header of Seeder")
    depth, counts = 0, []
    for match in _LUA.finditer(text):
        depth += bool(match["open"]) - bool(match["close"])
        if match["count"] is not None and depth == 0:
            counts.append((text.count("\n", 0, match.start()) + 1, match["count"]))
    if len(counts) != 1:
        lines = f" in lines {', '.join(str(line) for line, _ in counts)}" if counts else ""
        raise DataError(
            f"{path}: expected one line nElems = NUMBER outside every table, found {len(counts) or 'none'}{lines}; "
            "give the header.lua that Seeder wrote with the mesh"
        )
    line, count = counts[0]
    elements = whole_number(count)
    if elements is None or elements < 1:
        raise DataError(f"{path}, line {line}: expected a whole number of elements of at least 1, found {count!r}")
    return elements


def read_parameters(path: Path, participant: str, others: Collection[str] = ()) -> dict[str, float | str]:
    """Read the values of an ini file that concern a participant.

    Those of the section DEFAULT and of its own section keep their names, those of another section are named
    ``section.name``; sections of ``others``, participants too, are left out.
    """
    parser = parse_ini(path, "an ini file with parameters", keep_case=True)
    found: dict[str, str] = dict(parser[participant] if participant in parser else parser.defaults())
    for section in parser.sections():
        if section != participant and section not in others:
            own = parser[section].items()
            shared = parser.defaults()
            found |= {f"{section}.{key}": value for key, value in own if shared.get(key) != value}
    if not found:
        raise DataError(f"{path}: expected at least one parameter as name=value, found none")
    for key, value in found.items():
        if not value.strip():
            raise DataError(f"{path}: expected a value for the parameter {key}, found nothing")
    return {key: number_or_text(" ".join(value.split())) for key, value in found.items()}


def parse_ini(path: Path, what: str, *, keep_case: bool = False) -> configparser.ConfigParser:
    """Parse an ini file without interpolation; ``what`` it should be is for the message."""
    parser = configparser.ConfigParser(interpolation=None)
    if keep_case:
        parser.optionxform = str  # type: ignore[assignment,method-assign]
    text = read_text(path, what)
    try:
        parser.read_string(text, source=path.name)
    except configparser.Error as error:
        raise DataError(f"{path}: expected {what}, found: {one_line(error)}; write [DEFAULT] and name=value") from error
    return parser
