"""One pair of solvers, every contestant: the regret of each one's splits, and what its intervals cover."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import PreciceLBError
from precice_lb.models import make_learner
from precice_lb.models.bayes_likelihood import LEAST_NOISE
from regret_parts.decide import LEAST, choose, learned_curves, proportional, regret
from regret_parts.families import Family
from regret_parts.oracle import Oracle
from regret_parts.peers import ExtraP, line_in_logarithms
from regret_parts.readings import Pair, draw_pair, read

__all__ = ["LEVEL", "ZONES", "Contest", "Outcome", "merged"]

Array = NDArray[np.float64]

LEVEL = 0.8
#: Where intervals are checked: between the measured rank counts, and at twice and four times the last.
ZONES: dict[str, tuple[int, ...]] = {"in range": (11, 23, 45, 91), "2x": (256,), "4x": (512,)}
PLACES = np.array([place for places in ZONES.values() for place in places], dtype=np.float64)
# What a learner is told that knows the noise: standard errors of the readings, and next to nothing beside them.
TOLD = {"noise": LEAST_NOISE, "noise_scale": 0.05, "straggling": 0.0}


@dataclass
class Outcome:
    """What came of one pair.

    Attributes
    ----------
    regrets
        By contestant: shape (budgets,).
    covered
        By contestant that gives intervals: shape (2, places) of true and false.
    refused
        Contestants that offered no split; they got the equal one.
    seconds
        CPU seconds by contestant, for both fits and all budgets.
    """

    regrets: dict[str, Array] = field(default_factory=dict)
    covered: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    seconds: dict[str, float] = field(default_factory=dict)


def merged(parts: Iterable[Outcome]) -> Outcome:
    """Outcome of one pair out of those of different contestants."""
    whole = Outcome()
    for part in parts:
        whole.regrets |= part.regrets
        whole.covered |= part.covered
        whole.refused |= part.refused
        whole.seconds |= part.seconds
    return whole


class Contest:
    """Runs contestants on pairs.

    Parameters
    ----------
    contestants
        Names of learners; ``equal``, ``dof-proportional``, ``line``, ``oracle``; ``pmnf-raw`` is pmnf as published,
        without the guard of `precice_lb.models.valid_range`; ``bayes-told`` is bayes that is told the noise, as the
        oracle is; ``extra-p``.
    budgets
        Ranks in all.
    seed
        Of everything.
    extrap
        The Python that runs Extra-P.
    block
        Ranks are given out in blocks of so many: to a learner, solvers and budgets are those of so many times as many
        ranks. Who knows the families (the oracle) counts blocks.
    """

    def __init__(
        self, contestants: tuple[str, ...], budgets: tuple[int, ...], seed: int, extrap: str | None, block: int = 1
    ) -> None:
        self.block = block
        self.contestants = contestants
        self.budgets = budgets
        self.seed = seed
        self.highest = max(budgets) - LEAST
        self._oracles: dict[tuple[float, ...], Oracle] = {}
        self._extrap = ExtraP(extrap) if extrap is not None else None

    def run(
        self, family: Family, points: int, noise: float, index: int, names: tuple[str, ...] | None = None
    ) -> Outcome:
        """Let contestants decide for the pair of a family with this index.

        Parameters
        ----------
        family, index
            With the seed they determine the pair.
        points, noise
            As of `regret_parts.readings.read`.
        names
            Contestants, by default all.
        """
        pair = draw_pair(family, self.seed, index)
        ranks, seconds = read(pair, points, noise)
        outcome = Outcome()
        for name in names or self.contestants:
            start = time.process_time()
            choices = self._choices(name, pair, ranks, seconds, noise, (family.number, index), outcome)
            outcome.seconds[name] = time.process_time() - start
            if 0 in choices:
                outcome.refused.add(name)
            outcome.regrets[name] = np.array(
                [regret(pair, p, first or p // 2) for p, first in zip(self.budgets, choices, strict=True)]
            )
        return outcome

    def close(self) -> None:
        """End Extra-P's process."""
        if self._extrap is not None:
            self._extrap.close()

    def _choices(
        self,
        name: str,
        pair: Pair,
        ranks: Array,
        seconds: Array,
        noise: float,
        numbers: tuple[int, int],
        outcome: Outcome,
    ) -> list[int]:
        """Ranks of the first solver for each budget, 0 where the contestant refuses."""
        if name == "equal":
            return [p // 2 for p in self.budgets]
        if name == "dof-proportional":
            return [proportional(pair.unknowns, p) for p in self.budgets]
        rng = np.random.default_rng([self.seed, *numbers, 57])
        curves: list[Array] = []
        covered = []
        for which in (0, 1):
            if name == "oracle":
                drawn = self._oracle(ranks).curves(seconds[which], noise, which == 1, rng)
                bounds = np.quantile(drawn[:, PLACES.astype(int) - 1], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
                curves.append(drawn)
            elif name == "line":
                curves.append(line_in_logarithms(ranks, seconds[which])(np.arange(1.0, self.highest + 1)))
                continue
            elif name == "extra-p":
                if self._extrap is None:
                    raise ValueError("extra-p needs the Python of an environment that has extrap 4.2.5")
                predicted = self._extrap.curve(self.block * ranks, seconds[which], self.block * self.highest)
                predicted = predicted[:, self.block - 1 :: self.block]
                curves.append(np.where(np.isfinite(predicted), predicted, np.inf))
                continue
            else:
                learned = self._learn(name, ranks, seconds[which], noise, (*numbers, which))
                if learned is None:
                    return [0] * len(self.budgets)
                curves.append(learned[0])
                bounds = learned[1]
            if bounds is not None:
                truth = pair.solvers[which](PLACES)
                covered.append((truth >= bounds[0]) & (truth <= bounds[1]))
        if len(covered) == 2:
            outcome.covered[name] = np.array(covered)
        return [choose((curves[0], curves[1]), p) for p in self.budgets]

    def _learn(
        self, name: str, ranks: Array, seconds: Array, noise: float, seed: tuple[int, ...]
    ) -> tuple[Array, Array | None] | None:
        """Curves and bounds of intervals of a learner; None if it refuses the readings."""
        told = name.endswith("-told")
        model = make_learner(name.removesuffix("-raw").removesuffix("-told"), **(TOLD if told else {}))
        with warnings.catch_warnings():
            # A network that has not converged is this contestant's trouble, and shows in its regret.
            warnings.simplefilter("ignore")
            try:
                model.fit(self.block * ranks[:, None], seconds, noise * seconds if told else None)
            except PreciceLBError:
                return None
            if name.endswith("-raw"):
                at = self.block * np.arange(1, self.highest + 1, dtype=np.float64)
                predicted = model.predict(at[:, None])[None]
                return np.where(np.isfinite(predicted), predicted, np.inf), None
            curves = learned_curves(model, ranks, self.highest, (self.seed, *seed), self.block)
            return curves, np.asarray(model.predict_interval(self.block * PLACES[:, None], LEVEL))

    def _oracle(self, ranks: Array) -> Oracle:
        key = tuple(ranks)
        if key not in self._oracles:
            self._oracles[key] = Oracle(ranks, max(self.highest, int(PLACES.max())), self.seed)
        return self._oracles[key]
