"""Who may import whom stands in pyproject.toml: it holds, knows every third-party package, and a breach is seen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import grimp

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
EVERYWHERE = {"numpy", "precice_lb", "tomllib"}  # tomllib is in the standard library from 3.11 on


def _lint(directory: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"]
    command += ["--config", str(ROOT / "pyproject.toml")]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


def test_the_contracts_hold() -> None:
    done = _lint(ROOT)
    assert done.returncode == 0, done.stdout


def test_every_third_party_package_stands_in_a_contract() -> None:
    graph = grimp.build_graph("precice_lb", include_external_packages=True, cache_dir=None)
    outside = {name.split(".")[0] for name in graph.modules} - set(sys.stdlib_module_names) - EVERYWHERE
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    named = {module for contract in settings["contracts"] for module in contract.get("protected_modules", ())}
    assert outside <= named
