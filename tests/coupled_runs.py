"""Coupled runs made of numbers: what every window of every participant cost, and what the coupling makes of it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from precice_xml_helpers import configuration, scheme

from precice_lb.dataset import CoupledRun, ParticipantRun

Array = NDArray[np.float64]

SERIAL = configuration("AB", [scheme("serial-implicit", "AB", [("A", "B"), ("B", "A")])])
PARALLEL = configuration("AB", [scheme("parallel-implicit", "AB", [("A", "B"), ("B", "A")])])


def autocorrelated(generator: np.random.Generator, windows: int, autocorrelation: float) -> Array:
    """Normal noise of deviation 1, of which each window carries on a share of the one before, shape (W,)."""
    noise = generator.standard_normal(windows)
    for at in range(1, windows):
        noise[at] = autocorrelation * noise[at - 1] + np.sqrt(1 - autocorrelation**2) * noise[at]
    return noise


def coupled_run(
    name: str, split: Mapping[str, int], own: Mapping[str, Array], iterations: Array, *, serial: bool, warmup: int = 1
) -> CoupledRun:
    """A run of A and B, whose compute seconds per iteration are given, by window, shape (W,) each."""
    longest = own["A"] + own["B"] if serial else np.maximum(own["A"], own["B"])
    parts = {}
    for participant, seconds in own.items():
        windows = np.arange(1, len(seconds) + 1)
        wait = (longest - seconds) * iterations
        nothing, one = np.zeros(split[participant]), np.ones(split[participant], dtype=bool)
        parts[participant] = ParticipantRun(
            participant=participant,
            ranks=split[participant],
            windows=windows,
            window_seconds=longest * iterations,
            compute_seconds=seconds * iterations,
            wait_seconds=wait,
            iterations=iterations,
            rank_solve=nothing,
            rank_mapping=nothing,
            rank_wait=nothing,
            rank_overhead=nothing,
            rank_hidden=nothing,
            metadata={},
            receiving=one,
            iteration_windows=np.array([], dtype=np.int64),
            iteration_compute=np.array([]),
            iteration_wait=np.array([]),
            timing_problems={},
        )
    return CoupledRun(name, parts, SERIAL if serial else PARALLEL, "case", {}, warmup, warmup)
