"""What holds of all tutorials: the same fields on any ranks and on libprecice, and loads as their laws say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulation import read_laws
from tutorial_helpers import COUPLED, MESSAGES, TUTORIALS, assert_same_fields, couple_copy, couple_segments, kept

from precice_lb.dataset import load_runs
from precice_lb.ingest.profiling import enrich
from precice_lb.schedule import Schedule

pytestmark = pytest.mark.mpi
SLOW = pytest.mark.slow("the pulse does the same")
OnOneRank = Callable[[str], tuple[Path, list[dict[str, Any]]]]


@pytest.mark.parametrize(
    ("name", "ranks", "tolerance"),
    [
        ("pulse", (2, 3), 1e-12),
        pytest.param("climate", (2, 1, 1, 2, 1), 1e-12, marks=SLOW),
        pytest.param("elastic-tube", (2, 1), 1e-6, marks=SLOW),
        pytest.param("gpu-plate", (2, 1), 1e-6, marks=SLOW),
        pytest.param("heated-plate", (3, 2), 1e-12, marks=SLOW),
    ],
)
def test_fields_do_not_depend_on_the_ranks(
    name: str, ranks: tuple[int, ...], tolerance: float, mpiexec: str, tmp_path: Path, on_one_rank: OnOneRank
) -> None:
    windows = 1 if name == "climate" else COUPLED[name].windows
    fields = couple_copy(mpiexec, tmp_path / "run", name, ranks, windows=windows)
    assert_same_fields(kept(name, fields), kept(name, on_one_rank(name)[1]), tolerance)


@pytest.mark.precice
@pytest.mark.parametrize(
    ("name", "ranks", "tolerance"),
    [
        ("pulse", (2, 3), 1e-10),
        ("airfoil", (2, 3, 2), 1e-11),
        ("climate", (1, 2, 1, 1, 1), 1e-12),
        ("elastic-tube", (2, 1), 1e-3),
        ("gpu-plate", (1, 1), 1e-6),
        ("heated-plate", (3, 2), 1e-9),
    ],
)
def test_libprecice_gives_the_same_fields(
    name: str, ranks: tuple[int, ...], tolerance: float, mpiexec: str, tmp_path: Path, on_one_rank: OnOneRank
) -> None:
    fields = couple_copy(mpiexec, tmp_path / "run", name, ranks, backend="libprecice")
    assert_same_fields(kept(name, fields), kept(name, on_one_rank(name)[1]), tolerance)


@pytest.mark.parametrize(
    ("name", "ranks", "windows", "iterations"),
    [
        ("pulse", (2, 3), 6, 1),
        pytest.param("airfoil", (3, 2, 1), 4, 1, marks=SLOW),
        pytest.param("climate", (1, 1, 1, 1, 1), 1, 1, marks=SLOW),
        pytest.param("elastic-tube", (2, 3), 4, 4, marks=SLOW),
        pytest.param("heated-plate", (4, 2), 5, 1, marks=SLOW),
    ],
)
def test_the_emulated_load_costs_what_its_law_says(
    name: str, ranks: tuple[int, ...], windows: int, iterations: int, mpiexec: str, tmp_path: Path
) -> None:
    """Over so many iterations a window has the load of the law."""
    options: dict[str, Any] = {"windows": windows, "arguments": ("--load", "emulated"), "record": True}
    couple_copy(mpiexec, tmp_path / "run", name, ranks, **options)
    (run,) = load_runs([tmp_path / "run"], complete=enrich)
    schedule = Schedule.from_config(TUTORIALS / name / "precice-config.xml")
    parts = {}
    for participant, law in read_laws(TUTORIALS / name / "law.json").items():
        part = run.participants[participant]
        count = windows * schedule.windows[participant] // min(schedule.windows.values())
        expected = np.array([law.seconds(part.ranks) * law.factor(window, part.ranks) for window in range(count)])
        compute = part.compute_seconds if iterations == 1 else part.compute_seconds / part.iterations
        np.testing.assert_allclose(compute, expected / iterations, atol=MESSAGES)
        parts[participant] = part
    if name == "pulse":
        longest = np.max([part.compute_seconds for part in parts.values()], axis=0)
        np.testing.assert_allclose(parts["Inner"].window_seconds[1:-1], longest[1:-1], atol=2 * MESSAGES)


@pytest.mark.parametrize("name", ["pulse", "climate"])
@pytest.mark.parametrize(
    "backend",
    [
        pytest.param(
            "embedded", marks=pytest.mark.slow("the same as on libprecice; a small solver's chains do it too")
        ),
        pytest.param("libprecice", marks=pytest.mark.precice),
    ],
)
def test_three_segments_on_other_ranks_end_as_one_run(
    name: str, backend: str, mpiexec: str, tmp_path: Path, on_one_rank: OnOneRank
) -> None:
    splits = {
        "pulse": [(20, (2, 3)), (15, (1, 4)), (25, (3, 1))],
        "climate": [(1, (2, 1, 1, 1, 2)), (1, (1, 2, 2, 1, 1)), (1, (1, 3, 1, 2, 2))],
    }[name]
    segments = [(windows, dict(zip(COUPLED[name].solvers, ranks, strict=True))) for windows, ranks in splits]
    fields = couple_segments(mpiexec, tmp_path, name, segments, backend=backend)
    assert_same_fields(at_end(name, fields), at_end(name, on_one_rank(name)[1]), 1e-10)


def at_end(name: str, fields: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of the climate's histories the last entries."""
    return fields if name == "pulse" else [{key: part[key][-1:] for key in part} for part in kept(name, fields)]
