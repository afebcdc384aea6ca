"""Tables as users write them: a TOML file, and single keys given as KEY=VALUE."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from precice_lb.case.sections import listed
from precice_lb.exceptions import StudyError
from precice_lb.text import checked_list

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

# A name with dots stands in quotes.
_PART = re.compile(r'"([^"]+)"|([^."]+)')


def read_toml(path: Path) -> dict[str, Any]:
    """Read the tables of a study file."""
    try:
        with path.open("rb") as file:
            tables: dict[str, Any] = tomllib.load(file)
    except FileNotFoundError:
        raise StudyError(f"{path}: no such study file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{path}: the study cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise StudyError(f"{path}: not a TOML file: {error}") from error
    return tables


def tables_from(texts: Sequence[str]) -> dict[str, Any]:
    """Read settings such as ``participants.Fluid.multiple=4``: a study's own keys, values as in TOML or plain text.

    Parameters
    ----------
    texts : sequence of str
        Of one key each; a name with dots in it stands in quotes. Participants are named, as in
        ``participants.Fluid.maximum_ranks=8``.

    Returns
    -------
    dict
        Nested tables.

    Raises
    ------
    StudyError
        One of them is no setting, or two are of one key.
    """
    tables: dict[str, Any] = {}
    for text in checked_list(texts, "settings", "texts KEY=VALUE", StudyError):
        key, sign, value = text.partition("=")
        parts = [quoted or plain for quoted, plain in _PART.findall(key.strip())]
        if not sign or not value.strip() or len(parts) < 2:
            raise StudyError(f"--set: expected KEY=VALUE, such as machine.cores_per_node=48, found {text!r}")
        table = tables
        for part in parts[:-1]:
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                raise StudyError(f"--set: expected either {part} or what is below it, found both in {text!r}")
        if parts[-1] in table:
            raise StudyError(f"--set: expected each key once, found {key.strip()} twice")
        table[parts[-1]] = _value(value.strip())
    return tables


def overlaid(tables: Mapping[str, Any], settings: Mapping[str, Any], where: str = "--set") -> dict[str, Any]:
    """Lay settings over the tables of a study, whose participants may stand in a list.

    Parameters
    ----------
    tables, settings : mapping
        Nested.
    where : str
        Of the settings, for errors.

    Returns
    -------
    dict
    """
    merged = dict(tables)
    for key, value in settings.items():
        before = merged.get(key)
        if isinstance(value, dict) and isinstance(before, list):
            if wrong := [name for name, table in value.items() if not isinstance(table, dict)]:
                raise StudyError(
                    f"{where}: expected a key of {key}.{wrong[0]}, such as {key}.{wrong[0]}.ranks=8, found none"
                )
            changes = {table["name"]: table for table in listed(value)}
            names = {str(table.get("name")) for table in before}
            if unknown := [name for name in changes if name not in names]:
                raise StudyError(f"{where}: expected one of {', '.join(sorted(names))} in {key}, found {unknown[0]}")
            merged[key] = [overlaid(table, changes.get(str(table.get("name")), {}), where) for table in before]
        else:
            merged[key] = (
                overlaid(before, value, where) if isinstance(value, dict) and isinstance(before, dict) else value
            )
    return merged


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def tables_in(tables: object) -> list[dict[str, Any]]:
    """Return the tables of a list of tables, or of tables by name."""
    entries = tables.values() if isinstance(tables, dict) else tables if isinstance(tables, list | tuple) else ()
    return [entry for entry in entries if isinstance(entry, dict)]
