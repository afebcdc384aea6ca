"""Notebooks run as they are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from record_helpers import environment

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs").rglob("*.ipynb"))
# In a process of its own: what Jupyter warns of is not about this package.
EXECUTE = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
nbformat.validate(notebook)
NotebookClient(notebook, timeout=240, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[2])
"""


def cells(path: Path) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_run(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("nbclient", reason="the extra docs is not installed")
    pytest.importorskip("ipykernel", reason="the extra docs is not installed")
    done = tmp_path / "done.ipynb"
    result = subprocess.run(
        [sys.executable, "-c", EXECUTE, str(path), str(done)],
        cwd=tmp_path,
        env=environment(MPLBACKEND="module://matplotlib_inline.backend_inline", JUPYTER_RUNTIME_DIR=str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    outputs = [output for cell in cells(done) for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error" or output.get("name") == "stderr"]
    text = "".join(line for output in outputs for line in output.get("text", []))
    assert "'Fluid': " in text
    assert "interval" in text
    assert any("image/png" in output.get("data", {}) for output in outputs)
