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


def _iterations(directory: Path) -> list[int]:
    return [int(each) for each in np.loadtxt(directory / "precice-A-iterations.log", skiprows=1)[:, 2]]


@pytest.mark.parametrize("kind", ["serial-implicit", "parallel-implicit"])
def test_the_backend_guesses_and_saves_iterations(tmp_path: Path, kind: str) -> None:
    counts = {}
    for guess in ("", "hold", "quadratic"):
        results = run_pair(
            tmp_path / guess, kind, windows=20, solver=MOVING, PRECICE_LB_BACKEND="embedded", PRECICE_LB_GUESS=guess
        )
        assert_fine(results)
        assert not [warning for result in results.values() for warning in warnings_of(result)]
        counts[guess] = _iterations(tmp_path / guess)
    assert counts["hold"] == counts[""]
    assert sum(counts["quadratic"]) < sum(counts["hold"])


@pytest.mark.parametrize("kind", ["serial-implicit", "parallel-implicit"])
@pytest.mark.parametrize("guess", ["linear", "quadratic"])
def test_iterations_are_those_of_shifted_variables(tmp_path: Path, kind: str, guess: str) -> None:
    found = []
    for patched in (False, True):
        directory, variables = tmp_path / str(patched), {"PRECICE_LB_BACKEND": "embedded", "PRECICE_LB_GUESS": guess}
        assert_fine(run_pair(directory, kind, windows=20, solver=MOVING, patched=patched, **variables))
        found.append(_iterations(directory))
    native, shifted = found
    assert native == shifted


def test_what_it_cannot_guess_is_one_warning(tmp_path: Path) -> None:
    results = run_pair(tmp_path, "serial-implicit", PRECICE_LB_BACKEND="embedded", PRECICE_LB_GUESS="auto")
    assert_fine(results)
    for result in results.values():
        (warning,) = warnings_of(result)
        assert "runs without a first guess" in warning
