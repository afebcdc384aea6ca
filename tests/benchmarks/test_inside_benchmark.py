"""Equal cost against equal volumes on three emulated domains, with learned costs."""

from __future__ import annotations

import pytest
from inside import DOMAINS, compare


def _check(ranks: list[int]) -> None:
    rows = compare(48, ranks, 0.01)
    assert {(row["domain"], row["ranks"]) for row in rows} == {(name, count) for name in DOMAINS for count in ranks}
    for row in rows:
        seconds, uneven, _ = row["by cost"]
        # Steps per second, as in the paper's figure.
        assert row["equal"][0] / seconds >= 1.25, row
        assert uneven <= 0.035, row


def test_equal_cost_is_a_quarter_faster_on_64_ranks() -> None:
    _check([64])


@pytest.mark.slow("three domains on five numbers of ranks")
def test_equal_cost_is_a_quarter_faster_on_all_ranks() -> None:
    _check([16, 24, 32, 48, 64])
