"""One pair of solvers, every contestant: what its splits cost, and whether its intervals hold."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from regret_parts.decide import LEAST, Score, Split, bounds_of, choose, decide, proportional, score
from regret_parts.families import Family
from regret_parts.oracle import Oracle
from regret_parts.readings import Pair, draw_pair, read

__all__ = ["Contest"]

Array = NDArray[np.float64]


class Contest:
    """Runs contestants on pairs.

    Parameters
    ----------
    contestants
        As of `regret_parts.decide.decide`; ``dof-proportional``; ``oracle``; ``-told`` behind a learner: with the
        standard errors of its readings, as recorded runs have them.
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
        self.bounds = [bounds_of(budget) for budget in budgets]
        self.seed = seed
        self.extrap = extrap
        self._oracles: dict[tuple[float, ...], Oracle] = {}

    def run(
        self, family: Family, points: int, noise: float, index: int, names: tuple[str, ...] | None = None
    ) -> dict[str, Score]:
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
        rng = np.random.default_rng([self.seed, family.number, index, 57])
        scores = {}
        for name in names or self.contestants:
            decision = partial(self._decide, name, pair, ranks, seconds, noise, rng)
            scores[name] = score(pair.solvers, self.budgets, self.bounds, decision)
        return scores

    def _decide(
        self, name: str, pair: Pair, ranks: Array, seconds: Array, noise: float, rng: np.random.Generator
    ) -> list[Split | None]:
        """Split each budget, where None refuses one."""
        if name == "dof-proportional":
            return [proportional(pair.unknowns, budget) for budget in self.budgets]
        if name == "oracle":
            oracle = self._oracle(ranks)
            first, second = (oracle.curves(row, noise, which == 1, rng) for which, row in enumerate(seconds))
            return [choose(first, second, *which) for which in zip(self.budgets, self.bounds, strict=True)]
        told = name.endswith("-told")
        return decide(
            name.removesuffix("-told"), ranks, seconds, self.budgets, self.bounds,
            block=self.block, errors=noise * seconds if told else None, extrap=self.extrap,
        )  # fmt: skip

    def _oracle(self, ranks: Array) -> Oracle:
        key = tuple(ranks)
        if key not in self._oracles:
            self._oracles[key] = Oracle(ranks, max(self.budgets) - LEAST, self.seed)
        return self._oracles[key]
