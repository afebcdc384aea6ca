"""Equal cost against equal volumes on three emulated domains, with learned costs."""

from __future__ import annotations

import numpy as np
import pytest
from inside import DOMAINS, FACE, SECONDS, box, compare, domain, window


def _check(ranks: list[int]) -> None:
    rows = compare(48, ranks, 0.01)
    assert {(row["domain"], row["ranks"]) for row in rows} == {(name, count) for name in DOMAINS for count in ranks}
    for row in rows:
        seconds, uneven, _ = row["by cost"]
        # Steps per second, as in the paper's figure.
        assert row["equal"][0] / seconds >= 1.25, row
        assert uneven <= 0.03, row


def test_equal_cost_is_a_quarter_faster_on_64_ranks() -> None:
    _check([64])


@pytest.mark.slow("three domains on five numbers of ranks")
def test_equal_cost_is_a_quarter_faster_on_all_ranks() -> None:
    _check([16, 24, 32, 48, 64])


def test_a_window_takes_the_slowest_rank_with_its_faces() -> None:
    centres, pairs = box(4, 1.0)
    nothing = np.zeros(64, dtype=bool)
    cells = domain(centres, pairs, dispersive=nothing, monitor=centres[:, 2] > 0.75, absorber=nothing)
    halves = (centres[:, 2] > 0.5).astype(np.int64)
    seconds, uneven, share = window(cells, halves, 2)
    upper = 32 * SECONDS[0] + 16 * SECONDS[2]
    assert seconds == pytest.approx(upper + 16 * FACE)
    assert uneven == pytest.approx(16 * SECONDS[2] / upper)
    assert share == pytest.approx(16 * FACE / seconds)
