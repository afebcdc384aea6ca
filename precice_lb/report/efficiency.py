"""Parallel efficiency of a coupled run as a product of factors, each with its own cause, in the terms of POP.

Core-seconds of solve over core-seconds occupied, per time window. The factors are ratios of sums over the participants,
each of which is above the fraction bar of one factor and below that of the next: they multiply up exactly. See
docs/explanation/measured.md, and for the terms the POP Centre of Excellence, Standard Metrics for Performance Analysis
of Hybrid Parallel Applications, https://pop-coe.eu.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from precice_lb.case import parse_configuration
from precice_lb.dataset import CoupledRun, Measurements, measurements_from_runs
from precice_lb.dataset.runs import flaws
from precice_lb.exceptions import PreciceLBError, ScheduleError
from precice_lb.schedule import Schedule

if TYPE_CHECKING:
    from precice_lb.report.summary import ParticipantSummary

INSIDE = ("solve_in_busy_time", "load_balance_of_ranks", "communication_of_ranks")
"""Factors of a participant's compute time in a window."""
BETWEEN = ("load_balance_of_participants", "serialisation_efficiency", "coupling_efficiency")
"""Factors of the share of the window that is compute time, in the mean over all cores."""


@dataclass(frozen=True)
class Efficiencies:
    """Factors of the parallel efficiency: none where they are not known.

    Attributes
    ----------
    run : dict of str to float
        ``parallel_efficiency`` is the product of `INSIDE` and ``compute_in_window``, which is that of `BETWEEN`. Where
        no schedule is known, ``longest_participant_in_window`` stands for the last two of these.
    participants : dict of str to dict of str to float
        The same of each, without `BETWEEN`.
    chain_seconds : float
        The longest chain of compute per window; NaN where no schedule is known.
    chain : tuple of str
        Whose compute that is, in the order in which they wait for each other.
    problem : str
        Why they, or the chain, are not known; empty where they are.
    """

    run: dict[str, float]
    participants: dict[str, dict[str, float]]
    chain_seconds: float = math.nan
    chain: tuple[str, ...] = ()
    problem: str = ""


def measured_schedule(run: CoupledRun) -> tuple[Measurements, Schedule]:
    """Read one run as samples, and its schedule out of its configuration; refuse what says neither."""
    measurements = measurements_from_runs([run])
    configuration = parse_configuration(measurements.configuration or "")
    return measurements, Schedule.from_config(configuration, measurements.iterations, measurements.overhead)


def efficiencies_of(run: CoupledRun, participants: Sequence[ParticipantSummary]) -> Efficiencies:
    """Divide what a run took per time window into the factors of its parallel efficiency."""
    if run.not_compared:
        return Efficiencies({}, {}, problem=run.not_compared)
    if len(participants) == 1 or "missing" in flaws(run):
        return Efficiencies({}, {}, problem="not all participants were recorded")
    # Of what takes no time nothing is a share.
    if unknown := [part.participant for part in participants if not part.compute_seconds * part.load_balance > 0]:
        return Efficiencies({}, {}, problem=f"what {', '.join(unknown)} computed was not measured")
    window = max(part.window_seconds for part in participants)
    # By participant, as rows: core-seconds of solve, busy, as if all ranks were as busy as the busiest, of compute, and
    # occupied. What ranks do that wait in the solver is not known: the mean of the others stands for them.
    cores = np.array([part.layout.cores for part in participants])
    seconds = [
        (np.nanmean(part.working), np.nanmean(part.busy), np.nanmax(part.busy), part.compute_seconds, window)
        for part in participants
    ]
    spent = cores[:, None] * np.array(seconds)
    whole, *rows = (_factors(row) for row in (spent.sum(axis=0), *spent))
    longest, occupied = max(part.compute_seconds for part in participants), cores.sum()
    whole["load_balance_of_participants"] = float(spent[:, 3].sum() / (occupied * longest))
    by_name = dict(zip([part.participant for part in participants], rows, strict=True))
    try:
        chain, names = _chain(run, participants)
    except PreciceLBError as error:
        whole["longest_participant_in_window"] = longest / window
        return Efficiencies(whole, by_name, problem=str(error))
    whole |= {"serialisation_efficiency": longest / chain, "coupling_efficiency": chain / window}
    return Efficiencies(whole, by_name, chain, names)


def _factors(spent: np.ndarray) -> dict[str, float]:
    """Divide core-seconds, from those of solve to those occupied, each by the next ones."""
    ratios = (spent[:-1] / spent[1:]).tolist()
    return {
        "parallel_efficiency": float(spent[0] / spent[-1]),
        **dict(zip((*INSIDE, "compute_in_window"), ratios, strict=True)),
    }


def _chain(run: CoupledRun, participants: Sequence[ParticipantSummary]) -> tuple[float, tuple[str, ...]]:
    """Find the longest chain of compute per window, and who is in it, where everything takes its mean."""
    _, schedule = measured_schedule(run)
    counts = {part.participant: part.windows_per_period for part in participants}
    if counts.items() - schedule.windows.items():
        expected = ", ".join(f"{count} of {name}" for name, count in schedule.windows.items())
        raise ScheduleError(f"expected time windows of all participants ({expected}), found others or no records")
    costs = {part.participant: part.compute_seconds / counts[part.participant] for part in participants}
    return float(schedule.window_seconds(costs)), schedule.critical_cycle(costs)
