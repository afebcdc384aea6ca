"""What cheap runs on small meshes tell about a mesh that never ran: errors and coverage of intervals.

    python benchmarks/mesh_sizes.py --seeds 6 --solvers 40

First, measurements planted like those of Schröder 2019, section 5.2 (see `regret_parts.levels`), with all runs of the
finest level held out: SMAPE of learners there, and how often their intervals hold a measurement (widened by its noise).
Second, random solvers that are not of the family of `bayes`, measured once with 3 % noise on three meshes at five rank
counts: how often its nominal 80 % intervals hold the true time of a mesh four times as large as the largest one, and of
the largest one itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from regret_parts.evaluate import evaluate
from regret_parts.levels import planted_levels

from precice_lb.models import make_learner

Array = NDArray[np.float64]

RANKS, ELEMENTS, TARGET = (8.0, 16.0, 32.0, 64.0, 128.0), (1e4, 4e4, 16e4), 64e4
UNSEEN = np.array([(ranks, TARGET) for ranks in (16.0, 64.0, 256.0, 512.0)])
SEEN = np.array([(ranks, ELEMENTS[-1]) for ranks in (12.0, 48.0, 256.0)])
NOISE, LEVEL = 0.03, 0.8
COLLECTIVES: tuple[Callable[[Array], Array], ...] = (
    np.log2,
    lambda p: np.log2(p) ** 2,
    np.sqrt,
    lambda p: p**0.7,
)


def random_solver(rng: np.random.Generator) -> Callable[[Array], Array]:
    """Elements of the fullest rank, their surface, a cache, a collective, and what is done once.

    The surface of n elements costs 10^U(-0.5, 1) n^(1/2 or 2/3) elements; parts of over 10^U(2, 4.5) elements run out
    of the cache, for up to 40 % more. Collectives, as log2 p, log2² p, p^0.5 or p^0.7, take 10^U(-2, -0.3) of the
    largest measured mesh's work at 128 ranks; what is done once, as a power of the elements up to 0.5, 10^U(-3, -1).
    """
    surface, power = 10 ** rng.uniform(-0.5, 1), rng.choice([1 / 2, 2 / 3])
    collective, share = COLLECTIVES[rng.integers(len(COLLECTIVES))], 10 ** rng.uniform(-2, -0.3)
    once_power, once = rng.uniform(0, 0.5), 10 ** rng.uniform(-3, -1)
    slower, fits = rng.uniform(0, 0.4), 10 ** rng.uniform(2, 4.5)

    def work(part: Array) -> Array:
        return 1e-4 * (part + surface * part**power) * (1 + slower / (1 + (fits / part) ** 2))

    unit = work(np.array([ELEMENTS[-1] / RANKS[-1]]))[0]

    def seconds(rows: Array) -> Array:
        ranks, elements = rows.T
        rise = share * collective(ranks) / collective(np.array([RANKS[-1]]))
        return np.asarray(
            work(np.ceil(elements / ranks)) + unit * (rise + once * (elements / ELEMENTS[-1]) ** once_power)
        )

    return seconds


def cover(solvers: int, seed: int) -> tuple[Array, Array]:
    """Whether intervals of `bayes` hold the truth at `UNSEEN` and at `SEEN`, shape (solvers, places) each."""
    rows = np.array([(ranks, elements) for elements in ELEMENTS for ranks in RANKS])
    inside: list[list[Array]] = [[], []]
    for index in range(solvers):
        rng = np.random.default_rng([seed, index])
        solver = random_solver(rng)
        model = make_learner("bayes").fit(rows, solver(rows) * np.exp(NOISE * rng.standard_normal(len(rows))))
        for places, found in zip((UNSEEN, SEEN), inside, strict=True):
            low, high = model.predict_interval(places, LEVEL)
            found.append((low <= solver(places)) & (solver(places) <= high))
    return np.array(inside[0]), np.array(inside[1])


def main(argv: Sequence[str] | None = None) -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description="Predictions for a mesh that never ran.")
    parser.add_argument("--seeds", type=int, default=6, help="plantings of mesh levels, with seeds 0, 1, …")
    parser.add_argument("--learners", nargs="+", default=["bayes", "neural", "factorized"])
    parser.add_argument("--solvers", type=int, default=40, help="random solvers")
    parser.add_argument("--seed", type=int, default=5, help="of the random solvers")
    options = parser.parse_args(argv)
    print("SMAPE in % of an unseen level / coverage of 80 % intervals in %, where the learner has them")
    for seed in range(options.seeds):
        X, y, _ = planted_levels(seed=seed)
        found = {name: evaluate(name, X, y, X[:, 1] == X[:, 1].max()) for name in options.learners}
        shares = {name: f" / {100 * each.coverage:.0f}" for name, each in found.items() if each.coverage >= 0}
        line = ", ".join(f"{name} {each.smape:.1f}{shares.get(name, '')}" for name, each in found.items())
        print(f"  seed {seed}: {line}", flush=True)
    for name, inside, places in zip(
        ("unseen", "seen"), cover(options.solvers, options.seed), (UNSEEN, SEEN), strict=True
    ):
        each = ", ".join(f"{100 * c:.0f} at {int(p)}" for c, p in zip(inside.mean(axis=0), places[:, 0], strict=True))
        print(f"coverage in %, {name} mesh, {options.solvers} solvers: {100 * inside.mean():.0f} ({each} ranks)")


if __name__ == "__main__":
    main()
