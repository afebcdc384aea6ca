"""Level 1 of partner ranks at scale: seconds and peak memory over the number of ranks.

    python benchmarks/partners_scale.py [--ranks 1000 10000 24576 100000 1000000] [--json FILE]

A wavy surface is cut into patches, with other cuts on either side, and every patch is a rank's bounding box. Beside it
stand all pairs, as far as they go within a minute.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.partners import connected_ranks

ALL_PAIRS = 30_000


def surface(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Lift points of the unit square on a wavy surface."""
    height = 0.2 * np.sin(4 * points[:, 0]) * np.cos(3 * points[:, 1])
    return np.column_stack([points, height])


def patches(ranks: int, seed: int) -> NDArray[np.float64]:
    """Boxes of ranks that share a surface in rows of unequal patches; shape (ranks, 3, 2)."""
    generator = np.random.default_rng(seed)
    rows = max(round(ranks**0.5), 1)
    counts = np.full(rows, ranks // rows)
    counts[: ranks % rows] += 1
    edges = np.linspace(0, 1, rows + 1)
    boxes = []
    for row, count in enumerate(counts):
        cuts = np.concatenate([[0], np.cumsum(generator.uniform(0.7, 1.3, count))])
        cuts /= cuts[-1]
        box = np.empty((count, 3, 2))
        box[:, 0] = np.column_stack([cuts[:-1], cuts[1:]])
        box[:, 1] = edges[row : row + 2]
        corners = np.stack([surface(np.column_stack([x, np.full(count, y)]))[:, 2]
                            for x in box[:, 0].T for y in edges[row : row + 2]])  # fmt: skip
        box[:, 2, 0], box[:, 2, 1] = corners.min(axis=0), corners.max(axis=0)
        boxes.append(box)
    return np.concatenate(boxes)


def all_pairs(provider: NDArray[np.float64], receiver: NDArray[np.float64], factor: float) -> int:
    """Count overlapping pairs as preCICE's primary rank would: every box with every other."""
    margin = factor * (receiver[:, :, 1] - receiver[:, :, 0]).max(axis=1, keepdims=True)
    low, high = receiver[:, :, 0] - margin, receiver[:, :, 1] + margin
    return sum(int(((box[:, 0] <= high) & (low <= box[:, 1])).all(axis=1).sum()) for box in provider)


def measure_level_1(ranks: int) -> dict[str, Any]:
    """Time one number of ranks on either side."""
    provider, receiver = patches(ranks, 1), patches(ranks, 2)
    begin = time.perf_counter()
    pairs = connected_ranks(provider, receiver)
    seconds = time.perf_counter() - begin
    result = {"ranks": ranks, "pairs": len(pairs), "seconds": seconds, "gib": peak_gib()}
    if ranks <= ALL_PAIRS:
        begin = time.perf_counter()
        if all_pairs(provider, receiver, 0.5) != len(pairs):
            raise SystemExit("all pairs disagree")
        result["all_pairs_seconds"] = time.perf_counter() - begin
    return result


def peak_gib() -> float:
    """Peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> int:
    """Measure each size in a process of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, nargs="+", default=[1000, 10_000, 24_576, 100_000, 1_000_000])
    parser.add_argument("--one", type=int)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure_level_1(arguments.one)))
        return 0
    rows = []
    for ranks in arguments.ranks:
        done = subprocess.run(
            [sys.executable, __file__, "--one", str(ranks)], capture_output=True, text=True, check=True
        )
        rows.append(json.loads(done.stdout))
        print(rows[-1], flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
