"""Cost laws of emulated loads: the formula, its noise, and the file they are read from."""

from __future__ import annotations

import numpy as np
import pytest
from emulation import CostLaw, read_laws

COEFFICIENTS = {"serial": 0.1, "work": 8.0, "surface": 2.0, "logarithmic": 0.5}


def test_seconds_follow_the_formula_term_by_term():
    # By hand at 4 ranks: 0.1 + 8 / 4 + 2 / 4^(1/2) + 0.5 * 2 in two dimensions, 2 / 4^(2/3) in three.
    assert CostLaw(**COEFFICIENTS).seconds(4) == pytest.approx(0.1 + 2.0 + 1.0 + 1.0)
    assert CostLaw(**COEFFICIENTS, dimensions=3).seconds(4) == pytest.approx(3.1 + 2.0 / 4.0 ** (2.0 / 3.0))
    # In one dimension the surface of a part does not shrink.
    assert CostLaw(**COEFFICIENTS, dimensions=1).seconds(4) == pytest.approx(3.1 + 2.0)


def test_noise_has_the_planted_mean_and_deviation():
    law = CostLaw(**COEFFICIENTS, noise=0.1, seed=3, participant="A")
    factors = np.array([law.factor(window, 4) for window in range(20_000)])
    assert factors.min() > 0.0
    assert factors.mean() == pytest.approx(1.0, abs=0.003)  # four standard errors
    assert factors.std() == pytest.approx(0.1, rel=0.03)
    assert abs(np.corrcoef(factors[:-1], factors[1:])[0, 1]) < 0.03


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"A": {"serial": 1.0,\n "work" 2}}', "line 2: not JSON"),
        ('{"A": {"serial": 1, "work": 2}}', r"missing surface, logarithmic \(seconds; 0 for none\)"),
        ('{"A": {"serial": -1, "work": 2, "surface": 0, "logarithmic": 0}}', "participant 'A': .*serial .* found -1"),
    ],
)
def test_a_bad_law_file_is_refused_in_one_line(tmp_path, text, message):
    path = tmp_path / "law.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        read_laws(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
