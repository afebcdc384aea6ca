"""Every learner through every command that shows what it learned; what is drawn of it may fail and costs no result."""

from __future__ import annotations

import json
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import FULL_COUNTS
from report_helpers import compute_seconds, configuration, recommended, write_campaign, write_csv

import precice_lb.campaign
from precice_lb.campaign import read_study
from precice_lb.cli import main
from precice_lb.cli.flow import run_and_recommend
from precice_lb.dataset import load_runs
from precice_lb.models import LEARNERS
from precice_lb.models.published.factorized import NeuralRegressor

# The default is in all other tests.
every_learner = pytest.mark.parametrize("learner", LEARNERS if FULL_COUNTS else ["pmnf"])
STUDY = """\
case.directory = "case"
machine.ranks = 12
runs = { windows = 6, warmup_windows = 1, target_regret = 0.5 }
participants = [{ name = "Inner", command = "python solver.py" }, { name = "Outer", command = "python solver.py" }]
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small networks: how well they learn is not what this is about."""
    defaults = NeuralRegressor.__init__.__kwdefaults__
    assert defaults is not None
    for name, value in {"members": 2, "hidden_layers": (6,), "max_iter": 200}.items():
        monkeypatch.setitem(defaults, name, value)


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stores of four runs, and a study of their case."""
    directory = tmp_path_factory.mktemp("campaign")
    (directory / "case").mkdir()
    (directory / "case" / "precice-config.xml").write_text(configuration())
    (directory / "case" / "solver.py").touch()
    (directory / "study.toml").write_text(STUDY)
    write_campaign(directory / "stores", [{"Inner": count, "Outer": count} for count in (2, 4, 6, 8)])
    return directory


@pytest.fixture
def table(tmp_path: Path) -> list[str]:
    """A table with a percent or two of noise, without the fewest ranks, where formulas go wrong, and a budget."""
    counts, rng = np.array([4, 6, 8, 12]), np.random.default_rng(1)
    laws = {"Inner": "Inner", "Outer": "Outer", "Third": "Outer"}
    seconds = {name: np.array([compute_seconds(law, p) for p in counts]) for name, law in laws.items()}
    samples = {n: np.column_stack([counts, own * rng.normal(1.0, 0.015, 4)]) for n, own in seconds.items()}
    return [str(write_csv(tmp_path / "times.csv", samples)), "--ranks", "18"]


def check_sound(values: dict[str, Any], learner: str) -> None:
    """Check in what no recommendation may contradict itself; intervals are of the learner that draws curves."""
    window = values["window_seconds"]
    low, high = values["interval"]
    assert set(values["waits"]) == set(values["split"])
    assert all(0 <= wait <= window for wait in values["waits"].values())
    if learner != "bayes":
        assert (low, high) == (None, None)
        assert values["rank_intervals"] == {}
        return
    assert low <= window <= high
    assert set(values["rank_intervals"]) == set(values["split"])
    for name, (fewest, most) in values["rank_intervals"].items():
        assert fewest <= values["split"][name] <= most


@every_learner
def test_recommend_and_report(
    learner: str, table: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*table, "--set", f"runs.learner={learner}"]
    assert main(["recommend", *arguments, "--verbose"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert f"learner: {learner}" in out
    values = recommended(capsys, *arguments)
    assert set(values["models"]) == {"Inner", "Outer", "Third"}
    assert learner in ("bayes", "neural") or all(model["text"] for model in values["models"].values())
    check_sound(values, learner)
    assert main(["report", *arguments, "-o", str(tmp_path / "out")]) == 0
    # A section that could not be made is a line there.
    assert capsys.readouterr().err == ""
    page = (tmp_path / "out" / "report.html").read_text()
    assert ("draws no curves" in page) == (learner != "bayes")


def calibrate(campaign: Path, directory: Path, monkeypatch: pytest.MonkeyPatch, learner: str) -> None:
    """Recommend as a campaign does, of runs made before."""
    runs, study = load_runs([campaign / "stores"]), read_study(campaign / "study.toml", [f"runs.learner={learner}"])
    result = types.SimpleNamespace(directory=directory, existing=(), failed_splits=(), asked=study.asked())
    result.coupled_runs, result.require_runs = lambda warmup: runs, lambda study: None
    monkeypatch.setattr(precice_lb.campaign, "run_campaign", lambda *_, **__: result)
    run_and_recommend(study, None)


@every_learner
def test_calibrate_decides_and_reports(
    learner: str, campaign: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calibrate(campaign, tmp_path, monkeypatch, learner)
    out, err = capsys.readouterr()
    assert "warning" not in err
    assert out.endswith(f"page: {tmp_path / 'report' / 'report.html'}\n")
    values = json.loads((tmp_path / "recommendation.json").read_text())
    assert values["learner"] == learner
    check_sound(values, learner)
    assert f"#SBATCH --ntasks={sum(values['split'].values())}\n" in (tmp_path / "launch" / "job.sbatch").read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"recommendation.json", "launch", "report"}
    # The study's own target, and not the usual one; only drawn curves tell what a run is worth.
    page = (tmp_path / "report" / "report.html").read_text().replace("\xa0", " ")
    assert ("calibration stops below 50.0 %" in page) == (learner == "bayes")


def test_results_stand_where_figures_and_sections_fail(
    table: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ValueError("nothing to draw")

    monkeypatch.setattr("precice_lb.report.page.scaling_chart", broken)
    arguments = ["report", *table, "-o", str(tmp_path / "page")]
    assert main(arguments) == 0
    assert capsys.readouterr().err == (
        "precice-lb: warning: the report's section 'scaling' could not be made: ValueError: nothing to draw; please "
        "report this defect, PRECICE_LB_DEBUG=1 shows where it is\n"
    )
    page = (tmp_path / "page" / "report.html").read_text()
    assert page.count("<section ") == 6
    assert page.count("This section could not be made") == 1
    monkeypatch.setenv("PRECICE_LB_DEBUG", "1")
    with pytest.raises(ValueError, match="nothing to draw"):
        main(arguments)


def test_calibrate_has_written_its_result_before_it_draws(
    campaign: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def killed(*_: object, **__: object) -> None:
        assert (tmp_path / "recommendation.json").is_file()
        raise MemoryError

    for what in ("recommendation.screen_blocks", "page.build_page"):
        monkeypatch.setattr(f"precice_lb.report.{what}", killed)
    calibrate(campaign, tmp_path, monkeypatch, "bayes")
    assert capsys.readouterr().err.count("could not be made: MemoryError") == 2
    assert (tmp_path / "launch" / "job.sbatch").is_file()
