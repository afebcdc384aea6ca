"""The embedded backend does what preCICE does: the same solvers on both, everything they were told compared.

Always against results of libprecice that are kept in ``data/embedded_conformance.npz``; where libprecice is there, also
side by side. `make test-all` runs all cases, `make test` every fifth of them, and every tenth side by side.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import FULL_COUNTS
from embedded_cases import CASES, LIMIT, Case, kept, recorded, run_cases

pytestmark = pytest.mark.mpi

RECORDED = Path(__file__).parents[1] / "data" / "embedded_conformance.npz"
AS_RECORDED = CASES if FULL_COUNTS else CASES[::5]
SIDE_BY_SIDE = CASES if FULL_COUNTS else CASES[::10]
Results = dict[str, dict[str, np.ndarray]]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("conformance")


@pytest.fixture(scope="module")
def embedded(directory: Path, mpiexec: str) -> Results:
    return run_cases(mpiexec, directory, "embedded", AS_RECORDED)


@pytest.fixture(scope="module")
def libprecice(directory: Path, embedded: Results, mpiexec: str) -> Results:
    return run_cases(mpiexec, directory, "libprecice", SIDE_BY_SIDE)


@pytest.fixture(scope="module")
def kept_results() -> Results:
    version, results = recorded(RECORDED)
    assert version.startswith("3.")
    return results


def compare(one: Case, found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """Compare what two backends gave: to rounding, or, in implicit cases, to a tenth of the convergence limit."""
    assert not [key for key in expected if key.endswith("|error")]
    assert set(expected) <= set(found)
    tolerance = 0.1 * LIMIT if one.is_implicit else 1e-12
    moved = 0
    for key, values in expected.items():
        got = found[key]
        if one.is_quasi_newton and key.endswith("iterations|table"):
            # Window, iterations in all, iterations of the window, whether it converged.
            np.testing.assert_allclose(got[:, 2], values[:, 2], atol=1.0, err_msg=key)
        elif not one.is_quasi_newton or key.endswith(("@window", "@end", "watchpoint-Place|table")):
            scale = max(float(np.abs(values).max()), 1.0) if values.size else 1.0
            np.testing.assert_allclose(got, values, rtol=tolerance, atol=tolerance * scale, err_msg=key)
        if "@" in key and values.size:
            moved += np.abs(values).max() > 0.1
    assert moved


def test_there_are_as_many_cases_as_the_documentation_says() -> None:
    assert len(CASES) == 100
    assert "100 cases over schemes" in (Path(__file__).parents[2] / "docs" / "embedded.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("one", AS_RECORDED, ids=lambda one: one.name)
def test_as_recorded_with_libprecice(one: Case, embedded: Results, kept_results: Results) -> None:
    compare(one, embedded[one.name], kept_results[one.name])


@pytest.mark.precice
@pytest.mark.parametrize("one", SIDE_BY_SIDE, ids=lambda one: one.name)
def test_the_same_as_libprecice(one: Case, embedded: Results, libprecice: Results) -> None:
    compare(one, embedded[one.name], libprecice[one.name])


@pytest.mark.precice
def test_the_recorded_results_are_those_of_libprecice(libprecice: Results, kept_results: Results) -> None:
    for one in SIDE_BY_SIDE:
        assert set(kept_results[one.name]) == {key for key in libprecice[one.name] if kept(one, key)}
