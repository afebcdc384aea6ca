"""``PRECICE_LB_GUESS`` on the embedded backend, with a configuration in which nobody sends predictions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from record_helpers import SOLVER, assert_fine, run_pair, warnings_of

# Both move all the time.
MOVING = SOLVER.replace(
    "np.cos(0.3 * value + 0.1 * read + dt)", 'saved + (0.25 if name == "A" else -0.25) * np.cos(read)'
)


def _iterations(directory: Path) -> int:
    return int(np.loadtxt(directory / "precice-A-iterations.log", skiprows=1)[:, 2].sum())


@pytest.mark.parametrize("kind", ["serial-implicit", "parallel-implicit"])
def test_the_backend_guesses_and_saves_iterations(tmp_path: Path, kind: str) -> None:
    counts = {}
    for guess in ("", "hold", "linear", "quadratic"):
        results = run_pair(
            tmp_path / guess, kind, windows=20, solver=MOVING, PRECICE_LB_BACKEND="embedded", PRECICE_LB_GUESS=guess
        )
        assert_fine(results)
        assert not [warning for result in results.values() for warning in warnings_of(result)]
        counts[guess] = _iterations(tmp_path / guess)
    assert counts["quadratic"] < counts["hold"] == counts[""]
    assert counts["linear"] != counts["hold"]


def test_what_it_cannot_guess_is_one_warning(tmp_path: Path) -> None:
    results = run_pair(tmp_path, "serial-implicit", PRECICE_LB_BACKEND="embedded", PRECICE_LB_GUESS="auto")
    assert_fine(results)
    for result in results.values():
        (warning,) = warnings_of(result)
        assert "PRECICE_LB_GUESS=auto is ignored" in warning
