"""Chains whose truth is known: segments of simulated solvers, without any process.

A solver takes its law's seconds times the load of the window; runs differ by a factor of their own, windows by
autocorrelated noise. The same random numbers for whatever split a segment has.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from precice_lb.chain.decide import DecisionProblem, decide
from precice_lb.chain.document import Decision, Segment
from precice_lb.dataset.series import mean_of
from precice_lb.schedule import Schedule
from precice_lb.split import optimize_split

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
        low, high = dict.fromkeys(self.names, 1), dict.fromkeys(self.names, self.budget - len(self.names) + 1)
        return DecisionProblem(self.schedule, self.budget, low, high, left, self.windows, failed=self.failed)

    def run(self) -> Chain:
        """Run all segments, each at the split that was decided."""
        split = self.start
        for at in range(self.segments):
            if at:
                self.decisions.append(decide(self.done, self.question()))
                split = self.decisions[-1].split
            self.splits.append(split)
            self.done.append(self.segment(at, split)[0])
        return self

    def loads_of(self, at: int) -> dict[str, Array]:
        """Load of each window of a segment."""
        share = (at * self.windows + np.arange(self.windows) + 0.5) / (self.segments * self.windows)
        return {name: np.asarray(self.loads.get(name, steady)(share)) for name in self.names}

    def seconds(self, at: int, split: Split) -> dict[str, Array]:
        """Seconds of each window of a segment."""
        loads = self.loads_of(at)
        found = {}
        for which, name in enumerate(self.names):
            rng = np.random.default_rng([self.seed, at, which])
            run = np.exp(self.between * rng.standard_normal())
            free = rng.standard_normal(self.windows)
            noise = np.empty(self.windows)
            noise[0] = free[0]
            for k in range(1, self.windows):
                noise[k] = self.alike * noise[k - 1] + np.sqrt(1 - self.alike**2) * free[k]
            law = float(self.laws[name](np.array([float(split[name])]))[0])
            found[name] = law * loads[name] * run * (1 + self.within * noise)
        return found

    def segment(self, at: int, split: Split) -> tuple[Segment, float]:
        """Run a segment: what a chain knows of it, and its wall time without the border."""
        seconds = self.seconds(at, split)
        windows = np.max(list(seconds.values()), axis=0)
        means = {name: mean_of(each) for name, each in seconds.items()}
        last = max(self.windows // 4, 8)
        segment = Segment(
            split, self.windows, float(windows.mean()),
            {name: mean for name, (mean, _) in means.items()},
            {name: error for name, (_, error) in means.items()},
            {name: float(np.median(each[-last:])) for name, each in seconds.items()},
            self.border,
        )  # fmt: skip
        return segment, float(windows.sum())

    def total(self, splits: Sequence[Split]) -> float:
        """Wall time of the chain with these splits, a border where they change."""
        seconds = sum(self.segment(at, split)[1] for at, split in enumerate(splits))
        return seconds + self.border * changes(splits)

    def best(self, at: int) -> Split:
        """Find the best split of a segment for who knows the laws and the loads."""
        ranks = np.arange(1, self.budget + 1, dtype=np.float64)
        mean = {name: float(load.mean()) for name, load in self.loads_of(at).items()}
        times = {name: mean[name] * law(ranks) for name, law in self.laws.items()}
        return dict(optimize_split(times, self.budget, coupling=self.schedule).split)

    def clairvoyant(self) -> list[Split]:
        """Give the splits of least time for who knows the laws and loads of all segments, borders included."""
        splits = [dict(each) for each in {tuple(self.best(at).items()) for at in range(self.segments)}]
        cost = self.border * (1 - np.eye(len(splits)))
        total, came = np.zeros(len(splits)), []
        for at in range(self.segments):
            came.append(np.argmin(total[:, None] + cost, axis=0))
            windows = np.array([self.true_window(at, split) for split in splits])
            total = np.min(total[:, None] + cost, axis=0) + self.windows * windows
        where = int(np.argmin(total))
        chosen = [where]
        for before in came[:0:-1]:
            chosen.append(int(before[chosen[-1]]))
        return [splits[each] for each in chosen[::-1]]

    def true_window(self, at: int, split: Split) -> float:
        """Seconds per window of a split by the laws and mean loads of a segment."""
        mean = {name: float(load.mean()) for name, load in self.loads_of(at).items()}
        return max(mean[n] * float(law(np.array([float(split[n])]))[0]) for n, law in self.laws.items())
