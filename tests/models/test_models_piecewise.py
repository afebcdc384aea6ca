"""Piecewise linear curves: the rules by hand, printers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precice_lb.exceptions import ModelError
from precice_lb.models.interpolation import InterpolationRegressor, interpolated
from precice_lb.models.piecewise import RULES, PiecewiseRegressor

DATA = Path(__file__).parents[1] / "data"


def test_cime_rules_by_hand() -> None:
    p, c = [8.0, 16.0, 32.0], [8.0, 5.0, 4.0]
    model = PiecewiseRegressor(total_ranks=128).fit(p, c)
    share = (1 - 4 / 5) / (1 - 16 / 32)
    at_total = 4 * (1 - share + share * 32 / 128)
    np.testing.assert_allclose(model.predict([1, 8, 12, 32, 128, 80]), [64, 8, 6.5, 4, at_total, (4 + at_total) / 2])
    assert model.predict([512])[0] == pytest.approx(4 * (1 - share + share * 32 / 512))
    without = PiecewiseRegressor().fit(p, c)
    assert without.predict([80])[0] == pytest.approx(4 * (1 - share + share * 32 / 80))
    superlinear = PiecewiseRegressor(total_ranks=10**6).fit([8.0, 16.0], [8.0, 1.0])
    assert (superlinear.predict(np.geomspace(1, 1e6, 50)) > 0).all()


def test_kim_rules_by_hand() -> None:
    p = np.array([4.0, 8.0, 16.0, 32.0, 64.0])
    model = PiecewiseRegressor(rule="kim").fit(p, 1 + 64 / p)
    # Exact where it is linear in 1/p: below half of the largest, and continued beyond both ends.
    np.testing.assert_allclose(model.predict([1, 6, 20, 31]), 1 + 64 / np.array([1, 6, 20, 31]))
    assert model.predict([48])[0] == pytest.approx((3 + 2) / 2)
    np.testing.assert_allclose(model.predict([128, 1e6]), [1.5, 1 + 64e-6])
    rising = PiecewiseRegressor(rule="kim").fit([4.0, 8.0], [1.0, 2.0])
    assert rising.predict([2])[0] == pytest.approx(1.0)
    assert rising.predict([1e6])[0] == pytest.approx(3.0, rel=1e-4)


@pytest.mark.parametrize("rule", RULES)
@given(st.lists(st.tuples(st.integers(1, 500), st.floats(1e-3, 1e3)), min_size=1, max_size=8), st.integers(1, 10**6))
def test_curves_go_through_the_measurements_and_are_positive(
    rule: str, rows: list[tuple[int, float]], total: int
) -> None:
    p, c = np.array(rows).T
    model = PiecewiseRegressor(rule=rule, total_ranks=total).fit(p, c)
    # A piece is constant + slope * p, whose parts can be as large as the steepest fall times the ranks, and cancel.
    rounding = 4 * np.finfo(float).eps * c.max() * p.max()
    for rank in np.unique(p):
        assert model.predict([rank])[0] == pytest.approx(c[p == rank].mean(), rel=1e-9, abs=rounding)
    wide = np.unique(np.concatenate([np.geomspace(1, 1e6, 200), p]))
    seconds = model.predict(wide)
    assert (np.isfinite(seconds) & (seconds > 0)).all()
    expression = model.formula().python()
    for rank in (1.0, 7.0, 250.0, 1e5):
        assert eval(expression, {"p": rank}) == pytest.approx(float(model.predict([rank])[0]), rel=1e-9)


def test_printers() -> None:
    formula = PiecewiseRegressor().fit([8.0, 16.0], [8.0, 6.0]).formula()
    assert formula.text() == "72 - 8·p up to 8; 10 - 0.25·p up to 16; 3 + 48/p beyond"
    assert formula.latex().startswith(r"\begin{cases} 72 - 8\,p & p \le 8 \\")


def test_intervals_know_noise_from_repeats_spreads_and_left_out_points() -> None:
    rng = np.random.default_rng(2)
    p = np.repeat([8.0, 16.0, 32.0, 64.0], 20)
    noisy = PiecewiseRegressor().fit(p, 100 / p * np.exp(0.1 * rng.standard_normal(80)))
    assert noisy.error_ >= 0.08
    assert PiecewiseRegressor().fit([8.0, 16.0], [8.0, 4.0], [0.8, 0.4]).error_ == pytest.approx(0.1)
    assert PiecewiseRegressor().fit([8.0, 16.0], [8.0, 4.0]).error_ == 0.05
    low, high = noisy.predict_interval([64, 256])
    assert high[1] / low[1] > high[0] / low[0]


def test_left_out_points_tell_the_noise_that_was_planted() -> None:
    ranks = 2.0 ** np.arange(40)
    found = []
    for seed in range(20):
        noise = np.exp(0.05 * np.random.default_rng(seed).standard_normal(len(ranks)))
        found.append(PiecewiseRegressor().fit(ranks[:, None], 10.0 * noise).error_)
    assert np.median(found) == pytest.approx(0.05, rel=0.08)


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ModelError, match="rule out of cime, kim"):
        PiecewiseRegressor(rule="spline").fit([8], [1.0])
    with pytest.raises(ModelError, match="total_ranks"):
        PiecewiseRegressor(total_ranks=0).fit([8], [1.0])


def test_interpolation_is_that_of_numpy_at_common_or_own_ranks() -> None:
    rng = np.random.default_rng(0)
    known = np.array([4.0, 8, 30, 200])
    values = rng.standard_normal((3, 4))
    ranks = np.array([1.0, 4, 7, 30, 31, 199, 200, 900])
    expected = [np.interp(np.log(ranks), np.log(known), row) for row in values]
    np.testing.assert_allclose(interpolated(ranks, known, values), expected, atol=1e-14)
    own = np.array([rng.permutation(ranks) for _ in values])
    expected = [np.interp(np.log(row), np.log(known), each) for row, each in zip(own, values, strict=True)]
    np.testing.assert_allclose(interpolated(own, known, values), expected, atol=1e-14)
    np.testing.assert_array_equal(interpolated(own, known[:1], values[:, :1]), np.repeat(values[:, :1], 8, axis=1))


def test_interpolated_measurements_are_straight_in_logarithms() -> None:
    model = InterpolationRegressor().fit([8, 8, 8, 32], [4.0, 4.0, 9.0, 1.0])
    np.testing.assert_allclose(model.predict([4, 8, 16, 32, 64]), [8.0, 4.0, 2.0, 1.0, 1.0])
    curves = model.draw(2000, 1)([4, 8, 16, 32, 64]) / model.predict([4, 8, 16, 32, 64])
    np.testing.assert_allclose(np.log(curves).std(axis=0)[[0, 1, 3, 4]], model.errors_[[0, 0, 1, 1]], rtol=0.1)
    np.testing.assert_allclose(curves[:, 2] ** 2, curves[:, 1] * curves[:, 3])
