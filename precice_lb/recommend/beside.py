"""What participants on one node cost each other: alone and beside, from runs whose stores tell which was which.

A participant that computes beside others on its node, for a share of its compute time, works in that share at 1 / r of
its speed: memory bandwidth, caches and clock rates are shared. So c seconds, of them a share f beside, are
c (1 - f + f / r) seconds alone. The slow-down r is fitted to runs with equal ranks of the participant and different
shares; only ratios of runs count, not their seconds.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from precice_lb.dataset import CoupledRun, Measurements
from precice_lb.precice_xml import parse_configuration
from precice_lb.schedule import Schedule
from precice_lb.split import Constraints

__all__ = ["placed", "share_beside", "slow_downs"]

# Shares of runs that are compared differ by at least this.
_DIFFERENT = 0.3
# Nobody is slower than this beside others, unless they share cores.
_LARGEST = 16.0
# A smaller difference than this says nothing.
_NOTICEABLE = 0.02


def share_beside(run: CoupledRun, name: str) -> float:
    """Share of a participant's compute time in which another one computes on a node of its own, by the run's stores.

    Parameters
    ----------
    run
        A coupled run.
    name
        One of its participants.

    Returns
    -------
    float
        Where windows begin together, what the longest of the others on its nodes computes, over what it computes itself
        (medians), at most 1; 0 on nodes of its own or where two take turns; NaN where stores or coupling do not tell.
    """
    own = run.participants[name]
    others = [part for other, part in run.participants.items() if other != name]
    if not own.places or not all(part.places for part in others):
        return math.nan
    beside = [part for part in others if part.places.keys() & own.places.keys()]
    if not beside:
        return 0.0
    schedule = Schedule.from_config(parse_configuration(run.configuration))
    if _in_turns(schedule):
        return 0.0
    if not schedule.is_maximum:
        return math.nan
    mine = _seconds(run, name)
    return min(1.0, max(_seconds(run, part.participant) for part in beside) / mine)


def slow_downs(runs: Sequence[CoupledRun]) -> dict[str, float]:
    """Fit by what factor each participant is slower while others compute on its nodes.

    Parameters
    ----------
    runs
        Of one case, some with the participants alone and some beside each other; of one version of each participant.

    Returns
    -------
    dict of str to float
        From 1 on; without participants of which no two runs on as many cores differ in their shares.
    """
    found: dict[str, list[tuple[int, float, float]]] = {}
    for run in runs:
        for name, part in run.participants.items():
            row = part.cores, _seconds(run, name), share_beside(run, name)
            if all(map(math.isfinite, row)):
                found.setdefault(name, []).append(row)
    groups = {name: _comparable(rows) for name, rows in found.items()}
    return {name: _fitted(rows) for name, rows in groups.items() if rows}


def placed(
    measurements: Measurements, runs: Sequence[CoupledRun], turns: Sequence[CoupledRun], constraints: Constraints
) -> Measurements:
    """Take samples to the placement that a split will have: on shared nodes beside each other, else alone.

    Parameters
    ----------
    measurements
        Of ``runs``.
    runs
        As they were measured.
    turns
        Runs of the same splits in which each participant was alone.
    constraints
        What the machine has: participants share nodes where it has cores per node and nobody has nodes of its own.

    Returns
    -------
    Measurements
        As they are where it makes no difference, the machine's nodes are not stated, or versions were measured; a
        remark says what was found, or that none was measured. Else without whole runs, which were placed otherwise.
    """
    names = list(measurements.samples)
    emulated = any(part.metadata.get("emulated_load") for run in runs for part in run.participants.values())
    if len(names) < 2 or emulated or not runs or measurements.versions:
        return measurements
    if constraints.cores_per_node is None:
        return _not_used(measurements, slow_downs([*runs, *turns]) if turns else {})
    if not Schedule.from_config(parse_configuration(runs[0].configuration)).is_maximum:
        # Of the time of others that compute at once, nothing is known beforehand.
        return measurements
    target = {name: 0.0 if constraints.has_whole_nodes(name) else 1.0 for name in names}
    measured = {name: {run.name: share_beside(run, name) for run in runs if name in run.participants} for name in names}
    slower = slow_downs([*runs, *turns])
    samples, errors, remarks = dict(measurements.samples), dict(measurements.standard_errors), []
    moved = False
    for name in names:
        if name not in slower:
            if not abs(_usual(measured[name].values()) - target[name]) < _DIFFERENT:
                remarks.append(_unknown(name, target[name]))
            continue
        r = slower[name]
        factors = _factors(measurements, name, measured[name], target[name], r)
        remarks.append(f"Beside others on its nodes, {name} takes {r:.2f} times as long as alone, as was measured.")
        if np.abs(np.log(factors)).max() > _NOTICEABLE:
            moved = True
            samples[name] = np.column_stack([samples[name][:, 0], samples[name][:, 1] * factors])
            errors[name] = measurements.errors(name) * factors
    remarks = [*measurements.remarks, *remarks]
    if not moved:
        return dataclasses.replace(measurements, remarks=tuple(remarks))
    return dataclasses.replace(
        measurements, samples=samples, standard_errors=errors, runs=(), communication={}, remarks=tuple(remarks)
    )


def _not_used(measurements: Measurements, slower: Mapping[str, float]) -> Measurements:
    """Say what was found where nobody knows what the machine's nodes are."""
    if not slower:
        return measurements
    found = " and ".join(f"{name} takes {r:.2f} times as long as alone" for name, r in slower.items())
    remark = (
        f"Beside others on its nodes, {found}, as was measured; times stay as measured, since the "
        "machine's nodes are not stated: cores_per_node of [machine], or --cores-per-node, tells who shares one."
    )
    return dataclasses.replace(measurements, remarks=(*measurements.remarks, remark))


def _in_turns(schedule: Schedule) -> bool:
    """Whether no two participants ever compute at once."""
    each = schedule.window_seconds(dict.fromkeys(schedule.participants, 1.0))
    return len(schedule.participants) == 2 and bool(np.isclose(each, 2.0))


def _seconds(run: CoupledRun, name: str) -> float:
    """Median compute seconds per coupling iteration after the warm-up."""
    found = run.participants[name].compute_per_iteration[run.steady(name)]
    found = found[np.isfinite(found)]
    return float(np.median(found)) if len(found) else math.nan


def _comparable(rows: Sequence[tuple[int, float, float]]) -> list[tuple[int, float, float]]:
    """Keep rows of ranks at which shares differ."""
    shares: dict[int, list[float]] = {}
    for ranks, _, share in rows:
        shares.setdefault(ranks, []).append(share)
    return [row for row in rows if max(shares[row[0]]) - min(shares[row[0]]) >= _DIFFERENT]


def _fitted(rows: Sequence[tuple[int, float, float]]) -> float:
    """Least squares of the logarithms of seconds alone, which are the same at equal ranks."""
    ranks, seconds, shares = (np.array(column) for column in zip(*rows, strict=True))

    def spread(logarithm: float) -> float:
        alone = np.log(seconds * _alone(shares, math.exp(logarithm)))
        return float(sum(((alone[ranks == count] - alone[ranks == count].mean()) ** 2).sum() for count in set(ranks)))

    best = minimize_scalar(spread, bounds=(0.0, math.log(_LARGEST)), method="bounded", options={"xatol": 1e-6})
    return math.exp(float(best.x))


def _alone(shares: NDArray[np.float64], r: float) -> NDArray[np.float64]:
    """Seconds alone over seconds of which shares are beside others."""
    return 1.0 - shares + shares / r


def _factors(
    measurements: Measurements, name: str, shares: Mapping[str, float], target: float, r: float
) -> NDArray[np.float64]:
    """Find what each sample is multiplied by: one of no run has the median share, and 1 where that is not known."""
    of_row = {(run.split[name], run.compute_seconds[name]): shares.get(run.name) for run in measurements.runs}
    usual = _usual(shares.values())
    usual = target if math.isnan(usual) else usual
    found = [of_row.get((int(ranks), seconds)) for ranks, seconds in measurements.samples[name]]
    ours = np.array([usual if share is None or math.isnan(share) else share for share in found])
    return _alone(ours, r) / _alone(np.array([target]), r)


def _usual(shares: Iterable[float]) -> float:
    """Median of the known shares; NaN where none is."""
    known = [share for share in shares if math.isfinite(share)]
    return float(np.median(known)) if known else math.nan


def _unknown(name: str, target: float) -> str:
    if target:
        return (
            f"{name} may share nodes with others; no runs say how much slower that makes it, so none is assumed: "
            "runs.beside in a study measures it."
        )
    return (
        f"{name} gets nodes of its own, and was measured beside others or nobody knows where; no runs say how much "
        "faster it is alone, so none is assumed: runs.beside in a study measures it."
    )
