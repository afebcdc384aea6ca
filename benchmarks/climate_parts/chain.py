"""Ten bad starts, and what becomes of them: our chain of jobs beside the optimiser that moves ranks at run time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from climate_parts.coupling import NAMES
from climate_parts.kim import Optimiser, predict_automatic, predict_manual
from climate_parts.run import Measured, run_split
from climate_parts.study import predictor_of, true_day
from precice_lb.chain.decide import Question, decide
from precice_lb.chain.document import Segment
from precice_lb.dataset.series import mean_of

__all__ = ["CONTESTANTS", "SEGMENTS", "STARTS", "Ended", "Settings", "chain_of", "kim_of", "run_contestant"]

Split = dict[str, int]

CONTESTANTS = CHAIN, AUTOMATIC, MANUAL = "chain", "their optimiser", "their manual rule"
# Of a chain that is looked at.
SEGMENTS = 5

# Kim, Larson and Chiu (2013), section VI: INIT1 to INIT5. Their INIT1 has a rank or two more than there are; the last
# constituents do without these here.
STARTS = {
    124: ((25, 25, 25, 25, 24), (6, 72, 30, 6, 10), (6, 24, 78, 6, 10), (6, 24, 30, 54, 10), (6, 24, 30, 6, 58)),
    208: (
        (42, 42, 42, 41, 41), (10, 118, 50, 10, 20), (10, 40, 128, 10, 20), (10, 40, 50, 88, 20), (10, 40, 50, 10, 98),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """A chain of a year in segments of a month; what runs, and days, differ by; seconds of a border."""

    segments: int = 12
    days: int = 30
    between: float = 0.02
    within: float = 0.02
    border: float = 60.0


@dataclass(frozen=True)
class Ended:
    """Splits in order, one for each decision and the last; the days until then; changes, and how many were undone."""

    splits: list[Split]
    days: int
    moves: int
    undone: int

    @property
    def ranks(self) -> int:
        """In all."""
        return sum(self.splits[0].values())

    @property
    def seconds(self) -> list[float]:
        """Seconds per day by the law."""
        return [true_day(split) for split in self.splits]


def measured(split: Mapping[str, int], days: int, settings: Settings, rng: np.random.Generator) -> Measured:
    """Run some days after a first one, which does not count, on the emulated clock with noise."""
    factors = {}
    for name in NAMES:
        run = np.exp(settings.between * rng.standard_normal())
        factors[name] = (run * (1 + settings.within * rng.standard_normal(days + 1))).clip(0.1).tolist()
    return run_split(split, scale=1.0, days=days + 1, emulated=True, factors=factors)


def chain_of(start: Sequence[int], count: int, settings: Settings, seed: int) -> tuple[Ended, list[str]]:
    """Let `precice_lb.chain.decide` go through some segments, without anything known beforehand; with its lines."""
    split, budget = dict(zip(NAMES, start, strict=True)), sum(start)
    segments: list[Segment] = []
    splits, lines, undone = [split], [], 0
    for at in range(count):
        run = measured(split, settings.days, settings, np.random.default_rng([seed, at]))
        means = {name: mean_of(each) for name, each in run.computed.items()}
        latest = {name: float(np.median(each[-settings.days // 4 :])) for name, each in run.computed.items()}
        seconds, errors = ({name: pair[which] for name, pair in means.items()} for which in (0, 1))
        segments.append(Segment(split, settings.days, run.day, seconds, errors, latest, settings.border))
        if at == count - 1:
            break
        found = decide(
            segments,
            Question(
                predictor_of(run).schedule,
                budget,
                dict.fromkeys(NAMES, 1),
                dict.fromkeys(NAMES, budget - len(NAMES) + 1),
                (settings.segments - at - 1) * settings.days,
                settings.days,
            ),
        )
        undone += found.kind == "undo"
        split = found.split
        splits.append(split)
        lines.append(found.decision)
    moves = sum(one != other for one, other in pairwise(splits))
    return Ended(splits, (count - 1) * settings.days, moves, undone), lines


def kim_of(start: Sequence[int], kind: str, settings: Settings, seed: int, most: int = 200) -> Ended:
    """Let their optimiser move ranks until it has converged; two cycles for each of its decisions."""
    split = dict(zip(NAMES, start, strict=True))
    optimiser = Optimiser(split, {AUTOMATIC: predict_automatic, MANUAL: predict_manual}[kind])
    splits = []
    while not optimiser.converged and len(splits) < most:
        # In the second of two cycles, as in theirs.
        run = measured(optimiser.split, 1, settings, np.random.default_rng([seed, len(splits)]))
        splits.append(dict(optimiser.split))
        optimiser.tell(run)
    return Ended([*splits, dict(optimiser.split)], 2 * len(splits), optimiser.moves, optimiser.undone)


def run_contestant(task: tuple[int, tuple[int, ...], str, int]) -> Ended:
    """Let one contestant go from a start; a chain has five segments."""
    _, start, kind, seed = task
    if kind == CHAIN:
        return chain_of(start, SEGMENTS, Settings(), seed)[0]
    return kim_of(start, kind, Settings(), seed)
