"""What tutorials have in common: the table of their splits, the campaign of their study, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from calibrate_helpers import refusals
from conftest import FULL_COUNTS
from emulation import read_laws
from optimum import best_split
from record_helpers import python
from tutorial_helpers import ROOT, TUTORIALS, recommended_by_campaign, stated_splits

from precice_lb.schedule import Schedule

EMULATED = ["adapt-your-solver", "airfoil", "climate", "elastic-tube", "heated-plate"]


@pytest.mark.parametrize("name", EMULATED)
def test_the_table_of_splits_follows_from_the_laws(name: str) -> None:
    laws = read_laws(TUTORIALS / name / "law.json")
    schedule = Schedule.from_config(TUTORIALS / name / "precice-config.xml")
    stated = stated_splits(name)
    assert len(stated) >= 4
    for ranks, seconds in stated.items():
        own = {who: float(law.seconds(count)) for (who, law), count in zip(laws.items(), ranks, strict=True)}
        window = float(schedule.window_seconds(own))
        # The table of the climate model has its day alone, in fewer digits.
        expected, tolerance = ([window], 6e-3) if name == "climate" else ([*own.values(), window], 6e-4)
        np.testing.assert_allclose(seconds, expected, rtol=0.0, atol=tolerance)


@pytest.mark.mpi
@pytest.mark.slow("a campaign of minutes")
@pytest.mark.parametrize("name", EMULATED)
def test_the_campaign_finds_the_optimum_of_the_laws(name: str, tmp_path: Path) -> None:
    found = recommended_by_campaign(name, tmp_path / "campaign")
    assert best_split(TUTORIALS / name, found)[2] <= 0.02


@pytest.fixture
def wrong_files(tmp_path: Path) -> Path:
    """A directory of files that are whole, and those of another participant, or have no place in a run."""
    law = {"serial": 1.0, "work": 0.0, "surface": 0.0, "logarithmic": 0.0}
    (tmp_path / "other.json").write_text(json.dumps({"Other": law}))
    with h5py.File(tmp_path / "fine.h5", "w") as file:
        file["state"] = np.zeros((3, 4 * 1024, 9))
        file.attrs.update(time=0.1, windows=10)
    with h5py.File(tmp_path / "land.h5", "w") as file:
        file["Land/layers"] = np.zeros((11, 424))
    (tmp_path / "ranks.txt").write_text("0\n" * 767)
    return tmp_path


@pytest.mark.parametrize("block", refusals("tutorials-refused.txt")[:: 1 if FULL_COUNTS else 3])
def test_wrong_arguments_are_refused_before_anything_runs(wrong_files: Path, block: str) -> None:
    """A tutorial with arguments, and what its solver says, but for words of Python and its libraries."""
    (solver, *arguments), expected = block.split("\n")[0].split(), block.split("\n")[1]
    script = f"solver-python/{solver.removeprefix('heated-').removeprefix('gpu-')}.py"
    words = ("-m", "precice_lb", "run", str(TUTORIALS / solver / script), *arguments)
    done = python(wrong_files, *words, PYTHONPATH=str(ROOT), PRECICE_LB_BACKEND="embedded")
    assert done.returncode == 2
    assert expected in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
