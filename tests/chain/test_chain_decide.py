"""The decision between two segments, on simulated chains whose truth is known."""

from __future__ import annotations

import itertools

import pytest
from chain_helpers import Chain
from hypothesis import given
from hypothesis import strategies as st

from precice_lb.chain.decide import Question, decide
from precice_lb.chain.records import Segment
from precice_lb.exceptions import InfeasibleError
from precice_lb.schedule import Schedule

NAMES = ("A", "B")


def ideal(work: float):
    return lambda ranks: work * (1 / ranks + 0.002)


@st.composite
def chains(draw: st.DrawFn) -> tuple[list[Segment], Question]:
    """Any segments, even such that make no sense, with any bounds that leave a split."""
    names = NAMES + (("C",) if draw(st.booleans()) else ())
    budget = draw(st.integers(2 * len(names), 40))
    count = st.integers(1, 40)
    # Far apart, also unknown.
    seconds = st.one_of(st.floats(1e-6, 1e4), st.just(float("nan")))
    each = st.fixed_dictionaries(dict.fromkeys(names, seconds))
    segments = draw(
        st.lists(
            st.builds(
                Segment, st.fixed_dictionaries(dict.fromkeys(names, count)), st.integers(1, 300),
                st.one_of(st.floats(1e-6, 1e4), st.just(float("nan"))), each, each, each, st.floats(0, 1e3),
            ),
            min_size=1, max_size=5,
        )
    )  # fmt: skip
    lowest = {name: draw(st.integers(1, 2)) for name in names}
    highest = {name: draw(st.integers(lowest[name], 40)) for name in names}
    free = {name: list(range(lowest[name], highest[name] + 1)) for name in names}
    allow = {}
    if draw(st.booleans()):
        chosen = draw(st.sets(st.sampled_from(free["A"]), min_size=1))
        allow = {"A": sorted(chosen | {lowest["A"]})}
    failed = draw(st.lists(st.fixed_dictionaries(dict.fromkeys(names, count)), max_size=2))
    windows = st.integers(1, 1000)
    question = Question(
        Schedule.parallel(names), budget, lowest, highest, draw(windows), draw(windows), allow=allow, failed=failed
    )
    return segments, question


@given(chains())
def test_any_segments_give_a_split_within_bounds_and_budget(chain: tuple[list[Segment], Question]) -> None:
    segments, question = chain
    counts = [
        [n for n in range(question.lowest[name], question.highest[name] + 1) if n in question.allow.get(name, [n])]
        for name in question.schedule.participants
    ]
    possible = [split for split in itertools.product(*counts) if sum(split) <= question.budget]
    if all(dict(zip(question.schedule.participants, split, strict=True)) in question.failed for split in possible):
        with pytest.raises(InfeasibleError, match="failed"):
            decide(segments, question)
        return
    found = decide(segments, question)
    assert sum(found.split.values()) <= question.budget
    for name, ranks in found.split.items():
        assert question.lowest[name] <= ranks <= question.highest[name]
        assert ranks in question.allow.get(name, [ranks])
    assert found.kind in ("learn", "move", "undo", "stay")
    assert (found.split == segments[-1].split) == (found.kind == "stay")
    assert "\n" not in found.text
    assert found == decide(segments, question)


def test_a_chain_without_calibration_finds_its_split() -> None:
    chain = Chain({"A": ideal(8), "B": ideal(24)}, 16, {"A": 12, "B": 4}, 6).run()
    best = chain.true_window(5, chain.best(5))
    assert chain.true_window(5, chain.splits[-1]) < 1.03 * best
    assert chain.decisions[0].kind in ("learn", "move")
    assert chain.decisions[-1].kind == "stay"
    assert "windows left" in chain.decisions[0].text
