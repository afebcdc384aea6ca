"""Words for people and JSON for programs: names and their versions, counted things, plain values."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO, TypeVar

T = TypeVar("T")
_MOST_NAMED = 8


def visible(text: str) -> str:
    r"""Write out every control or invisible formatting character, of which nobody knows what it does to a terminal."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def say(text: str, stream: TextIO | None = None) -> None:
    """Print lines, `visible` but for tabs: everything but screens and data goes to the user through here."""
    lines = ("\t".join(map(visible, line.split("\t"))) for line in text.split("\n"))
    print("\n".join(lines), file=stream, flush=True)


def plural(count: float, noun: str, form: str = "") -> str:
    """Write a count with its noun, which gets an s unless there is exactly one: 1 rank, 2 ranks."""
    return f"{count:{form}} {noun}{'' if count == 1 else 's'}"


def span(low: int, high: int, noun: str) -> str:
    """Write a range of counts with their noun: 2 to 4 ranks, or 2 ranks where both ends are one."""
    return plural(high, noun) if low == high else f"{low} to {plural(high, noun)}"


def counts_text(counts: Mapping[str, int]) -> str:
    """Write what each has of something: Fluid 12, Solid 4."""
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def first_of(names: Sequence[str], most: int = 4) -> str:
    """Name the first of some things, and count the others: a, b and 3 more."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def numbered(numbers: Sequence[int], noun: str = "rank") -> str:
    """Name things by their numbers, of many the first ones: ranks 1, 3."""
    shown = ", ".join(map(str, numbers[:_MOST_NAMED])) + (", …" if len(numbers) > _MOST_NAMED else "")
    return f"{noun}{'' if len(numbers) == 1 else 's'} {shown}"


def checked_name(text: object, what: str) -> str:
    """Return a name, such as a version, that may stand in files' names, in splits such as Fluid:gpu=2 and in tables."""
    if isinstance(text, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", text):
        return text
    raise ValueError(f"expected letters, digits, _ . and - as the name of a {what}, found {text!r}")


def checked_list(values: Iterable[T], argument: str, what: str, error: type[Exception]) -> list[T]:
    """Return the entries of an argument that is a list of names or paths.

    A single text or path is refused: Python would take the letters of a text for the entries.

    Parameters
    ----------
    values : iterable
        What was given.
    argument, what : str
        Name of the argument, and what it lists, for the error.
    error : type of Exception
        What to raise.

    Returns
    -------
    list
        The entries.
    """
    if isinstance(values, str | bytes | os.PathLike):
        shown = repr(os.fspath(values))
        raise error(f"{argument}: expected a list of {what}, found {shown} alone; write [{shown}]")
    if not isinstance(values, Iterable):
        raise error(f"{argument}: expected a list of {what}, found {values!r}; give a list")
    return list(values)


def key_of(name: str, version: str) -> str:
    """Write the key of one version of a participant: Fluid:gpu, or Fluid where it has no version."""
    return f"{name}:{version}" if version else name


def with_versions(of: Mapping[str, T], versions: Mapping[str, str]) -> dict[str, T]:
    """Write versions into the names of participants, where they have any: Fluid:gpu."""
    return {key_of(name, versions.get(name, "")): value for name, value in of.items()}


def without_versions(of: Mapping[str, T]) -> tuple[dict[str, T], dict[str, str]]:
    """Take the versions out of the names of participants; of one that stands there twice the last entry counts."""
    parts = [(*key.partition(":")[::2], value) for key, value in of.items()]
    return {name: value for name, _, value in parts}, {name: version for name, version, _ in parts if version}


def for_versions(of: Mapping[str, T], versions: Mapping[str, str]) -> dict[str, T]:
    """Give what holds where each participant runs as one version: what is said of that, else of the participant."""
    others = {key: value for key, value in of.items() if key.partition(":")[0] not in versions}
    of_all = {name: of[name] for name in versions if name in of}
    return others | of_all | {name: of[key] for name, v in versions.items() if (key := f"{name}:{v}") in of}


def script_command(script: str | Path) -> str:
    """Return the command that starts or submits a written script, for any POSIX shell.

    A job script is submitted by ``sbatch``. Any other script is started by its path. A relative path gets ``./`` in
    front, so that a shell does not search PATH for it, and a directory such as ``-x`` is not taken for an option.
    """
    path = str(script)
    if not path.startswith(("/", "./", "../")):
        path = f"./{path}"
    quoted_path = shlex.quote(path)
    if path.endswith(".sbatch"):
        return f"sbatch {quoted_path}"
    return quoted_path


def to_jsonable(value: Any) -> Any:
    """Give dataclasses and mappings as dicts, arrays and tuples as lists, and None for floats that are not finite."""
    # Of numpy, which whoever only writes words need not load.
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if dataclasses.is_dataclass(value):
        return {field.name: to_jsonable(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_jsonable(item) for item in value]
    return value


def json_text(value: Any) -> str:
    """Write a value, made `to_jsonable`, as lines of JSON that every reader takes."""
    return json.dumps(to_jsonable(value), indent=2, allow_nan=False) + "\n"
