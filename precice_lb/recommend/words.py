"""`recommend_split`: everything in plain words, for those who call from Python."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from precice_lb.dataset import Measurements
from precice_lb.exceptions import DataError, InfeasibleError
from precice_lb.recommend.bounds import whole_number
from precice_lb.recommend.facade import recommend
from precice_lb.recommend.inputs import coupling_of
from precice_lb.recommend.machine import Machine
from precice_lb.recommend.records import Prefer
from precice_lb.recommend.result import Recommendation
from precice_lb.recommend.scheme import parallel_of
from precice_lb.recommend.sources import load_sources, measurements_from_arrays, measurements_from_frame
from precice_lb.schedule import Schedule
from precice_lb.split import Constraints

__all__ = ["recommend_split"]

# What some arguments were called before.
_BEFORE = {"measurements": "data", "total_ranks": "budget", "random_state": "seed", "parameters": "parameter"}
_OF_MACHINE = tuple(field.name for field in dataclasses.fields(Machine))


def recommend_split(
    data: Any = None,
    budget: int | None = None,
    *,
    coupling: str | Path | Schedule = "parallel",
    machine: Machine | Constraints | None = None,
    minimum_ranks: int | Mapping[str, int] = 1,
    maximum_ranks: Mapping[str, int] | None = None,
    learner: Any = None,
    learner_parameters: Mapping[str, Any] | None = None,
    seed: int = 0,
    level: float = 0.8,
    present: Mapping[str, int] | None = None,
    parameter: Mapping[str, float | str | None] | None = None,
    prefer: Prefer | None = None,
    within: float | None = None,
    verify: bool = False,
    instead: Schedule | None = None,
    spent_core_hours: float | None = None,
    failed: Sequence[Mapping[str, int]] = (),
    **words: Any,
) -> Recommendation:
    """Recommend how many ranks each participant should get.

    Parameters
    ----------
    data : path, mapping from participant to array of shape (n, 2), Measurements, or pandas DataFrame
        A CSV file or directory of stores; ranks and seconds per time window (compute time, without waiting) by
        participant; or a long table with the columns participant, ranks, seconds, and one for each further parameter.
    budget : int
        Ranks to give out in all; or the machine has ``cores`` or ``nodes`` for that; or what `Constraints` count.
    coupling : {"parallel", "serial"}, path of a ``precice-config.xml``, or Schedule
        How the participants wait for each other.
    machine : Machine or Constraints, optional
        What the machine has and demands. The fields of `Machine` may also be given directly, as words of their own.
    minimum_ranks, maximum_ranks : int or mapping from participant to int; mapping
        Ranks that a participant gets at least, and at most.
    learner, learner_parameters : str or scikit-learn regressor, mapping; optional
        A name out of `precice_lb.models.LEARNERS` and its parameters, or an estimator.
    seed : int
        The same call with the same seed gives the same result.
    level : float
        Of the intervals, between 0 and 1.
    present : mapping from participant to int, optional
        The split in use, to be compared with.
    parameter : mapping from parameter to float, str or None; optional
        The case to recommend for, as ``parameters`` of `recommend`.
    prefer, within, verify, spent_core_hours, failed
        As of `recommend`. With ``prefer`` or ``within``, a serial coupling is also compared with a parallel one.
    instead : Schedule, optional
        Another coupling to compare with in place of that.
    **words
        Fields of `Machine`, such as ``nodes=12, cores_per_node=48``; and ``measurements``, ``total_ranks``,
        ``random_state`` and ``parameters``, the earlier names of ``data``, ``budget``, ``seed`` and ``parameter``.

    Returns
    -------
    Recommendation
        With ``split``, ``window_seconds``, ``interval`` and ``to_dict()``.

    Raises
    ------
    PreciceLBError
        Unusable measurements, too few ranks, or a coupling that cannot be read; the message says what to do.
    TypeError
        A word that is none of these.
    """
    before = {now: words.pop(name) for name, now in _BEFORE.items() if name in words}
    unknown = [word for word in words if word not in _OF_MACHINE]
    if unknown:
        raise TypeError(
            f"recommend_split() got an unexpected keyword argument {unknown[0]!r}; beside its own arguments it takes "
            f"words of the machine ({', '.join(_OF_MACHINE)})"
        )
    if words and machine is not None:
        raise InfeasibleError(
            f"expected the machine as a whole or in words, found both: machine and {', '.join(words)}; name one"
        )
    table = _measurements(before.get("data", data))
    names = tuple(table.samples)
    budget = before.get("budget", budget)
    constraints: Constraints | None
    if isinstance(machine, Constraints):
        total, constraints = whole_number(budget, f"a budget in {machine.unit}", 1), machine
    else:
        total, constraints = (machine or Machine(**words)).constraints(budget)
    if instead is None and (prefer is not None or within is not None):
        instead = parallel_of(coupling, names)
    return recommend(
        table,
        total,
        schedule=coupling_of(coupling, names),
        minimum_ranks=minimum_ranks,
        maximum_ranks=maximum_ranks,
        learner=learner,
        learner_parameters=learner_parameters,
        random_state=before.get("seed", seed),
        level=level,
        present=present,
        parameters=before.get("parameter", parameter),
        constraints=constraints,
        prefer=prefer,
        within=within,
        verify=verify,
        instead=instead,
        spent_core_hours=spent_core_hours,
        failed=failed,
    )


def _measurements(given: Any) -> Measurements:
    if given is None:
        raise DataError(
            "expected data: a path, a mapping from participant to an array of ranks and seconds, measurements or a "
            "DataFrame, found none"
        )
    if isinstance(given, str | Path):
        return load_sources([given])
    if isinstance(given, Measurements):
        return given
    if hasattr(given, "columns") and hasattr(given, "itertuples"):
        return measurements_from_frame(given)
    return measurements_from_arrays(given)
