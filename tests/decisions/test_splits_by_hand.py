"""Recommended splits by hand: every split is looked at, in fractions, for laws that are all that is possible."""

from __future__ import annotations

import math
from fractions import Fraction as F
from pathlib import Path

import numpy as np
import pytest
from decision_cases import DIGITS, Law, coupled, mean_of_laws, recommended, write_windows
from precice_xml_helpers import coupling as schedule_of

from precice_lb import optimize_split, recommend_split
from precice_lb.dataset import MeasuredRun, Measurements, Samples, load_measurements
from precice_lb.exceptions import ModelError
from precice_lb.layout import Layout
from precice_lb.split import Constraints, SharedCores, tradeoff_curve

# Four possible truths of A on p and of B on q ranks; draw k of A goes with draw k of B.
DRAWS: dict[str, list[Law]] = {
    "A": [lambda p, w=work: F(w, p) for work in (36, 72, 48, 36)],
    "B": [lambda q, w=work: F(w, q) for work in (24, 12, 36, 24)],
}
MEASURED = {"A": (2, 3), "B": (2, 3)}
BUDGET = 12


def about(value: F | float) -> object:
    return pytest.approx(float(value), rel=DIGITS)


def mean(values: list[F]) -> F:
    return sum(values, F(0)) / len(values)


def geometric(values: list[F]) -> float:
    """Mean of the logarithms, as a number."""
    return math.prod(map(float, values)) ** (1 / len(values))


def windows_of(laws: dict[str, list[Law]], split: dict[str, int]) -> list[F]:
    """Of each draw, where both work at the same time."""
    return [max(a(split["A"]), b(split["B"])) for a, b in zip(laws["A"], laws["B"], strict=True)]


def test_the_least_expected_loss_decides_and_not_the_window_of_the_mean_curves() -> None:
    result = recommended(DRAWS, MEASURED, BUDGET, present={"A": 8, "B": 4})
    splits = [{"A": p, "B": BUDGET - p} for p in range(1, BUDGET)]
    by_curves = min(splits, key=lambda split: max(mean_of_laws(DRAWS[n], split[n]) for n in "AB"))
    assert by_curves == {"A": 8, "B": 4}
    assert result.split == min(splits, key=lambda split: geometric(windows_of(DRAWS, split))) == {"A": 7, "B": 5}
    # Draws give 36/7, 72/7, 36/5 and 36/7; the fourth power of their geometric mean is the product.
    window = float(F(36 * 72 * 36 * 36, 7 * 7 * 5 * 7)) ** 0.25
    assert result.window_seconds == about(window)
    assert result.compute_seconds == {
        "A": about(float(36 * 72 * 48 * 36) ** 0.25 / 7), "B": about(float(24 * 12 * 36 * 24) ** 0.25 / 5)
    }  # fmt: skip
    # A waits in the third draw alone, 12/35 of 36/5 s; B in the others.
    assert result.waits["A"] == about(window / 4 * F(1, 21))
    shares = [1 - F(24, 5) / F(36, 7), 1 - F(12, 5) / F(72, 7), F(0), 1 - F(24, 5) / F(36, 7)]
    assert result.waits["B"] == about(window * float(mean(shares)))
    # Quantiles 0.1 and 0.9 of four values lie 0.3 and 2.7 steps from the first.
    assert result.interval == (about(F(36, 7)), about(F(36, 5) + F(7, 10) * (F(72, 7) - F(36, 5))))
    # Of the draws alone 7, 10, 7 and 7 ranks of A are best.
    assert result.rank_intervals == {"A": (7, 10), "B": (2, 5)}
    # Equal: 6, 12, 8, 6, slower in every draw. Present: 6, 9, 9, 6, slower in three of four.
    equal, present = result.alternatives["equal"], result.alternatives["present"]
    assert equal.split == {"A": 6, "B": 6}
    slower = float(6 * 12 * 8 * 6) ** 0.25
    assert (equal.window_seconds, equal.gain, equal.probability) == (about(slower), about(1 - window / slower), 1.0)
    assert present.window_seconds == about(54**0.5)
    assert present.probability == 0.75
    # Of three nodes one has two; nothing else was meant.
    nodes = recommended(DRAWS, MEASURED, 3, unit="nodes", cores_per_node=4, whole_nodes=True)
    assert (nodes.alternatives["equal"].split, nodes.alternatives["equal"].meant) == ({"A": 8, "B": 4}, {})


def test_ranks_that_are_best_for_no_draw_are_in_their_interval() -> None:
    """On 8 ranks of A windows are 5.25, 5.25 and 9 s; 7, 7 and 10 are best, of which these quantiles are 7."""
    laws: dict[str, list[Law]] = {
        "A": [lambda p, w=work: F(w, p) for work in (36, 36, 72)],
        "B": [lambda q, w=work: F(w, q) for work in (21, 21, 12)],
    }
    result = recommended(laws, MEASURED, BUDGET, level=0.1)
    assert result.split == {"A": 8, "B": 4}
    assert result.rank_intervals == {"A": (7, 8), "B": (4, 5)}


def test_in_turn_ranks_are_those_of_the_best_splits() -> None:
    """Of three, by two truths."""
    works, ranks = {"A": (36, 4), "B": (24, 100), "C": (50, 9)}, 30
    laws: dict[str, list[Law]] = {
        name: [lambda p, w=work: F(w, p) for work in pair for _ in range(2)] for name, pair in works.items()
    }
    splits = [(a, b, ranks - a - b) for a in range(1, ranks - 1) for b in range(1, ranks - a)]
    best = [
        min(splits, key=lambda split: sum(F(work, p) for work, p in zip(truth, split, strict=True)))
        for truth in zip(*works.values(), strict=True)
    ]
    result = recommended(laws, dict.fromkeys("ABC", (2, 3)), ranks, coupling="serial")
    counts = zip(*best, strict=True)
    assert result.rank_intervals == {name: (min(pair), max(pair)) for name, pair in zip("ABC", counts, strict=True)}


def test_a_measured_window_counts_for_splits_like_it() -> None:
    """Windows of 3 s at 8 and 4 ranks by the curves, of 3.6 s by a run that errs by 5 %."""
    laws: dict[str, list[Law]] = {"A": [lambda p: F(24, p)] * 400, "B": [lambda q: F(12, q)] * 400}
    unknown = {"A": math.nan, "B": math.nan}
    run = MeasuredRun("001", {"A": 8, "B": 4}, {"A": 3.6, "B": 3.6}, unknown, {}, {}, "12 ranks shared 8 cores")
    rows = {"A": Samples([2, 3], [12, 8]), "B": Samples([2, 3], [6, 4])}
    found = recommended(laws, Measurements(rows, runs=(run,)), BUDGET)
    said = [str(remark) for remark in found.warnings if remark.code == "oversubscribed"]
    assert said == ["A 8, B 4: 12 ranks shared 8 cores; such times say little of cores of their own."]
    expected = found.expected
    # What splits have in common varies by 0.3, what each has by 0.02, 0.06 or 0.2, as likely as these make the reading.
    own = np.array([0.02, 0.06, 0.2]) ** 2
    spread = 0.3**2 + own + 0.05**2
    shares = np.exp(-0.5 * math.log(1.2) ** 2 / spread) / np.sqrt(spread)
    shares /= shares.sum()
    for split, curve in (((8, 4), 3.0), ((8, 3), 4.0), ((4, 3), 6.0), ((7, 4), 24 / 7)):
        far = max(abs(math.log(split[0] / 8)), abs(math.log(split[1] / 4)))
        alike = 0.2 * math.exp(-far / 0.5) + 0.8 * math.exp(-far / 0.03)
        part = float(shares @ ((0.3**2 + own * alike) / spread))
        logs = np.log(expected.window(dict(zip("AB", split, strict=True))))
        assert logs.mean() == about(math.log(curve) + part * math.log(1.2))
        assert logs.std() == pytest.approx(0.05 * part, rel=0.1)


def test_in_turn_the_windows_add_up_and_each_waits_for_the_other() -> None:
    result = recommended(DRAWS, MEASURED, BUDGET, coupling="serial")
    pairs = list(zip((36, 72, 48, 36), (24, 12, 36, 24), strict=True))
    windows = {p: geometric([F(a, p) + F(b, BUDGET - p) for a, b in pairs]) for p in range(1, BUDGET)}
    best = min(windows, key=lambda p: windows[p])
    assert result.split == {"A": best, "B": BUDGET - best} == {"A": 7, "B": 5}
    assert result.window_seconds == about(windows[best])
    share = mean([F(b, 5) / (F(a, 7) + F(b, 5)) for a, b in pairs])
    assert result.waits == {"A": about(windows[best] * float(share)), "B": about(windows[best] * float(1 - share))}
    # Of the first and the third draw, which are looked at, 7 and 6 are best.
    assert result.rank_intervals == {"A": (6, 7), "B": (5, 6)}
    equal = result.alternatives["equal"]
    assert equal.gain == about(1 - windows[best] / windows[6])


def test_sharing_cores_slows_those_who_share_them() -> None:
    """A and B in turns on p of 6 cores, a quarter slower, and C on the others: 45 / p + 6 / (6 - p) is least at 4."""
    works = {"A": 12, "B": 24, "C": 6}
    laws: dict[str, list[Law]] = {name: [lambda p, w=work: F(w, p)] for name, work in works.items()}
    shared = [SharedCores([["A"], ["B"]], 0.25)]
    for names in ("ABC", "CBA"):
        result = recommended(
            {n: laws[n] for n in names}, dict.fromkeys(names, (2, 3)), 6, coupling="serial", shared=shared
        )
        assert result.split == {"A": 4, "B": 4, "C": 2}
        assert result.window_seconds == about(14.25)
        assert result.compute_seconds == {"A": about(3.75), "B": about(7.5), "C": about(3)}


@pytest.mark.parametrize(("least", "is_said"), [(47, True), (49, False)])
def test_turns_are_worth_saying_from_two_percent_on(least: int, is_said: bool) -> None:
    """Both on 12 cores rather than on 6: 48 / 49, and 50 / 51."""
    laws: dict[str, list[Law]] = {name: [lambda p: F(12, p) + least] for name in "AB"}
    found = recommended(laws, dict.fromkeys("AB", (2, 3)), 12, coupling="serial")
    assert found.window_seconds == about(2 * least + 4)
    assert found.alternatives["in-turns"].window_seconds == about(2 * least + 2)
    assert ("in-turns" in {warning.code for warning in found.warnings}) == is_said


# One after the other, so that every rank helps. On one rank A is starved of memory, and two are cheaper.
CURVES: dict[str, list[Law]] = {
    "A": [lambda p: F(60 if p == 1 else F(24, p)) + 1],
    "B": [lambda q: F(12, q) + 2],
}


def in_turn(split: dict[str, int]) -> F:
    """Seconds per window of a split."""
    return CURVES["A"][0](split["A"]) + CURVES["B"][0](split["B"])


def best_of(ranks: int) -> F:
    """The shortest window of so many ranks."""
    return min(in_turn({"A": p, "B": ranks - p}) for p in range(1, ranks))


WINDOWS = {n: best_of(n) for n in range(2, BUDGET + 1)}


def knee_of(windows: dict[int, F]) -> int:
    """Ranks farthest below the straight line, in logarithms, from the cheapest to the last."""
    first, last = min(windows, key=lambda n: n * windows[n]), max(windows)
    slope = math.log(windows[last] / windows[first]) / math.log(last / first)
    below = {n: math.log(windows[first] / w) + slope * math.log(n / first) for n, w in windows.items() if n >= first}
    assert max(below.values()) > 0.02
    return max(below, key=lambda n: below[n])


def price_of(ranks: int, weight: F) -> F:
    """Fourth power of window ^ w times core-hours ^ (1 - w)."""
    exponent = int(4 * weight)
    return WINDOWS[ranks] ** exponent * (ranks * WINDOWS[ranks] / 3600) ** (4 - exponent)


WEIGHTS = [F(0), F(1, 4), F(1, 2), F(3, 4), F(1)]


def test_every_budget_is_priced_in_core_hours_and_efficiency_is_over_the_cheapest() -> None:
    times = {name: np.array([float(law(p)) for p in range(1, BUDGET)]) for name, (law,) in CURVES.items()}
    curve = tradeoff_curve(times, BUDGET, coupling="serial")
    assert [point.cores for point in curve.points] == list(WINDOWS)
    hours = {n: n * window / 3600 for n, window in WINDOWS.items()}
    assert min(hours, key=lambda n: hours[n]) == 3
    for point in curve.points:
        assert point.window_seconds == about(WINDOWS[point.cores])
        assert point.core_hours == about(hours[point.cores])
        assert point.efficiency == about(hours[3] / hours[point.cores])
    assert curve.knee is not None
    assert curve.knee.cores == knee_of(WINDOWS)
    for weight in WEIGHTS:
        assert curve.choose(float(weight)).cores == min(WINDOWS, key=lambda n: price_of(n, weight))
    assert (curve.choose("cost"), curve.choose("time")) == (curve.choose(0.0), curve.choose(1.0))
    for prefer in (-0.1, 1.1, "speed", math.nan):
        with pytest.raises(ModelError, match="preference"):
            curve.choose(prefer)  # type: ignore[arg-type]


@pytest.mark.parametrize("weight", WEIGHTS)
def test_a_plan_lists_what_nothing_beats_in_time_and_core_hours_and_prefers_among_that(weight: F) -> None:
    result = recommended(CURVES, MEASURED, BUDGET, coupling="serial", prefer=float(weight))
    assert result.plan is not None
    listed = {point.cores: point for point in result.plan.tradeoff.points}
    # Two ranks are slower and dearer than three.
    assert (min(listed), max(listed)) == (3, BUDGET)
    for n, point in listed.items():
        assert point.window_seconds == about(WINDOWS[n])
        assert point.core_hours == about(n * WINDOWS[n] / 3600)
        assert point.efficiency == about(3 * WINDOWS[3] / (n * WINDOWS[n]))
    knee = result.plan.tradeoff.knee
    assert knee is not None
    assert knee.cores == knee_of({n: WINDOWS[n] for n in listed})
    chosen = min(listed, key=lambda n: price_of(n, weight))
    assert result.plan.chosen.cores == sum(result.split.values()) == chosen
    assert result.window_seconds == about(WINDOWS[chosen])


def test_splits_are_near_up_to_the_share_asked_for() -> None:
    best, share = best_of(BUDGET), F(1, 10)
    plan = recommended(CURVES, MEASURED, BUDGET, coupling="serial", within=float(share)).plan
    assert plan is not None
    windows = [point.window_seconds for point in plan.near]
    assert windows == sorted(windows)
    for near in plan.near:
        window = in_turn(near.split)
        assert near.window_seconds == about(window)
        assert near.longer == pytest.approx(float(window / best - 1), abs=1e-12)
        assert window <= best * (1 + share)
    exact = recommended(CURVES, MEASURED, BUDGET, coupling="serial", within=0.0)
    assert exact.plan is not None
    assert [near.split for near in exact.plan.near] == [exact.split]
    whole = {p: in_turn({"A": p, "B": BUDGET - p}) for p in range(1, BUDGET)}
    assert {p for p, w in whole.items() if w <= best * (1 + share)} <= {near.split["A"] for near in plan.near}


def test_the_optimiser_finds_the_best_split_of_three_in_fractions() -> None:
    laws: dict[str, Law] = {
        "A": lambda p: F(40, p) + F(p, 3),
        "B": lambda p: F(25, p) + F(p, 5),
        "C": lambda p: F(9, p) + F(1, 2),
    }
    times = {name: np.array([float(law(p)) for p in range(1, 19)]) for name, law in laws.items()}
    splits = [(a, b, c) for a in range(1, 17) for b in range(1, 18 - a) for c in range(1, 19 - a - b)]
    for coupling, join in (("parallel", max), ("serial", sum)):
        best = min(join([law(n) for law, n in zip(laws.values(), split, strict=True)]) for split in splits)
        result = optimize_split(times, 18, coupling=coupling)
        assert result.window_seconds == about(best)
        assert join([laws[name](n) for name, n in result.split.items()]) == best
        assert result.gap == 0
    bounded = optimize_split(times, 18, coupling="serial", constraints=Constraints(minimum={"A": 8}, maximum={"B": 3}))
    allowed = [(a, b, c) for a, b, c in splits if a >= 8 and b <= 3]
    assert bounded.window_seconds == about(
        min(sum(law(n) for law, n in zip(laws.values(), s, strict=True)) for s in allowed)
    )


# Every second window of A takes three times as long as the others; of B all are alike. On one rank, in milliseconds.
ALTERNATING: dict[str, list[Law]] = {"A": [lambda p: F(16, p)], "B": [lambda q: F(16, q)]}
SHORT, LONG = F(1, 2), F(3, 2)


def test_a_load_of_two_windows_is_replayed_and_not_averaged(tmp_path: Path) -> None:
    # On 4 and 4 ranks: A 2 s and 6 s in turn, B 4 s. Two blocks of 16 windows after one of warm-up.
    compute = {"A": [4000] + [2000, 6000] * 16, "B": [4000] * 33}
    write_windows(tmp_path, coupled("parallel-explicit"), compute, {"A": 4, "B": 4})
    measured = load_measurements([tmp_path], warmup=1)
    assert measured.samples["A"].tolist() == [[4.0, about(4)]]

    def window(p: int) -> F:
        q = 16 - p
        return (max(F(16, p) * SHORT, F(16, q)) + max(F(16, p) * LONG, F(16, q))) / 2

    result = recommended(ALTERNATING, measured, 16, present={"A": 8, "B": 8})
    best = min(range(1, 16), key=window)
    assert best != 8
    assert result.split == {"A": best, "B": 16 - best}
    assert result.window_seconds == about(window(best))
    assert result.compute_seconds == {"A": about(F(16, best)), "B": about(F(16, 16 - best))}
    assert result.waits["A"] == about(window(best) - F(16, best))
    # The mean of A is that of B at 8 and 8, but windows last (2 + 3) / 2 seconds there.
    assert result.alternatives["present"].window_seconds == about(F(5, 2))
    assert result.alternatives["present"].gain == about(1 - window(best) / F(5, 2))
    # What ran at the same time says nothing of windows in turn.
    serial = recommended(ALTERNATING, measured, 16, coupling="serial")
    assert (len(result.comparisons), len(serial.comparisons)) == (1, 0)


def test_windows_of_measured_splits_are_of_the_coupling_and_of_who_takes_longest_for_them() -> None:
    """A and B do two windows while C does one; the shortest is first, though it ran last."""
    sizes = (("AB", 1), ("BC", 2))
    schemes = [("parallel-explicit", pair, None, f'<time-window-size value="{size}" />') for pair, size in sizes]
    errors = {"A": 0.12, "B": 0.01, "C": 0.01}
    runs = tuple(
        MeasuredRun(f"{p}", {"A": p, "B": 2, "C": 2}, {"A": a, "B": 1.0, "C": 2.3}, errors, {}, {})
        for p, a in ((2, 1.2), (3, 1.1))
    )
    laws: dict[str, list[Law]] = {name: [lambda _: F(1)] for name in "ABC"}
    data = Measurements(dict.fromkeys("ABC", Samples([2, 3], [1.0, 1.0])), runs=runs)
    second, first = recommended(laws, data, 7, coupling=schedule_of("ABC", *schemes)).comparisons[::-1]
    assert (first.split["A"], first.measured, second.split["A"], second.measured) == (3, 2.3, 2, 2.4)
    # Beside that of the windows, runs differ by 5 %.
    assert first.standard_error == about(math.hypot(0.05, 0.01 / 2.3))
    assert second.standard_error == about(math.hypot(0.05, 2 * 0.12 / 2.4))


def test_equal_rows_are_two_readings_and_ranks_with_threads_are_cores(tmp_path: Path) -> None:
    table = tmp_path / "runs.csv"
    table.write_text(
        "participant,ranks,seconds,threads,iterations\n"
        "A,2,8.5,3,2\nA,2,8.5,3,2\nA,4,4.25,3,4\nB,6,3.0,1,2\nB,8,2.25,1,10\nB,12,1.5,1,3\n"
    )
    result = recommend_split(table, 24)
    rows = result.measurements
    assert rows.samples["A"].tolist() == [[6.0, 8.5], [6.0, 8.5], [12.0, 4.25]]
    assert rows.samples["B"].tolist() == [[6.0, 3.0], [8.0, 2.25], [12.0, 1.5]]
    assert rows.iterations == {"A": about(F(8, 3)), "B": 5.0}
    assert result.split["A"] % 3 == 0
    assert result.used["cores"] == sum(result.split.values()) <= 24
    assert result.used["ranks"] == result.split["A"] // 3 + result.split["B"]


@pytest.mark.parametrize("exact", ["first", "last"])
def test_readings_count_by_the_inverse_of_their_variance(tmp_path: Path, exact: str) -> None:
    """Two groups of runs at one split disagree by 4 %; the one is known to 1 %, the other to 8 %."""
    groups = {1.0: 0.01, 1.04: 0.08} if exact == "first" else {1.0: 0.08, 1.04: 0.01}
    lines = [f"A,4,{level + k / 1e6},{level * error}" for level, error in groups.items() for k in range(6)]
    table = tmp_path / "runs.csv"
    table.write_text("\n".join(["participant,ranks,seconds,standard_error", *lines, "B,4,1,0.01", "B,8,0.5,0.005"]))
    result = recommend_split(table, 12, minimum={"A": 4}, maximum={"A": 4})
    off = abs(result.compute_seconds["A"] - (1.0 if exact == "first" else 1.04))
    # Of the way to the others: 1 / 65 by 1 / s², 1 / 9 by 1 / s, 1 / 2 by the mean. How much runs differ by beside that
    # has to be learned, and adds to both variances alike.
    assert 0 < off < 0.04 / 18


# Of ten draws seconds of version "old" of A on 2 ranks of 2 threads, 20 in the geometric mean, and of "new" on 2 ranks,
# each with a GPU and so a node of its own: 8 and 12 cores with those of B.
OLD, NINE, EIGHT = (16, 25) * 5, (13,) * 4 + (19,) * 5 + (30,), (13,) * 4 + (19,) * 4 + (30,) * 2


@pytest.mark.parametrize(
    ("new", "measured", "prefer", "version", "chance"),
    [
        # As dear by the root of 20 · 20 · 8 are 16.33 s, by 20 · 8 ^ 0.25 18.07 s.
        ((16.3,) * 10, 2, 0.5, "new", 0.5),
        ((16.4,) * 10, 2, 0.5, "old", 0.5),
        ((18.0,) * 10, 2, 0.75, "new", 0.5),
        ((18.1,) * 10, 2, 0.75, "old", 0.5),
        # Beyond what was measured, to either side, it has to be faster than 20 s with 0.9, not than its own 16 s.
        (NINE, 1, None, "new", 0.6),
        (NINE, 3, None, "new", 0.6),
        (EIGHT, 1, None, "old", 0.4),
        (EIGHT, 3, None, "old", 0.4),
        (EIGHT, 2, None, "new", 0.6),
    ],
)
def test_a_version_wins_by_time_and_cores_and_unmeasured_only_where_it_is_sure(
    new: tuple[float, ...], measured: int, prefer: float | None, version: str, chance: float
) -> None:
    draws = {"old": [F(seconds) for seconds in OLD], "new": [F(seconds) for seconds in new]}
    laws: dict[str, list[Law]] = {key: [lambda _, s=s: s for s in row] for key, row in draws.items()}
    frame = Samples([2, measured], [np.mean(OLD), np.mean(new)], threads=[2, 1], version=["old", "new"])
    alone = MeasuredRun("alone", {"B": 4}, {"B": 1.0}, {"B": 0.1}, {"B": 1.0}, {"B": {}})
    data = Measurements({"A": frame, "B": Samples([4], [1.0])}, runs=(alone,))
    bounds = {"A:old": 4, "A:new": 2, "B": 4}
    machine = {"cores_per_node": 4, "gpus_per_node": 1, "gpus_per_rank": {"A:new": 1}, "whole_nodes": True}
    result = recommended(
        laws | {"B": [lambda _: F(1)] * 10}, data, 4, unit="nodes", minimum=bounds, maximum=bounds, prefer=prefer,
        **machine,
    )  # fmt: skip
    assert result.versions == {"A": version}
    assert [one.code for one in result.warnings].count("version-unsure") == (version == "old" and prefer is None)
    first, second = result.choices
    for choice in (first, second):
        name = choice.versions["A"]
        cores, nodes = {"old": (8, 2), "new": (12, 3)}[name]
        assert choice.used == {"ranks": 6, "cores": cores, "nodes": nodes}
        assert choice.layouts == ({"A": Layout(2, 2)} if name == "old" else {})
        assert choice.window_seconds == about(geometric(draws[name]))
        assert choice.gain == pytest.approx(1 - result.window_seconds / geometric(draws[name]), abs=1e-12)
    assert result.plan is None or result.plan.chosen.cores == first.used["cores"]
    assert first.versions == result.versions
    assert math.isnan(first.probability)
    assert second.probability == chance
