"""Runs with planted times, and what a check finds in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from store_helpers import START, write_coupled

from precice_lb.check import CheckResult, check_runs
from precice_lb.dataset import load_runs

Array = NDArray[np.float64]


def noisy(seed: int, windows: int, noise: float = 0.02, seconds: float = 1.0) -> Array:
    """Return the seconds of windows that differ by this relative standard deviation, shape (windows,)."""
    return seconds * np.exp(noise * np.random.default_rng(seed).standard_normal(windows))


def plant(
    directory: Path, costs: Mapping[str, Sequence[float]], *, begin: float = 0.0, ranks: int = 1, **more: Any
) -> None:
    """Write runs of 100 s of participants that cost these seconds by window."""
    more |= {"started_unix_ns": START + round(begin * 1e9), "seconds": 100.0}
    write_coupled(directory, costs, dict.fromkeys(costs, ranks), transfer=0.001, **more)


def checked(directory: Path, warmup: int | None = None) -> CheckResult:
    """Check the runs below a directory."""
    return check_runs(load_runs([directory], warmup=warmup))


def found(result: CheckResult) -> list[tuple[str, str]]:
    """Return the kinds of findings, each with its run or runs."""
    return [(finding.kind, finding.where) for finding in result.findings]
