"""Reading small text files, with one clear error for whatever is wrong with them, and those beside a measurement.

What files beside it say of its run: mesh headers of Seeder, checked against headers in the sources of Ateles, and ini
files, as J. L. Schröder, Load-balancing for multi-physics simulations, MSc thesis, University of Stuttgart 2019,
describes them in section 4.2.2.
"""

from __future__ import annotations

import configparser
import math
import re
from collections.abc import Collection
from pathlib import Path

from precice_lb.exceptions import DataError

__all__ = [
    "beside",
    "count_of",
    "finite",
    "one_line",
    "parse_ini",
    "read_mesh_elements",
    "read_parameters",
    "read_text",
    "whole_number",
]

_LARGEST = 2**53
"""Beyond this a float no longer holds every whole number."""

_LUA = re.compile(
    r"""--\[\[.*?\]\] | --[^\n]* | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' | \[\[.*?\]\]
    | (?P<open>\{) | (?P<close>\}) | (?<![\w.])nElems\s*=\s*(?P<count>[^\s,;{}]*)""",
    re.VERBOSE | re.DOTALL,
)


def read_text(path: Path, what: str) -> str:
    """Read a UTF-8 file without its byte order mark; ``what`` it should be is for the message."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        # Not only text that is not UTF-8 is a ValueError, but also a file name with a null character in it.
        raise DataError(f"{path}: expected {what}, found: {one_line(error)}") from error


def one_line(error: Exception) -> str:
    """Say in one line what an exception says."""
    if isinstance(error, UnicodeDecodeError):
        return f"a byte at position {error.start} that is not UTF-8 text"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split()) or type(error).__name__


def whole_number(text: str) -> int | None:
    """Read a whole number; None if it is none, or too large for a float to hold."""
    try:
        value = int(text)
    except ValueError:
        return None
    return value if abs(value) <= _LARGEST else None


def count_of(text: str, where: str, expected: str) -> int:
    """Read a whole number of at least 1, ``expected`` in words at some place."""
    value = whole_number(text)
    if value is None or value < 1:
        raise DataError(f"{where}: expected {expected} of at least 1, found {text!r}")
    return value


def finite(text: str) -> float | None:
    """Read a finite number; None if it is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def beside(
    mesh_header: Path | None, parameters: Path | None, participant: str, others: Collection[str] = ()
) -> dict[str, float | str]:
    """Read what the optional files beside a measurement add to it: ``nElems``, then the values of the ini file."""
    found: dict[str, float | str] = {}
    if mesh_header is not None:
        found["nElems"] = float(read_mesh_elements(mesh_header))
    if parameters is not None:
        found |= read_parameters(parameters, participant, others)
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
    return count_of(count, f"{path}, line {line}", "a whole number of elements")


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
    texts = {key: " ".join(value.split()) for key, value in found.items()}
    return {key: text if (number := finite(text)) is None else number for key, text in texts.items()}


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
