"""Runs of the tutorials on one rank each, made once for all tests of a session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tutorial_helpers import COUPLED, couple_copy

Run = tuple[Path, list[dict[str, Any]]]


@pytest.fixture(scope="session")
def on_one_rank(mpiexec: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """Directory of a tutorial's run on the embedded backend, and what its solvers wrote."""
    runs: dict[str, Run] = {}

    def run(name: str) -> Run:
        if name not in runs:
            directory = tmp_path_factory.mktemp(name) / "one"
            runs[name] = directory, couple_copy(mpiexec, directory, name, [1] * len(COUPLED[name].solvers))
        return runs[name]

    return run
