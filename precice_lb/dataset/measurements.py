"""Samples for performance models: one frame of columns per participant, and what belongs to runs as a whole."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import DataError, InfeasibleError
from precice_lb.layout import Layout, Layouts, layouts_of
from precice_lb.store.columns import Array, Values
from precice_lb.text import key_of

Column: TypeAlias = Any
"""An array of shape (n,), made of anything that numpy makes one of."""


@dataclass(frozen=True, eq=False)
class Samples:
    """The samples of one participant: columns of shape (n,), a row for each run. One value may stand for a column.

    Attributes
    ----------
    ranks, seconds
        Compute seconds per time window on so many ranks. For recorded runs the median seconds per coupling iteration
        times the mean iterations.
    threads
        Of each rank; NaN where nothing was said of them, which counts as one.
    standard_error
        Of the seconds; NaN where unknown.
    communication
        Seconds that even the busiest rank spends in MPI; NaN where unknown.
    version
        Which version of the participant ran; empty where that was not said.
    origin
        What the row was read from: a file and its line, or a run; empty where unknown.
    parameters : dict of str to ndarray
        Further columns: float (NaN for an empty cell) where all values are numbers, else text.
    """

    ranks: Column
    seconds: Column
    threads: Column = math.nan
    standard_error: Column = math.nan
    communication: Column = math.nan
    version: Column = ""
    origin: Column = ""
    parameters: dict[str, Values] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        for name in _COLUMNS:
            values = np.asarray(getattr(self, name), dtype=np.str_ if name in ("version", "origin") else np.float64)
            object.__setattr__(self, name, values if values.ndim else np.full(np.shape(self.ranks), values))

    def __len__(self) -> int:
        return len(self.seconds)

    def __getitem__(self, rows: Column) -> Samples:
        """Give some of the rows, by a mask or in an order."""
        parameters = {key: values[rows] for key, values in self.parameters.items()}
        return Samples(**{name: getattr(self, name)[rows] for name in _COLUMNS}, parameters=parameters)

    @classmethod
    def concat(cls, frames: Sequence[Samples]) -> Samples:
        """Put frames below each other; a parameter that only some have says nothing about the rows of the others.

        Parameters
        ----------
        frames : sequence of Samples
            At least one.

        Returns
        -------
        Samples
        """
        shared = [key for key in frames[0].parameters if all(key in frame.parameters for frame in frames)]
        return cls(
            **{name: np.concatenate([getattr(frame, name) for frame in frames]) for name in _COLUMNS},
            parameters={key: np.concatenate([frame.parameters[key] for frame in frames]) for key in shared},
        )

    @property
    def cores(self) -> Array:
        """Ranks times threads."""
        return np.asarray(self.ranks * self._threads)

    @property
    def layouts(self) -> list[Layout]:
        """Ranks and threads of each row."""
        return [Layout(int(ranks), int(threads)) for ranks, threads in zip(self.ranks, self._threads, strict=True)]

    @property
    def _threads(self) -> Array:
        return np.asarray(np.nan_to_num(self.threads, nan=1.0))

    @property
    def cases(self) -> list[tuple[Hashable, ...]]:
        """What tells one row from another, but for its seconds: ranks, then threads, version and parameters."""
        columns = (values.astype(str).tolist() for values in self.parameters.values())
        return list(zip(self.ranks.tolist(), self._threads.tolist(), self.version.tolist(), *columns, strict=True))


_COLUMNS = tuple(column.name for column in fields(Samples) if column.name != "parameters")


@dataclass(frozen=True, eq=False)
class MeasuredRun:
    """What a coupled run measured at its split.

    Attributes
    ----------
    name : str
        Its name.
    split : dict of str to int
        Cores by participant, which are ranks where those have one thread.
    window_seconds, standard_errors : dict of str to float
        By participant: mean wall seconds of its windows after warm-up without outliers, with as many iterations per
        window as all runs have in the mean, and the standard error of that.
    compute_seconds : dict of str to float
        By participant, its sample: compute seconds per window, from the median per iteration.
    parameters : dict of str to dict
        Of the case, by participant.
    oversubscription : str
        Where more ranks ran than there were cores for them, in words.
    versions : dict of str to str
        By participant, the version that ran; of those that said which.
    """

    name: str
    split: dict[str, int]
    window_seconds: dict[str, float]
    standard_errors: dict[str, float]
    compute_seconds: dict[str, float]
    parameters: dict[str, dict[str, Any]]
    oversubscription: str = ""
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Measurements:
    """Samples for performance models.

    Attributes
    ----------
    frames : dict of str to Samples
        By participant. Rows of two versions are never learned from together: see `of_versions`.
    configuration : str or None
        Text of ``precice-config.xml``, if known.
    degrees_of_freedom : dict of str to float
        Unknowns by participant, where given.
    iterations : dict of str to float
        Mean coupling iterations per window by participant, where known.
    sources : tuple of str
        Where the samples come from.
    recorded : tuple of dict of str to ndarray, shape (W,)
        For each coupled run that was recorded, what every participant's windows after warm-up cost over its sample: 1
        where a window is as long as its sample says.
    runs : tuple of MeasuredRun
        What recorded runs measured as a whole, to compare predictions with.
    overhead : dict of str to float
        Where measured, the part of its compute seconds that a participant spends in ``advance`` without mapping: where
        it accelerates, most of it is acceleration.
    core_hours : float
        What the recorded runs took, from the start of each participant to its end, one core per thread; NaN if unknown.
    remarks : tuple of str
        What has to be said of the recorded runs: those that were killed or are not used, participants without stores.
    recorded_versions : tuple of dict of str to str
        The versions of each entry of ``recorded``, by participant.
    incomplete : str
        Runs of which ranks are missing, with these, in words; empty where none is.
    node_ranks : dict of str to float
        Ranks (cores, where those are counted) on a full node, where several nodes were in use or it was said.
    layouts : dict of str to Layouts
        Ranks and threads of those of which both are known, ``Layouts()`` where each rank had one thread; of those with
        versions by ``name:version``. They follow from the frames.

    Raises
    ------
    DataError
        Where a participant's samples use as many cores in two ways.
    """

    frames: dict[str, Samples]
    configuration: str | None = None
    degrees_of_freedom: dict[str, float] = field(default_factory=dict)
    iterations: dict[str, float] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    recorded: tuple[dict[str, Array], ...] = ()
    runs: tuple[MeasuredRun, ...] = ()
    overhead: dict[str, float] = field(default_factory=dict)
    core_hours: float = math.nan
    remarks: tuple[str, ...] = ()
    recorded_versions: tuple[dict[str, str], ...] = ()
    incomplete: str = ""
    node_ranks: dict[str, float] = field(default_factory=dict)
    layouts: dict[str, Layouts] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layouts", dict(_layouts(self.frames)))
        object.__setattr__(self, "recorded_versions", self.recorded_versions or ({},) * len(self.recorded))

    @cached_property
    def samples(self) -> dict[str, Array]:
        """By participant: cores (ranks where each has one thread) and seconds of each row, shape (n, 2)."""
        return {name: np.column_stack([frame.cores, frame.seconds]) for name, frame in self.frames.items()}

    @property
    def parameters(self) -> dict[str, dict[str, Values]]:
        """By participant, the further columns of its samples."""
        return {name: frame.parameters for name, frame in self.frames.items()}

    @property
    def versions(self) -> dict[str, list[str]]:
        """Of participants that said which version of them ran, those that were measured, sorted."""
        versions = {name: sorted(set(frame.version.tolist())) for name, frame in self.frames.items()}
        return {name: measured for name, measured in versions.items() if any(measured)}

    @property
    def combinations(self) -> list[dict[str, str]]:
        """What may run beside what: one version of each participant that has any."""
        return [dict(zip(self.versions, chosen, strict=True)) for chosen in product(*self.versions.values())]

    def rows(self, kept: Mapping[str, Column]) -> Measurements:
        """Give some of each participant's rows; runs as a whole stay.

        Parameters
        ----------
        kept : mapping from participant to ndarray
            A mask, or an order.

        Returns
        -------
        Measurements
        """
        return replace(self, frames={name: frame[kept[name]] for name, frame in self.frames.items()})

    def of_versions(self, versions: Mapping[str, str]) -> Measurements:
        """Give what was measured of one version of each participant, as measurements that know no versions.

        Parameters
        ----------
        versions : mapping from participant to str
            Of those that have any.

        Returns
        -------
        Measurements
            A participant's rows count whatever versions ran beside it; of runs as a whole those of just these versions.
        """
        frames = {
            name: replace(frame[frame.version == versions[name]] if name in versions else frame, version="")
            for name, frame in self.frames.items()
        }
        pairs = zip(self.recorded, self.recorded_versions, strict=True)
        return replace(
            self,
            frames=frames,
            recorded=tuple(windows for windows, ran in pairs if is_of(ran, versions)),
            runs=tuple(run for run in self.runs if is_of(run.versions, versions)),
            recorded_versions=(),
        )


def is_of(ran: Mapping[str, str], versions: Mapping[str, str]) -> bool:
    """Whether the versions that ran are these."""
    return all(ran.get(name, "") == version for name, version in versions.items())


def _layouts(frames: Mapping[str, Samples]) -> Iterator[tuple[str, Layouts]]:
    for name, frame in frames.items():
        for version in dict.fromkeys(frame.version.tolist()):
            rows, key = frame[frame.version == version], key_of(name, version)
            stated = np.isfinite(rows.threads)
            try:
                if stated.any() and ((layouts := layouts_of(rows.layouts)) != Layouts() or stated.all()):
                    yield key, layouts
            except InfeasibleError as error:
                raise DataError(f"measurements of {key}: {error}; learn from those with one way alone") from None


def joined(parts: Sequence[Measurements]) -> Measurements:
    """Join measurements of one case from several sources; rows that two of them say count once."""
    values: dict[str, Any] = {}
    for key in (known.name for known in fields(Measurements) if known.init):
        stated = [getattr(part, key) for part in parts]
        if isinstance(stated[0], dict):
            values[key] = {name: value for part in stated for name, value in part.items()}
        elif isinstance(stated[0], tuple):
            values[key] = sum(stated, ())
    frames = {}
    for name in values["frames"]:
        having = [part.frames[name] for part in parts if name in part.frames]
        numbers = np.repeat(np.arange(len(having)), [len(frame) for frame in having]).tolist()
        whole = Samples.concat(having)
        kept, again = once(name, whole, numbers)
        frames[name] = whole[kept]
        values["remarks"] += tuple(again)
    return Measurements(**values | {
        "frames": frames,
        "configuration": next((part.configuration for part in parts if part.configuration is not None), None),
        "core_hours": sum(part.core_hours for part in parts),
        "incomplete": "; ".join(part.incomplete for part in parts if part.incomplete),
        "node_ranks": {n: max(part.node_ranks.get(n, 0.0) for part in parts) for n in values["node_ranks"]},
    })  # fmt: skip


def is_number(value: object) -> bool:
    """Whether a parameter is a number; all others are texts."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def once(name: str, samples: Samples, sources: Sequence[Hashable]) -> tuple[NDArray[np.intp], list[str]]:
    """Give the rows that no other source says again, by cores and seconds, and say how many do.

    Rows of one source are readings of their own, however alike. Of different sources those are the same that agree in
    ranks, threads, version, parameters and seconds: the source with most of them counts, or most standard errors.
    """
    groups: dict[Hashable, dict[Hashable, list[int]]] = {}
    for row, measured in enumerate(zip(samples.cases, samples.seconds.tolist(), strict=True)):
        groups.setdefault(measured, {}).setdefault(sources[row], []).append(row)

    def known(rows: list[int]) -> tuple[int, int]:
        return len(rows), int(np.isfinite(samples.standard_error[rows]).sum())

    kept = np.array([row for by_source in groups.values() for row in max(by_source.values(), key=known)], dtype=int)
    again = len(samples) - len(kept)
    rows = "1 row is" if again == 1 else f"{again} rows are"
    remarks = [f"{rows} in more than one source of {name} and counted once."] if again else []
    return kept[np.lexsort((kept, samples.seconds[kept], samples.cores[kept]))], remarks


def stated_parameters(
    metadata: Iterable[Mapping[str, Any]], measurements: Measurements
) -> dict[str, float | str | None]:
    """Parameters that a run states, as far as measurements have columns for them: numbers, and all else as text."""
    known = {column for columns in measurements.parameters.values() for column in columns}
    stated: dict[str, Any] = {}
    for document in metadata:
        stated |= {key: value for key, value in (document.get("parameters") or {}).items() if key in known}
    return {key: float(value) if is_number(value) else str(value) for key, value in stated.items()}
