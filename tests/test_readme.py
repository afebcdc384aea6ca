"""What README shows is run as written, or checked against the Makefile where it takes minutes."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = [
    (language, "\n".join(line.removeprefix("   ") for line in text.splitlines()))
    for language, text in re.findall(r"^ *```(\w*)\n(.*?)^ *```$", README, flags=re.MULTILINE | re.DOTALL)
]
COMMANDS = [line for language, text in BLOCKS if not language for line in text.splitlines() if line.strip()]


def _run(arguments: list[str]) -> str:
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_make_commands_have_targets() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z-]+)", README))
    assert {"demo", "test"} <= named <= targets


def test_continuous_integration_runs_the_test_command() -> None:
    assert COMMANDS[:2] == ["make demo", "make test"]
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-1] == COMMANDS[1]


@pytest.mark.parametrize("code", [text for language, text in BLOCKS if language == "python"])
def test_python_blocks_run(code: str) -> None:
    assert "Fluid" in _run([sys.executable, "-c", code])


@pytest.mark.parametrize("command", [line for line in COMMANDS if line.startswith("precice-lb") and "tests/" in line])
def test_commands_on_files_of_this_repository_run(command: str) -> None:
    assert '"split"' in _run([sys.executable, "-m", "precice_lb", *shlex.split(command)[1:]])


def test_every_environment_variable_is_described() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "precice_lb").rglob("*.py"))
    read = set(re.findall(r"environ(?:\.get\(|\[)\"(PRECICE_LB_\w+)\"", source))
    described = set(re.findall(r"^\| `(PRECICE_LB_\w+)`", README, flags=re.MULTILINE))
    assert read - {"PRECICE_LB_DEBUG"} <= described <= set(re.findall(r"PRECICE_LB_\w+", source))
