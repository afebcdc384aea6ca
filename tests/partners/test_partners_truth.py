"""Partner ranks against libprecice: recorded runs everywhere, fresh ones where libprecice is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import FULL_COUNTS
from partners_helpers import judge, meshes_of
from partners_truth import batches, read_cases, run_cases

from precice_lb.partners import read_store_meshes

RECORDED = Path(__file__).parents[1] / "data" / "partners" / "truth.json.gz"


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    return read_cases(RECORDED)


def test_connections_pairs_and_vertices_equal_those_of_recorded_runs(recorded: dict[str, Any]) -> None:
    verdicts = [judge(case["spec"], case["truth"]) for case in recorded["cases"]]
    # Of what is equally near preCICE takes some, and here all of it counts.
    assert not any(verdict["missed"] for verdict in verdicts)
    exact = {what: sum(verdict[what] for verdict in verdicts) for what in ("level_1", "level_2", "vertices")}
    assert exact == {"level_1": 219, "level_2": 215, "vertices": 188}
    # Two levels connect by boxes alone, whatever is tied.
    cases = zip(recorded["cases"], verdicts, strict=True)
    assert all(verdict["level_1"] for case, verdict in cases if case["spec"]["two_level"])


@pytest.mark.precice
@pytest.mark.mpi
def test_runs_here_agree_too_and_their_meshes_are_recorded(
    recorded: dict[str, Any], mpiexec: str, tmp_path: Path
) -> None:
    some = list(batches(recorded["cases"]))
    for number, batch in enumerate(some if FULL_COUNTS else some[:2]):
        (tmp_path / str(number)).mkdir()
        truths = run_cases([case["spec"] for case in batch], mpiexec, record=tmp_path / str(number))
        for place, (case, truth) in enumerate(zip(batch, truths, strict=True)):
            verdict = judge(case["spec"], truth)
            assert not verdict["missed"]
            assert verdict["level_1"] or not (case["spec"]["two_level"] or verdict["level_2"])
            _check_recorded(case["spec"], tmp_path / str(number) / f"{place:04d}" / "store")


def _check_recorded(spec: dict[str, Any], store: Path) -> None:
    """The recorded meshes are those that the ranks set, and so is everything that follows from them."""
    _, meshes, regions = read_store_meshes([store])
    for name, mesh in meshes_of(spec).items():
        result = meshes[name]
        assert result.counts.tolist() == mesh.counts.tolist()
        np.testing.assert_array_equal(result.points(""), mesh.points(""))
        np.testing.assert_array_equal(result.boxes, mesh.boxes)
        for kind, cells in mesh.cells.items():
            np.testing.assert_array_equal(result.cells.get(kind, cells[:0]), cells)
    wanted = {link["mesh"]: link["regions"] for link in spec["links"] if link["regions"] is not None}
    assert {name: boxes.tolist() for name, boxes in regions.items()} == wanted
