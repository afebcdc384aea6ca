"""Tables as people write them: a TOML file, keys given by themselves as KEY=VALUE, and keys of earlier versions."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from precice_lb.case.sections import listed
from precice_lb.exceptions import StudyError
from precice_lb.text import say

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
    for text in texts:
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


# Tables, and keys of tables.
_MOVED = {
    "budget.ranks": "machine.ranks",
    "budget.cores": "machine.ranks",
    "budget.kinds": "machine.kinds",
    "environment": "case.environment",
    "parameter": "case.parameter",
    "parameters": "case.parameter",
    "case.parameters": "case.parameter",
    **{f"recommend.{key}": f"runs.{key}" for key in ("level", "within", "accept_missing_ranks", "learner")},
}
_RENAMED = {
    "pairs": "ranks",
    "minimum_cores": "minimum_ranks",
    "maximum_cores": "maximum_ranks",
}
# Keys of [machine] that participants have now, by what they are called there.
_OF_PARTICIPANTS = {key: key for key in ("multiple", "memory", "gpus_per_rank", "kind", "ranks_per_node")}
_OF_PARTICIPANTS |= {"elements": "minimum_ranks"}


def at_present(tables: Mapping[str, Any], source: object = None) -> dict[str, Any]:
    """Move keys of earlier versions to where they stand now, and say so in one line.

    Parameters
    ----------
    tables : mapping
        Of a study; what is no table stays, to be refused where it is checked.
    source : path, optional
        Where they stand, for that line; without, nothing is said.

    Returns
    -------
    dict

    Raises
    ------
    StudyError
        A key stands there by its old and its new name.
    """
    new = deepcopy(dict(tables))
    moved: dict[str, str] = {}
    for key, to in _MOVED.items():
        before, _, word = key.rpartition(".")
        holder = new.get(before) if before else new
        if isinstance(holder, dict) and word in holder:
            name, _, now = to.partition(".")
            _put(new.setdefault(name, {}), now, holder.pop(word), key, to)
            moved[key] = to
    for emptied in ("budget", "recommend"):
        if new.get(emptied) == {}:
            del new[emptied]
    for participant in tables_in(new.get("participants")):
        for table in (participant, *tables_in(participant.get("versions"))):
            for before in [key for key in table if key in _RENAMED]:
                value, now = table.pop(before), _RENAMED[before]
                value = list(map(_pair, value)) if before == "pairs" else value
                _put(table, now, value, f"participants.{before}", now)
                moved[f"participants.{before}"] = f"participants.{now}"
    keys_of_participants, of_participants = _of_participants(new)
    moved |= keys_of_participants
    if of_participants:
        new = overlaid(new, {"participants": of_participants}, "machine")
    if moved and source is not None:
        keys = ", ".join(f"{now} ({before})" for before, now in moved.items())
        say(f"precice-lb: {source}: read as {keys}", sys.stderr)
    return new


def tables_in(tables: object) -> list[dict[str, Any]]:
    """Return the tables of a list of tables, or of tables by name."""
    entries = tables.values() if isinstance(tables, dict) else tables if isinstance(tables, list | tuple) else ()
    return [entry for entry in entries if isinstance(entry, dict)]


def _put(table: Any, word: str, value: Any, before: str, now: str) -> None:
    """Give a table what stood elsewhere, where nothing stands in its place."""
    if not isinstance(table, dict) or value is None:
        return
    if isinstance(value, dict) and isinstance(table.get(word), dict):
        value = table[word] | value
    elif table.get(word) is not None:
        raise StudyError(f"{before}: expected {now}, its name of today, alone, found both")
    table[word] = value


def _pair(pair: Any) -> str:
    """Write ranks and threads, [1, 4], as 1x4."""
    if isinstance(pair, list | tuple) and len(pair) == 2:
        return f"{pair[0]}x{pair[1]}"
    raise StudyError(f"participants.pairs: expected pairs of ranks and threads, such as [[1, 4]], found {pair!r}")


def _of_participants(tables: dict[str, Any]) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """Take what a machine's table says of participants out of it: the keys by those of now, and their tables."""
    machine = tables.get("machine")
    keys = [key for key in _OF_PARTICIPANTS if isinstance(machine, dict) and key in machine]
    if not isinstance(machine, dict) or not keys:
        return {}, {}
    known = {str(table.get("name")): table for table in tables_in(listed(tables.get("participants")))}
    of_rank, demands = machine.pop("elements_per_rank", None), dict[str, dict[str, Any]]()
    for key in keys:
        value, word = machine.pop(key), _OF_PARTICIPANTS[key]
        everyone = value if isinstance(value, dict) else dict.fromkeys(known, value)
        for who, entry in everyone.items():
            if key == "elements":
                most: Any = of_rank.get(who) if isinstance(of_rank, dict) else of_rank
                try:
                    # Whole quotients must not become one more by rounding.
                    entry = max(math.ceil(entry / most * (1 - 1e-12)), known.get(who, {}).get(word, 1))
                except (TypeError, ZeroDivisionError):
                    expected = f"numbers above 0 as elements and elements_per_rank, found {entry!r} and {most!r}"
                    raise StudyError(f"machine.elements.{who}: expected {expected}") from None
            demands.setdefault(who, {})[word] = entry
    return {f"machine.{key}": f"participants.{_OF_PARTICIPANTS[key]}" for key in keys}, demands
