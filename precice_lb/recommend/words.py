"""`recommend_split`: everything in plain words, for those who call from Python."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from precice_lb.dataset import Measurements
from precice_lb.recommend.facade import recommend
from precice_lb.recommend.inputs import coupling_of
from precice_lb.recommend.machine import machine_of
from precice_lb.recommend.records import Prefer
from precice_lb.recommend.result import Recommendation
from precice_lb.recommend.scheme import parallel_of
from precice_lb.recommend.sources import load_sources, measurements_from_arrays
from precice_lb.schedule import Schedule
from precice_lb.split import SharedCores

__all__ = ["recommend_split"]


def recommend_split(
    measurements: Mapping[str, Any] | Measurements | str | Path,
    total_ranks: int | None = None,
    *,
    coupling: str | Path | Schedule = "parallel",
    minimum_ranks: int | Mapping[str, int] = 1,
    learner: Any = None,
    random_state: int = 0,
    present: Mapping[str, int] | None = None,
    parameters: Mapping[str, float | str | None] | None = None,
    cores: int | None = None,
    nodes: int | None = None,
    cores_per_node: int | None = None,
    gpus_per_node: int | None = None,
    whole_nodes: bool | Collection[str] | None = None,
    threads: int | Mapping[str, int] | None = None,
    gpus_per_rank: Mapping[str, int] | None = None,
    multiple: int | Mapping[str, int] | None = None,
    allow: Mapping[str, Sequence[int]] | None = None,
    fixed: Mapping[str, int] | None = None,
    shared: Sequence[SharedCores] | None = None,
    prefer: Prefer | None = None,
    within: float | None = None,
    verify: bool = False,
    spent_core_hours: float | None = None,
) -> Recommendation:
    """Recommend how many ranks each participant should get.

    Parameters
    ----------
    measurements : mapping from participant to array of shape (n, 2), Measurements, or path
        Ranks and seconds per time window (own cost, without waiting); or a CSV file or directory of stores with them.
    total_ranks : int
        Ranks to give out in all; or ``cores`` or ``nodes`` instead.
    coupling : {"parallel", "serial"}, path of a ``precice-config.xml``, or Schedule
        How the participants wait for each other.
    minimum_ranks : int or mapping from participant to int
        Ranks that a participant gets at least.
    learner : str or scikit-learn regressor, optional
        A name out of `precice_lb.models.LEARNERS`, or an estimator.
    random_state : int
        Seed; the same call gives the same result.
    present : mapping from participant to int, optional
        The split in use, to be compared with.
    parameters : mapping from parameter to float, str or None; optional
        The case to recommend for, as of `recommend`.
    cores, nodes, cores_per_node, gpus_per_node : int, optional
        The budget as cores or nodes, and what a node has.
    whole_nodes : bool or collection of participants, optional
        Who gets nodes of its own.
    threads, gpus_per_rank : mapping from participant to int; threads also one int; optional
        Cores and GPUs of one rank.
    multiple, allow, fixed : mapping from participant to int, list of int, int; multiple also one int; optional
        Ranks come in multiples of this, are among these only, or are given.
    shared : sequence of SharedCores, optional
        Participants that take turns on the same cores.
    prefer, within, verify, spent_core_hours
        As of `recommend`. With ``prefer`` or ``within``, a serial coupling is also compared with a parallel one.

    Returns
    -------
    Recommendation
        With ``split``, ``window_seconds``, ``interval`` and ``to_dict()``.

    Raises
    ------
    PreciceLBError
        Unusable measurements, too few ranks, or a coupling that cannot be read; the message says what to do.
    """
    table = _measurements(measurements)
    names = tuple(table.samples)
    budget, constraints = machine_of(
        total_ranks, cores, nodes, cores_per_node=cores_per_node, gpus_per_node=gpus_per_node, whole_nodes=whole_nodes,
        threads=threads, gpus_per_rank=gpus_per_rank, multiples=multiple, allowed=allow, fixed=fixed, shared=shared,
    )  # fmt: skip
    return recommend(
        table,
        budget,
        schedule=coupling_of(coupling, names),
        minimum_ranks=minimum_ranks,
        learner=learner,
        random_state=random_state,
        present=present,
        parameters=parameters,
        constraints=constraints,
        prefer=prefer,
        within=within,
        verify=verify,
        instead=None if prefer is None and within is None else parallel_of(coupling, names),
        spent_core_hours=spent_core_hours,
    )


def _measurements(given: Mapping[str, Any] | Measurements | str | Path) -> Measurements:
    if isinstance(given, str | Path):
        return load_sources([given])
    return given if isinstance(given, Measurements) else measurements_from_arrays(given)
