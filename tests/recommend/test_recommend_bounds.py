"""Whatever is shown beside a recommendation keeps within the same bounds, by comparison with all splits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, RegressorMixin

from precice_lb.campaign import next_runs
from precice_lb.exceptions import InfeasibleError
from precice_lb.recommend import Recommendation, measurements_from_arrays, nearest, proportional_split, recommend_split
from precice_lb.report import comparison_table
from precice_lb.schedule import Schedule
from precice_lb.split import Constraints, Limits, SharedCores, limits_of

NAMES = ("Fluid", "Solid", "Heat")
WORK = {"Fluid": 3.2, "Solid": 1.6, "Heat": 0.9}


def recommended(total: int, names: tuple[str, ...] = NAMES, noise: float = 0.05, **options: Any) -> Recommendation:
    rng = np.random.default_rng(3)
    samples = {
        name: [(p, (0.02 + WORK[name] / p) * math.exp(noise * rng.standard_normal())) for p in (2, 4, 8)]
        for name in names
    }
    schedule = options.pop("coupling", "parallel")
    return recommend_split(measurements_from_arrays(samples), total, coupling=schedule, **options)


def allowed(split: Mapping[str, int], limits: Limits) -> bool:
    """Whether a split keeps within bounds and the simple demands, written down anew."""
    constraints = limits.constraints or Constraints()
    capacity = limits.budget * (constraints.cores_per_node or 1) if constraints.unit == "nodes" else limits.budget
    cores = dict(split)
    if constraints.whole_nodes is True:
        size = constraints.cores_per_node or 1
        cores = {name: -(-count // size) * size for name, count in cores.items()}
    return sum(cores.values()) <= capacity and all(
        limits.lowest[name] <= count <= limits.highest[name]
        and count % int(constraints.of("multiple", name) or 1) == 0
        and count in (constraints.of("allow", name) or [count])
        for name, count in split.items()
    )


CASES: dict[str, tuple[int, dict[str, Any]]] = {
    "most": (24, {"maximum": {"Fluid": 5}}),
    "least": (24, {"minimum": {"Heat": 9}}),
    "both": (24, {"minimum": {"Heat": 7}, "maximum": {"Fluid": 6, "Solid": 8}}),
    "multiples": (26, {"machine": Constraints(multiple={"Fluid": 4, "Solid": 2})}),
    "allowed": (24, {"machine": Constraints(allow={"Fluid": [3, 6, 12], "Heat": [4, 10]})}),
    "allowed alone": (24, {"machine": Constraints(allow={"Solid": [3]})}),
    "nodes": (4, {"machine": Constraints(unit="nodes", cores_per_node=6, whole_nodes=True)}),
    "bounded multiples": (
        26,
        {"maximum": {"Fluid": 9}, "multiple": 2, "allow": {"Solid": [2, 12]}},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_everything_beside_a_recommendation_keeps_within_the_bounds(case: str) -> None:
    total, options = CASES[case]
    found = recommended(total, **options)
    limits = found.limits
    assert limits is not None
    assert allowed(found.split, limits)
    assert allowed(found.alternatives["equal"].split, limits)
    for name, (low, high) in found.rank_intervals.items():
        assert {low, high} <= {*limits.counts[name].tolist()}
        assert low <= found.split[name] <= high
    prospects = next_runs(found)
    assert all(allowed(run.split, limits) for run in prospects.runs)


def test_an_equal_split_out_of_bounds_is_the_nearest_one_and_says_so() -> None:
    found = recommended(24, maximum={"Fluid": 5})
    equal = found.alternatives["equal"]
    assert (equal.split, equal.meant) == ({"Fluid": 5, "Solid": 10, "Heat": 9}, dict.fromkeys(NAMES, 8))
    assert comparison_table(found).rows[1][0] == "equal split within the bounds, not 8 + 8 + 8"
    assert found.to_dict()["alternatives"]["equal"]["meant"] == dict.fromkeys(NAMES, 8)
    free = recommended(24)
    assert free.alternatives["equal"].meant == {}
    assert free.to_dict()["alternatives"]["equal"]["meant"] == {}


def test_an_equal_split_takes_the_nearest_of_allowed_counts() -> None:
    """Not the next one below: 12 is nearer to 9 than 2 is."""
    total, options = CASES["bounded multiples"]
    assert recommended(total, **options).alternatives["equal"].split == {"Fluid": 8, "Solid": 12, "Heat": 6}


def test_a_reference_that_does_not_exist_is_left_out_with_the_reason() -> None:
    schedule = Schedule.serial(list(NAMES))
    shared = Constraints(shared=[SharedCores([["Fluid"], ["Solid"], ["Heat"]])])
    found = recommended(24, coupling=schedule, machine=shared)
    assert "equal" not in found.alternatives
    assert ("not-compared", "equal") in [(warning.code, warning.values.get("split")) for warning in found.warnings]


@given(
    wanted=st.lists(st.integers(1, 12), min_size=2, max_size=3),
    budget=st.integers(6, 18),
    multiple=st.integers(1, 3),
    most=st.integers(3, 9),
    listed=st.sets(st.integers(1, 9), min_size=1, max_size=4),
)
def test_the_nearest_split_is_the_nearest_of_all(
    wanted: list[int], budget: int, multiple: int, most: int, listed: set[int]
) -> None:
    names = NAMES[: len(wanted)]
    words = {"multiple": {names[0]: multiple}, "maximum": {names[0]: most}, "allow": {names[1]: sorted(listed)}}
    target = dict(zip(names, wanted, strict=True))

    def distance(split: Mapping[str, int]) -> float:
        return sum(abs(math.log(split[name] / target[name])) for name in names)

    every = (dict(zip(names, each, strict=True)) for each in itertools.product(range(1, budget + 1), repeat=len(names)))
    bounds = names, budget, Constraints(**words)
    possible = [
        split
        for split in every
        if sum(split.values()) <= budget
        and split[names[0]] <= most
        and split[names[0]] % multiple == 0
        and split[names[1]] in listed
    ]
    if not possible:
        with pytest.raises(InfeasibleError):
            limits_of(*bounds)
        return
    limits = limits_of(*bounds)
    found = nearest(target, budget, limits.constraints)
    assert allowed(found, limits)
    assert distance(found) == pytest.approx(min(map(distance, possible)))
    if allowed(target, limits):
        assert found == target


@given(
    weights=st.lists(st.floats(0.01, 100.0), min_size=1, max_size=5),
    budget=st.integers(5, 60),
    bounds=st.lists(st.tuples(st.integers(1, 3), st.integers(0, 20)), min_size=5, max_size=5),
)
def test_proportional_splits_keep_both_bounds_and_give_out_what_they_allow(
    weights: list[float], budget: int, bounds: list[tuple[int, int]]
) -> None:
    names = [f"P{index}" for index in range(len(weights))]
    low = {name: bound[0] for name, bound in zip(names, bounds, strict=False)}
    high = {name: bound[0] + bound[1] for name, bound in zip(names, bounds, strict=False)}
    if sum(low.values()) > budget:
        return
    split = proportional_split(dict(zip(names, weights, strict=True)), budget, low, high)
    assert all(low[name] <= split[name] <= high[name] for name in names)
    assert sum(split.values()) == min(budget, sum(high.values()))
    # Between two that no bound holds, shares are as the weights, to a rank.
    free = [name for name in names if low[name] < split[name] < high[name]]
    for one, other in itertools.combinations(free, 2):
        share = weights[names.index(one)] / weights[names.index(other)]
        assert split[one] + 1 >= share * (split[other] - 1)
        assert split[one] - 1 <= share * (split[other] + 1)


# --- the interval and what it is for ----------------------------------------------------------------------------------


class FewExtremeCurves(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Draws curves of which one in fifty is a thousand times too slow, so that the mean leaves the quantiles."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> FewExtremeCurves:
        self.work_ = float(np.median(np.ravel(X) * y))
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.work_ / np.ravel(X))

    def draw(self, n: int, random_state: Any = None) -> Any:
        factors = np.where(np.arange(n) % 50 == 0, 1000.0, 1.0)
        return lambda ranks: factors[:, None] * self.work_ / np.ravel(ranks)


def test_a_few_extreme_curves_do_not_take_the_window_time_out_of_its_interval() -> None:
    found = recommended(24, learner=FewExtremeCurves())
    low, high = found.interval
    assert low <= found.window_seconds <= high < 1.5 * low
