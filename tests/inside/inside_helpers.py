"""Planted domains: what ranks hold, and how long that takes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from coupled_runs import coupled_run
from numpy.typing import NDArray

from precice_lb.dataset import CoupledRun
from precice_lb.inside import RankLoad

FEATURES = ("cells", "porous", "monitor")
SECONDS = np.array([1e-6, 4e-6, 2.5e-6])


def planted(
    generator: np.random.Generator,
    sizes: Sequence[int],
    noise: float,
    *,
    seconds: NDArray[np.float64] = SECONDS,
    constant: float = 0.0,
) -> list[RankLoad]:
    """Runs of one domain on several numbers of ranks; about half of it has feature 2, some ranks much of feature 3."""
    loads = []
    for ranks in sizes:
        cells = 64_000 / ranks * generator.uniform(0.7, 1.3, ranks)
        shares = [generator.uniform(0, 1, ranks), np.clip(generator.gamma(0.5, 0.6, ranks), 0, 1)]
        counts = np.column_stack([cells, *(cells * share for share in shares)])
        busy = (counts @ seconds + constant) * (1 + noise * generator.standard_normal(ranks))
        loads.append(RankLoad(f"{ranks}-{len(loads)}", FEATURES, counts, busy))
    return loads


def only(loads: Sequence[RankLoad], *features: str) -> list[RankLoad]:
    """The same runs where only some features were counted."""
    places = [FEATURES.index(name) for name in features]
    return [RankLoad(load.run, features, load.counts[:, places], load.seconds) for load in loads]


def uneven_run(ranks: int, *, known: bool = True) -> CoupledRun:
    """A has 960 cells of fluid and 120 porous ones, half of these on its first rank; its ranks wait inside solve."""
    counts = {"fluid": np.full(ranks, 960 / ranks), "porous": np.r_[60.0, np.full(ranks - 1, 60 / (ranks - 1))]}
    work = 1e-3 * counts["fluid"] + 9e-3 * counts["porous"]
    slowest = np.full(12, work.max())
    whole = coupled_run(f"{ranks}", {"A": ranks, "B": 4}, {"A": slowest, "B": 0.3 * slowest}, np.ones(12), serial=False)
    part = replace(
        whole.participants["A"],
        rank_counts=counts,
        rank_solve=np.full(ranks, work.max()),
        rank_mpi=work.max() - work if known else np.full(ranks, np.nan),
    )
    return replace(whole, participants=whole.participants | {"A": part})


def grid(shape: Sequence[int]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Points and cells of a grid of unit squares or cubes, the last axis fastest."""
    sides = [size + 1 for size in shape]
    points = np.array(list(itertools.product(*map(range, sides))), dtype=float)
    number = np.arange(len(points)).reshape(sides)
    square = [(0, 0), (1, 0), (1, 1), (0, 1)]
    corners = square if len(shape) == 2 else [(*place, z) for z in (0, 1) for place in square]
    picks = [number[tuple(slice(o, o + n) for o, n in zip(place, shape, strict=True))].ravel() for place in corners]
    return points, np.column_stack(picks)


def write_grid(path: Path, shape: Sequence[int], **arrays: object) -> Path:
    """Write the file of a grid with arrays of its cells; skip the test where nothing writes it."""
    meshio = pytest.importorskip("meshio", reason="no meshio: install the extra meshio")
    points, cells = grid(shape)
    points = np.column_stack([points, np.zeros((len(points), 3 - len(shape)))])
    data = {name: [np.asarray(values)] for name, values in arrays.items()}
    meshio.Mesh(points, [("quad" if len(shape) == 2 else "hexahedron", cells)], cell_data=data).write(path)
    return path
