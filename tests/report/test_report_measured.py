"""What people see where the best measured split is recommended: other budgets as predicted, or why not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from coupled_runs import coupled_run

from precice_lb.dataset import measurements_from_runs
from precice_lb.recommend import Recommendation, recommend_split
from precice_lb.report.blocks import Chart, Paragraph
from precice_lb.report.charts import CHARTS
from precice_lb.report.documents import write_documents
from precice_lb.report.page import Evidence, build_page
from precice_lb.report.recommendation import NO_TRADEOFF, near_tables, tradeoff_table
from precice_lb.report.view import facts
from precice_lb.schedule import Schedule

FIGURES = {"budget.svg", "cost.svg"}


def recommended(budget: int = 8, *, hidden: float = 1.0, within: float | None = 0.05) -> Recommendation:
    """From one run: A, on 4 ranks, has four times the work of B, on 4 too; windows may last longer than any work."""
    generator = np.random.default_rng(4)
    own = {name: work / 4 * np.exp(0.01 * generator.standard_normal(20)) for name, work in (("A", 8.0), ("B", 2.0))}
    run = coupled_run("one", {"A": 4, "B": 4}, own, np.ones(20), serial=False)
    for part in run.participants.values():
        part.window_seconds[:] *= hidden
    found = recommend_split(
        measurements_from_runs([run]), budget, coupling=Schedule.parallel(["A", "B"]), within=within
    )
    assert found.basis == "measured"
    assert found.split == {"A": 4, "B": 4}
    assert found.window_seconds == pytest.approx(2 * hidden, rel=0.02)
    return found


def budgets(found: Recommendation) -> tuple[list[str], list[str]]:
    """Charts and lines of the report's section on other budgets."""
    section = next(each for each in build_page(Evidence(found)).sections if each.name == "budget")
    charts = [block.name for block in section.blocks if isinstance(block, Chart)]
    return charts, [block.text for block in section.blocks if isinstance(block, Paragraph)]


def test_predictions_of_other_budgets_stand_beside_a_measured_split(tmp_path: Path) -> None:
    found = recommended()
    assert any("would extrapolate" in warning for warning in found.warnings)
    plan = found.plan
    assert plan is not None
    # Predicted to beat it, and not proved to: what the warning says to measure is on the curve.
    assert plan.tradeoff.points[-1].split["A"] > 4
    assert plan.tradeoff.points[-1].window_seconds < found.window_seconds
    assert (plan.chosen.split, plan.chosen.window_seconds) == (found.split, found.window_seconds)
    assert plan.chosen.core_hours == pytest.approx(8 * found.window_seconds / 3600)
    assert plan.chosen.efficiency == pytest.approx(plan.tradeoff.points[0].core_hours / plan.chosen.core_hours)
    assert {path.name for path in write_documents(found, tmp_path)} >= FIGURES
    # Measured splits are in a table of their own.
    assert near_tables(found) == []
    assert plan.near == ()
    assert budgets(found) == (["budget", "cost"], [])
    chart = CHARTS["budget"](found)
    assert "the recommended split measured" in chart.caption
    stars = [line for line in chart.figure.axes[0].get_lines() if line.get_marker() == "*"]
    assert [tuple(line.get_xydata()[0]) for line in stars] == [(8, pytest.approx(found.window_seconds))]


def test_the_recommended_split_is_in_the_table_that_it_is_off_the_curve_of() -> None:
    rows = tradeoff_table(recommended()).rows
    (row,) = (row for row in rows if "recommended" in row[-1])
    assert row[:3] == ("8", "4 + 4", "2.000")
    assert [int(each[0]) for each in rows] == sorted(int(each[0]) for each in rows)


def test_where_no_model_is_used_one_line_says_why_there_is_no_figure(tmp_path: Path) -> None:
    # Windows three times as long as the work: something is waited for that nobody sees.
    found = recommended(hidden=3.0)
    assert found.plan is None
    assert found.to_dict()["models_trusted"] is False
    assert not {path.name for path in write_documents(found, tmp_path)} & FIGURES
    assert budgets(found) == ([], [NO_TRADEOFF])


@pytest.mark.parametrize(("target", "told"), [(0.01, "more than the 1.0 %"), (5.0, "less than the 500.0 %")])
def test_the_target_of_the_study_is_told_whether_it_is_met_or_not(target: float, told: str) -> None:
    page = build_page(Evidence(recommended(), target_regret=target))
    section = next(each for each in page.sections if each.name == "next")
    (text,) = (block.text for block in section.blocks if isinstance(block, Paragraph))
    assert f"slower than the best one, {told} below which calibration stops" in text
    assert ("Measure A " in text) == (target < 1)


def test_what_was_not_asked_for_is_said_to_be_so() -> None:
    charts, (text,) = budgets(recommended(within=None))
    assert charts == []
    assert text.startswith("Other budgets were not looked at")


def test_ranks_that_nobody_measured_are_not_said_to_be_useless() -> None:
    budget = dict(facts(recommended(9), {"A": "A", "B": "B"}))["budget"]
    assert budget == "8 of 9 ranks; no measured split within the budget is faster"
