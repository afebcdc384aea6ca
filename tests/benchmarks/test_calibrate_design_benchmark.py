"""The campaign benchmark: its truth, its runs, and that it tells a good design from a bad one."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from campaign_parts.cases import LEAST, draw_case
from campaign_parts.course import SETS, course_text, courses
from regret_parts.families import FAMILIES


@pytest.mark.parametrize("participants", [2, 3])
def test_the_best_split_is_that_of_brute_force(participants: int) -> None:
    for family, index in product(FAMILIES, range(3)):
        case = draw_case(family, participants, 24, (0.05,), 1, index)
        ranks = range(LEAST, 25)
        splits = [dict(zip(case.names, s, strict=True)) for s in product(ranks, repeat=participants) if sum(s) <= 24]
        windows = [case.window(split) for split in splits]
        assert case.best == pytest.approx(min(windows))
        best = splits[int(np.argmin(windows))]
        assert case.regret(best) == pytest.approx(0.0, abs=1e-12)
        assert case.cost(best) == pytest.approx(sum(best.values()) / 24)


SLOW = pytest.mark.slow("many decisions on published curves")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=SLOW) if name == "published" else name for name in sorted(SETS)]
)
def test_what_is_lost_after_each_run_is_told(name: str) -> None:
    found = courses(name, 64, cases=2, runs=2, stops=False, seed=1, jobs=1)
    assert found
    for rows in found:
        assert rows.shape == (2, 3)
        assert (rows[:, :2] > -1e-9).all()
        # The best measured split only becomes better, and every run costs.
        assert rows[1, 1] <= rows[0, 1]
        assert rows[1, 2] > rows[0, 2] > 0
    text = course_text(name, 64, found, [1, 2])
    assert "after 1 runs" in text
    assert f"{100 * np.mean([rows[1, 0] for rows in found]):.2f} ±" in text
