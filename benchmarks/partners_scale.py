"""Partner ranks at scale: level 1 over the number of ranks, level 2 and the forecast on a mesh of millions of vertices.

    python benchmarks/partners_scale.py [--ranks 1000 10000 24576 100000 1000000] [--json FILE]
    python benchmarks/partners_scale.py --level-2
    python benchmarks/partners_scale.py --projection
    python benchmarks/partners_scale.py --forecast

Level 1: a wavy surface is cut into patches, with other cuts on either side, and every patch is a rank's bounding box.
Beside it stand all pairs, as far as they go within a minute. Level 2 and forecast: the surface with as many vertices as
mesh M6 of Table 2.2 in Totounferoush 2022 (2,962,176 on 9,216 and 3,072 ranks), mapped by nearest neighbour, or 150,000
vertices with triangles on 620 and 210 ranks, mapped by nearest projection; the forecast knows that surface by
other vertices, on 78 and 26 ranks as mesh M1, and is compared with M6 partitioned for real.
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

from precice_lb.partners import Link, LinkMapping, PartitionedMesh, connected_ranks, make_mesh
from precice_lb.partners.level2 import needed_vertices
from precice_lb.partners.meshes import bisection, repartition

ALL_PAIRS = 30_000
FINE, FINE_RANKS = 2_962_176, (9216, 3072)
COARSE_RANKS = (78, 26)
PROJECTED, PROJECTED_RANKS = 150_000, (620, 210)


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


def make_case(vertices: int, ranks: tuple[int, int], seed: int) -> list[PartitionedMesh]:
    """Make provider and receiver: the same surface, other vertices, both cut by bisection."""
    meshes = []
    for number, (name, count) in enumerate(zip("AB", ranks, strict=True)):
        generator = np.random.default_rng([seed, number])
        side = int(vertices**0.5)
        grid = np.stack(np.meshgrid(np.arange(side), np.arange(side), indexing="ij"), -1).reshape(-1, 2)
        extra = generator.random((vertices - side**2, 2))
        points = surface(np.concatenate([(grid + generator.uniform(0.2, 0.8, grid.shape)) / side, extra]))
        meshes.append(make_mesh(f"{name}-Mesh", name, points, bisection(points, count), count))
    return meshes


def measure_level_2() -> dict[str, Any]:
    """Time level 2 of a nearest-neighbour mapping."""
    provider, receiver = make_case(FINE, FINE_RANKS, 1)
    mappings = (LinkMapping("nearest-neighbor", receiver.name),)
    link = Link(provider.name, "A", "B", 3, 0.5, True, False, True, False, mappings, ())
    begin = time.perf_counter(), time.process_time()
    pairs, vertices = needed_vertices(link, provider, {receiver.name: receiver}).pairs(provider)
    spent = {"seconds": time.perf_counter() - begin[0], "cpu_seconds": time.process_time() - begin[1]}
    return {
        "vertices": FINE,
        "ranks": FINE_RANKS,
        "pairs": len(pairs),
        "kept": int(vertices.sum()),
        "gib": peak_gib(),
    } | spent


def measure_projection() -> dict[str, Any]:
    """Time level 2 of a nearest-projection mapping from a triangulated surface, cut by bisection."""
    side = round(PROJECTED**0.5)
    corner = np.arange(side * side).reshape(side, side)
    a, b, c, d = (corner[i : side - 1 + i, j : side - 1 + j].ravel() for i in (0, 1) for j in (0, 1))
    triangles = np.concatenate([np.stack([a, c, b], axis=1), np.stack([c, d, b], axis=1)])
    meshes = []
    for number, (name, ranks) in enumerate(zip("AB", PROJECTED_RANKS, strict=True)):
        generator = np.random.default_rng(number)
        grid = np.stack(np.meshgrid(np.arange(side), np.arange(side), indexing="ij"), -1).reshape(-1, 2)
        points = surface((grid + generator.uniform(0.2, 0.8, grid.shape)) / side)
        rank_of = bisection(points, ranks)
        own = triangles[(rank_of[triangles] == rank_of[triangles[:, :1]]).all(axis=1)]
        meshes.append(make_mesh(f"{name}-Mesh", name, points, rank_of, ranks, cells={"triangles": own}))
    provider, receiver = meshes
    mappings = (LinkMapping("nearest-projection", receiver.name),)
    link = Link(provider.name, "A", "B", 3, 0.5, True, False, True, False, mappings, ())
    begin = time.perf_counter(), time.process_time()
    needs = needed_vertices(link, provider, {receiver.name: receiver})
    spent = {"seconds": time.perf_counter() - begin[0], "cpu_seconds": time.process_time() - begin[1]}
    return {"vertices": side * side, "kept": len(needs.vertices)} | spent


def measure_forecast(seed: int) -> dict[str, Any]:
    """Compare partners forecast from few ranks with those of a mesh, whose vertices the seed places."""
    truth = make_case(FINE, FINE_RANKS, seed)
    guess = [repartition(mesh, ranks) for mesh, ranks in zip(make_case(FINE, COARSE_RANKS, 2), FINE_RANKS, strict=True)]
    row: dict[str, Any] = {}
    pairs = [connected_ranks(provider.boxes, receiver.boxes) for provider, receiver in (truth, guess)]
    for side, name in enumerate(("provider", "receiver")):
        counts = [np.bincount(some[:, side], minlength=FINE_RANKS[side]) for some in pairs]
        for what, reduce in (("mean", np.mean), ("maximum", np.max)):
            real, forecast = (float(reduce(partners)) for partners in counts)
            row[f"{name} {what}"] = (round(real, 2), round(forecast, 2), f"{100 * (forecast / real - 1):+.1f} %")
    return row


def peak_gib() -> float:
    """Peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> int:
    """Measure each size in a process of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, nargs="+", default=[1000, 10_000, 24_576, 100_000, 1_000_000])
    parser.add_argument("--one", type=int)
    parser.add_argument("--level-2", action="store_true")
    parser.add_argument("--projection", action="store_true")
    parser.add_argument("--forecast", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure_level_1(arguments.one)))
        return 0
    if arguments.level_2:
        print(json.dumps(measure_level_2()))
        return 0
    if arguments.projection:
        print(json.dumps(measure_projection()))
        return 0
    if arguments.forecast:
        print(measure_forecast(arguments.seed))
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
