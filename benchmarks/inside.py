"""Equal volumes against equal cost, on the three kinds of domains of Oskooi et al. (section 3), emulated.

    python benchmarks/inside.py [--resolution 48] [--ranks 16 24 32 48 64] [--noise 0.01] [--json FILE]

A domain is a box of cells, periodic in x and y, with layers in z: an organic light-emitting diode with a textured metal
cathode, a CMOS image sensor with pillars of silicon, a tandem solar cell with two gratings. Cells are dispersive, have
Fourier monitors, or are in absorbing layers; what that costs is stated below. The costs that partitions use are not
those, but the ones that `fit_costs` finds from emulated runs of the three domains at half the resolution on a few
ranks, cut into equal volumes, with noise. A window takes the slowest rank's cells by the true costs and its faces to
other ranks.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.inside import Cells, FeatureCosts, RankLoad, fit_costs
from precice_lb.inside.mesh import bisection

FEATURES = ("cells", "dispersive", "monitor", "absorber")
SECONDS = np.array([1.0, 1.5, 8.0, 0.5]) * 1e-7
"""Of a plain cell per time step, and what each feature adds to it: a monitor sums some twenty frequencies."""
FACE = 0.5e-7
"""Seconds of a face between two ranks, for either."""
SMALL_RANKS = (4, 6, 8)


def box(resolution: int, height: float) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Centres of cells of a box of 1 x 1 x height, and pairs of neighbours; periodic in x and y."""
    shape = (resolution, resolution, round(resolution * height))
    centres = (np.indices(shape).reshape(3, -1).T + 0.5) / resolution
    number = np.arange(len(centres)).reshape(shape)
    pairs = [np.column_stack([number.ravel(), np.roll(number, -1, axis).ravel()]) for axis in (0, 1)]
    pairs.append(np.column_stack([number[:, :, :-1].ravel(), number[:, :, 1:].ravel()]))
    return centres, np.concatenate(pairs)


@dataclass(frozen=True, eq=False)
class Domain(Cells):
    """Cells with pairs of neighbours, shape (pairs, 2)."""

    pairs: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 2), np.int64))


def domain(centres: NDArray[np.float64], pairs: NDArray[np.int64], **features: NDArray[np.bool_]) -> Domain:
    """Cells with features that are there or not."""
    columns = [features.get(name, np.ones(len(centres), dtype=bool)) for name in FEATURES]
    return Domain(centres, FEATURES, np.column_stack(columns).astype(float), pairs=pairs)


def counts_of(cells: Cells, rank_of: NDArray[np.int64], ranks: int) -> NDArray[np.float64]:
    """Count what each rank holds, shape (ranks, features)."""
    return np.column_stack([np.bincount(rank_of, column, ranks) for column in cells.counts.T])


def oled(resolution: int) -> Domain:
    """Metal cathode with a lattice of scatterers at the bottom, monitors beside the emitters and in the glass."""
    centres, pairs = box(resolution, 1.5)
    x, y, z = centres.T
    scatterer = (abs(x % 0.5 - 0.25) < 0.1) & (abs(y % 0.5 - 0.25) < 0.1)
    metal = (z > 0.2) & (z < 0.35) | scatterer & (z > 0.35) & (z < 0.45)
    monitor = np.any([abs(z - place) < 0.02 for place in (0.5, 0.6, 1.2)], axis=0)
    return domain(centres, pairs, dispersive=metal, monitor=monitor, absorber=(z < 0.15) | (z > 1.35))


def cmos(resolution: int) -> Domain:
    """Lenses over silicon with pillars, an absorber in the silicon, monitors across the photodiode of one pixel."""
    centres, pairs = box(resolution, 2.0)
    x, y, z = centres.T
    pillar = (abs(x % 0.25 - 0.125) < 0.07) & (abs(y % 0.25 - 0.125) < 0.07)
    silicon = (z < 0.9) | pillar & (z < 1.05)
    pixel = (x > 0.25) & (x < 0.75) & (y > 0.25) & (y < 0.75)
    monitor = pixel & (abs(z % 0.2 - 0.1) < 0.02) & (z > 0.2) & (z < 0.9) | (abs(z - 1.6) < 0.02)
    return domain(centres, pairs, dispersive=silicon, monitor=monitor, absorber=(z < 0.15) | (z > 1.85))


def tandem(resolution: int) -> Domain:
    """Two dispersive films with gratings on a metal reflector, monitors at each boundary of a film."""
    centres, pairs = box(resolution, 1.5)
    x, y, z = centres.T
    grating = 0.04 * np.sign(np.sin(4 * np.pi * x)) * np.sign(np.sin(4 * np.pi * y))
    metal, lower, upper = z < 0.3 + grating, abs(z - 0.5) < 0.12 + grating, abs(z - 0.8) < 0.06 + grating
    monitor = np.any([abs(z - place) < 0.02 for place in (0.35, 0.65, 0.72, 0.9)], axis=0)
    return domain(centres, pairs, dispersive=metal | lower | upper, monitor=monitor, absorber=z > 1.3)


DOMAINS: dict[str, Callable[[int], Domain]] = {"OLED": oled, "CMOS sensor": cmos, "tandem solar cell": tandem}


def learned_costs(coarse: Sequence[Domain], noise: float, generator: np.random.Generator) -> FeatureCosts:
    """Fit costs to emulated runs of small domains, cut into equal volumes."""
    loads = []
    for cells, ranks in itertools.product(coarse, SMALL_RANKS):
        counts = counts_of(cells, bisection(cells.centres, np.ones(len(cells.centres)), ranks), ranks)
        busy = counts @ SECONDS * generator.normal(1, noise, ranks)
        loads.append(RankLoad(str(ranks), FEATURES, counts, busy))
    costs = fit_costs(loads)
    if costs.problem:
        raise SystemExit(f"the costs cannot be used: {costs.problem}")
    return costs


def window(cells: Domain, rank_of: NDArray[np.int64], ranks: int) -> tuple[float, float, float]:
    """Seconds of the slowest rank with its faces; imbalance (max - min)/max of the cells' seconds; share of faces."""
    busy = counts_of(cells, rank_of, ranks) @ SECONDS
    sides = rank_of[cells.pairs]
    apart = sides[sides[:, 0] != sides[:, 1]]
    faces = FACE * np.bincount(apart.ravel(), minlength=ranks)
    whole = busy + faces
    return float(whole.max()), float(np.ptp(busy) / busy.max()), float(faces[np.argmax(whole)] / whole.max())


def compare(resolution: int, ranks: Sequence[int], noise: float, seed: int = 0) -> list[dict[str, Any]]:
    """Partition each domain for each number of ranks by equal volumes and by learned costs."""
    rows = []
    generator = np.random.default_rng(seed)
    costs = learned_costs([make(resolution // 2) for make in DOMAINS.values()], noise, generator)
    error = float(np.abs(costs.seconds / SECONDS - 1).max())
    for name, make in DOMAINS.items():
        cells = make(resolution)
        for count in ranks:
            ways = {"equal": np.ones(len(cells.centres)), "by cost": cells.counts @ costs.seconds}
            row: dict[str, Any] = {"domain": name, "ranks": count, "cost_error": error}
            row |= {
                way: window(cells, bisection(cells.centres, weights, count), count) for way, weights in ways.items()
            }
            rows.append(row)
    return rows


def main() -> None:
    """Print a table, and write it as JSON where asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--resolution", type=int, default=48)
    parser.add_argument("--ranks", type=int, nargs="+", default=[16, 24, 32, 48, 64])
    parser.add_argument("--noise", type=float, default=0.01)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = compare(arguments.resolution, arguments.ranks, arguments.noise)
    print("| domain | ranks | equal volumes: imbalance, ms | equal cost: imbalance, ms, faces, faster |")
    print("|---|---|---|---|")
    for row in rows:
        (equal, uneven_before, _), (seconds, uneven, faces) = row["equal"], row["by cost"]
        before, after = f"{uneven_before:.0%}, {1e3 * equal:.2f}", f"{uneven:.1%}, {1e3 * seconds:.2f}, {faces:.0%}"
        print(f"| {row['domain']} | {row['ranks']} | {before} | {after}, {1 - seconds / equal:.0%} |")
    print(f"learned costs are within {rows[0]['cost_error']:.1%} of the true ones")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
