"""What a chain does next, by hand: a few possible truths, in fractions; and how its load is known, by brute force."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction as F

import numpy as np
import pytest
from decision_cases import DIGITS, Law, decision_of_chain
from scipy.stats import multivariate_normal

from precice_lb.chain import Segment
from precice_lb.chain.decide import at_present_load, window_times
from precice_lb.layout import split_text
from precice_lb.schedule import Schedule

BUDGET = 4
HIGHEST = {"A": 3, "B": 3}
Seconds = tuple[float, ...]


def laws(*truths: tuple[int, Seconds, Seconds]) -> dict[str, list[Law]]:
    """How probable each truth is, and its seconds on 1, 2 and 3 ranks of A and of B."""

    def law(seconds: Seconds) -> Law:
        return lambda ranks: F(seconds[ranks - 1])

    return {name: [law(truth[1 + k]) for truth in truths for _ in range(truth[0])] for k, name in enumerate("AB")}


# Windows of 1:3, 2:2 and 3:1 are 12, 6 and 4, or 12, 9 and 12, or 12, 6 and 5.
FIRST, SECOND, NEARER = ((12, 6, 4), (4, 4, 3)), ((12, 9, 8), (12, 6, 4)), ((12, 6, 5), (4, 4, 3))
CERTAIN = laws((2, *FIRST))


def first_in(count: int, out_of: int) -> dict[str, list[Law]]:
    """The first truth with this probability, else the second; of each more than one, so that it can be recognised."""
    return laws((2 * (out_of - count), *SECOND), (2 * count, *FIRST))


def split(ranks: int) -> dict[str, int]:
    return {"A": ranks, "B": BUDGET - ranks}


def after(*segments: tuple[int, float], cost: float = 2.0) -> list[tuple[dict[str, int], float, float]]:
    """Segments by the ranks of A and seconds of a window."""
    return [(split(ranks), window, cost) for ranks, window in segments]


@pytest.mark.parametrize(
    ("truths", "segments", "left", "kind", "ranks", "windows", "what", "chance"),
    [
        # (12 - 4) · 30 - 2; at first 0.002 · 12 · 30 = 0.72 is the least, from the third segment on 9.
        (CERTAIN, after((1, 12)), 30, "move", 3, "4 12", "saves 238", 100),
        (CERTAIN, after((1, 12), cost=239.2), 30, "move", 3, "4 12", "saves 0.8", 100),
        (CERTAIN, after((1, 12), cost=239.3), 30, "stay", 3, "4 12", "saves 0.7", 100),
        (CERTAIN, after((1, 12), (1, 12), cost=239.2), 30, "move", 3, "4 12", "saves 0.8", 100),
        (CERTAIN, after(*[(1, 12)] * 3, cost=230.9), 30, "move", 3, "4 12", "saves 9.1", 100),
        (CERTAIN, after(*[(1, 12)] * 3, cost=231.1), 30, "stay", 3, "4 12", "saves 8.9", 100),
        # In the median 2 s.
        (CERTAIN, [(split(1), 12, cost) for cost in (1, 100, 2)], 30, "move", 3, "4 12", "saves 238", 100),
        # 2:2 takes 7 s in place of 20 / 3 in the mean, and tells the truth: of ln(12 / 9) / 3 nothing is left in the 20
        # windows after it, each of 17 / 3 s for who knows. 200 - 70 - 2 - 20 · (20 / 3 - 17 / 3 · ln(12 / 9) / 3) - 2.
        (first_in(2, 3), after((3, 20 / 3)), 30, "learn", 2, "7 6.667", "saves 3.535", None),
        (first_in(2, 3), after((3, 20 / 3), cost=3.5), 30, "learn", 2, "7 6.667", "saves 0.5347", None),
        (first_in(2, 3), after((3, 20 / 3), cost=3.6), 30, "stay", 2, "7 6.667", "loses 13.6", 33),
        (first_in(2, 3), after((3, 20 / 3)), 10, "stay", 2, "7 6.667", "loses 5.333", 33),
        # A move is sure with 0.9, and not with 8 / 9: 190 - 440 / 9 - 2 - 20 · (44 / 9 - 41 / 9 · ln(12 / 9) / 9).
        (first_in(9, 10), after((2, 6)), 30, "move", 3, "4.8 6.3", "saves 43", 90),
        (first_in(8, 9), after((2, 6)), 30, "learn", 3, "4.889 6.333", "saves 44.25", None),
        # What 3:1 teaches is worth 3.7 s more than the sure move to 2:2, later too little.
        (first_in(1, 2), after((1, 12)), 30, "learn", 3, "8 12", "saves 136.7", None),
        (first_in(1, 2), after(*[(1, 12)] * 3), 30, "move", 2, "7.5 12", "saves 133", 100),
        # 3:1 saves more in the mean, 7.45 s, by half of the truths nothing, and there is no time to learn.
        (laws((2, (12, 9, 8), (11.9, 6, 4)), (2, (12, 6, 3), (3, 3, 2))), after((1, 12)), 10, "move", 2, "7.5 12",
         "saves 43", 100),
        # It would save 98 s by what it teaches, but takes more than 1.1 times as long.
        (first_in(3, 4), after((3, 6)), 300, "stay", 2, "6.75 6", "loses 227", 25),
        # It would be taken with a fifth too.
        (laws((2, *SECOND), (6, *NEARER)), after((3, 6)), 30, "learn", 2, "6.75 6.75", "saves 4.63", None),
        (laws((2, *SECOND), (8, *NEARER)), after((3, 6)), 30, "stay", 2, "6.6 6.4", "loses 8", 20),
        # Back with the probability that a normal of deviation 0.04 · √2 is below ln((7 - 3 / 30) / 6), if that is 0.9.
        (CERTAIN, after((2, 6), (3, 7), cost=3), 30, "undo", 2, "6 7", "saves 27", 99),
        (CERTAIN, after((2, 6), (3, 6.55), cost=3), 30, "stay", (2, 1), "6 4", "loses 63", 0),
        (CERTAIN, after((2, 6), (3, 6.56), cost=3), 30, "undo", 2, "6 6.56", "saves 13.8", 90),
        (CERTAIN, after((2, 5.5), (2, 6.5), (3, 7), cost=3), 30, "undo", 2, "5.979 7", "saves 27.63", 100),
        (CERTAIN, after((1, 9), (2, 6), (3, 7), cost=3), 30, "undo", 2, "6 7", "saves 27", 99),
        # On where that is between the two and saves more.
        (laws((2, (8, 4, 3), (7, 4, 3.5))), after((1, 6), (3, 7), cost=3), 30, "move", 2, "4 7", "saves 87", 100),
        (laws((2, (8, 6.5, 3), (7, 4, 3.5))), after((1, 6), (3, 7), cost=3), 30, "undo", 1, "6 7", "saves 27", 99),
        (CERTAIN, after((1, 6), (2, 7), cost=3), 30, "undo", 1, "6 7", "saves 27", 99),
        # 3:1 was measured to be no faster.
        (CERTAIN, after((3, 7), (1, 7)), 30, "move", (2, 1), "6 12", "saves 178", 100),
        (CERTAIN, after((3, 6.9), (1, 7)), 30, "move", 3, "4 12", "saves 238", 100),
    ],
)  # fmt: skip
def test_what_is_done_next(
    truths: dict[str, list[Law]], segments: list[tuple[dict[str, int], float, float]], left: int, kind: str,
    ranks: int | tuple[int, int], windows: str, what: str, chance: int | None,
) -> None:  # fmt: skip
    decision = decision_of_chain(truths, segments, left, BUDGET, HIGHEST)
    to = split(ranks) if isinstance(ranks, int) else dict(zip("AB", ranks, strict=True))
    here, (window, now) = segments[-1][0], windows.split()
    begin = {"move": "move to", "learn": "learn at", "undo": "undo: back to", "stay": f"stay at {split_text(here)}:"}
    end = {"undo": ", as measured", "stay": ", too little"}.get(kind, "")
    assert decision.kind == kind
    assert decision.split == (here if kind == "stay" else to)
    assert decision.decision == (
        f"{begin[kind]} {split_text(to)}, {window} s per window in place of {now} s at {split_text(here)}: {what} s in "
        f"the {left} windows left ({segments[-1 if len({s[2] for s in segments}) == 1 else 2][2]:.3g} s for the change "
        f"taken off) with {'what it teaches' if chance is None else f'{chance} %'}{end}"
    )


def test_windows_longer_than_what_participants_compute_are_expected_to_stay_so() -> None:
    """By 13 / 12; the segment is all that is known."""
    truths = laws((2, (0.12, 0.06, 0.04), (0.04, 0.04, 0.03)))
    measured = {"A": 0.12, "B": 0.03}
    decision = decision_of_chain(truths, after((1, 0.13)), 30, BUDGET, HIGHEST, known="", measured=measured)
    assert "A 3, B 1, 0.04333 s per window in place of 0.13 s at A 1, B 3: saves 0.6 s" in decision.decision


@pytest.mark.parametrize(
    ("segments", "words", "line"),
    [
        # Though it was measured to be slower.
        (after((3, 7), (1, 7)), {"failed": [{"A": 1}]}, "move to A 3, B 1, 4 s per window expected: it failed"),
        ([({"A": 3, "B": 3}, 4, 2)], {},
         "move to A 3, B 1, 4 s per window expected: it is not within bounds and budget"),
        (after((1, 12)), {"known": "A"}, "stay at A 1, B 3: the compute time of B is not known"),
        (after((1, 12)), {"known": "", "failed": [{"A": 1}]},
         "move to A 2, B 2, an even split: it failed, and the compute time of A, B is not known"),
        # Of what is left, half as many ranks of B are nearer to it than that and half as many again of A.
        (after((1, 12)), {"known": "", "failed": [{"A": 1}, {"A": 2, "B": 2}]},
         "move to A 2, B 1, an even split: it failed, and the compute time of A, B is not known"),
        (after((1, 12)), {"failed": [{"A": 2}, {"A": 3}, {"B": 1}, {"B": 2}]},
         "stay at A 1, B 3: no other split comes into question"),
    ],
)  # fmt: skip
def test_where_the_present_split_is_impossible_or_nothing_is_known(
    segments: list[tuple[dict[str, int], float, float]], words: dict[str, object], line: str
) -> None:
    decision = decision_of_chain(CERTAIN, segments, 30, BUDGET, HIGHEST, **words)  # type: ignore[arg-type]
    assert decision.decision == line
    assert line.startswith(decision.kind)
    assert split_text(decision.split) in line


def test_what_was_measured_is_brought_to_the_load_of_the_latest_windows() -> None:
    """Beside independent normal steps of everything that is unknown, of which readings are sums."""
    nan = math.nan
    segments = [
        Segment({"A": 4, "B": 1}, 10, 1.0, {"A": 2.0}, {"A": 0.04}, {"A": 2.03}),
        Segment({"A": 8, "B": 1}, 30, 1.0, {"A": 1.3}, {"A": math.inf}),
        Segment({"A": 8, "B": 1}, 20, 1.0, {"A": 0.0}),
        Segment({"A": 5, "B": 1}, 20, 1.0, {"A": 1.7}, {"A": 0.017}, {"A": 1.72}),
    ]
    earlier = np.array([[4, 1.95, 0.0975], [6, 1.5, 9.0], [3, 2.6, nan]])
    found = at_present_load(segments, "A", earlier)
    # Earlier runs, means of segments, latest windows. Errors of segments: at most the median of 0.02, 0.005, 0.01.
    ranks = np.array([4, 6, 3, 4, 8, 5, 4, 8, 5.0])
    seconds = np.array([1.95, 1.5, 2.6, 2.0, 1.3, 1.7, 2.03, 1.3, 1.72])
    times = np.array([0, 0, 0, 0.25, 1.25, 3.5, 0.5, 2, 4])
    runs = np.array([0, 1, 2, 3, 4, 5, 3, 4, 5])
    errors = np.array([0.05, 1.0, 0.005, 0.01, 0.005, 0.01, 0.02, 0.01, 0.02])
    octaves = np.log(ranks)
    y = np.log(seconds) + octaves
    values, vectors = np.linalg.eigh(0.4**2 * np.exp(-0.5 * (np.subtract.outer(octaves, octaves) / np.log(1.2)) ** 2))
    curve = [np.full((9, 1), 10.0), 0.5 * (octaves - octaves.mean())[:, None], vectors * np.sqrt(np.maximum(values, 0))]
    walk, trend = [], [times]
    nodes, widths = np.polynomial.legendre.leggauss(3)
    for start, end in itertools.pairwise(np.unique(times)):
        walk.append(np.sqrt(end - start) * (times >= end))
        for node, width in zip(nodes, widths, strict=True):
            middle = (start + end + (end - start) * node) / 2
            trend.append(np.sqrt((end - start) / 2 * width) * np.maximum(times - middle, 0))
    weights, changes, squares = [], [], []
    for load, drift, noise in itertools.product(
        (walk, trend), (0, 0.03, 0.06, 0.12, 0.25, 0.5), (0.005, 0.01, 0.02, 0.04, 0.08)
    ):
        steps = drift * np.column_stack(load)
        others = [*curve, noise * np.eye(6)[runs], np.diag(errors)]
        covariance = steps @ steps.T + sum(part @ part.T for part in others)
        change = (steps[-1] - steps)[:6]
        gain = change @ steps.T @ np.linalg.inv(covariance)
        changes.append(gain @ (y - y.mean()))
        squares.append(np.diag(change @ change.T - gain @ steps @ change.T) + changes[-1] ** 2)
        likelihood = multivariate_normal.logpdf(y - y.mean(), np.zeros(9), covariance)
        weights.append(likelihood - (np.log(noise / 0.04) / 0.8) ** 2 / 2 - np.log(5 if drift else 1))
    probability = np.exp(np.array(weights) - max(weights))
    probability /= probability.sum()
    mean = probability @ changes
    deviation = np.sqrt(probability @ squares - mean**2)
    now = seconds[:6] * np.exp(mean)
    expected = np.column_stack([ranks[:6], now, now * np.minimum(np.hypot(errors[:6], deviation), 1)])
    assert found.rows == pytest.approx(expected, rel=1e-6)
    assert found.rows[1, 2] == found.rows[1, 1]
    unknown = [[nan, nan]]
    inside = np.column_stack([mean, deviation])[3:].tolist()
    assert found.changes == pytest.approx(np.array(inside[:2] + unknown + inside[2:]), rel=1e-6, nan_ok=True)
    assert found.error == 0.01
    assert at_present_load(segments, "B").error == 0.005
    assert at_present_load(segments, "B").rows.shape == (0, 3)


def test_windows_are_brought_to_the_present_load() -> None:
    segments = [
        Segment({"A": 1, "B": 2}, 10, 3.3, {"A": 2.0, "B": 3.0}),
        Segment({"A": 1, "B": 2}, 10, 4.0, {"A": 2.0}),
        Segment({"A": 2, "B": 1}, 10, math.nan, {"A": 2.0, "B": 3.0}),
        Segment({"A": 2, "B": 2}, 10, 0.9, {"A": 0.5, "B": 0.6}),
        Segment({"A": 3, "B": 1}, 10, 0.9, {"A": 0.0, "B": 0.6}),
    ]
    # Twice the load of A takes 4 s, which were 3 before: 4.4 s, in which 4 % between runs and 3 % are 5 %.
    unknown = [math.nan, math.nan]
    a, b = (
        [[math.log(2), 0.03], unknown, [0, 0], [0, 0.03], [0, 0.03]],
        [[0, 0.01], [0.0, 0.2], [0, 0], [math.log(2), 0.075], [math.log(2), 0.075]],
    )
    b[1] = unknown
    found = window_times(segments, Schedule.parallel(list("AB")), {"A": np.array(a), "B": np.array(b)})
    mean = math.exp((math.log(4.4) / 0.05**2 + math.log(4) / 0.04**2) / 1025)
    assert found == {
        (1, 2): pytest.approx((mean, 1025**-0.5), rel=DIGITS),
        (2, 2): pytest.approx((1.8, 0.085), rel=DIGITS),
        (3, 1): pytest.approx((0.9, 0.085), rel=DIGITS),
    }
