"""How far the factorised model is off beyond its data, on the three kinds of domains of Oskooi et al. (section 4).

    python benchmarks/inside_claim.py [--training 40] [--noise 0.03] [--seeds 20]

Random domains at a low resolution on few ranks train it; the domains of `benchmarks/inside.py`, of which none is among
them, at a higher resolution on up to four times as many ranks are predicted. All are partitioned by cost. Seconds are
emulated, and know more than the model: cells are dearer on ranks whose part does not fit into the cache, each message
has a latency, and there is noise.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from inside import DOMAINS, FACE, FEATURES, SECONDS, Domain, box, counts_of, domain
from numpy.typing import NDArray

from precice_lb.inside import FeatureCosts
from precice_lb.inside.mesh import bisection
from precice_lb.models import make_learner

CACHE = 3000.0
"""Cells whose fields fit into a rank's cache; elsewhere cells take up to half as long again."""
LATENCY = 1e-5
"""Seconds of a message to a neighbouring rank per time step."""
TRAINING_RANKS = (4, 6, 8, 12, 16)
RANKS = (16, 24, 32, 48, 64)
COSTS = FeatureCosts(FEATURES, SECONDS, np.zeros(len(FEATURES)))
HOW = {
    "seconds alone": (),
    "and fractions": ("fractions",),
    "and communication": ("fractions", "communication"),
    "network, seconds and fractions": ("fractions", "network"),
}


def random_domain(generator: np.random.Generator) -> Domain:
    """Three regions along z, silicon, monitor and neither, with absorbing layers, at 12 to 20 cells a side."""
    height = generator.uniform(1.0, 2.0)
    centres, pairs = box(int(generator.integers(12, 21)), height)
    z = centres[:, 2] / height
    first, second = np.sort(generator.uniform(0.0, 0.9, 2))
    order = generator.permutation(3)
    region = np.digitize(z, [first, second])
    monitor = (region == order[1]) & (z < z[region == order[1]].min(initial=1.0) + generator.uniform(0.0, 0.25))
    layer = generator.uniform(0.05, 0.25)
    return domain(
        centres, pairs, dispersive=region == order[0], monitor=monitor, absorber=(z < layer) | (z > 1 - layer)
    )


def emulate(cells: Domain, ranks: int, noise: float, generator: np.random.Generator) -> tuple[list[float], list[float]]:
    """Run a domain: ranks, cells and fractions; seconds, and those of the slowest rank's communication."""
    rank_of = bisection(cells.centres, cells.counts @ COSTS.seconds, ranks)
    counts = counts_of(cells, rank_of, ranks)
    busy = counts @ SECONDS * (1.5 - 0.5 / (1.0 + counts[:, 0] / CACHE))
    sides = rank_of[cells.pairs]
    apart = sides[sides[:, 0] != sides[:, 1]]
    faces = np.bincount(apart.ravel(), minlength=ranks)
    met = np.unique(np.sort(apart, axis=1), axis=0)
    sent = FACE * faces + LATENCY * np.bincount(met.ravel(), minlength=ranks)
    slowest = int(np.argmax(busy + sent))
    factors = generator.lognormal(0.0, noise, 2)
    known = [float(ranks), float(len(rank_of)), *cells.counts[:, 1:].mean(axis=0).tolist()]
    spent = float(sent[slowest] * factors[1])
    return known, [float(busy[slowest] * factors[0]) + spent, spent]


def ratios(
    training: tuple[NDArray[np.float64], NDArray[np.float64]],
    test: tuple[NDArray[np.float64], NDArray[np.float64]],
    told: Sequence[str],
) -> NDArray[np.float64]:
    """Predicted over true seconds at the test's rows, of a model that is told some of what is known."""
    columns = slice(None) if "fractions" in told else slice(0, 2)
    (points, seconds), (asked, truth) = training, test
    if "network" in told:
        made = make_learner("neural").fit(points[:, columns], seconds[:, 0])
        return made.predict(asked[:, columns]) / truth[:, 0]
    learner = make_learner("factorized", fraction_columns=(2, 3, 4) if "fractions" in told else ())
    known = {"communication": seconds[:, 1]} if "communication" in told else {}
    learner.fit(points[:, columns], seconds[:, 0], **known)
    return learner.predict(asked[:, columns]) / truth[:, 0]


def runs(
    domains: Sequence[Domain], ranks: Sequence[int], noise: float, generator: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Emulate each domain on each number of ranks."""
    pairs = [emulate(cells, count, noise, generator) for cells in domains for count in ranks]
    known, measured = zip(*pairs, strict=True)
    return np.array(known), np.array(measured)


def compare(
    training: int, noise: float, seed: int, resolution: int = 48, ways: Sequence[str] = tuple(HOW)
) -> dict[tuple[str, str], NDArray[np.float64]]:
    """Train on random domains; return predicted over true seconds of each way on each kind of domain."""
    generator = np.random.default_rng(seed)
    small = [
        runs([random_domain(generator)], [int(generator.choice(TRAINING_RANKS))], noise, generator)
        for _ in range(training)
    ]
    known = np.concatenate([each[0] for each in small]), np.concatenate([each[1] for each in small])
    found = {}
    for name, make in DOMAINS.items():
        test = runs([make(resolution)], RANKS, 0.0, generator)
        found |= {(way, name): ratios(known, test, HOW[way]) for way in ways}
    return found


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--training", type=int, default=40)
    parser.add_argument("--noise", type=float, default=0.03)
    parser.add_argument("--seeds", type=int, default=20)
    arguments = parser.parse_args()
    each = [compare(arguments.training, arguments.noise, seed) for seed in range(arguments.seeds)]
    print("| told | " + " | ".join(DOMAINS) + " | largest | within a factor of 2 |")
    print("|---|" + "---|" * (len(DOMAINS) + 2))
    for way in HOW:
        of_way = [np.concatenate([found[way, name] for found in each]) for name in DOMAINS]
        texts = [f"{np.abs(ratio - 1).mean():.1%} ± {np.abs(ratio - 1).std():.1%}" for ratio in of_way]
        together = np.concatenate(of_way)
        near = (np.abs(np.log2(together)) <= 1).mean()
        print(f"| {way} | " + " | ".join(texts) + f" | {np.abs(together - 1).max():.0%} | {near:.0%} |")


if __name__ == "__main__":
    main()
