"""Coupled runs with planted seconds for the tests of `compare` and of summaries: as stores, and in memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from coupled_runs import coupled_run
from numpy.typing import ArrayLike
from store_helpers import START, write_coupled

from precice_lb.dataset import CoupledRun

HOUR = 3600 * 10**9
"""In nanoseconds."""
SLOW_FROM = 7
"""The first run of `write_production` whose B is slower."""


def run_of(
    name: str,
    compute: Mapping[str, ArrayLike],
    *,
    hour: int = 0,
    windows: int = 13,
    iterations: float = 1.0,
    ranks: Mapping[str, int] | None = None,
    **metadata: Any,
) -> CoupledRun:
    """Make a run of A and B under a parallel coupling, of which the first window is warm-up.

    In each window the faster participant waits for the slower one, so that the window takes as long as the slower one
    computes.

    Parameters
    ----------
    name : str
        Name of the run.
    compute : dict of str to float or array of shape (windows,)
        Compute seconds per coupling iteration of A and B.
    hour : int
        When the run started.
    windows : int
        Number of time windows.
    iterations : float
        Coupling iterations of each window.
    ranks : dict of str to int, optional
        Ranks of A and B; by default one each.
    metadata
        Further metadata of both participants.

    Returns
    -------
    CoupledRun
    """
    series = {who: np.broadcast_to(np.asarray(seconds, dtype=float), windows) for who, seconds in compute.items()}
    run = coupled_run(name, ranks or {"A": 1, "B": 1}, series, np.full(windows, iterations), serial=False)
    for part in run.participants.values():
        part.metadata.update({"started_unix_ns": START + hour * HOUR, **metadata})
    return run


def sequence(window_seconds: ArrayLike) -> list[CoupledRun]:
    """Make runs that start one hour after the other; windows of a run all take the given seconds, shape (runs,)."""
    runs = []
    for hour, seconds in enumerate(np.asarray(window_seconds, dtype=float)):
        runs.append(run_of(f"run-{hour}", {"A": seconds, "B": 0.5 * seconds}, hour=hour, windows=3))
    return runs


def write_pair(before: Path, after: Path, changes: Mapping[str, tuple[Any, Any]]) -> None:
    """Write one run each that differ in some metadata alone, by key: the values before and after."""
    for side, directory in enumerate((before, after)):
        metadata = {key: values[side] for key, values in changes.items()}
        write_coupled(directory, {"A": [0.1] * 4, "B": [0.2] * 4}, run=directory.name, **metadata)


def write_production(directory: Path, runs: int, factor: float = 1.2, seed: int = 0) -> None:
    """Write runs of A and B that differ by 1 %; from `SLOW_FROM` on B's compute time is greater by a factor."""
    generator = np.random.default_rng(seed)
    for number in range(runs):
        is_changed = number >= SLOW_FROM
        level_of_run = 0.01 * generator.standard_normal()
        noise = np.exp(level_of_run + 0.02 * generator.standard_normal((2, 12)))
        costs = {"A": 0.6 * noise[0], "B": 0.8 * (factor if is_changed else 1.0) * noise[1]}
        write_coupled(
            # In another order than they started.
            directory / f"{-number % 5}-{number}",
            costs,
            run=f"run-{number}",
            started_unix_ns=START + number * HOUR,
            precice_version="3.2.0" if is_changed else "3.1.2",
        )
