"""JSON files of dataclasses: replaced in one step, so that a kill leaves them readable, and checked when read."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from precice_lb.exceptions import CalibrationError
from precice_lb.retired import CAMPAIGN_KEYS, drop_retired, pass_over_turns

Read = TypeVar("Read")


def read_json(path: Path, kind: type[Read], format: str, version: int, what: str) -> Read | None:
    """Read what `write_json` wrote, passing over keys that the dataclass has not; None where there is no file."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise CalibrationError(f"{path}: expected the {what}, but it cannot be read: {error}") from error
    if not isinstance(raw, dict) or raw.get("format") != format:
        raise CalibrationError(f'{path}: expected "format": "{format}"; this is not the {what}')
    if raw.get("format_version") != version:
        raise CalibrationError(
            f"{path}: format version {raw.get('format_version')} is not known, only {version}: "
            "use the version of precice_lb that wrote it, or another directory"
        )
    drop_retired(raw, CAMPAIGN_KEYS, path)
    pass_over_turns(raw, path)
    known = {each.name for each in dataclasses.fields(kind)}  # type: ignore[arg-type]
    try:
        return TypeAdapter(kind).validate_python({key: value for key, value in raw.items() if key in known})
    except ValidationError as error:
        # A misspelt key first, since it explains the one that is missing.
        first = min(error.errors(include_url=False), key=lambda each: each["type"] != "unexpected_keyword_argument")
        place = ".".join(map(str, first["loc"]))
        raise CalibrationError(f"{path}: damaged {what}: {place}: {first['msg']}") from error


def write_json(path: Path, content: Any, format: str, version: int, what: str) -> None:
    """Replace a file in one step by plain values."""
    temporary = path.with_suffix(".json.new")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            json.dump({"format": format, "format_version": version, **content}, file, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise CalibrationError(f"{path}: the {what} cannot be written: {error}") from error
