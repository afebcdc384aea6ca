"""Reading small text files, with one clear error for whatever is wrong with them."""

from __future__ import annotations

import math
from pathlib import Path

from precice_lb.exceptions import DataError

__all__ = ["number_or_text", "one_line", "read_text", "whole_number"]

_LARGEST = 2**53
"""Beyond this a float no longer holds every whole number."""


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


def number_or_text(text: str) -> float | str:
    """Read a finite number, or keep the text."""
    try:
        value = float(text)
    except ValueError:
        return text
    return value if math.isfinite(value) else text
