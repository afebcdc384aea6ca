"""How often `recommend` calls a right model wrong, and a wrong one right, on the pairs of the regret benchmark.

    python benchmarks/gate.py --pairs 67 --families known

A case is a pair of solvers of one family, read once with noise at 3, 5 or 7 rank counts. An alarm is a case in which
the gate takes another basis than the wanted learner: a false one for a known family, a right one for a family that no
smooth curve fits (`--families wrong`) where the learner alone would cost more than 5 %. For each family: alarms, those
cases and the alarms in them, and the mean regret of the learner alone and with the gate.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from regret_parts.decide import LEAST, Split, bounds_of, choose, equal, regret
from regret_parts.readings import DESIGNS, Pair, draw_pair, read
from regret_parts.simulate import SETS

from precice_lb.exceptions import PreciceLBError
from precice_lb.models import DEFAULT_LEARNER, make_learner
from precice_lb.recommend import Recommendation, recommend_split
from precice_lb.recommend.case import learner_name

__all__ = ["judged", "main"]

NAMES = ("First", "Second")
# As many curves as recommend_split draws.
DRAWS = 512
# A regret above this should be noticed.
COSTLY = 0.05


def judged(pair: Pair, points: int, noise: float, budget: int) -> tuple[Recommendation | None, bool]:
    """Recommend for a pair, and say whether the gate refused what the default learner gave."""
    ranks, seconds = read(pair, points, noise)
    samples = {name: np.column_stack([ranks, row]) for name, row in zip(NAMES, seconds, strict=True)}
    try:
        found = recommend_split(samples, budget, minimum_ranks=LEAST)
    except PreciceLBError:
        return None, True
    return found, found.basis != "model" or any(learner_name(m) != DEFAULT_LEARNER for m in found.models.values())


def main(argv: Sequence[str] | None = None) -> None:
    """Print alarms by family and budget."""
    parser = argparse.ArgumentParser(description="Alarms of the gate on random pairs of solvers.")
    parser.add_argument("--pairs", type=int, default=67, help="pairs of solvers per family")
    parser.add_argument("--points", type=int, choices=DESIGNS, default=5, help="readings per solver")
    parser.add_argument("--noise", type=float, default=0.05, help="relative standard deviation")
    parser.add_argument("--budgets", type=int, nargs="+", default=[128, 512], help="ranks in all")
    parser.add_argument("--families", choices=SETS, default="known")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    for budget in options.budgets:
        for family in SETS[options.families]:
            alarms, alone, lost = [], [], []
            for index in range(options.pairs):
                pair = draw_pair(family, options.seed, index)
                found, alarm = judged(pair, options.points, options.noise, budget)
                alarms.append(alarm)
                alone.append(_alone(pair, options.points, options.noise, budget))
                split = equal(budget) if found is None else Split((found.split[NAMES[0]], found.split[NAMES[1]]))
                lost.append(regret(pair.solvers, split, budget, bounds_of(budget)))
            costly = np.array(alone) > COSTLY
            print(
                f"P = {budget:5}  {family.name:12}  {sum(alarms)} alarms in {options.pairs}, {np.sum(costly)} costly, "
                f"{np.sum(np.array(alarms) & costly)} alarms in these; mean regret alone {100 * np.mean(alone):.2f} %, "
                f"with the gate {100 * np.mean(lost):.2f} %",
                flush=True,
            )


def _alone(pair: Pair, points: int, noise: float, budget: int) -> float:
    """Regret of the default learner without the gate."""
    ranks, seconds = read(pair, points, noise)
    at = np.arange(1, budget + 1, dtype=np.float64)
    first, second = (
        make_learner(DEFAULT_LEARNER).fit(ranks[:, None], row).draw(DRAWS, seed)(at) for seed, row in enumerate(seconds)
    )
    bounds = bounds_of(budget)
    return regret(pair.solvers, choose(first, second, budget, bounds) or equal(budget), budget, bounds)


if __name__ == "__main__":
    main()
