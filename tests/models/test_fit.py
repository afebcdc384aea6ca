"""Comparing learners on measurements: cross-validation, tests by a condition, the subcommand and its files."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import FULL_COUNTS
from numpy.typing import NDArray

from precice_lb.cli import main
from precice_lb.exceptions import DataError, ModelError
from precice_lb.ingest.csv import read_csv
from precice_lb.models import make_learner, model_from_dict
from precice_lb.models.base import Learner
from precice_lb.models.evaluate import cross_validate, evaluate, meeting
from precice_lb.report.fit import compare_learners
from precice_lb.report.fit_figure import draw_fit

ROOT = Path(__file__).resolve().parents[2]
SCHROEDER = ROOT / "tests" / "data" / "schroeder2019.csv"
RANKS = np.array([4, 8, 16, 32, 64, 128], dtype=np.float64)
# Leaving out one after the other takes a fit each: every second count, and all with full counts.
FEW = RANKS if FULL_COUNTS else RANKS[::2]


def law(ranks: NDArray[np.float64]) -> NDArray[np.float64]:
    return 0.5 + 60 / ranks


class _Mean(Learner):
    """Predicts the mean of what it was fitted to, and remembers every fit."""

    learner_name = "mean"
    seen: list[NDArray[np.float64]] = []  # noqa: RUF012

    def fit(self, X: Any, y: Any, spread: Any = None) -> _Mean:
        _Mean.seen.append(np.asarray(X)[:, 0])
        self.mean_ = float(np.mean(y))
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        return np.full(len(X), self.mean_)

    def predict_interval(self, X: Any, level: float = 0.8) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self.predict(X) - 1, self.predict(X) + 1


def test_each_point_is_predicted_without_it_and_without_its_repeats() -> None:
    _Mean.seen.clear()
    X = np.array([[1.0], [2.0], [1.0], [3.0]])
    y = np.array([10.0, 20.0, 12.0, 40.0])
    judged = cross_validate(_Mean(), X, y)
    assert judged.predictions.tolist() == [30.0, pytest.approx(62 / 3), 30.0, 14.0]
    assert [sorted(seen.tolist()) for seen in _Mean.seen] == [[2.0, 3.0], [1.0, 1.0, 3.0], [1.0, 1.0, 2.0]]
    errors = 2 * np.abs(y - judged.predictions) / (y + judged.predictions)
    assert judged.smape == pytest.approx(100 * errors.mean())
    assert judged.mse == pytest.approx(np.square(y - judged.predictions).mean())
    assert judged.not_positive == 0


def test_many_points_are_dealt_out_to_ten_folds() -> None:
    _Mean.seen.clear()
    X = np.arange(1.0, 41.0)[:, None]
    cross_validate(_Mean(), X, X[:, 0])
    assert [len(seen) for seen in _Mean.seen] == [36] * 10
    left_out = [set(X[:, 0]) - set(seen) for seen in _Mean.seen]
    assert set.union(*left_out) == set(X[:, 0])
    _Mean.seen.clear()
    cross_validate(_Mean(), X, X[:, 0], folds=4)
    assert [len(seen) for seen in _Mean.seen] == [30] * 4


def test_intervals_are_widened_by_known_standard_errors() -> None:
    X, y = np.array([[1.0], [2.0]]), np.array([10.0, 13.0])
    narrow = cross_validate(_Mean(), X, y, spread=np.array([1e-9, 1e-9]))
    wide = cross_validate(_Mean(), X, y, spread=np.array([3.0, 3.0]))
    assert (narrow.coverage, wide.coverage) == (0.0, 1.0)
    # Relative: 3 of 10 seconds and 3 of 13, at the predicted 13 and 10.
    half = np.hypot(1.0, 1.2815515655446004 * np.array([3 / 10 * 13, 3 / 13 * 10]))
    np.testing.assert_allclose(wide.high - wide.predictions, half)


def test_coverage_of_a_good_learner_is_near_its_level() -> None:
    rng = np.random.default_rng(5)
    ranks = np.repeat(RANKS, 12)
    y = law(ranks) * np.exp(0.04 * rng.standard_normal(len(ranks)))
    judged = cross_validate("shape", ranks[:, None], y)
    assert 0.7 <= judged.coverage <= 0.9
    assert judged.smape == pytest.approx(100 * 0.04 * math.sqrt(2 / math.pi), rel=0.25)


def test_predictions_that_are_no_time_are_counted_and_cost_the_most() -> None:
    X, y = np.array([[1.0], [2.0], [4.0]]), np.array([1.0, 2.0, 3.0])

    class Broken(_Mean):
        def predict(self, X: Any) -> NDArray[np.float64]:
            return np.where(np.asarray(X)[:, 0] == 1.0, np.nan, -1.0)

    judged = cross_validate(Broken(), X, y)
    assert judged.not_positive == 3
    assert judged.smape == pytest.approx((200 + 2 * 3 / 3 * 100 + 2 * 4 / 4 * 100) / 3)
    assert judged.mse == math.inf


def test_a_test_predicts_what_was_kept_out() -> None:
    kept = RANKS >= 64
    judged = evaluate("shape", RANKS[:, None], law(RANKS), kept)
    np.testing.assert_allclose(judged.predictions, law(RANKS)[kept], rtol=0.2)
    assert judged.smape < 15
    with pytest.raises(ModelError, match="found 0 for the test"):
        evaluate("shape", RANKS[:, None], law(RANKS), np.zeros(6, dtype=bool))


@pytest.mark.parametrize(
    ("conditions", "rows"),
    [
        (["level==8"], [2, 3]),
        (["level == 8", "ranks>=32"], [3]),
        (["ranks<16"], [0]),
        (["ranks<=16", "level!=8"], [0, 1]),
        (["mesh=='fine'"], [1, 3]),
        (["mesh!=fine"], [0, 2]),
        (["ranks>16"], [3]),
    ],
)
def test_conditions_choose_rows(conditions: list[str], rows: list[int]) -> None:
    columns = {
        "ranks": np.array([8.0, 16.0, 16.0, 32.0]),
        "level": np.array([7.0, 7.0, 8.0, 8.0]),
        "mesh": np.array(["coarse", "fine", "coarse", "fine"]),
    }
    assert np.flatnonzero(meeting(conditions, columns)).tolist() == rows


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("level=8", "expected a condition"),
        ("size==8", "expected a condition on one of ranks, mesh"),
        ("ranks==many", "expected a number to compare ranks with"),
        ("mesh>fine", "expected == or !="),
    ],
)
def test_conditions_that_mean_nothing_are_refused(condition: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        meeting([condition], {"ranks": np.array([1.0]), "mesh": np.array(["fine"])})


def test_too_little_to_compare_by_is_refused() -> None:
    with pytest.raises(ModelError, match="two points or more"):
        cross_validate("shape", [[4.0], [4.0]], [1.0, 1.1])
    with pytest.raises(ModelError, match="expected 2 to 2 folds"):
        cross_validate("shape", [[4.0], [8.0]], [1.0, 1.1], folds=3)
    with pytest.raises(ModelError, match="between 0 and 1"):
        cross_validate("shape", [[4.0], [8.0]], [1.0, 1.1], level=1.0)


def test_the_best_learner_comes_first_and_refusals_last(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    rows = [f"A,{ranks:g},{level},{2**level * law(ranks):.6f}" for level in (3, 4) for ranks in FEW]
    table.write_text("participant,ranks,level,seconds\n" + "\n".join(rows) + "\n", encoding="utf-8")
    (fit,) = compare_learners(read_csv(table), ["shape", "bayes"])
    assert fit.columns == ("ranks", "level")
    assert fit.fits[0].learner == "bayes"
    assert fit.fits[-1].learner == "shape"
    assert fit.fits[-1].model is None
    assert "leave the other columns out" in fit.fits[-1].problem


def test_fit_writes_models_errors_and_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "models"
    command = ["fit", str(SCHROEDER), "--learner", "shape", "--learner", "pmnf", "--test", "ranks>=300"]
    assert main([*command, "--format", "json", "--output", str(output)]) == 0
    told = capsys.readouterr()
    found = json.loads(told.out)
    assert found == json.loads((output / "fit.json").read_text(encoding="utf-8"))
    inner = found["participants"]["Inner"]
    assert (inner["measurements"], inner["tested"]) == (4, 3)
    assert found["participants"]["Outer"]["tested"] == 0
    # Four points are one too few to validate two terms and a constant by leaving one out.
    shape = inner["learners"]["shape"]
    assert 0 < shape["test"]["smape_percent"] < 20
    assert shape["cross_validation"]["not_positive"] == 0
    stored = model_from_dict(json.loads((output / "Outer-shape.json").read_text(encoding="utf-8")))
    again = make_learner("shape").fit(*_outer())
    np.testing.assert_allclose(stored.predict([[100.0], [300.0]]), again.predict([[100.0], [300.0]]), rtol=1e-9)
    names = {path.name for path in output.iterdir()}
    assert {"Inner.svg", "Inner.png", "Outer.svg", "Outer.png", "fit.json", "Outer-pmnf.json"} <= names
    assert sorted(line.removeprefix("wrote ") for line in told.err.splitlines()) == sorted(
        str(output / name) for name in names
    )


def test_formulas_and_models_of_several_parameters_say_what_their_letters_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, output = tmp_path / "table.csv", tmp_path / "out"
    rows = [f"A,{ranks:g},{level},{2**level * law(ranks):.6f}" for level in (3, 4, 5) for ranks in FEW]
    table.write_text("participant,ranks,level,seconds\n" + "\n".join(rows) + "\n", encoding="utf-8")
    command = ["fit", str(table), "--learner", "bayes", "--learner", "factorized", "--test", "level==5"]
    assert main([*command, "--output", str(output)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "p: ranks, x1: level" in shown
    assert " for level = 4 " in shown
    found = json.loads((output / "fit.json").read_text(encoding="utf-8"))["participants"]["A"]
    assert found["variables"] == {"p": "ranks", "x1": "level"}
    formula = found["learners"]["bayes"]["formula"]
    assert formula["parameters"] == {"level": 4}
    stored = json.loads((output / "A-bayes.json").read_text(encoding="utf-8"))
    assert (stored["participant"], stored["columns"]) == ("A", ["ranks", "level"])
    said = eval(formula["python"], {"math": math, "p": 32})
    assert said == pytest.approx(model_from_dict(stored).predict([[32, 4]])[0], rel=0.05)
    assert found["learners"]["factorized"]["formula"]["parameters"] == {}


def test_fit_shows_tables_and_formulas(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", str(SCHROEDER), "--learner", "shape"]) == 0
    text = capsys.readouterr().out
    assert "Inner: 7 measurements over ranks, each predicted from the others" in text
    assert "p^-1" in text
    assert "SMAPE" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--learner", "magic"], "expected --learner as one of"),
        (["--test", "level==8"], "--test: expected a condition on one of ranks, found one on 'level'"),
        (["--test", "ranks>1000"], "expected measurements that meet it, found none"),
        (["--test", "ranks>1"], "to learn from, found that all 7 do"),
        (["--level", "2"], "between 0 and 1"),
        (["--folds", "1"], "at least 2 folds"),
        (["--folds", "100", "--learner", "shape"], "Inner, shape: expected 2 to 7 folds"),
    ],
)
def test_fit_refuses_in_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", str(SCHROEDER), *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_figures_have_a_panel_for_each_value_of_a_parameter(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    rows = [f"A_1,{ranks:g},{level},{2**level * law(ranks):.6f}" for level in (3, 4, 5) for ranks in FEW]
    table.write_text("participant,ranks,level,seconds\n" + "\n".join(rows) + "\n", encoding="utf-8")
    (fit,) = compare_learners(read_csv(table), ["bayes"], conditions=["level==5"])
    assert fit.tested.sum() == len(FEW)
    figure = draw_fit(fit)
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in panels] == ["level = 3", "level = 4", "level = 5"]
    # The measurements of each panel are its own.
    for axes, level in zip(panels, (3, 4, 5), strict=True):
        drawn = {tuple(line.get_ydata()) for line in axes.lines if line.get_marker() == "o" and len(line.get_xdata())}
        assert len(drawn) == 1
        np.testing.assert_allclose(drawn.pop(), 2**level * law(FEW), rtol=1e-5)


def test_columns_of_text_are_left_aside_and_said_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "table.csv"
    rows = [f"A,{ranks:g},{mesh},{law(ranks):.6f}" for mesh in ("fine", "coarse") for ranks in RANKS]
    table.write_text("participant,ranks,mesh,seconds\n" + "\n".join(rows) + "\n", encoding="utf-8")
    assert main(["fit", str(table), "--learner", "shape"]) == 0
    assert "not modelled, because it is not numbers throughout: mesh" in " ".join(capsys.readouterr().out.split())


def test_what_is_being_fitted_is_told() -> None:
    told: list[str] = []
    compare_learners(read_csv(SCHROEDER), ["shape", "piecewise"], report=told.append)
    assert told == [f"{who}: {name}" for who in ("Inner", "Outer") for name in ("shape (1 of 2)", "piecewise (2 of 2)")]


def test_compare_refuses_what_leaves_nothing() -> None:
    measurements = read_csv(SCHROEDER)
    with pytest.raises(DataError, match="found none"):
        compare_learners(measurements, ["shape"], conditions=["ranks==1"])


def _outer() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rows = read_csv(SCHROEDER).samples["Outer"]
    return rows[:, :1], rows[:, 1]
