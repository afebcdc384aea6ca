"""The Python that has FEniCSx, or a skip with the reason."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def fenicsx_python() -> str:
    """Path of a Python with dolfinx and fenicsxprecice, with its own ``mpiexec`` beside it."""
    python = os.environ.get("FENICSX_PYTHON", sys.executable)
    needed = "import dolfinx_solver, fenicsxprecice, sklearn, cyclopts"
    done = subprocess.run([python, "-c", needed], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"FEniCSx is not usable here: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    if not (Path(python).parent / "mpiexec").exists():
        pytest.skip(f"no mpiexec beside {python}")
    return python
