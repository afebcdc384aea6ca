"""Falling and rising terms: what they must never do, what they must find, and whether their intervals are honest."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from precice_lb.exceptions import ModelError
from precice_lb.models import ShapeRegressor, model_from_dict

Array = NDArray[np.float64]
FAR = np.unique(np.geomspace(1, 1e6, 60).astype(int)).astype(float)


def planted(rng: np.random.Generator, kind: int) -> Callable[[Array], Array]:
    """A random solver: sum of kernels, one power law with a rise, or a cache step, its minimum at 2^6 to 2^12 ranks."""
    work, share, lowest = 10 ** rng.uniform(2, 3), 10 ** rng.uniform(-4, -2), 2 ** rng.uniform(6, 12)
    if kind == 0:
        surface = rng.uniform(0, 0.5)

        def fall(p: Array) -> Array:
            return (1 - surface) / p + surface * p ** (-2 / 3)

        def rise(p: Array) -> Array:
            return np.log2(p)
    elif kind == 1:
        alpha, beta, elements = rng.uniform(0.7, 1.05), rng.uniform(0.3, 1), 2 ** rng.uniform(12, 20)

        def fall(p: Array) -> Array:
            return p**-alpha * np.ceil(elements / p) / (elements / p)

        def rise(p: Array) -> Array:
            return p**beta
    else:
        cache, where = rng.uniform(0, 0.5), 2 ** rng.uniform(4, 8)

        def fall(p: Array) -> Array:
            return (1 + cache / (1 + (p / where) ** 2)) / p

        def rise(p: Array) -> Array:
            return np.log2(p) ** 2

    at = lowest * np.array([0.5, 2.0])
    slope = -np.diff(fall(at))[0] / np.diff(rise(at))[0]
    return lambda p: work * (share + (1 - share) * (fall(p) + slope * rise(p)))


@given(
    st.lists(st.tuples(st.integers(1, 5000), st.floats(1e-6, 1e6)), min_size=1, max_size=9),
    st.integers(0, 100),
)
def test_whatever_was_measured_curves_are_positive_finite_and_turn_at_most_once(
    rows: list[tuple[int, float]], seed: int
) -> None:
    model = ShapeRegressor().fit([p for p, _ in rows], [y for _, y in rows])
    curves = np.vstack([model.predict(FAR), model.draw(20, seed)(FAR)])
    assert np.isfinite(curves).all()
    assert (curves > 0).all()
    rising = np.diff(curves) > 1e-12 * curves[:, :1]
    falling = np.diff(curves) < -1e-12 * curves[:, 1:]
    assert not (np.logical_or.accumulate(rising, axis=1) & falling).any()
    assert model.weights_.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    "truth",
    [
        lambda p: 40 / p,
        lambda p: 40 / p + 0.5,
        lambda p: 40 * p**-0.875 + 0.01 * p**0.5,
        lambda p: 40 / p + 0.3 * (1 + np.log2(p)),
        lambda p: 0.02 * p,
        lambda p: np.full_like(p, 3.0),
    ],
    ids=["ideal", "serial share", "root", "logarithm", "rises only", "flat"],
)
def test_planted_curves_are_found_without_noise(truth: Callable[[Array], Array]) -> None:
    p = np.array([4.0, 8, 16, 32, 64, 128, 256])
    model = ShapeRegressor(noise=1e-4).fit(p, truth(p))
    more = np.array([2.0, 48.0, 512.0])
    np.testing.assert_allclose(model.predict(more), truth(more), rtol=0.03)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    at = np.array([16.0, 64.0, 128.0, 256.0])
    for kind in range(3):
        rng = np.random.default_rng([5, kind])
        for ranks in ([8, 32, 128], [8, 16, 32, 64, 128], [8, 12, 20, 32, 50, 80, 128]):
            p = np.array(ranks, dtype=float)
            inside = []
            for _ in range(80):
                truth = planted(rng, kind)
                model = ShapeRegressor().fit(p, truth(p) * (1 + 0.05 * rng.standard_normal(len(p))))
                low, high = model.predict_interval(at, 0.8)
                inside.append((low <= truth(at)) & (truth(at) <= high))
            assert 0.65 <= np.mean(inside) <= 0.95, (kind, ranks, np.mean(inside, axis=0))


def test_noise_widens_the_interval_and_repeated_measurements_narrow_it() -> None:
    p = np.array([8.0, 16, 32, 64, 128])
    rng = np.random.default_rng(1)

    def width(repeats: int, noise: float) -> float:
        ranks = np.tile(p, repeats)
        y = 100 / ranks * (1 + noise * rng.choice([-1.0, 1.0], len(ranks)))
        low, high = ShapeRegressor().fit(ranks, y).predict_interval([40])
        return float((high - low)[0])

    assert width(1, 0.3) > 2 * width(1, 0.02)
    assert width(10, 0.05) < 0.6 * width(1, 0.05)


def test_a_single_measurement_means_nearly_ideal_scaling_with_a_wide_interval() -> None:
    model = ShapeRegressor().fit([8], [1.0])
    assert model.predict([8])[0] == pytest.approx(1.0, rel=1e-3)
    assert model.predict([64])[0] == pytest.approx(1 / 8, rel=0.3)
    low, high = model.predict_interval([64])
    assert low[0] < 1 / 8 < high[0]
    assert high[0] > 2 * low[0]
    again = ShapeRegressor().fit([8, 8, 8], [1.0, 1.05, 0.95])
    near, far = (np.diff(m.predict_interval([8]), axis=0)[0, 0] for m in (again, model))
    assert near < far


def test_two_rank_counts_do_not_make_a_rise() -> None:
    model = ShapeRegressor().fit([8, 16], [1.0, 0.55])
    assert (np.diff(model.predict([1, 8, 16, 64, 1000])) < 0).all()


def test_a_solver_that_only_gets_slower_is_not_expected_to_scale() -> None:
    model = ShapeRegressor().fit([2, 4, 8, 16], [1.0, 1.3, 1.8, 2.9])
    assert model.predict([32])[0] > 2.5


def test_the_same_seed_draws_the_same_curves_at_any_ranks() -> None:
    model = ShapeRegressor().fit([8, 16, 32], [4.0, 2.2, 1.3])
    full = model.draw(50, 3)([8, 16, 32, 64])
    assert full.shape == (50, 4)
    np.testing.assert_allclose(model.draw(50, 3)([[64]])[:, 0], full[:, 3])
    assert not np.allclose(model.draw(50, 4)([64])[:, 0], full[:, 3])
    np.testing.assert_array_equal(model.predict_interval([64]), model.predict_interval([64]))


def test_the_formula_is_the_prediction() -> None:
    model = ShapeRegressor().fit([8, 16, 32, 64], [4.0, 2.2, 1.3, 0.9])
    np.testing.assert_array_equal(model.formula()(FAR), model.predict(FAR))
    assert all(term.coefficient > 0 for term in model.formula().terms)


def test_seconds_or_milliseconds_make_no_difference() -> None:
    p, y = np.array([8, 16, 32, 64, 128]), np.array([4.0, 2.2, 1.3, 0.9, 0.6])
    a, b = ShapeRegressor().fit(p, y), ShapeRegressor().fit(p, 1000 * y)
    np.testing.assert_allclose(b.predict(FAR), 1000 * a.predict(FAR))


def test_json_gives_the_same_model_back() -> None:
    model = ShapeRegressor(noise=0.02).fit([8, 16, 32, 64], [4.0, 2.2, 1.3, 0.9])
    again = model_from_dict(json.loads(json.dumps(model.to_dict(), allow_nan=False)))
    assert isinstance(again, ShapeRegressor)
    assert again.noise == 0.02
    np.testing.assert_array_equal(again.predict(FAR), model.predict(FAR))
    np.testing.assert_array_equal(again.draw(10, 1)(FAR), model.draw(10, 1)(FAR))


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"falls": ()}, "falls as positive numbers"),
        ({"falls": (-1.0,)}, "falls as positive numbers"),
        ({"rises": ((0.0, 0.0),)}, "of which one is positive"),
        ({"rises": ((-1.0, 1.0),)}, "of which one is positive"),
        ({"noise": 0.0}, "noise above 0"),
        ({"fall_scale": -1.0}, "fall_scale above 0"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, object], words: str) -> None:
    with pytest.raises(ModelError, match=words):
        ShapeRegressor(**parameters).fit([8, 16], [2.0, 1.0])  # type: ignore[arg-type]


def test_a_curve_of_fewer_terms_is_preferred_unless_it_costs_nothing() -> None:
    ranks = np.array([1, 2, 4, 8, 16, 32.0])
    seconds = 10 / ranks * np.exp(0.02 * np.random.default_rng(1).standard_normal(6))
    shares = []
    for complexity in (0.0, 1.0):
        model = ShapeRegressor(complexity=complexity).fit(ranks[:, None], seconds)
        single = (model.members_ >= 0).sum(axis=1) == 1
        shares.append(float(model.weights_[single].sum()))
    # Each further term is worth a factor of sqrt(7) less.
    free, charged = (share / (1 - share) for share in shares)
    assert charged == pytest.approx(7**0.5 * free)
