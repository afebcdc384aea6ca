"""Files to read, and what a reader says of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from precice_lb.dataset import Measurements
from precice_lb.exceptions import DataError


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refused(call: Callable[[], object], *words: str) -> str:
    """Call, expect a one-line DataError with all words, and return its message."""
    with pytest.raises(DataError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert all(word in message for word in words), message
    return message


def read_or_refusal(call: Callable[[], Measurements]) -> Measurements | str:
    """What was read, or the one line of the refusal."""
    try:
        return call()
    except DataError as error:
        message = str(error)
    assert message
    assert "\n" not in message
    return message
