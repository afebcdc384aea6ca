"""Energy per time window: what recorded runs drew by core, and the budget of least energy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import lsq_linear

from precice_lb.exceptions import DataError
from precice_lb.split import TradeoffCurve, TradeoffPoint

__all__ = ["MeasuredEnergy", "joules_per_window", "least_energy", "watts_of"]


@dataclass(frozen=True)
class MeasuredEnergy:
    """What a job, or one component of a heterogeneous job, consumed.

    Attributes
    ----------
    split : dict of str to int
        The participants that ran there, with their numbers in the split.
    joules : float
        Of their nodes, from the job's start to its end.
    seconds : float
        From its start to its end.
    """

    split: dict[str, int]
    joules: float
    seconds: float


def watts_of(measured: Sequence[MeasuredEnergy], names: Sequence[str]) -> dict[str, float]:
    """Find what each participant draws by core: least squares over the jobs' mean power, none of it negative.

    Parameters
    ----------
    measured
        Jobs and components.
    names
        The participants.

    Returns
    -------
    dict of str to float
        Watts by unit of the split, of cores that compute and that wait alike. Where the jobs cannot tell participants
        apart, all have the same.

    Raises
    ------
    DataError
        Nothing was measured, or nothing of some participant.
    """
    used = [each for each in measured if set(each.split) <= set(names)]
    missing = [name for name in names if not any(name in each.split for each in used)]
    if missing:
        raise DataError(
            "prefer energy: expected runs of all participants whose energy is known, as Slurm reports it for jobs of a "
            f"campaign with the launcher slurm (sacct ConsumedEnergyRaw), found none of {', '.join(missing)}; prefer "
            "time or cost"
        )
    counts = np.array([[each.split.get(name, 0) for name in names] for each in used], dtype=np.float64)
    power = np.array([each.joules / each.seconds for each in used])
    # Relative to the power, so that large runs do not decide alone.
    rows = counts / power[:, None]
    if np.linalg.matrix_rank(rows) == len(names):
        # nnls of scipy 1.12 to 1.15 may stop before the optimum.
        found = lsq_linear(rows, np.ones(len(rows)), (0, np.inf), method="bvls").x
        if (found > 0).all():
            return dict(zip(names, found.tolist(), strict=True))
    return dict.fromkeys(names, float(power.sum() / counts.sum()))


def joules_per_window(watts: Mapping[str, float], split: Mapping[str, int], window_seconds: float) -> float:
    """Energy of one time window in joules, by what `watts_of` has found.

    Parameters
    ----------
    watts
        By participant.
    split
        Likewise.
    window_seconds
        Its window.

    Returns
    -------
    float
    """
    return window_seconds * sum(watts[name] * count for name, count in split.items())


def least_energy(curve: TradeoffCurve, watts: Mapping[str, float]) -> TradeoffPoint:
    """Choose the point of a curve with the least energy per window; among equals the shortest window.

    Parameters
    ----------
    curve
        The best split of each budget.
    watts
        As of `watts_of`.

    Returns
    -------
    TradeoffPoint
    """
    return min(
        curve.points,
        key=lambda point: (joules_per_window(watts, point.split, point.window_seconds), point.window_seconds),
    )
