"""Chains without any process: segments of simulated solvers whose truth is known, and documents of chains.

A solver takes its law's seconds times the load of the window; runs differ by a factor of their own, windows by
autocorrelated noise. The same random numbers for whatever split a segment has.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from precice_lb.chain import ChainDocument, Decision, DecisionProblem, Segment
from precice_lb.chain.decide import decide
from precice_lb.dataset import mean_of
from precice_lb.schedule import Schedule
from precice_lb.split import limits_of, optimize_split

Array = NDArray[np.float64]
Split = dict[str, int]
# From ranks to seconds per window, and from the share of the chain that is done to the load.
Law = Callable[[Array], Array]
Load = Callable[[Array], Array]


def steady(share: Array) -> Array:
    """Give a load that does not change."""
    return np.ones_like(share)


def changes(splits: Sequence[Split]) -> int:
    """Count the borders at which the split changes."""
    return sum(one != other for one, other in itertools.pairwise(splits))


@dataclass
class Chain:
    """A simulated chain, and what came of it."""

    laws: Mapping[str, Law]
    budget: int
    start: Split
    segments: int
    windows: int = 100
    loads: Mapping[str, Load] = field(default_factory=dict)
    # In seconds.
    border: float = 5.0
    # Relative: between runs, and between windows, with its lag-1 autocorrelation.
    between: float = 0.02
    within: float = 0.02
    alike: float = 0.0
    seed: int = 0
    failed: Sequence[Mapping[str, int]] = ()

    def __post_init__(self) -> None:
        self.names = tuple(self.laws)
        self.schedule = Schedule.parallel(self.names)
        self.done: list[Segment] = []
        self.splits: list[Split] = []
        self.decisions: list[Decision] = []

    def question(self) -> DecisionProblem:
        """Ask for the next segment."""
        left = (self.segments - len(self.done)) * self.windows
        limits = limits_of(self.names, self.budget)
        return DecisionProblem(self.schedule, limits, left, self.windows, failed=self.failed)

    def run(self) -> Chain:
        """Run all segments, each at the split that was decided."""
        split = self.start
        for number in range(self.segments):
            if number:
                self.decisions.append(decide(self.done, self.question()))
                split = self.decisions[-1].split
            self.splits.append(split)
            self.done.append(self.segment(number, split)[0])
        return self

    def loads_of(self, number: int) -> dict[str, Array]:
        """Load of each window of a segment."""
        share = (number * self.windows + np.arange(self.windows) + 0.5) / (self.segments * self.windows)
        return {name: np.asarray(self.loads.get(name, steady)(share)) for name in self.names}

    def segment(self, number: int, split: Split) -> tuple[Segment, float]:
        """Run a segment: what a chain knows of it, and its wall time without the border."""
        loads, seconds = self.loads_of(number), {}
        for place, name in enumerate(self.names):
            rng = np.random.default_rng([self.seed, number, place])
            run = np.exp(self.between * rng.standard_normal())
            noise = rng.standard_normal(self.windows)
            for k in range(1, self.windows):
                noise[k] = self.alike * noise[k - 1] + np.sqrt(1 - self.alike**2) * noise[k]
            law = float(self.laws[name](np.array([float(split[name])]))[0])
            seconds[name] = law * loads[name] * run * (1 + self.within * noise)
        windows = np.max(list(seconds.values()), axis=0)
        means = {name: mean_of(series) for name, series in seconds.items()}
        last = max(self.windows // 4, 8)
        segment = Segment(
            split, self.windows, float(windows.mean()),
            {name: mean for name, (mean, _) in means.items()},
            {name: error for name, (_, error) in means.items()},
            {name: float(np.median(series[-last:])) for name, series in seconds.items()},
            self.border,
        )  # fmt: skip
        return segment, float(windows.sum())

    def total(self, splits: Sequence[Split]) -> float:
        """Wall time of the chain with these splits, a border where they change."""
        seconds = sum(self.segment(number, split)[1] for number, split in enumerate(splits))
        return seconds + self.border * changes(splits)

    def best(self, number: int) -> Split:
        """Find the best split of a segment for who knows the laws and the loads."""
        ranks = np.arange(1, self.budget + 1, dtype=np.float64)
        loads = self.loads_of(number)
        times = {name: float(loads[name].mean()) * law(ranks) for name, law in self.laws.items()}
        return dict(optimize_split(times, self.budget, coupling=self.schedule).split)

    def true_window(self, number: int, split: Split) -> float:
        """Seconds per window of a split by the laws and mean loads of a segment."""
        loads = self.loads_of(number)
        return max(float(loads[n].mean()) * float(law(np.array([float(split[n])]))[0]) for n, law in self.laws.items())

    def clairvoyant(self) -> list[Split]:
        """Give the splits of least time for who knows the laws and loads of all segments, borders included."""
        splits = [dict(items) for items in {tuple(self.best(number).items()) for number in range(self.segments)}]
        cost = self.border * (1 - np.eye(len(splits)))
        total, came = np.zeros(len(splits)), []
        for number in range(self.segments):
            came.append(np.argmin(total[:, None] + cost, axis=0))
            windows = np.array([self.true_window(number, split) for split in splits])
            total = np.min(total[:, None] + cost, axis=0) + self.windows * windows
        chosen = [int(np.argmin(total))]
        for before in came[:0:-1]:
            chosen.append(int(before[chosen[-1]]))
        return [splits[place] for place in reversed(chosen)]


KINDS = ("start", "learn", "move", "undo", "stay")


def chain_of(
    splits: Sequence[Mapping[str, int]],
    *,
    windows: int = 10,
    total: int | None = None,
    following: Mapping[str, int] | None = None,
    problem: str | None = None,
) -> ChainDocument:
    """Make a chain with a segment for each split, whose participants cost 1 s over their ranks, and more by place."""
    segments: list[Segment] = []
    for place, split in enumerate(splits):
        seconds = {name: (1.0 + order) / ranks for order, (name, ranks) in enumerate(split.items())}
        window = max(seconds.values())
        moved = segments and split != segments[-1].split
        segments.append(
            Segment(
                split=dict(split),
                windows=windows,
                window_seconds=window,
                seconds=seconds,
                wait_share={name: 1.0 - value / window for name, value in seconds.items()},
                border_seconds=4.0,
                segment=place + 1,
                run=f"{place + 1:03d}",
                start_window=place * windows,
                kind=KINDS[1 + place % 3] if moved else "stay" if place else "start",  # type: ignore[arg-type]
                decision=f"decision {place + 1}: {window:.3g} s",
            )
        )
    done = len(segments) * windows
    entry = None if following is None else Decision(dict(following), "move", "moves since it pays within 20 windows")
    return ChainDocument("study.toml", done + windows if total is None else total, done, segments, entry, problem)
