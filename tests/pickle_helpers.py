"""A pickled object that shows whether somebody loads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class TouchesWhenLoaded:
    """An object whose pickle makes a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)
