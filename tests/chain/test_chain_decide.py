"""The decision between two segments, on simulated chains whose truth is known."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from calibrate_helpers import refusals
from chain_helpers import Chain, Law, Load, chain_of, changes
from conftest import FULL_COUNTS
from hypothesis import given, settings
from hypothesis import strategies as st

from precice_lb.chain import CHAIN_FILE, Decision, DecisionProblem, Segment, read_chain
from precice_lb.chain.decide import decide
from precice_lb.exceptions import CalibrationError, InfeasibleError
from precice_lb.schedule import Schedule
from precice_lb.split import Constraints, limits_of

NAMES = ("A", "B")


def law(work: float, alpha: float = 1.0, floor: float = 0.0, rise: float = 0.0) -> Law:
    """Give seconds that fall with a power of the ranks, with what does not fall and what grows with their logarithm."""
    return lambda ranks: work * (ranks**-alpha + floor + rise * np.log(ranks))


# Pairs of solvers with unlike laws, some of them poor.
LAWS = (
    {"A": law(8, 1, 0.002), "B": law(24, 0.9, 0.004)},
    {"A": law(8, 0.7, 0.02), "B": law(24)},
    {"A": law(8, 0.95, 0, 0.002), "B": law(8, 0.85, 0.02)},
    {"A": law(3, 0.6, 0.05), "B": law(30, 0.97, 0.003)},
)
BETWEEN, ALIKE = (0.01, 0.02, 0.04), (0.0, 0.8)
# Over the share of the chain that is done.
LOADS: dict[str, Load] = {
    "to three times": lambda share: 1 + 2 * share,
    "a step": lambda share: np.where(share < 0.43, 1.0, 2.0),
    "there and back": lambda share: 1 + 2 * np.minimum(2 * share, 2 - 2 * share),
}


@st.composite
def chains(draw: st.DrawFn) -> tuple[list[Segment], DecisionProblem, list[dict[str, int]]]:
    """Any segments, even such that make no sense, with any bounds that leave a split, and all splits within these."""
    names = NAMES + (("C",) if draw(st.booleans()) else ())
    budget = draw(st.integers(2 * len(names), 40))
    count = st.integers(1, 40)
    # Far apart, also unknown.
    seconds = st.one_of(st.floats(1e-6, 1e4), st.just(float("nan")))
    costs = st.fixed_dictionaries(dict.fromkeys(names, seconds))
    segments = draw(
        st.lists(
            st.builds(
                Segment, st.fixed_dictionaries(dict.fromkeys(names, count)), st.integers(1, 300),
                st.one_of(st.floats(1e-6, 1e4), st.just(float("nan"))), costs, costs, costs, st.floats(0, 1e3),
            ),
            min_size=1, max_size=5,
        )
    )  # fmt: skip
    lowest = {name: draw(st.integers(1, 2)) for name in names}
    highest = {name: draw(st.integers(lowest[name], 40)) for name in names}
    allow = {}
    if draw(st.booleans()):
        free = st.sampled_from(range(lowest["A"], highest["A"] + 1))
        allow = {"A": sorted(draw(st.sets(free, min_size=1)) | {lowest["A"]})}
    failed = draw(st.lists(st.fixed_dictionaries(dict.fromkeys(names, count)), max_size=2))
    windows = st.integers(1, 1000)
    limits = limits_of(names, budget, Constraints(minimum=lowest, maximum=highest, allow=allow))
    question = DecisionProblem(Schedule.parallel(names), limits, draw(windows), draw(windows), failed=failed)
    counts = [[n for n in range(lowest[x], highest[x] + 1) if n in allow.get(x, [n])] for x in names]
    possible = [split for split in itertools.product(*counts) if sum(split) <= budget]
    return segments, question, [dict(zip(names, split, strict=True)) for split in possible]


@given(chains())
@settings(max_examples=1000 if FULL_COUNTS else 15)
def test_any_segments_give_a_split_within_bounds_and_budget(
    chain: tuple[list[Segment], DecisionProblem, list[dict[str, int]]],
) -> None:
    segments, question, possible = chain
    if all(split in question.failed for split in possible):
        with pytest.raises(InfeasibleError, match="did not fail"):
            decide(segments, question)
        return
    decision = decide(segments, question)
    assert decision.split in possible
    assert decision.split not in question.failed
    assert decision.kind in ("learn", "move", "undo", "stay")
    assert (decision.split == segments[-1].split) == (decision.kind == "stay")
    assert "\n" not in decision.decision
    assert decision == decide(segments, question)


def steady_chain(index: int) -> Chain:
    """Give a chain of eight segments of 100 windows each whose load does not change, from a bad start or the best."""
    budget, start = (16, 32, 64, 128)[index // 4 % 4], (1 / 8, 1 / 2, 7 / 8, None)[(index // 16 + index) % 4]
    noise = {"between": BETWEEN[index % 3], "alike": ALIKE[index % 2]}
    chain = Chain(LAWS[index % 4], budget, {}, 8, seed=index, **noise)
    if start is None:
        chain.start = chain.best(0)
    else:
        first = max(round(budget * start), 1)
        chain.start = {"A": first, "B": budget - first}
    return chain.run()


def test_a_load_that_does_not_change_is_left_alone_after_the_third_segment() -> None:
    """From the fourth segment on nine of ten chains stay, and hardly any moves to a split that is slower.

    That is counted over 100 chains in `make test-all`; of the three in `make test` all stay.
    """
    count = 100 if FULL_COUNTS else 3
    chains = [steady_chain(index) for index in range(count)]
    moves = [[pair for pair in itertools.pairwise(chain.splits[2:]) if pair[0] != pair[1]] for chain in chains]
    assert sum(map(bool, moves)) <= count // 10
    slower = [
        chain.true_window(7, after) > chain.true_window(7, before)
        for chain, pairs in zip(chains, moves, strict=True)
        for before, after in pairs
    ]
    assert sum(slower) <= count // 50
    # Nor is it a bad split that they stay at.
    regrets = [chain.true_window(7, chain.splits[7]) / chain.true_window(7, chain.best(7)) - 1 for chain in chains]
    assert np.mean(regrets) < 0.015


def drifting_chain(index: int, load: Load) -> Chain:
    """Give a chain of twenty segments from the best split of the first one; one participant's load drifts."""
    noise = {"between": BETWEEN[index // 3 % 3], "alike": ALIKE[index % 2]}
    who = "AB"[index // 3 % 2]
    chain = Chain(LAWS[index % 3], (32, 64, 128)[index // 2 % 3], {}, 20, loads={who: load}, seed=index, **noise)
    chain.start = chain.best(0)
    return chain.run()


@pytest.mark.parametrize("kind", LOADS if FULL_COUNTS else ["a step"])
def test_a_drifting_load_is_followed(kind: str) -> None:
    """Beside who knows all laws and loads in advance, and pays for the same borders."""
    over = []
    for index in range(18 if FULL_COUNTS else 1):
        chain = drifting_chain(index, LOADS[kind])
        total, static = chain.total(chain.splits), chain.total([chain.start] * chain.segments)
        assert total <= static + chain.border * changes(chain.splits)
        over.append(total / chain.total(chain.clairvoyant()) - 1)
    assert np.mean(over) < 0.05
    assert np.quantile(over, 0.9) < 0.06


@pytest.mark.parametrize("seed", range(10 if FULL_COUNTS else 1))
def test_a_move_that_made_it_worse_is_undone(seed: int) -> None:
    """Beyond eight ranks something breaks down, and nothing measured before says so."""

    def cliff(ranks: np.ndarray) -> np.ndarray:
        return np.where(ranks <= 8, 24 / ranks, 24 / ranks * 2.5)

    chain = Chain({"A": cliff, "B": law(8)}, 16, {"A": 8, "B": 8}, 8, seed=seed).run()
    assert chain.splits[0] != chain.splits[1]
    undo = chain.decisions[1]
    assert undo.kind == "undo"
    assert undo.split == chain.splits[0]
    assert undo.decision.startswith("undo: back to A 8, B 8, ")
    assert chain.splits[-1] == chain.splits[0]


def chain_of_two_splits(first: dict[str, int], second: dict[str, int], border_seconds: float, change: float) -> Chain:
    """Give a chain of ten segments of 100 windows each whose first two have these splits, and what borders took."""
    chain = Chain({"A": law(8), "B": law(24)}, 16, first, 10)
    for number, split in enumerate((first, second)):
        segment, _ = chain.segment(number, split)
        chain.done.append(dataclasses.replace(segment, border_seconds=border_seconds, change_seconds=change))
    return chain


@pytest.mark.parametrize(
    ("border_seconds", "change_seconds", "kind", "taken_off"),
    [
        # Preparing and collecting is what a change costs; where that was not measured, all that the border took.
        (1e5, 5.0, "move", 5.0),
        (5.0, 1e5, "stay", 1e5),
        (5.0, math.nan, "move", 5.0),
        (1e5, math.nan, "stay", 1e5),
    ],
)
def test_a_split_that_is_faster_is_moved_to_if_that_saves_more_than_the_change_costs(
    border_seconds: float, change_seconds: float, kind: str, taken_off: float
) -> None:
    chain = chain_of_two_splits({"A": 8, "B": 8}, {"A": 6, "B": 10}, border_seconds, change_seconds)

    decision = decide(chain.done, chain.question())

    assert decision.kind == kind
    gain = re.search(
        r"A 4, B 12, (\S+) s per window in place of (\S+) s at A 6, B 10: (saves|loses) (\S+) s "
        r"in the 800 windows left \((\S+) s for the change taken off\)",
        decision.decision,
    )
    assert gain is not None
    faster, present, verb, seconds, change = gain.groups()
    assert float(change) == taken_off
    # Eight segments of 100 windows are left; seconds per window are written with four digits.
    saved = 800 * (float(present) - float(faster)) - taken_off
    assert verb == ("saves" if saved > 0 else "loses")
    assert float(seconds) == pytest.approx(abs(saved), rel=1e-3, abs=1.0)


def test_a_slower_split_is_left_for_the_one_before_if_that_saves_more_than_the_change_costs() -> None:
    chain = chain_of_two_splits({"A": 4, "B": 12}, {"A": 8, "B": 8}, 50.0, 50.0)

    decision = decide(chain.done, chain.question())

    assert decision.kind == "undo"
    gain = re.search(
        r"A 4, B 12, (\S+) s per window in place of (\S+) s at A 8, B 8: saves (\S+) s in the 800 windows left "
        r"\(50 s for the change taken off\)",
        decision.decision,
    )
    assert gain is not None
    before, present, saved = map(float, gain.groups())
    assert saved == pytest.approx(800 * (present - before) - 50, rel=1e-3, abs=1.0)


def test_a_split_is_learned_at_if_that_saves_more_than_the_change_costs() -> None:
    def decision_if_a_change_costs(seconds: float) -> Decision:
        chain = Chain({"A": law(8), "B": law(24)}, 16, {"A": 6, "B": 10}, 10)
        segment, _ = chain.segment(0, chain.start)
        chain.done.append(dataclasses.replace(segment, border_seconds=seconds, change_seconds=seconds))
        return decide(chain.done, chain.question())

    def saved(decision: Decision) -> float:
        found = re.search(r"saves (\S+) s in the 900 windows left", decision.decision)
        assert found is not None
        return float(found[1])

    free, cheap = decision_if_a_change_costs(0.0), decision_if_a_change_costs(50.0)
    assert (free.kind, free.split) == (cheap.kind, cheap.split) == ("learn", {"A": 4, "B": 12})
    assert saved(free) - saved(cheap) == pytest.approx(50.0, abs=0.2)
    assert decision_if_a_change_costs(1000.0).kind == "stay"


def test_a_slower_split_stays_if_a_change_costs_more_than_it_saves() -> None:
    chain = chain_of_two_splits({"A": 4, "B": 12}, {"A": 8, "B": 8}, 1e5, 1e5)

    assert decide(chain.done, chain.question()).kind == "stay"


SPLITS = [{"Inner": 4, "Outer": 12}, {"Inner": 6, "Outer": 10}, {"Inner": 6, "Outer": 10}]


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    assert read_chain(tmp_path) is None
    assert read_chain(tmp_path / "nothing") is None
    for chain in (chain_of([], following=SPLITS[0]), chain_of(SPLITS, following={"Inner": 5, "Outer": 11})):
        chain.save(tmp_path)
        assert read_chain(tmp_path) == chain
        assert chain.participants == ("Inner", "Outer")
    assert [path.name for path in tmp_path.iterdir()] == [CHAIN_FILE]
    # Keys of a newer writer are passed over.
    raw = json.loads((tmp_path / CHAIN_FILE).read_text())
    raw["host"] = raw["segments"][0]["host"] = "a"
    (tmp_path / CHAIN_FILE).write_text(json.dumps(raw))
    assert read_chain(tmp_path) == chain


def test_what_was_not_measured_is_null_and_nan(tmp_path: Path) -> None:
    chain = chain_of(SPLITS)
    unknown = {"Inner": math.nan, "Outer": 0.5}
    last = dataclasses.replace(chain.segments[-1], wait_share=unknown, border_seconds=math.nan)
    dataclasses.replace(chain, segments=[*chain.segments[:-1], last]).save(tmp_path)
    assert "NaN" not in (tmp_path / CHAIN_FILE).read_text()
    again = read_chain(tmp_path)
    assert again is not None
    assert repr(again.segments[-1]) == repr(last)


@pytest.mark.parametrize("block", refusals("chains-refused.txt"))
def test_damage_is_told_in_one_line(tmp_path: Path, block: str) -> None:
    """A place in the file with its new value, or ``!`` where it goes; and the line."""
    change, expected = block.split("\n")
    place, _, value = change.partition(" = ")
    chain_of(SPLITS).save(tmp_path)
    raw = json.loads((tmp_path / CHAIN_FILE).read_text())
    *path, last = (int(key) if key.isdigit() else key for key in place.removesuffix(" !").split("."))
    inside = functools.reduce(lambda outer, key: outer[key], path, raw)
    if value:
        inside[last] = json.loads(value)
    else:
        del inside[last]
    (tmp_path / CHAIN_FILE).write_text(json.dumps(raw))
    with pytest.raises(CalibrationError) as caught:
        read_chain(tmp_path)
    assert str(caught.value).replace(str(tmp_path), "DIRECTORY") == expected
