"""From the event logs of preCICE 1.3 to 2.5 to compute seconds per time window.

The rule is that of J. L. Schröder, Load-balancing for multi-physics simulations, MSc thesis, Stuttgart 2019, section
4.2.2: time for solving plus time for mapping, its median over the windows; ranks are the highest rank plus 1. To it
comes the time for accelerating an implicit coupling, which is the participant's own work too. Waiting is left out by
adding up work and not by subtracting ``m2n.receiveData``, since these versions do not log every wait (a rank alone
waits outside that event, and so does whoever receives whether the coupling converged).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset import Measurements
from precice_lb.exceptions import DataError
from precice_lb.ingest.event_log import LOG_NAME, EventRun, read_event_log
from precice_lb.ingest.files import beside
from precice_lb.ingest.profiling.tables import read_iterations_log
from precice_lb.ingest.samples import Sample, join, steady_cost

__all__ = ["import_files", "read_events"]

_WORK = ("advance/map.", "advance/cpl.")
_RECEIVE = "advance/m2n.receiveData"
_NONE = np.zeros((0, 2), dtype=np.int64)


def import_files(
    paths: Sequence[Path],
    *,
    participant: str | None = None,
    warmup: int | None = None,
    every_rank: bool | None = None,
    advances_per_window: int | None = None,
    mesh_header: Path | None = None,
    parameters: Path | None = None,
) -> Measurements:
    """Read event logs of preCICE 1.3 to 2.5: precice-<Participant>-events.log or .json.

    Example: precice-lb import precice-events precice-Fluid-events.json precice-Solid-events.json

    Parameters
    ----------
    paths : sequence of Path
        The event logs.
    participant : str, optional
        Whose logs they are; by default what the file names say.
    warmup : int, optional
        Time windows to leave out, at least and by default 1: the logs do not separate the first window's solve time
        from setting up.
    every_rank : bool, optional
        Take the slowest of all ranks. By default ranks that never received data are left out, where there are others:
        they have no interface vertices, so what they wait in their solver's collectives looks like solving.
    advances_per_window : int, optional
        Calls of advance per time window, that is subcycles or a fixed number of coupling iterations; by default what
        precice-<Participant>-iterations.log beside the log says, else 1: an explicit coupling without subcycling.
    mesh_header : Path, optional
        Header of a Seeder mesh (header.lua): its number of elements becomes a parameter.
    parameters : Path, optional
        An ini file with further parameters.

    Raises
    ------
    DataError
        If something is wrong in a file, no window is left, or a run is given twice.
    """
    samples: list[Sample] = []
    seen: dict[tuple[str, str, int], str] = {}
    for path in paths:
        match = LOG_NAME.match(path.name)
        name = participant or (match and match["participant"])
        if not name:
            raise DataError(
                f"{path}: expected the name of the participant, found none; give it, or name the file as preCICE does"
            )
        extra = beside(mesh_header, parameters, name)
        for run, sample in read_events(
            path, name, warmup=warmup, every_rank=every_rank, advances_per_window=advances_per_window, parameters=extra
        ):
            key = name, run.name, sample.ranks
            if run.name and key in seen:
                raise DataError(f"{run.where}: expected every run once, found the one of {seen[key]} again")
            seen[key] = run.where
            samples.append(sample)
    return join(samples)


def read_events(
    path: Path,
    participant: str,
    *,
    warmup: int | None = None,
    every_rank: bool | None = None,
    advances_per_window: int | None = None,
    parameters: dict[str, float | str] | None = None,
) -> list[tuple[EventRun, Sample]]:
    """Read the samples of one event log, one per run; options are those of `import_files`."""
    warmup = 1 if warmup is None else warmup
    if warmup < 1:
        raise DataError(f"warmup: expected at least 1 time window to leave out of an event log, found {warmup}")
    if advances_per_window is not None and advances_per_window < 1:
        raise DataError(f"advances per window: expected at least 1, found {advances_per_window}")
    found = []
    for run in (runs := read_event_log(path)):
        costs = _advance_costs(run, bool(every_rank))
        lengths, iterative = _windows(path, participant, len(costs), advances_per_window, len(runs))
        windows = np.add.reduceat(costs, np.cumsum(lengths) - lengths)[warmup:] / 1000
        if not len(windows):
            raise DataError(
                f"{run.where}: expected time windows after a warm-up of {warmup}, found {len(lengths)} in all; "
                "record more windows"
            )
        seconds, error = steady_cost(windows, resolution=1e-3)
        if seconds <= 0:
            raise DataError(
                f"{run.where}: expected solving and mapping to take time, found a median of 0 milliseconds per time "
                "window; windows this short need a finer clock than that of the log"
            )
        iterations = float(np.mean(lengths[warmup:])) if iterative else np.nan
        sample = Sample(participant, len(run.ranks), seconds, run.where, error, iterations, parameters or {})
        found.append((run, sample))
    return found


def _advance_costs(run: EventRun, every_rank: bool) -> NDArray[np.float64]:
    """Milliseconds of own work up to the end of each advance: solving before it, and mapping and accelerating in it.

    The first has no solve time: before the first advance the log counts solving and setting up as one.
    """
    received = np.array([np.sum(np.diff(events.get(_RECEIVE, _NONE))) for events in run.ranks])
    chosen = received > 0 if received.any() and not every_rank else np.ones(len(run.ranks), dtype=bool)
    costs = [_rank_costs(run, rank) for rank in range(len(run.ranks))]
    for rank, cost in enumerate(costs):
        if len(cost) != len(costs[0]):
            raise DataError(
                f"{run.where}: expected all ranks to call advance as often, found {len(costs[0])} calls of rank 0 and "
                f"{len(cost)} of rank {rank}; was the file cut short?"
            )
    return np.asarray(np.max([cost for cost, used in zip(costs, chosen, strict=True) if used], axis=0))


def _rank_costs(run: EventRun, rank: int) -> NDArray[np.float64]:
    events = run.ranks[rank]
    advances, solves = (events.get(name, _NONE) for name in ("advance", "solver.advance"))
    if not len(advances) or len(solves) != len(advances):
        raise DataError(
            f"{run.where}: expected as many events advance as solver.advance of rank {rank}, at least one, found "
            f"{len(advances)} and {len(solves)}; was the file cut short?"
        )
    if (solves[:, 0] < advances[:, 0]).any() or (solves[:-1, 0] > advances[1:, 0]).any():
        raise DataError(
            f"{run.where}: expected advance and solver.advance of rank {rank} to take turns, found them out of order; "
            "was the file edited?"
        )
    cost = np.zeros(len(advances))
    # A solve begins when one advance ends; the last is after the loop.
    cost[1:] = np.diff(solves[:-1]).reshape(-1)
    work = np.concatenate([_NONE, *(times for name, times in events.items() if name.startswith(_WORK))])
    work = work[np.argsort(work[:, 0], kind="stable")]
    # Kernels are logged inside their mapping: count what is covered, not what is listed.
    covered = np.maximum.accumulate(np.append(np.int64(-(2**62)), work[:-1, 1])) if len(work) else work[:, 1]
    spent = np.maximum(work[:, 1] - np.maximum(work[:, 0], covered), 0)
    index = np.searchsorted(advances[:, 0], work[:, 0], side="right") - 1
    np.add.at(cost, np.maximum(index, 0), spent)
    return cost


def _windows(
    path: Path, participant: str, advances: int, per_window: int | None, runs: int
) -> tuple[NDArray[np.int64], bool]:
    """How many advances each time window has, and whether these are coupling iterations of an iterations log."""
    if per_window is not None:
        if advances % per_window:
            raise DataError(
                f"{path}: expected advance calls in whole time windows of {per_window}, found {advances} calls"
            )
        return np.full(advances // per_window, per_window, dtype=np.int64), False
    log = path.parent / f"precice-{participant}-iterations.log"
    if not log.is_file():
        return np.ones(advances, dtype=np.int64), False
    lengths = read_iterations_log(log)
    if runs > 1 or lengths.sum() != advances:
        found = f"{runs} runs in one log" if runs > 1 else f"{advances} advance calls in the event log"
        raise DataError(
            f"{log}: expected the {lengths.sum()} iterations in all of the run in {path.name}, found {found}; "
            "move it away if it is of another run, and say how many advance calls a time window has"
        )
    return lengths, True
