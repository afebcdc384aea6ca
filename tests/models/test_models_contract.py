"""What every learner of the registry promises, whoever wrote it."""

from __future__ import annotations

import itertools
import json
import math
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from conftest import FULL_COUNTS
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import r2_score

from precice_lb.exceptions import ModelError
from precice_lb.models import LEARNERS, Learner, make_learner
from precice_lb.models.base import formula_of
from precice_lb.text import to_jsonable

Array = NDArray[np.float64]

RANKS = np.array([8.0, 16, 32, 64, 128])
WIDE = np.unique(np.rint(np.geomspace(1, 4096, 40)))
GRID = np.array(list(itertools.product([16.0, 32, 64, 128, 256], [1e4, 3e4, 1e5, 3e5])))
#: Learners whose predictions are positive and finite for whatever they are given.
POSITIVE = sorted(set(LEARNERS) - {"pmnf", "epmnf"})
every_learner = pytest.mark.parametrize("name", sorted(LEARNERS))


def solver(ranks: Array, work: Any = 1e5) -> Array:
    return np.asarray(work * 1e-4 * (0.004 + 1 / ranks) + 0.002 * np.log2(ranks))


def noisy(truth: Array, seed: Any, noise: float = 0.05) -> Array:
    return truth * np.exp(noise * np.random.default_rng(seed).standard_normal(len(truth)))


def fitted(name: str, seed: int = 0) -> Learner:
    return make_learner(name).fit(RANKS[:, None], noisy(solver(RANKS), seed))


@every_learner
def test_parameters_and_clones_are_those_of_scikit_learn(name: str) -> None:
    model = make_learner(name)
    assert model.learner_name == name
    copy = clone(fitted(name))
    assert copy.get_params() == model.get_params()
    assert type(copy) is type(model)
    with pytest.raises(ModelError, match="fitted"):
        copy.predict(RANKS)


@every_learner
def test_fit_returns_self_and_leaves_its_arguments_alone(name: str) -> None:
    X, y = RANKS[:, None].copy(), solver(RANKS)
    spread = 0.03 * y
    before = [array.copy() for array in (X, y, spread)]
    model = make_learner(name)
    assert model.fit(X, y, spread) is model
    assert model.fit(X, y, np.where(RANKS > 20, np.nan, spread)) is model
    np.testing.assert_equal([X, y, spread], before)
    assert model.get_params() == make_learner(name).get_params()


@every_learner
def test_shapes_and_scores(name: str) -> None:
    model = fitted(name)
    for X in (WIDE, WIDE[:, None], WIDE.astype(int).tolist()):
        assert model.predict(X).shape == WIDE.shape
    assert model.predict(WIDE).dtype == np.float64
    assert r2_score(solver(RANKS), model.predict(RANKS)) > 0.9
    assert hasattr(model, "predict_interval") == (name == "bayes")


def test_the_intervals_of_the_posterior_are_ordered() -> None:
    model = fitted("bayes")
    low, high = model.predict_interval(WIDE[1:], 0.5)
    wide_low, wide_high = model.predict_interval(WIDE[1:], 0.95)
    mean = model.predict(WIDE[1:])
    rising = np.stack([wide_low, low, high, wide_high])
    assert rising.shape == (4, len(WIDE) - 1)
    assert (np.diff(rising, axis=0) >= 0).all()
    assert ((wide_low <= mean) & (mean <= wide_high)).all()
    with pytest.raises(ModelError, match="level between 0 and 1"):
        model.predict_interval(WIDE, 1.0)


def test_many_readings_are_put_together_and_tell_the_curve_and_their_noise() -> None:
    ranks = np.tile(np.arange(1.0, 101), 2)
    model = make_learner("bayes").fit(ranks, noisy(solver(ranks), 4, 0.04))
    np.testing.assert_allclose(model.predict(RANKS), solver(RANKS), rtol=0.01)
    assert model.noise_ == pytest.approx(0.04, rel=0.1)


@pytest.mark.parametrize(("drift", "rise"), [(0.0, 1.0), (0.0, 3.0), (0.2, 1.0)])
def test_beyond_the_node_of_all_readings_curves_turn_after_two_octaves_of_nodes(drift: float, rise: float) -> None:
    """All that is uncertain of the prior is taken out of it but the level: seconds are 1/p times what bends."""

    def bent(x: Array, turn: float) -> Array:
        return (1 + np.exp(rise * (x - turn))) / (1 + np.exp(-rise * turn)) * np.exp(drift * x**2 / 2)

    def law(p: Array) -> Array:
        # From 2 ranks over the origin on; and from the first node of 16 on.
        inner, outer = np.log(np.minimum(p, 16)) - np.log(2) + 0.7, np.maximum(np.log(p / 16), 0)
        return 50 / p * bent(inner, np.log(8 / 2) + 0.7) * bent(outer, np.log(4))

    ranks, cells = np.array([2.0, 3, 4, 6, 8]), {"drift": drift, "turn": 0.0, "rise": rise, "sigma": 1e-9, "tau": 1e-9}
    prior = {name: ((value,), (1.0,)) for name, value in (cells | {"noise": 1e-4}).items()}
    sure = {"slope": -1.0, "slope_sd": 1e-9, "node_jump_sd": 1e-9, "outlier": 1e-99}
    model = make_learner("bayes", prior=prior | sure).fit(ranks, law(ranks), cores=16)
    at = np.array([3.0, 16, 64, 512])
    np.testing.assert_allclose(model.predict(at), law(at), rtol=1e-3)


@every_learner
def test_formulas_can_be_printed_and_evaluated(name: str) -> None:
    model = fitted(name)
    formula = formula_of(model)
    assert (formula is None) == (name in ("bayes", "neural"))
    if formula is not None:
        assert formula.text()
        json.dumps(to_jsonable(formula), allow_nan=False)
        at = np.array([8.0, 37.0, 500.0])
        np.testing.assert_allclose(formula(at), model.predict(at), rtol=1e-9)


@pytest.mark.parametrize("name", POSITIVE)
@pytest.mark.parametrize("seed", range(6) if FULL_COUNTS else (0, 4))
@pytest.mark.parametrize("shape", ["falls", "turns", "rises", "random"])
def test_who_is_positive_is_so_for_whatever_was_measured(name: str, seed: int, shape: str) -> None:
    rng = np.random.default_rng([seed, len(shape)])
    # One measurement with the first seed.
    p = np.sort(rng.choice(np.arange(2.0, 200), seed + 1, replace=False))
    truth = {
        "falls": 50 / p,
        "turns": 50 / p + 0.02 * p,
        "rises": 0.3 * p**0.7,
        "random": 10 ** rng.uniform(-3, 3, len(p)),
    }[shape]
    model = make_learner(name).fit(p, noisy(truth, seed))
    seconds = model.predict(np.arange(1.0, 1025))
    assert (np.isfinite(seconds) & (seconds > 0)).all()
    if name == "bayes":
        low, high = model.predict_interval(WIDE)
        assert ((low > 0) & (low <= high) & np.isfinite(high)).all()


@every_learner
def test_several_parameters_are_handled_or_refused_with_who_can(name: str) -> None:
    y = noisy(solver(GRID[:, 0], GRID[:, 1]), 2, 0.02)
    if not LEARNERS[name].several_parameters:
        with pytest.raises(ModelError, match="leave the other columns out or use 'bayes'"):
            make_learner(name).fit(GRID, y)
        return
    model = make_learner(name).fit(GRID, y)
    between = np.array([[40.0, 2e4], [200.0, 2e5]])
    tolerance = 0.6 if name == "neural" else 0.15
    np.testing.assert_allclose(model.predict(between), solver(between[:, 0], between[:, 1]), rtol=tolerance)
    with pytest.raises(ModelError):
        model.predict(np.ones((2, 3)))


@every_learner
def test_learners_that_draw_curves_draw_the_same_ones_again(name: str) -> None:
    model = fitted(name)
    if name != "bayes":
        assert not hasattr(model, "draw")
        return
    curves = model.draw(300, 3)(WIDE)
    assert curves.shape == (300, len(WIDE))
    assert (np.isfinite(curves) & (curves > 0)).all()
    np.testing.assert_array_equal(curves, model.draw(300, 3)(WIDE))
    np.testing.assert_allclose(model.draw(300, 3)(WIDE[5:9]), curves[:, 5:9], rtol=1e-12)
    low, high = model.predict_interval(RANKS, 0.8)
    inside = (model.draw(2000, 1)(RANKS) <= high) & (model.draw(2000, 1)(RANKS) >= low)
    assert 0.7 <= inside.mean() <= 0.9


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        ([], [], "one row or more, found shape (0, 1)"),
        ([8, 16], [1.0], "y of shape (2,), one for each row of X, found shape (1,)"),
        ([8, 0], [1.0, 1.0], "ranks of at least 1, found 0"),
        ([8, math.nan], [1.0, 1.0], "finite numbers in X, found nan"),
        ([8, 16], [1.0, -1.0], "positive, finite seconds, found -1 at 16 ranks"),
        ([8, 16], [1.0, 0.0], "positive, finite seconds, found 0 at 16 ranks"),
        ([8, 16], [1.0, math.inf], "positive, finite seconds"),
        (["x", "y"], [1.0, 1.0], "could not convert string to float"),
        ([8, 16], ["x", "y"], "could not convert string to float"),
        (np.ones((2, 2, 2)), [1.0, 1.0], "found shape (2, 2, 2)"),
    ],
)
def test_bad_measurements_are_refused(X: Any, y: Any, words: str) -> None:
    with pytest.raises(ModelError, match=re.escape(words)) as caught:
        make_learner("bayes").fit(X, y)
    assert "\n" not in str(caught.value)


def test_recommending_by_the_default_learner_loads_no_scikit_learn() -> None:
    code = (
        "import sys; from precice_lb.recommend import recommend_split;"
        "recommend_split({'A': [(8, 4.0), (16, 2.1)], 'B': [(8, 3.0), (16, 1.6)]}, 24);"
        "heavy = {'sklearn', 'pandas', 'joblib', 'matplotlib', 'jinja2', 'mpi4py', 'scipy.stats'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
