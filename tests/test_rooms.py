"""The rooms that stand on the core: in a copy of the tree each folder and its line go, and the rest works as before."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from archive_helpers import unpack

from precice_lb.rooms import ROOMS, hooks

ROOT = Path(__file__).parents[1]
SMOKE = """
import sys
import precice_lb
from precice_lb.cli import main
assert precice_lb.__file__ == sys.argv[1], precice_lb.__file__
assert not any(name.split(".")[1:2] == [room] for name in sys.modules for room in sys.argv[3:])
codes = [main(["--help"]), main(["summary", sys.argv[2]]), main(["recommend", sys.argv[2], "--ranks", "6"])]
codes.append(main(["report", sys.argv[2], "--output", "page"]))
sys.exit(str(codes) if any(codes) else 0)
"""


def python(tree: Path, *arguments: object) -> str:
    """Run Python with the copy in front of what is installed; what it printed."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    return done.stdout


def copy_without(rooms: list[str], directory: Path) -> Path:
    """Copy the package without the folders of some rooms and their lines."""
    package = "precice_lb"
    shutil.copytree(ROOT / package, directory / package)
    table = directory / package / "rooms.py"
    for room in rooms:
        shutil.rmtree(directory / package / room)
        text, lines = re.subn(rf'^    "{room}": .*\n', "", table.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert lines == 1
        table.write_text(text, encoding="utf-8")
    return directory


ONE_ROOM = pytest.mark.slow("imports between rooms are checked by lint")


@pytest.mark.parametrize(
    "rooms", [*(pytest.param([room], marks=ONE_ROOM) for room in ROOMS), list(ROOMS)], ids=[*ROOMS, "all"]
)
def test_the_core_works_without(rooms: list[str], tmp_path: Path) -> None:
    tree = copy_without(rooms, tmp_path / "tree")
    stores = unpack("runs/pulse.zip", tmp_path)
    said = python(tree, "-c", SMOKE, tree / "precice_lb" / "__init__.py", stores, *rooms)
    for command in ("partners", "watch", "guess", "inside", "chain"):
        assert (f"│ {command} " in said) == (command not in rooms)


def test_every_hook_is_there() -> None:
    for places in ROOMS.values():
        for place in places:
            assert hooks(place.rpartition(":")[2] or place)
    assert hooks("nothing") == []
