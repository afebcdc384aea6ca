"""Read a study file: TOML, each error one line with file, key, what was expected and what was found."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from precice_lb.calibrate.checks import check_study
from precice_lb.calibrate.study import Study
from precice_lb.exceptions import StudyError
from precice_lb.plugins import choices

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

__all__ = ["read_study"]


def read_study(path: str | Path) -> Study:
    """Read and check a study file.

    Parameters
    ----------
    path
        A TOML file; ``configs/README.md`` lists its keys.

    Returns
    -------
    Study

    Raises
    ------
    StudyError
        One line: the file, the key, what was expected and what was found.
    """
    path = Path(path).expanduser()
    try:
        with path.open("rb") as file:
            raw = tomllib.load(file)
    except FileNotFoundError:
        raise StudyError(f"{path}: no such study file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{path}: the study cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise StudyError(f"{path}: not a TOML file: {error}") from error
    if "path" in raw:
        raise StudyError(f"{path}: path: unknown key{choices('path', _keys(()))}")
    try:
        study = Study.model_validate({**raw, "path": path.resolve()})
    except ValidationError as error:
        raise StudyError(f"{path}: {_explain(error, raw)}") from None
    try:
        check_study(study)
    except StudyError as error:
        raise StudyError(f"{path}: {error}") from error
    return study


def _explain(error: ValidationError, study: dict[str, Any]) -> str:
    """Turn pydantic's report into one line; a misspelt key first, since it explains the one that is missing."""
    details = error.errors(include_url=False)
    details.sort(key=lambda detail: detail["type"] != "extra_forbidden")
    first = details[0]
    location = first["loc"]
    found = first["input"]
    if first["type"] == "extra_forbidden":
        text = f"unknown key{choices(str(location[-1]), _keys(location[:-1]))}"
    elif first["type"] == "missing":
        text = "this key is missing"
    elif first["type"] == "value_error":
        text = str(first["msg"]).removeprefix("Value error, ")
    else:
        message = re.sub(r"^Input should be", "expected", str(first["msg"]))
        text = f"{re.sub(r'^(String|Tuple) should', 'expected to', message)}, found {_shown(found)}"
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    return f"{_dotted(location, study, missing=first['type'] == 'missing')}: {text}{more}"


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "a table"
    return repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:60]}…"


def _dotted(location: tuple[int | str, ...], study: object, *, missing: bool) -> str:
    """Write the place of a value; pydantic's marks between the keys, such as which type it tried, are left out."""
    text, found = "", study
    for number, part in enumerate(location, start=1):
        if isinstance(found, dict) and (part in found or (missing and number == len(location))):
            text, found = f"{text}.{part}", found.get(part)
        elif isinstance(found, list) and isinstance(part, int):
            text, found = f"{text}[{part + 1}]", found[part]
    return text.lstrip(".")


def _keys(location: tuple[int | str, ...]) -> list[str]:
    """Return the keys that may stand at a place of the study."""
    fields = Study.model_fields
    if not location:
        return [name for name in fields if name != "path"]
    kinds = _models(fields[str(location[0])].annotation)
    return [name for kind in kinds for name in kind.model_fields]


def _models(annotation: object) -> list[type[BaseModel]]:
    """Return the section models in a type such as ``Section | None`` or ``tuple[Section, ...]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]
