"""Heat on two scales: micro problems with known answers; FEniCSx and the Micro Manager together on several ranks."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tutorial_helpers import ROOT, copy_tutorial, run_together, tutorial_modules

from precice_lb.dataset import load_runs
from precice_lb.ingest.profiling import enrich

cell, steady = tutorial_modules("two-scale-heat", "cell", "steady", solver="micro-python")

coupled = [pytest.mark.fenicsx, pytest.mark.precice, pytest.mark.mpi]


def test_layers_conduct_as_in_series_and_side_by_side():
    layers = np.repeat(np.where(np.arange(12) < 5, 1.0, 0.1)[:, None], 12, axis=1)
    assert cell.effective(layers) == pytest.approx(1.0 / np.mean(1.0 / layers), rel=1e-12)
    assert cell.effective(layers.T) == pytest.approx(layers.mean(), rel=1e-12)


@pytest.fixture(scope="module")
def micro_python(fenicsx_python):
    """Path of a Python that has the Micro Manager too."""
    command = [fenicsx_python, "-c", "import micro_manager"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"the Micro Manager is not usable here: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    return fenicsx_python


def solve(python, directory, ranks, *options, windows=None, recorded=True):
    """Run both participants in a copy of the tutorial; return what the macro solver wrote."""
    copy_tutorial("two-scale-heat", directory, windows=windows)
    template = (directory / "micro-python" / "micro-manager-config.json.in").read_text()
    configuration = directory / "micro-python" / "micro-manager-config.json"
    configuration.write_text(template.replace("{ranks}", str(ranks[1])))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MICRO_GRID": "8", "OMP_NUM_THREADS": "1"}
    place = Path(python).parent
    start = [python, "-m", "precice_lb", "run"]
    macro = [*(start if recorded else [python]), "macro.py", "--output", "macro.npz", *options]
    micro = [*(start if recorded else []), str(place / "micro-manager-precice"), configuration.name]
    started = zip(("macro-fenicsx", "micro-python"), ranks, (macro, micro), strict=True)
    commands = {name: [str(place / "mpiexec"), "-n", str(count), *command] for name, count, command in started}
    run_together(commands, directory, environment)
    told = re.search(r"(\d+) iterations", (directory / "macro-fenicsx.log").read_text())
    return dict(np.load(directory / "macro-fenicsx" / "macro.npz"), iterations=int(told[1]))


class TestCoupled:
    pytestmark = coupled

    def test_the_same_temperatures_on_any_ranks(self, micro_python, tmp_path):
        found = {}
        # Of six layers of elements, those in the middle of the second and fifth lie between ranks of four.
        for ranks in ((1, 1), (2, 1), (1, 2), (1, 4)):
            place = tmp_path / "{}-{}".format(*ranks)
            found[ranks] = solve(micro_python, place, ranks, "--cells", "3", windows=2)
            (run,) = load_runs([place], complete=enrich)
            macro, micro = run.participants["Macro"], run.participants["Micro"]
            assert (macro.ranks, micro.ranks) == ranks
            assert macro.iterations.sum() == micro.iterations.sum() == found[ranks]["iterations"]
            assert "fenicsxprecice.read_data" in macro.rank_sections
            assert "micro_manager.solve.solve_micro_simulations" in micro.rank_sections
            np.testing.assert_allclose(found[ranks]["x"], found[1, 1]["x"], atol=1e-12)
            np.testing.assert_allclose(found[ranks]["temperature"], found[1, 1]["temperature"], atol=1e-8)
        # Two windows in, the temperature still varies across the bar.
        x, temperature = found[1, 1]["x"], found[1, 1]["temperature"]
        middle = np.isclose(x[:, 0], 1.0)
        assert np.ptp(temperature[middle]) > 1e-4

    def test_the_steady_temperature_is_that_of_the_micro_problems(self, micro_python, tmp_path, monkeypatch):
        monkeypatch.setattr(steady, "cell", lambda temperature: cell.cell(temperature, 8))
        errors = []
        for cells in ("2", "4"):
            found = solve(micro_python, tmp_path / cells, (1, 1), "--cells", cells)
            errors.append(np.abs(found["temperature"] - steady.steady(found["x"][:, 0])).max())
        assert errors == pytest.approx([2.46e-2, 1.01e-2], rel=0.02)

    def test_recording_changes_no_byte(self, micro_python, tmp_path):
        for place, recorded in (("plain", False), ("recorded", True)):
            solve(micro_python, tmp_path / place, (1, 1), "--cells", "2", windows=2, recorded=recorded)
            assert len(list((tmp_path / place).glob("*/precice-lb-store"))) == (2 if recorded else 0)
        plain, recorded = (next((tmp_path / place).glob("*/macro.npz")).read_bytes() for place in ("plain", "recorded"))
        assert plain == recorded
