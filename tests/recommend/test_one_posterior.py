"""What a recommendation was decided on is what everything later shows of it: nothing is drawn or fitted again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from precice_lb.campaign import next_runs
from precice_lb.recommend import Recommendation, geometric_mean, recommend_split
from precice_lb.report.charts import landscape_of
from precice_lb.split import SharedCores

WORK = {"Fluid": 3.2, "Solid": 1.6, "Heat": 0.9}


class Reciprocal(LinearRegression):  # type: ignore[misc]
    """Seconds linear in 1/ranks."""

    def fit(self, X: Any, y: Any) -> Reciprocal:
        super().fit(1 / np.asarray(X), y)
        return self

    def predict(self, X: Any) -> Any:
        return super().predict(1 / np.asarray(X))


def recommended(count: int = 2, **options: Any) -> Recommendation:
    """A recommendation from few and noisy measurements, so that another seed draws other curves."""
    noise = np.random.default_rng(5)
    samples = {
        name: [(p, (0.05 + WORK[name] / p) * (1 + noise.normal(0, 0.05))) for p in (2, 4, 8, 12)]
        for name in list(WORK)[:count]
    }
    coupling = options.pop("coupling", "parallel")
    return recommend_split(samples, options.pop("total", 8 * count), coupling=coupling, **options)


def at_the_split(found: Recommendation) -> float:
    """Window time that the landscape shows at the recommended split."""
    ranks, windows = landscape_of(found)
    return float(geometric_mean(windows)[ranks == next(iter(found.split.values()))][0])


@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.parametrize("learner", ["bayes", "pmnf"])
def test_the_landscape_has_the_recommended_window_time_whatever_the_seed(learner: str, seed: int) -> None:
    found = recommended(learner=learner, seed=seed)
    assert at_the_split(found) == pytest.approx(found.window_seconds, rel=1e-12)


def test_the_landscape_has_what_sharing_cores_costs() -> None:
    found = recommended(coupling="serial", shared=[SharedCores([["Fluid"], ["Solid"]], 0.25)], total=None, cores=8)
    counts = np.array([[found.split["Fluid"], found.split["Solid"]]])
    assert geometric_mean(found.expected.windows(counts, replay=False)) == pytest.approx(
        found.window_seconds, rel=1e-12
    )


def test_further_runs_are_judged_by_the_curves_that_were_decided_on() -> None:
    found = recommended(seed=3)
    counts = np.array([[p, 16 - p] for p in range(1, 16)])
    windows = found.expected.windows(counts, replay=False)
    own = found.expected.windows(np.array([list(found.split.values())]), replay=False)
    least = np.minimum(windows.min(axis=1), own[:, 0])
    assert next_runs(found).regret == pytest.approx(float((own[:, 0] / least - 1).mean()), abs=2e-3)


def test_a_noisy_partner_says_that_few_readings_on_a_line_may_err_too() -> None:
    line, scattered = [(4, 1.0), (8, 0.5), (16, 0.25)], [1.0, 0.7, 1.4, 0.8, 1.3, 0.6, 1.2, 0.75]
    noise, spread = [], []
    for factors in (np.ones(8), np.array(scattered)):
        partner = [(4 + 2 * at, factor / (4 + 2 * at)) for at, factor in enumerate(factors)]
        found = recommend_split({"Fluid": line, "Solid": partner}, 32)
        noise.append(found.models["Fluid"].noise_)
        spread.append(np.log(found.expected.curves["Fluid"](np.array([8]))).std())
    assert noise[1] > 2 * noise[0]
    assert spread[1] > 1.5 * spread[0]
