"""Observing a running simulation through the files it writes."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from precice_lb.dataset import Measurements
from precice_lb.dataset.measurements import stated_parameters
from precice_lb.dataset.runs import DEFAULT_WARMUP_WINDOWS, transfer_floor
from precice_lb.dataset.series import Drift, drift_of, shift_of
from precice_lb.exceptions import DataError, PreciceLBError, StoreError
from precice_lb.ingest.profiling.tables import IterationsLog
from precice_lb.text import checked_list
from precice_lb.watch.convergence import median, read_convergence
from precice_lb.watch.run import LATEST, Array, LiveRun, RunFiles, Searches
from precice_lb.watch.snapshot import ParticipantState, Rebalance, Snapshot, rebalance

# A split is thought over anew when a compute time has changed by so much, or so many times more windows are there.
_CHANGED, _MORE = 0.02, 1.5
_UNKNOWN = Drift(math.nan, math.nan)


class Observer:
    """Polls the latest run in a directory: each time it reads what is new, and writes nothing.

    Parameters
    ----------
    directory : path
        A store directory or a case, searched with everything below it; where nothing was recorded, preCICE's profiling
        files are taken.
    measurements : sequence of path
        Stores or CSV files of earlier runs, for the models.
    restart_cost : float, optional
        Seconds that a restart with another split costs, lost work and time in the queue included.
    warmup : int, optional
        Time windows to leave out; by default what the run says, else 1.

    Raises
    ------
    DataError
        If the directory is none, or a number is out of its range.
    PreciceLBError
        If the earlier measurements cannot be read.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        measurements: Sequence[str | Path] = (),
        restart_cost: float | None = None,
        warmup: int | None = None,
    ) -> None:
        self.directory = Path(directory)
        if not self.directory.is_dir():
            raise DataError(f"{directory}: expected a directory of stores or of a case, found none")
        if restart_cost is not None and not 0 <= restart_cost < math.inf:
            raise DataError(f"expected seconds that a restart costs of at least 0, found {restart_cost!r}")
        if warmup is not None and warmup < 0:
            raise DataError(f"warmup: expected a number of time windows of at least 0, found {warmup}")
        self._restart_cost = math.nan if restart_cost is None else restart_cost
        self._warmup = warmup
        self._measured: Measurements | None = None
        measured_sources = checked_list(measurements, "measurements", "paths", DataError)
        if measured_sources:
            from precice_lb.recommend import load_sources

            self._measured = load_sources(measured_sources, warmup=warmup)
        #: Of whole directories, which take their own share of the time.
        self.searches = Searches()
        self._files = RunFiles(self.directory, self.searches)
        self._run: LiveRun | None = None
        self._logs: dict[Path, IterationsLog] = {}
        # What another split would bring or why that is unknown, and the seconds and windows that it was asked for.
        self._rebalance: Rebalance | str = ""
        self._asked_for: tuple[dict[str, float], int] = {}, 0

    def poll(self, *, hasty: bool = False) -> Snapshot | None:
        """Read what is new.

        Parameters
        ----------
        hasty : bool
            Leave out of a run that goes on what takes seconds to begin with: changes of load, and another split.

        Returns
        -------
        Snapshot or None
            None as long as no rank has recorded anything.
        """
        run = self._files.latest()
        if run is None:
            return None
        if run is not self._run:
            self._run, self._asked_for, self._logs = run, ({}, 0), {}
        warmup = self._warmup
        if warmup is None:
            warmup = max(int(data.get("warmup_windows", DEFAULT_WARMUP_WINDOWS)) for data in run.metadata.values())
        run.update(warmup)
        return self._snapshot(run, warmup, hasty=hasty and any(run.state(name) == "running" for name in run.ranks))

    def _snapshot(self, run: LiveRun, warmup: int, *, hasty: bool) -> Snapshot:
        floor = transfer_floor(
            run.configuration,
            {name: series.least_wait for name, series in run.series.items()},
            {name: series.least_overhead for name, series in run.series.items()},
        )
        participants = tuple(_state(run, name, floor, warmup, hasty=hasty) for name in run.ranks)
        windows = min(part.windows for part in participants)
        cores = np.array([part.layout.cores for part in participants], dtype=np.float64)
        waiting = np.array([part.wait_share for part in participants])
        ending = None if run.parsed is None else run.parsed.windows
        convergence = [
            read_convergence(scheme, run, self.directory, self.searches, self._logs)
            for scheme in (run.parsed.coupling_schemes if run.parsed is not None else ())
            if scheme.is_implicit
        ]
        notes = [*run.notes, *(problem for _, problem in convergence if problem)]
        if hasty:
            better: Rebalance | str = "this and changes of load come with the next view"
        else:
            better = self._better(run, participants, windows)
        if isinstance(better, str):
            notes.append(f"no split to compare with: {better}")
        return Snapshot(
            run=run.name,
            unix_seconds=time.time(),
            participants=participants,
            windows=windows,
            windows_left=None if ending is None else max(ending - windows, 0),
            window_seconds=max((part.window_seconds for part in participants if part.windows), default=math.nan),
            waiting=float((waiting * cores).sum() / cores.sum()),
            convergence=tuple(coupling for coupling, _ in convergence if coupling is not None),
            latest=LATEST,
            rebalance=None if isinstance(better, str) else better,
            notes=tuple(notes),
        )

    def _better(self, run: LiveRun, participants: Sequence[ParticipantState], windows: int) -> Rebalance | str:
        """Think the split over, where there is reason to; say why that cannot be done."""
        seconds = {part.participant: part.compute_seconds for part in participants}
        unknown = [*run.missing, *(name for name, value in seconds.items() if not 0 < value < math.inf)]
        if unknown:
            return f"expected the compute seconds of all participants, found none of {', '.join(unknown)} yet"
        last, before = self._asked_for
        same = last.keys() == seconds.keys() and all(abs(seconds[who] / last[who] - 1) < _CHANGED for who in last)
        if same and windows < _MORE * before:
            return self._rebalance
        self._asked_for = seconds, windows
        measured = self._measured
        try:
            self._rebalance = rebalance(
                run.configuration,
                {part.participant: part.layout for part in participants},
                seconds,
                {name: float(series.rows["iterations"][-LATEST:].mean()) for name, series in run.series.items()},
                measurements=measured,
                parameters=stated_parameters(run.metadata.values(), measured) if measured else {},
                versions={name: str(data.get("version", "")) for name, data in run.metadata.items()},
                restart_seconds=self._restart_cost,
            )
        except PreciceLBError as error:
            self._rebalance = str(error)
        return self._rebalance


def _state(run: LiveRun, name: str, floor: float, warmup: int, *, hasty: bool) -> ParticipantState:
    """Sum a participant up."""
    metadata, series, rows = run.metadata[name], run.series[name], run.series[name].rows
    steady = rows["window"] > warmup
    compute = series.compute(floor)
    seconds, wait, wall = compute[steady], rows["wait"][steady], rows["wall"][steady]
    drift, shift = _UNKNOWN, _UNKNOWN
    if not hasty:
        known = seconds[np.isfinite(seconds)]
        drift, shift = drift_of(known), shift_of(known[:-LATEST], known[-LATEST:])
    latest = slice(-LATEST, None)
    return ParticipantState(
        participant=name,
        ranks=int(metadata["size"]),
        threads=int(metadata.get("threads", 1)),
        ranks_seen=len(run.ranks[name]),
        state=run.state(name),
        windows=series.last_window,
        window_seconds=median(wall[latest]),
        compute_seconds=median(seconds[latest]),
        wait_seconds=median(wait[latest]),
        wait_share=_share(wait[latest], wall[latest]),
        wait_share_so_far=_share(wait, wall),
        drift=drift,
        shift=shift,
        problems=series.problems,
    )


def _share(wait: Array, wall: Array) -> float:
    known = np.isfinite(wait) & np.isfinite(wall)
    total = float(wall[known].sum())
    return float(wait[known].sum()) / total if total > 0 else math.nan


def no_run(directory: str | Path, when: str = "") -> StoreError:
    """Say that there is nothing to watch."""
    return StoreError(
        f"{directory}: expected a run with at least one store file or profiling file in it, found none{when}; "
        "record one: python -m precice_lb run SOLVER"
    )


def watch_run(
    directory: str | Path,
    *,
    measurements: Sequence[str | Path] = (),
    restart_cost: float | None = None,
    warmup: int | None = None,
) -> Snapshot:
    """Poll a simulation once that runs, has ended, or was killed; as ``precice-lb watch --once``.

    Parameters
    ----------
    directory, measurements, restart_cost, warmup
        As of `Observer`.

    Returns
    -------
    Snapshot
        With ``participants``, ``waiting``, ``rebalance`` and ``to_dict()``; seconds, and shares of 1.

    Raises
    ------
    StoreError
        If no rank has recorded anything there.
    PreciceLBError
        As of `Observer`.
    """
    snapshot = Observer(directory, measurements=measurements, restart_cost=restart_cost, warmup=warmup).poll()
    if snapshot is None:
        raise no_run(directory)
    return snapshot
