"""Observing a running simulation through the files it writes."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from precice_lb.dataset import Measurements
from precice_lb.dataset.measurements import stated_parameters
from precice_lb.dataset.records import mode_of, predictors_of
from precice_lb.dataset.runs import DEFAULT_WARMUP_WINDOWS, transfer_floor
from precice_lb.dataset.series import Drift, drift_of, shift_of, warmup_of
from precice_lb.exceptions import DataError, PreciceLBError, StoreError
from precice_lb.recommend import load_sources
from precice_lb.watch.convergence import CouplingTail, median
from precice_lb.watch.run import Array, LiveRun, RunFiles, Searches
from precice_lb.watch.snapshot import ParticipantState, Rebalance, Snapshot, rebalance

LATEST = 8
"""Time windows that count as the latest ones."""

BINS = 60
"""Parts into which the course of a run is divided."""

# A split is thought over anew when a compute time has changed by so much, or so many times more windows are there.
_CHANGED, _MORE = 0.02, 1.5


class Observer:
    """Polls the latest run in a directory: each time it reads what is new, and writes nothing.

    Parameters
    ----------
    directory : path
        A store directory or a case, searched with everything below it; where nothing was recorded, preCICE's profiling
        files are taken.
    measurements : sequence of path
        Stores or CSV files of earlier runs, for the models; by default other runs of the same case in the directory.
    restart_cost : float, optional
        Seconds that a restart with another split costs, lost work and time in the queue included; by default what this
        run's own start-up took, which is the least.
    warmup : int, optional
        Time windows to leave out; by default what the run says, else 1.
    learner : str, optional
        Learner of the models; by default that of `precice_lb.recommend_split`.

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
        learner: str | None = None,
    ) -> None:
        self.directory = Path(directory)
        if not self.directory.is_dir():
            raise DataError(f"{directory}: expected a directory of stores or of a case, found none")
        if restart_cost is not None and not 0 <= restart_cost < math.inf:
            raise DataError(f"expected seconds that a restart costs of at least 0, found {restart_cost!r}")
        if warmup is not None and warmup < 0:
            raise DataError(f"warmup: expected a number of time windows of at least 0, found {warmup}")
        self._given = load_sources(measurements, warmup=warmup) if measurements else None
        self._earlier = self._given
        self._restart_cost = restart_cost
        self._warmup = warmup
        self._learner = learner
        #: Of whole directories, which take their own share of the time.
        self.searches = Searches()
        self._files = RunFiles(self.directory, self.searches)
        self._run: LiveRun | None = None
        self._couplings: list[CouplingTail] = []
        # What another split would bring or why that is unknown, and the seconds and windows that it was asked for.
        self._rebalance: Rebalance | str = ""
        self._asked_for: tuple[dict[str, float], int] = {}, 0

    def poll(self) -> Snapshot | None:
        """Read what is new.

        Returns
        -------
        Snapshot or None
            None as long as no rank has recorded anything.
        """
        run = self._files.latest()
        if run is None:
            return None
        if run is not self._run:
            self._asked_for = {}, 0
            self._earlier = self._given if self._given is not None else self._found(run)
            schemes = [] if run.parsed is None else run.parsed.coupling_schemes
            self._couplings = [
                CouplingTail(each, self.directory, LATEST, self.searches) for each in schemes if each.is_implicit
            ]
        self._run = run
        warmup = self._warmup
        if warmup is None:
            warmup = max(int(each.get("warmup_windows", DEFAULT_WARMUP_WINDOWS)) for each in run.metadata.values())
        run.update(warmup)
        return self._snapshot(run, warmup)

    def _found(self, run: LiveRun) -> Measurements | None:
        """Measurements of other runs of the case in the directory; None where none can be learned from."""
        paths = self._files.earlier(run)
        try:
            return load_sources(paths, warmup=self._warmup) if paths else None
        except PreciceLBError:
            return None

    def _snapshot(self, run: LiveRun, warmup: int) -> Snapshot:
        floor = transfer_floor(
            run.configuration,
            {name: series.least_wait for name, series in run.series.items()},
            {name: series.least_overhead for name, series in run.series.items()},
        )
        participants = tuple(_state(run, name, floor, warmup) for name in run.ranks)
        windows = min(each.windows for each in participants)
        cores = np.array([each.layout.cores for each in participants], dtype=np.float64)
        waiting = np.array([each.wait_share for each in participants])
        ending = None if run.parsed is None else run.parsed.windows
        convergence = [tail.update(run) for tail in self._couplings]
        notes = [*run.notes, *(tail.problem for tail in self._couplings if tail.problem)]
        better = self._better(run, participants, windows)
        if isinstance(better, str):
            notes.append(f"no split to compare with: {better}")
        return Snapshot(
            run=run.name,
            unix_seconds=time.time(),
            participants=participants,
            windows=windows,
            windows_left=None if ending is None else max(ending - windows, 0),
            window_seconds=max((e.window_seconds for e in participants if e.windows), default=math.nan),
            waiting=float((waiting * cores).sum() / cores.sum()),
            convergence=tuple(each for each in convergence if each is not None and (each.windows or each.window)),
            guess=mode_of(run.metadata.values()),
            predictors=predictors_of([series.guessed(warmup) for series in run.series.values()]),
            latest=LATEST,
            rebalance=None if isinstance(better, str) else better,
            notes=tuple(notes),
        )

    def _better(self, run: LiveRun, participants: Sequence[ParticipantState], windows: int) -> Rebalance | str:
        """Think the split over, where there is reason to; say why that cannot be done."""
        own = {each.participant: each.compute_seconds for each in participants}
        unknown = [
            *run.missing,
            *(name for name, seconds in own.items() if not (math.isfinite(seconds) and seconds > 0)),
        ]
        if unknown:
            return f"expected the compute seconds of all participants, found none of {', '.join(unknown)} yet"
        last, before = self._asked_for
        same = last.keys() == own.keys() and all(abs(own[name] / last[name] - 1) < _CHANGED for name in own)
        if same and windows < _MORE * before:
            return self._rebalance
        self._asked_for = own, windows
        try:
            self._rebalance = rebalance(
                run.configuration,
                {each.participant: each.layout.cores for each in participants},
                own,
                {name: float(series.rows["iterations"][-LATEST:].mean()) for name, series in run.series.items()},
                measurements=self._earlier,
                parameters=stated_parameters(run.metadata.values(), self._earlier) if self._earlier else {},
                learner=self._learner,
                restart_seconds=run.start_up_seconds if self._restart_cost is None else self._restart_cost,
                restart_measured=self._restart_cost is None,
                layouts={each.participant: each.layout for each in participants},
                versions={name: str(each.get("version", "")) for name, each in run.metadata.items()},
            )
        except PreciceLBError as error:
            self._rebalance = str(error)
        return self._rebalance


def _state(run: LiveRun, name: str, floor: float, warmup: int) -> ParticipantState:
    """Sum a participant up."""
    metadata, series, rows = run.metadata[name], run.series[name], run.series[name].rows
    steady = rows["window"] > warmup
    all_own = series.own(floor)
    own, wait, wall = all_own[steady], rows["wait"][steady], rows["wall"][steady]
    # What the first windows take is no load that a run has now; that it has changed since is looked for in all.
    settled = warmup_of(own / np.maximum(rows["iterations"][steady], 1.0)) if np.isfinite(own).all() else 0
    latest = slice(max(len(own) - LATEST, settled), None)
    known = own[np.isfinite(own)]
    parts = [part for part in np.array_split(np.arange(len(rows)), BINS) if len(part)]
    return ParticipantState(
        participant=name,
        ranks=int(metadata["size"]),
        threads=int(metadata.get("threads", 1)),
        ranks_seen=len(run.ranks[name]),
        state=run.state(name),
        windows=series.last_window,
        window_seconds=median(wall[latest]),
        compute_seconds=median(own[latest]),
        wait_seconds=median(wait[latest]),
        wait_share=_share(wait[latest], wall[latest]),
        wait_share_so_far=_share(wait, wall),
        drift=drift_of(known) if len(known) else Drift(0.0, 0.0),
        shift=shift_of(known[:-LATEST], known[-LATEST:]),
        history_windows=np.array([rows["window"][part[-1]] for part in parts], dtype=np.int64),
        history_wait_share=np.array([_share(rows["wait"][part], rows["wall"][part]) for part in parts]),
        history_compute_seconds=np.array([float(np.mean(all_own[part])) for part in parts]),
        problems=series.problems,
    )


def _share(wait: Array, wall: Array) -> float:
    known = np.isfinite(wait) & np.isfinite(wall)
    total = float(wall[known].sum())
    return float(wait[known].sum()) / total if total > 0 else math.nan


def watch_run(
    directory: str | Path,
    *,
    measurements: Sequence[str | Path] = (),
    restart_cost: float | None = None,
    warmup: int | None = None,
    learner: str | None = None,
) -> Snapshot:
    """Poll a simulation once that runs, has ended, or was killed; as ``precice-lb watch --once``.

    Parameters
    ----------
    directory, measurements, restart_cost, warmup, learner
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
    observer = Observer(directory, measurements=measurements, restart_cost=restart_cost, warmup=warmup, learner=learner)
    found = observer.poll()
    if found is None:
        raise StoreError(
            f"{directory}: expected a run with at least one store file or profiling file in it, found none; "
            "record one: python -m precice_lb run SOLVER"
        )
    return found
