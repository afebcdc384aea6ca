"""What ranks of a participant hold and spend, what a unit of each feature costs, and the cells that can be moved."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset import CoupledRun, ParticipantRun
from precice_lb.exceptions import DataError
from precice_lb.ingest.csv import checked_number, read_rows, whole_number
from precice_lb.text import checked_list, numbered, plural

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


BASES = {
    "given": "seconds as given",
    "serial": "runs on one rank, where nothing waits",
    "sections": "profiling sections of the solver",
    "mpi": "solve time without time in MPI",
}
"""How waiting in the solver's own collectives was kept out of busy seconds, in words."""


@dataclass(frozen=True, eq=False)
class RankLoad:
    """What each rank of a participant held in one run, and how long it was busy with it.

    Attributes
    ----------
    run : str
        Name of the run.
    features : tuple of str
        What was counted.
    counts : ndarray, shape (ranks, features)
        How much of each feature each rank held; not negative.
    seconds : ndarray, shape (ranks,)
        Busy seconds per time window, without waiting; NaN where unknown.
    basis : str
        A key of `BASES`.
    """

    run: str
    features: tuple[str, ...]
    counts: Floats
    seconds: Floats
    basis: str = "given"

    def __post_init__(self) -> None:
        checked_list(self.features, "features", "names", DataError)


@dataclass(frozen=True, eq=False)
class FeatureCosts:
    """Seconds per unit of each feature and time window, as fitted.

    Attributes
    ----------
    features : tuple of str
        What was counted.
    seconds, standard_errors : ndarray, shape (features,)
        Seconds per unit and time window, not negative, and their standard errors.
    constant : float
        Seconds of every rank and time window that belong to no feature; 0 where the fit needs none.
    unexplained : float
        Root mean square of the residuals over the mean of the measured seconds of their run.
    problem : str
        Why nothing may be built on it, in one line; empty where nothing speaks against it.
    """

    features: tuple[str, ...]
    seconds: Floats
    standard_errors: Floats
    constant: float = 0.0
    unexplained: float = 0.0
    problem: str = ""

    def of_features(self, holder: RankLoad | Cells) -> Floats:
        """Predict what each feature takes.

        Parameters
        ----------
        holder : RankLoad or Cells
            Which ranks or cells.

        Returns
        -------
        ndarray, shape (ranks or cells, features)
            Seconds per time window.
        """
        return counts_for(holder, self.features) * self.seconds

    def predict(self, load: RankLoad) -> Floats:
        """Predict how long ranks are busy.

        Parameters
        ----------
        load : RankLoad
            What they hold.

        Returns
        -------
        ndarray, shape (ranks,)
            Seconds per time window.
        """
        return np.asarray(self.of_features(load).sum(axis=1) + self.constant)


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of a participant's mesh.

    Attributes
    ----------
    centres : ndarray, shape (cells, 2 or 3)
        Where they are.
    features : tuple of str
        What is counted.
    counts : ndarray, shape (cells, features)
        How much of each feature each cell is.
    source : str
        The file they come from.
    """

    centres: Floats
    features: tuple[str, ...]
    counts: Floats
    source: str = ""

    def __post_init__(self) -> None:
        checked_list(self.features, "features", "names", DataError)


def counts_for(holder: RankLoad | Cells, features: Sequence[str]) -> Floats:
    """Give the counts of some features, shape (ranks or cells, features); who does not know one has none of it."""
    known = dict(zip(holder.features, holder.counts.T, strict=True))
    nothing = np.zeros(len(holder.counts))
    return np.column_stack([known.get(name, nothing) for name in features])


Counts = tuple[tuple[str, ...], Floats]
"""Features, and how much of each every rank holds: shape (ranks, features)."""


def read_counts(path: Path, features: Sequence[str] | None = None) -> dict[str, Counts]:
    """Read the columns ``rank``, ``feature``, ``count`` and perhaps ``run``, by run; what is not said is 0."""
    values = _read(path, ("feature", "count"), "a number of at least 0", "each feature of a rank")
    chosen = tuple(dict.fromkeys(feature for run in values.values() for _, feature in run))
    if features is not None:
        chosen = _known(features, chosen, f"--features: expected features of {path}", "correct the names")
    return {name: (chosen, _table_of(path, name, run, chosen)) for name, run in values.items()}


def _known(names: Sequence[str], known: Collection[str], expected: str, remedy: str) -> tuple[str, ...]:
    """Return names without repetition; refuse none at all, unknown ones, and a text in place of a list."""
    names = checked_list(names, "names", "features or sections", DataError)
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise DataError(f"{expected} ({', '.join(known) or 'none'}), found {', '.join(unknown) or 'none'}; {remedy}")
    return tuple(dict.fromkeys(names))


def read_seconds(path: Path) -> dict[str, Floats]:
    """Read the columns ``rank``, ``seconds`` (busy ones per time window), perhaps ``run``: shape (ranks,), by run."""
    values = _read(path, ("seconds",), "seconds of at least 0", "each rank")
    return {name: _table_of(path, name, run, [""])[:, 0] for name, run in values.items()}


def _read(path: Path, columns: tuple[str, ...], wanted: str, what: str) -> dict[str, dict[tuple[int, str], float]]:
    """Read the value in the last column by run, and by rank and feature where these are told apart."""
    values: dict[str, dict[tuple[int, str], float]] = {}
    for where, row in read_rows(path, ("rank", *columns), ("run",)):
        rank, run = whole_number(row["rank"]), row.get("run", "")
        if rank is None or rank < 0:
            raise DataError(f"{where}: expected a rank, a whole number from 0, in column rank, found {row['rank']!r}")
        key = rank, row.get("feature", "")
        if "feature" in columns and not key[1]:
            raise DataError(f"{where}: expected the name of a feature in column feature, found nothing")
        rows = values.setdefault(run, {})
        if key in rows:
            where += f": expected {what} once{f' in run {run!r}' if run else ''}"
            raise DataError(f"{where}, found this one again; leave one out")
        rows[key] = checked_number(where, columns[-1], row[columns[-1]], wanted, lambda x: x >= 0)
    return values


def _table_of(path: Path, name: str, run: Mapping[tuple[int, str], float], features: Sequence[str]) -> Floats:
    """Give the values of a run, shape (ranks, features), whose ranks are numbered from 0 without a gap."""
    ranks = {rank for rank, _ in run}
    missing = next((rank for rank in range(len(ranks)) if rank not in ranks), None)
    if missing is not None:
        raise DataError(
            f"{path}: {_of(name)}expected ranks from 0 to {max(ranks)}, found none with number {missing}; add its rows "
            "(a count of 0 where it holds nothing)"
        )
    return np.array([[run.get((rank, feature), 0.0) for feature in features] for rank in range(len(ranks))])


def loads_of_tables(counts: Mapping[str, Counts], seconds: Mapping[str, Floats]) -> list[RankLoad]:
    """Join both tables, which must be of the same runs and ranks."""
    for name in dict.fromkeys([*counts, *seconds]):
        if name not in counts or name not in seconds:
            there, other = ("counts", "seconds") if name in counts else ("seconds", "counts")
            which = f"run {name!r}" if name else "rows without a run"
            raise DataError(
                f"expected the same runs in the tables of counts and of seconds, found {which} in that of {there} "
                f"alone; add it to that of {other}, or leave it out"
            )
        held, timed = len(counts[name][1]), len(seconds[name])
        if held != timed:
            raise DataError(
                f"{_of(name)}expected counts and seconds of the same ranks, found counts of {plural(held, 'rank')} and "
                f"seconds of {timed}; give tables of one partition"
            )
    return [RankLoad(name, *counts[name], timed) for name, timed in seconds.items()]


def _of(run: str) -> str:
    return f"run {run!r}: " if run else ""


INTERFACE = "interface vertices"
"""The feature that needs no counting: how many vertices of coupling meshes a rank has."""

_WAYS = (
    "record the solver on one rank with as many meshes of other counts as there are features (nothing waits there), "
    "name its profiling sections with --sections, record it with PRECICE_LB_MPI_TIME=1 if it calls MPI through mpi4py, "
    "or give tables with --counts and --seconds"
)


def loads_of_runs(
    runs: Sequence[CoupledRun],
    participant: str,
    features: Sequence[str] | None = None,
    *,
    sections: Sequence[str] = (),
    counts: Mapping[str, Counts] | None = None,
) -> list[RankLoad]:
    """Find what each rank of a participant held in each run, and how long it was busy with it.

    Busy seconds are found in the first of these ways that there is: solve time of runs on one rank, if these alone tell
    the features apart; the solver's profiling sections, if named; solve time without recorded time in MPI.
    Where `INTERFACE` is a feature, the rank's own mapping is added as far as it was measured.

    Parameters
    ----------
    runs : sequence of CoupledRun
        Those without the participant, or without a window after warm-up, are left out.
    participant : str
        Its name.
    features : sequence of str, optional
        What to learn the cost of; by default all that was counted.
    sections : sequence of str
        Profiling sections of the solver that add up to its work; none within another.
    counts : mapping of str to tuple
        By name of the run, or ``""`` for all runs with that many ranks: names of features, and how much of each every
        rank held, shape (ranks, features). They replace what was recorded of the same feature.

    Returns
    -------
    list of RankLoad
        One per run, all with the same features and the same basis. Where runs on one rank suffice, those of other runs
        are NaN.

    Raises
    ------
    DataError
        If there is no such run, ranks have no store, features are not counted, or waiting cannot be kept out.
    """
    used = [run for run in runs if participant in run.participants and run.steady(participant).any()]
    if not used:
        names = ", ".join(sorted({name for run in runs for name in run.participants})) or "none"
        raise DataError(
            f"{participant}: expected runs of it with time windows after the warm-up, found none in "
            f"{plural(len(runs), 'run')} (participants: {names}); record it, or name another participant"
        )
    held = [_held(run, participant, counts or {}) for run in used]
    chosen = _features(participant, features, held)
    tables = [_table(run, participant, chosen, features_of) for run, features_of in zip(used, held, strict=True)]
    serial = [table for table in tables if len(table) == 1]
    if serial and np.linalg.matrix_rank(np.concatenate(serial)) == len(chosen):
        basis = "serial"
    else:
        basis = "sections" if sections else "mpi"
    loads = []
    for run, table in zip(used, tables, strict=True):
        part = run.participants[participant]
        if basis == "serial":
            seconds = part.rank_solve if part.ranks == 1 else np.full(part.ranks, np.nan)
        else:
            seconds = _in_sections(run, part, sections) if sections else _without_mpi(run, part)
        if INTERFACE in chosen:
            seconds = seconds + np.nan_to_num(part.rank_mapping)
        loads.append(RankLoad(run.name, chosen, table, np.asarray(seconds), basis))
    return loads


def _held(run: CoupledRun, participant: str, counts: Mapping[str, Counts]) -> dict[str, Floats]:
    """Give what each rank of a run held, by feature, each of shape (ranks,)."""
    part = run.participants[participant]
    if len(without := np.flatnonzero(np.isnan(part.rank_solve))):
        raise DataError(
            f"run {run.name}: expected stores of all {part.ranks} ranks of {participant}, found none of "
            f"{numbered(without.tolist())}; give the directories of all hosts, or leave the run out"
        )
    held = {INTERFACE: part.rank_vertices} if np.isfinite(part.rank_vertices).all() else {}
    held |= part.rank_counts
    names, table = counts.get(run.name) or counts.get("") or ((), np.empty((part.ranks, 0)))
    if len(table) == part.ranks:
        held |= dict(zip(names, np.asarray(table, dtype=np.float64).T, strict=True))
    elif run.name in counts:
        raise DataError(
            f"run {run.name}: expected counts of the {plural(part.ranks, 'rank')} of {participant}, found those of "
            f"{plural(len(table), 'rank')}; count the ranks of this run"
        )
    return held


def _features(participant: str, asked: Sequence[str] | None, held: Sequence[Mapping[str, Floats]]) -> tuple[str, ...]:
    known = list(dict.fromkeys(name for features in held for name in features))
    if asked is None:
        counted = tuple(name for name in known if name != INTERFACE)
        if not counted:
            raise DataError(
                f"{participant}: expected what its ranks hold to be counted, found interface vertices at most; "
                f"call participant.count(feature, number) in the solver, give counts, or say --features '{INTERFACE}'"
            )
        return counted
    remedy = "correct the names, or count them: participant.count(feature, number)"
    return _known(asked, known, f"{participant}: expected features that were counted", remedy)


def _table(run: CoupledRun, participant: str, features: Sequence[str], held: Mapping[str, Floats]) -> Floats:
    missing = [name for name in features if name not in held]
    if missing:
        raise DataError(
            f"run {run.name}: expected counts of {', '.join(missing)} of {participant}, found none; count them in this "
            "run too, or leave it out"
        )
    return np.stack([held[name] for name in features], axis=1)


def _in_sections(run: CoupledRun, part: ParticipantRun, names: Sequence[str]) -> Floats:
    expected = f"run {run.name}: expected profiling sections that {part.participant} recorded"
    names = _known(names, part.rank_sections, expected, "correct the names, or leave the run out")
    # A rank that never began a section had nothing to do in it.
    return sum((np.nan_to_num(part.rank_sections[name]) for name in names), np.zeros(part.ranks))


def _without_mpi(run: CoupledRun, part: ParticipantRun) -> Floats:
    # On one rank nothing waits.
    inside = np.zeros(1) if part.ranks == 1 else part.rank_mpi
    if not np.isfinite(inside).all():
        raise DataError(
            f"run {run.name}: expected a way to keep waiting of {part.participant}'s ranks for each other out of "
            f"their solve time, found none; {_WAYS}"
        )
    seconds = part.rank_solve - inside
    if (seconds < 0).any():
        raise DataError(
            f"run {run.name}: expected less time in MPI than solve time, found more on {part.participant}'s "
            f"{numbered(np.flatnonzero(seconds < 0).tolist())}; record the run again"
        )
    return seconds
