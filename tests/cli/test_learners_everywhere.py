"""Every learner through every command that shows what it learned, for two, three and four participants."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import FULL_COUNTS
from precice_xml_helpers import configuration, scheme
from report_helpers import write_csv
from store_helpers import START, row, write_store

import precice_lb.campaign
from precice_lb.campaign import Study, read_study
from precice_lb.campaign.state import CampaignResult
from precice_lb.campaign.worth import next_runs
from precice_lb.case.case import Case
from precice_lb.cli import main
from precice_lb.cli.flow import run_and_recommend
from precice_lb.dataset import load_runs
from precice_lb.models import LEARNERS
from precice_lb.models.published.factorized import NeuralRegressor
from precice_lb.recommend import Recommendation, recommend
from precice_lb.report.at_end import write_at_end
from precice_lb.report.charts import CHARTS
from precice_lb.schedule import Schedule

# One that draws curves from a posterior, and one that does not.
every_learner = pytest.mark.parametrize("learner", LEARNERS if FULL_COUNTS else ["bayes", "pmnf"])
COUNTS = (2, 4, 6, 8)
WORK = {"F": 3.2, "S": 1.6, "H": 0.9, "G": 0.5}
STUDY_RUNS = "[runs]\nwindows = 6\nwarmup_windows = 1\ntarget_regret = 0.5\n"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small networks: how well they learn is not what this is about."""
    defaults = NeuralRegressor.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "members", 2)
    monkeypatch.setitem(defaults, "hidden_layers", (6,))
    monkeypatch.setitem(defaults, "max_iter", 200)


def seconds(name: str, ranks: int, run: int = 0) -> float:
    """The planted law, with a percent or two of noise; a formula with free signs is below zero at few ranks."""
    noise = np.random.default_rng([ord(name), ranks, run]).normal(0.0, 0.015)
    return float((0.02 + WORK[name] / ranks) * (1 + noise))


# Three is where figures are triangles.
@pytest.fixture(scope="module", params=[2, 3, 4] if FULL_COUNTS else [3])
def names(request: pytest.FixtureRequest) -> str:
    return "".join(WORK)[: request.param]


@pytest.fixture(scope="module")
def campaign(names: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stores of four runs of some participants, the first coupled with every other one, and a study of their case."""
    directory = tmp_path_factory.mktemp(f"campaign-{names}")
    pairs = [names[0] + other for other in names[1:]]
    text = configuration(names, [scheme("parallel-explicit", pair) for pair in pairs], pairs)
    (directory / "case").mkdir()
    (directory / "case" / "precice-config.xml").write_text(text)
    (directory / "case" / "solver.py").touch()
    participants = "".join(f'[[participants]]\nname = "{name}"\ncommand = "python solver.py"\n' for name in names)
    budget = f'[case]\ndirectory = "case"\n[machine]\nranks = {4 * len(names)}\n'
    (directory / "study.toml").write_text(budget + STUDY_RUNS + participants)
    for number, ranks in enumerate(COUNTS):
        own = {name: seconds(name, ranks, number) for name in names}
        longest = max(own.values())
        for name, rank in itertools.product(names, range(ranks)):
            wait = longest - own[name] + 1e-4
            write_store(
                directory / "stores" / f"run-{number}",
                [row(w, own[name], wait + 2e-4, wait, 1e-4) for w in range(1, 5)],
                name, rank, ranks, configuration=text, started_unix_ns=START + number * 60 * 10**9, seconds=5.0,
                run=f"run-{number}",
            )  # fmt: skip
    return directory


def table(directory: Path, names: str) -> list[str]:
    """A table without the fewest ranks, where formulas with free signs go wrong, and a budget."""
    samples = {name: np.array([(p, seconds(name, p)) for p in (4, 6, 8, 12)]) for name in names}
    return [str(write_csv(directory / "times.csv", samples)), "--ranks", str(6 * len(names))]


def _sound(values: dict[str, Any]) -> None:
    """What no recommendation may contradict itself in."""
    window, interval = values["window_seconds"], values["interval"]
    if interval[0] is not None:
        assert interval[0] <= window <= interval[1]
    waits, between, split = values["waits"], values["rank_intervals"], values["split"]
    assert all(0 <= wait <= window for wait in waits.values())
    assert all(low <= split[name] <= high for name, (low, high) in between.items())


# --- commands ---------------------------------------------------------------------------------------------------------


@every_learner
def test_recommend_and_report(learner: str, names: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*table(tmp_path, names), "--set", f"runs.learner={learner}"]
    assert main(["recommend", *arguments, "--verbose"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert f"learner: {learner}" in out
    assert main(["recommend", *arguments, "--format", "json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert learner in ("bayes", "neural") or all(model["text"] for model in values["models"].values())
    _sound(values)
    assert main(["report", *arguments, "-o", str(tmp_path / "out")]) == 0
    # A section that could not be made is a line there.
    assert capsys.readouterr().err == ""
    page = (tmp_path / "out" / "report.html").read_text()
    assert ("draws no curves" in page.replace("\xa0", " ")) == (learner != "bayes")


def asking(study: Study, **tables: object) -> Case:
    """What a study asks for, with other tables."""
    return Case.model_validate({**study.asked().model_dump(exclude_defaults=True), **tables})


def calibrate(campaign: Path, directory: Path, monkeypatch: pytest.MonkeyPatch, learner: str | None = None) -> None:
    """Recommend as a campaign does, of runs made before."""
    runs = load_runs([campaign / "stores"])
    study = read_study(campaign / "study.toml")
    result = types.SimpleNamespace(
        directory=directory,
        coupled_runs=lambda warmup: runs,
        existing=(),
        failed_splits=(),
        require_runs=lambda study: None,
        asked=study.asked() if learner is None else asking(study, runs={"learner": learner}),
    )
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
    _sound(values)
    assert f"#SBATCH --ntasks={sum(values['split'].values())}\n" in (tmp_path / "launch" / "job.sbatch").read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"recommendation.json", "launch", "report"}
    # The study's own target, and not the usual one; only drawn curves tell what a run is worth.
    judged = re.search(
        r"(Another|Measure|Repeat) [^:]*: the recommended split is expected to be ([\d.]+) % slower [^;]*; "
        r"calibration stops below 50\.0 %",
        (tmp_path / "report" / "report.html").read_text().replace("\xa0", " "),
    )
    assert (judged is not None) == (learner == "bayes")
    assert judged is None or (judged[1] == "Another") == (float(judged[2]) < 50)


def test_the_report_of_a_campaign_has_the_target_of_its_study(campaign: Path, tmp_path: Path) -> None:
    study = read_study(campaign / "study.toml")
    runs = {"existing": [str(campaign / "stores")], "target_regret": study.runs.target_regret}
    CampaignResult(study.identity(), [], asking(study, runs=runs), directory=tmp_path).save()
    assert main(["report", str(tmp_path), "--output", str(tmp_path / "report")]) == 0
    page = (tmp_path / "report" / "report.html").read_text().replace("\xa0", " ")
    assert "calibration stops below 50.0 %" in page


def test_the_end_of_a_run_recommends(campaign: Path) -> None:
    written = write_at_end(campaign, campaign / "stores", "F")
    assert [path.name for path in written] == ["recommendation.json"]
    _sound(json.loads(written[0].read_text()))


# --- what fails is one warning ----------------------------------------------------------------------------------------


def test_results_stand_where_figures_and_sections_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ValueError("nothing to draw")

    for name in ("scaling", "budget"):
        monkeypatch.setitem(CHARTS, name, broken)
    arguments = ["report", *table(tmp_path, "FSH"), "-o", str(tmp_path / "page")]
    assert main(arguments) == 0
    assert capsys.readouterr().err.splitlines() == [
        f"precice-lb: warning: the report's section '{name}' could not be made: ValueError: nothing to draw; please "
        "report this defect, PRECICE_LB_DEBUG=1 shows where it is"
        for name in ("scaling", "budget")
    ]
    page = (tmp_path / "page" / "report.html").read_text()
    assert page.count("<section ") == 8
    assert page.count("This section could not be made") == 2
    monkeypatch.setenv("PRECICE_LB_DEBUG", "1")
    with pytest.raises(ValueError, match="nothing to draw"):
        main(arguments)


def test_a_directory_that_cannot_be_written_to_costs_the_files_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["recommend", *table(tmp_path, "FS"), "--output", str(tmp_path / "file")]) == 2
    out, err = capsys.readouterr()
    assert out.startswith("Give F ")
    assert err.startswith(
        f"precice-lb: error: {tmp_path / 'file'}: expected a directory to write the recommendation to"
    )
    assert err.count("\n") == 1


def test_calibrate_has_written_its_result_before_it_draws(
    campaign: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def killed(*_: object, **__: object) -> None:
        assert (tmp_path / "recommendation.json").is_file()
        raise MemoryError

    for what in ("recommendation.screen_blocks", "page.build_page"):
        monkeypatch.setattr(f"precice_lb.report.{what}", killed)
    calibrate(campaign, tmp_path, monkeypatch)
    assert capsys.readouterr().err.count("could not be made: MemoryError") == 2
    assert (tmp_path / "launch" / "job.sbatch").is_file()


def _recommended(learner: object, **options: object) -> Recommendation:
    from precice_lb.recommend.sources import measurements_from_arrays

    samples = {name: [(p, seconds(name, p)) for p in COUNTS] for name in "FS"}
    return recommend(
        measurements_from_arrays(samples),
        12,
        schedule=Schedule.parallel(["F", "S"]),
        learner=learner,
        **options,
    )


def test_the_split_that_was_recommended_is_judged_and_not_another() -> None:
    """A learner whose recommendation others find poor says by how much."""
    found = _recommended("bayes")
    good = next_runs(found)
    poor = next_runs(dataclasses.replace(found, split={"F": 2, "S": 10}))
    assert good.regret < 0.05
    assert poor.regret > 1.0
