"""From measurements to a split: published results, brute force, honest refusals."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from precice_xml_helpers import configuration, coupling, scheme
from report_helpers import write_campaign
from sklearn.linear_model import LinearRegression

from precice_lb.case import case_from
from precice_lb.dataset import Measurements, Samples
from precice_lb.exceptions import DataError, InfeasibleError, ModelError, PreciceLBError
from precice_lb.models.published.normal_form import PMNFRegressor
from precice_lb.recommend import DRAWS, FailedSplit, load_sources, recommend_split
from precice_lb.schedule import Schedule
from precice_lb.split import optimize_split

Array = NDArray[np.float64]
DATA = Path(__file__).parents[1] / "data"
RANKS = np.array([8.0, 16, 32, 64, 128])
CASE = {
    "Fluid": np.column_stack([RANKS, 800 / RANKS + 0.05 * RANKS**0.5]),
    "Solid": np.column_stack([RANKS, 300 / RANKS**0.9 + 0.5]),
}


def splits() -> list[tuple[int, int, int]]:
    with (DATA / "schroeder2019_splits.csv").open(newline="") as file:
        return [(int(r["total_ranks"]), int(r["Inner"]), int(r["Outer"])) for r in csv.DictReader(file)]


@pytest.fixture(scope="module")
def schroeder() -> Measurements:
    return load_sources([DATA / "schroeder2019.csv"])


def measurements(
    samples: dict[str, Array], parameters: dict[str, dict[str, Any]] | None = None, **fields: Any
) -> Measurements:
    frames = {name: Samples(*rows.T, parameters=(parameters or {}).get(name, {})) for name, rows in samples.items()}
    return Measurements(frames, **fields)


@pytest.mark.parametrize(("total", "inner"), [(280, 190), (336, 228), (392, 266), (448, 305), (504, 342), (560, 379)])
def test_pmnf_reproduces_schroeder_within_rounding_of_table_5_3(
    schroeder: Measurements, total: int, inner: int
) -> None:
    found = recommend_split(
        schroeder,
        total,
        coupling=Schedule.parallel(["Inner", "Outer"]),
        learner={"name": "pmnf", "ridge": 5e-4, "folds": 2},
    )
    assert found.split == {"Inner": inner, "Outer": total - inner}
    published = {row[0]: row[1] for row in splits()}
    assert abs(inner - published[total]) <= 2


@pytest.mark.parametrize(("total", "inner", "outer"), splits())
def test_the_default_learner_is_near_table_5_3(schroeder: Measurements, total: int, inner: int, outer: int) -> None:
    found = recommend_split(schroeder, total, coupling=Schedule.parallel(["Inner", "Outer"]))
    assert found.learner == "bayes"
    assert abs(found.split["Inner"] - inner) <= 8
    assert sum(found.split.values()) == inner + outer == total
    low, high = found.interval
    assert low < found.window_seconds < high


def test_a_formula_that_dives_beyond_its_data_is_not_followed(schroeder: Measurements) -> None:
    found = recommend_split(
        schroeder,
        560,
        coupling=Schedule.parallel(["Inner", "Outer"]),
        learner=PMNFRegressor(n_terms=3, ridge=1e-6),
    )
    assert 300 <= found.split["Inner"] <= 420
    assert found.window_seconds > 0.1


def test_alternatives_state_what_is_gained() -> None:
    table = measurements(CASE, degrees_of_freedom={"Fluid": 1e6, "Solid": 3e6})
    found = recommend_split(table, 64, coupling=Schedule.parallel(["Fluid", "Solid"]))
    assert found.alternatives["equal"].split == {"Fluid": 32, "Solid": 32}
    assert found.alternatives["degrees-of-freedom"].split == {"Fluid": 16, "Solid": 48}
    truth = max(800 / 16 + 0.05 * 4, 300 / 48**0.9 + 0.5)
    assert found.alternatives["degrees-of-freedom"].window_seconds == pytest.approx(truth, rel=0.1)
    partly = measurements(CASE, degrees_of_freedom={"Fluid": 1e6})
    assert set(recommend_split(partly, 64, coupling=Schedule.parallel(["Fluid", "Solid"])).alternatives) == {"equal"}


def test_imbalance_compares_the_same_time_where_windows_differ_in_size() -> None:
    sizes = [f'    <time-window-size value="{value}" />\n' for value in (1, 24)]
    schedule = coupling("ABC", ("serial-explicit", "AB", None, sizes[0]), ("parallel-explicit", "BC", None, sizes[1]))
    assert schedule.windows == {"A": 24, "B": 24, "C": 1}
    rows = {name: [(p, work / p) for p in (2, 4, 8, 16)] for name, work in (("A", 1.0), ("B", 1.0), ("C", 24.0))}
    advice = recommend_split(rows, 24, coupling=schedule)
    busy = {name: advice.compute_seconds[name] * schedule.windows[name] for name in advice.split}
    assert advice.imbalance == pytest.approx(1 - min(busy.values()) / max(busy.values()))
    assert advice.imbalance < 0.75


def test_the_present_split_is_compared_with() -> None:
    found = recommend_split(CASE, 64)
    same = recommend_split(CASE, 64, present=found.split).alternatives["present"]
    assert same.gain == pytest.approx(0)
    assert same.probability == 0
    certain = recommend_split(CASE, 64, learner="pmnf", present=found.split)
    assert math.isnan(certain.alternatives["present"].probability)
    assert certain.to_dict()["alternatives"]["equal"]["probability"] is None
    for wrong in ({"Fluid": 20}, {"Fluid": 20, "Solid": 0}, {"Fluid": 20, "Gas": 44}):
        with pytest.raises(InfeasibleError, match="present"):
            recommend_split(CASE, 64, present=wrong)


def test_budgets_without_a_choice_are_no_trouble() -> None:
    for total in (2, 3):
        found = recommend_split(CASE, total)
        assert found.split == {"Fluid": total - 1, "Solid": 1}
        assert found.rank_intervals["Solid"] == (1, 1)
    alone = recommend_split({"Fluid": CASE["Fluid"]}, 8)
    assert (alone.split, alone.alternatives) == ({"Fluid": 8}, {})
    assert [(warning.code, warning.values) for warning in alone.warnings] == [
        ("only-participant", {"participant": "Fluid"})
    ]


def test_what_a_case_says_of_learner_and_unknowns_counts() -> None:
    unknowns = {"Fluid": {"degrees_of_freedom": 300}, "Solid": {"degrees_of_freedom": 100}}
    found = recommend_split(CASE, 64, case=case_from({"runs": {"learner": "pmnf"}, "participants": unknowns}))
    assert found.learner == "pmnf"
    assert found.alternatives["degrees-of-freedom"].split == {"Fluid": 48, "Solid": 16}


def test_a_present_split_that_failed_is_not_compared() -> None:
    present = {"Fluid": 32, "Solid": 32}
    found = recommend_split(CASE, 64, present=present, failed=[FailedSplit(present, ("001",))])
    assert "present" not in found.alternatives
    warnings = [(warning.code, warning.values) for warning in found.warnings]
    assert ("not-compared", {"split": "present", "why": "its runs failed"}) in warnings


def test_the_chosen_point_counts_nodes_and_cores() -> None:
    found = recommend_split(CASE, nodes=8, cores_per_node=8, maximum={"Solid": 12}, prefer="time")
    assert found.rank_intervals["Solid"][1] <= 12
    chosen = found.plan.chosen
    assert (chosen.cores, chosen.budget) == (sum(found.split.values()), 8)
    assert chosen.core_hours == pytest.approx(chosen.window_seconds * chosen.cores / 3600, rel=1e-12)
    cheapest = found.plan.tradeoff.points[0]
    assert cheapest.efficiency == 1.0
    assert chosen.efficiency == pytest.approx(cheapest.core_hours / chosen.core_hours, rel=1e-12)


def test_runs_on_small_meshes_count_for_the_mesh_that_is_asked_for() -> None:
    rng = np.random.default_rng(6)
    samples, parameters, truth = {}, {}, {}
    for name, cost in (("Fluid", 2e-4), ("Solid", 5e-5)):
        ranks, unknowns = np.tile([8.0, 16, 32, 64], 3), np.repeat([1e5, 2e5, 4e5], 4)
        seconds = cost * unknowns / ranks + 0.01
        samples[name] = np.column_stack([ranks, seconds * (1 + 0.02 * rng.standard_normal(12))])
        parameters[name] = {"unknowns": unknowns, "dimension": np.full(12, 2.0)}
        truth[name] = cost * 1.6e6
    table = measurements(samples, parameters=parameters)
    schedule = Schedule.parallel(["Fluid", "Solid"])
    found = recommend_split(table, 100, coupling=schedule, learner="bayes", parameter={"unknowns": 1.6e6})
    assert found.split["Fluid"] == pytest.approx(80, abs=4)
    assert found.window_seconds == pytest.approx(truth["Fluid"] / 80, rel=0.15)
    outside = {"participant": "Fluid", "parameter": "unknowns", "value": 1.6e6, "low": 1e5, "high": 4e5}
    assert ("parameter-outside", outside) in [(warning.code, warning.values) for warning in found.warnings]
    assert found.learner == "bayes"
    assert found.parameters == {"unknowns": 1.6e6}
    model = found.models["Fluid"]
    low, high = model.predict_interval([[50, 1.6e6]])
    assert low[0] < found.predicted("Fluid", [50])[0] < high[0]
    assert low[0] < truth["Fluid"] / 50 < high[0]
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["parameters"] == {"unknowns": 1.6e6}
    row = data["measurements"]["samples"]["Fluid"][-1]
    assert row["parameters"] == {"unknowns": 4e5, "dimension": 2.0}
    # Each measurement beside the model of its own mesh.
    np.testing.assert_allclose(found.predicted_again("Fluid"), samples["Fluid"][:, 1], rtol=0.1)
    assert not found.measured_here("Fluid").any()
    there = recommend_split(table, 100, coupling=schedule, parameter={"unknowns": 2e5})
    assert there.measured_here("Solid").tolist() == [False] * 4 + [True] * 4 + [False] * 4
    assert {warning.code for warning in there.warnings} <= {"extrapolated", "more-nodes"}


def meshes(texts: bool = False) -> Measurements:
    """Twice the work on the mesh 2, where Solid has no work to share."""
    kinds = np.array(["coarse", "fine"]) if texts else np.array([1.0, 2.0])
    ranks = np.array([4.0, 8, 16, 32])
    work = {"Fluid": (10.0, 20.0), "Solid": (10.0, 5.0)}
    samples = {
        name: np.column_stack([np.tile(ranks, 2), np.concatenate([w / ranks for w in pair])])
        for name, pair in work.items()
    }
    return measurements(samples, parameters={name: {"mesh": np.repeat(kinds, 4)} for name in work})


@pytest.mark.parametrize(("learner", "texts"), [("bayes", True), (PMNFRegressor(n_terms=1), False)])
def test_rows_of_the_case_count_alone_where_a_parameter_cannot_be_learned(learner: Any, texts: bool) -> None:
    schedule = Schedule.parallel(["Fluid", "Solid"])
    for value, share in (("coarse", 0.5), ("fine", 0.8)) if texts else ((1, 0.5), (2.0, 0.8)):
        found = recommend_split(meshes(texts), 100, coupling=schedule, learner=learner, parameter={"mesh": value})
        assert found.split["Fluid"] == pytest.approx(100 * share, abs=3)
        assert {name: len(rows) for name, rows in found.measurements.samples.items()} == {"Fluid": 4, "Solid": 4}
        assert found.parameters == {"mesh": value}
        assert {warning.code for warning in found.warnings} <= {"extrapolated", "more-nodes"}


def test_a_parameter_that_makes_no_difference_is_left_aside_and_said_so() -> None:
    schedule = Schedule.parallel(["Fluid", "Solid"])
    found = recommend_split(meshes(), 60, coupling=schedule, parameter={"mesh": None})
    assert len(found.measurements.samples["Fluid"]) == 8
    assert [w.values["values"] for w in found.warnings if w.code == "cases-pooled"] == ["1, 2"] * 2
    assert found.parameters == {}


@pytest.mark.parametrize(
    ("texts", "given", "learner", "words"),
    [
        (False, None, None, r"Fluid: expected a value of mesh .* varies .*1, 2.* say --set case.parameter.mesh=2"),
        (False, {"level": 3}, None, "out of mesh, found 'level'"),
        (False, {"mesh": "fine"}, None, "expected a number for the parameter mesh, found 'fine'"),
        (False, {"mesh": 3}, "pmnf", "mesh=3, found 1, 2; measure there, name a measured"),
        (True, {"mesh": "finer"}, None, "mesh=finer, found coarse, fine; measure there"),
    ],
)
def test_cases_that_cannot_be_reached_are_refused(texts: bool, given: Any, learner: Any, words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        recommend_split(
            meshes(texts), 60, coupling=Schedule.parallel(["Fluid", "Solid"]), parameter=given, learner=learner
        )
    assert "\n" not in str(caught.value)


def test_parameters_of_recorded_runs_are_columns(tmp_path: Path) -> None:
    splits = [{"Inner": 2, "Outer": 2}, {"Inner": 4, "Outer": 2}, {"Inner": 3, "Outer": 5}]
    for level, some in ((4, splits), (5, splits[:2])):
        parameters = {"level": level, "host": f"n{level}", "job": {"a": 1}}
        write_campaign(tmp_path / str(level), some, parameters=parameters, pid=level)
    table = load_sources([tmp_path])
    assert table.parameters["Inner"]["level"].dtype == np.float64
    for name, rows in table.samples.items():
        assert table.parameters[name].keys() == {"level", "host", "job"}
        assert sorted(zip(rows[:, 0], table.parameters[name]["level"], strict=True)) == sorted(
            (split[name], level) for level, some in ((4, splits), (5, splits[:2])) for split in some
        )
        assert [host[1:] for host in table.parameters[name]["host"]] == [
            f"{x:g}" for x in table.parameters[name]["level"]
        ]
    with pytest.raises(DataError, match="expected a value of host"):
        recommend_split(tmp_path, 8)
    found = recommend_split(tmp_path, 8, parameter={"level": 4, "host": None})
    assert found.measured_here("Inner").sum() == 3
    # Nor is it compared with windows of another level.
    assert {tuple(each.split.values()): len(each.runs) for each in found.comparisons} == {
        (2, 2): 1,
        (4, 2): 1,
        (3, 5): 1,
    }


def test_a_parameter_without_a_choice_needs_no_value() -> None:
    one = measurements(CASE, parameters={"Fluid": {"level": np.full(5, 3.0)}})
    schedule = Schedule.parallel(["Fluid", "Solid"])
    assert recommend_split(one, 100, coupling=schedule).warnings == ()
    assert recommend_split(one, 100, coupling=schedule, parameter={"level": 3}).parameters == {"level": 3}
    with pytest.raises(DataError, match="level=4, found 3; measure there"):
        recommend_split(one, 100, coupling=schedule, parameter={"level": 4})
    gaps = measurements(CASE, parameters={"Fluid": {"level": np.array([3.0, 3, math.nan, 4, 4])}})
    with pytest.raises(DataError, match="level"):
        recommend_split(gaps, 100, coupling=schedule)


def test_the_result_depends_on_the_seed_alone_and_not_on_the_order_of_rows() -> None:
    first = recommend_split(CASE, 100, seed=4)
    again = recommend_split({name: rows[::-1] for name, rows in CASE.items()}, 100, seed=4)
    assert first.to_dict()["split"] == again.to_dict()["split"]
    assert first.window_seconds == again.window_seconds
    assert first.interval == again.interval
    assert recommend_split(CASE, 100, seed=5).interval != first.interval


def test_warnings_say_what_is_not_known() -> None:
    single = recommend_split({"A": [[8, 1.0]], "B": [[8, 2.0]]}, 24)
    assert single.split["B"] > single.split["A"]
    assert [warning.code for warning in single.warnings].count("measured-once") == 2
    beyond = recommend_split(CASE, 512)
    assert "extrapolated" in {warning.code for warning in beyond.warnings}
    assert recommend_split(CASE, 100).warnings == ()
    two = recommend_split({name: rows[:2] for name, rows in CASE.items()}, 24)
    assert [warning.code for warning in two.warnings].count("measured-twice") == 2
    low, high = beyond.interval
    near_low, near_high = recommend_split(CASE, 100).interval
    assert high / low > near_high / near_low


def test_what_was_measured_at_the_ends_of_a_range_is_no_extrapolation() -> None:
    for ranks, found in ((8, False), (128, False), (7, True), (129, True)):
        warnings = recommend_split(CASE, ranks + 64, allow={"Fluid": [ranks], "Solid": [64]}).warnings
        assert ("extrapolated" in {warning.code for warning in warnings}) == found
    sizes = np.tile([1e5, 2e5, 4e5], 5)
    samples = {
        name: np.repeat(rows, 3, axis=0) * np.column_stack([np.ones(15), sizes / 1e5]) for name, rows in CASE.items()
    }
    table = measurements(samples, parameters={name: {"size": sizes} for name in samples})
    for size, outside in ((1e5, False), (5e5, True)):
        found = recommend_split(table, 96, coupling=Schedule.parallel(list(CASE)), parameter={"size": size})
        assert ("parameter-outside" in {warning.code for warning in found.warnings}) == outside


def test_any_scikit_learn_regressor_can_be_the_learner() -> None:
    p = np.array([2.0, 4, 8])
    falling = {"A": np.column_stack([p, 10 - p]), "B": np.column_stack([p, 10 - p])}
    found = recommend_split(falling, 10, learner=LinearRegression())
    assert found.split == {"A": 5, "B": 5}
    assert found.learner == "LinearRegression"
    assert found.to_dict()["interval"] == [None, None]
    # A line that falls below zero is not followed to its end.
    far = recommend_split(falling, 40, learner=LinearRegression())
    assert all(found.models[name].predict([[count]])[0] > 0 for name, count in far.split.items())


def test_a_serial_coupling_and_a_configuration_are_understood(tmp_path: Path) -> None:
    path = tmp_path / "precice-config.xml"
    path.write_text(configuration(list(CASE), [scheme("serial-explicit", list(CASE))], [list(CASE)]))
    read = recommend_split(CASE, 64, coupling=path)
    said = recommend_split(CASE, 64, coupling="serial")
    assert read.split == said.split
    assert read.window_seconds == pytest.approx(said.window_seconds)
    assert read.window_seconds == pytest.approx(sum(read.compute_seconds.values()), rel=1e-3)
    assert "serial-explicit" in read.schedule
    assert recommend_split(CASE, 64, coupling=Schedule.serial(["Fluid", "Solid"])).split == said.split
    with pytest.raises(DataError, match="found none of Solid"):
        recommend_split({"Fluid": CASE["Fluid"]}, 64, coupling=str(path))


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"data": None}, DataError, "expected data"),
        ({"data": {}}, DataError, "at least one participant"),
        ({"data": {"A": []}}, DataError, '"A": expected rows'),
        ({"data": {"A": [[8, 1.0, 2.0]]}}, DataError, "found shape"),
        ({"data": {"A": [[8, 1.0], [8, math.nan]]}}, DataError, "row 2: expected .* found 8 and nan"),
        ({"data": {"A": [[8, 0.0]]}}, DataError, "above 0, found 8 and 0"),
        ({"data": {"A": [[8.5, 1.0]]}}, DataError, "whole number of ranks from 1 .* found 8.5 and 1"),
        ({"data": {"A": [[0, 1.0]]}}, DataError, "whole number of ranks from 1 .* found 0 and 1"),
        ({"budget": 64.5}, InfeasibleError, "budget as a whole number"),
        ({"minimum": 0}, InfeasibleError, "minimum: expected greater than or equal to 1, found 0"),
        ({"minimum": {"Gas": 3}}, InfeasibleError, "found one of 'Gas'"),
        ({"coupling": Schedule.parallel(["Fluid", "Gas"])}, DataError, "found none of Gas"),
        ({"learner": PMNFRegressor(n_terms=3, folds=2)}, ModelError, "model of Fluid: .* measure more"),
    ],
)
def test_bad_input_is_refused_with_one_clear_error(
    change: dict[str, Any], kind: type[PreciceLBError], words: str
) -> None:
    arguments: dict[str, Any] = {"data": CASE, "budget": 64} | change
    with pytest.raises(kind, match=words) as caught:
        recommend_split(**arguments)
    assert "\n" not in str(caught.value)


def test_sources_are_joined_and_missing_ones_named(tmp_path: Path) -> None:
    fluid, both = tmp_path / "fluid.csv", tmp_path / "both.csv"
    fluid.write_text("participant,ranks,seconds,mesh\nFluid,16,2.0,fine\nFluid,4,7.0,fine\n")
    both.write_text("participant,ranks,seconds\nSolid,8,1.0\nFluid,8,4.0\n")
    table = load_sources([fluid, both])
    np.testing.assert_array_equal(table.samples["Fluid"], [[4, 7.0], [8, 4.0], [16, 2.0]])
    np.testing.assert_array_equal(table.samples["Solid"], [[8, 1.0]])
    assert table.sources == (str(fluid), str(both))
    assert table.parameters["Fluid"] == {}
    with pytest.raises(DataError, match=r"nothing at .*gone\.csv"):
        load_sources([fluid, tmp_path / "gone.csv"])
    with pytest.raises(DataError, match="at least one directory"):
        load_sources([])


@pytest.mark.parametrize("coupling", ["parallel", "serial"])
def test_intervals_of_ranks_are_those_of_the_best_splits_of_drawn_curves_of_four(coupling: str) -> None:
    rng, counts = np.random.default_rng(1), np.array([2.0, 4, 6, 8])
    samples = {
        name: np.column_stack([counts, work / counts**0.8 * (1 + 0.05 * rng.standard_normal(4))])
        for name, work in zip("ABCD", (1.0, 2.0, 3.0, 4.0), strict=True)
    }
    found = recommend_split(samples, 40, coupling=coupling)
    drawn = {name: curve(np.arange(1, 38)) for name, curve in found.expected.curves.items()}
    draws = range(0, DRAWS, 8)
    best = [optimize_split({n: d[draw] for n, d in drawn.items()}, 40, coupling=coupling).split for draw in draws]
    assert any(low < high for low, high in found.rank_intervals.values())
    for name, (low, high) in found.rank_intervals.items():
        assert low <= high
        edges = np.quantile([split[name] for split in best], [0.1, 0.9])
        assert (low, high) == pytest.approx(edges, abs=2)


def test_ranks_that_change_nothing_are_not_between_the_bounds() -> None:
    """Fluid may have 20 ranks and sets the window with them: that Solid would do with fewer says nothing of it."""
    found = recommend_split(CASE, 64, maximum={"Fluid": 20})
    assert found.split == {"Fluid": 20, "Solid": 44}
    assert found.rank_intervals["Solid"] == (44, 44)
