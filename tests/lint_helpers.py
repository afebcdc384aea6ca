"""Programs that check files."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest


def program(name: str, package: str) -> str:
    """Path of a program beside this Python or on the path, or a skip that names its package."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"no {name}: install {package}")
    return found
