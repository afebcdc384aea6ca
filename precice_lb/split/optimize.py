"""The door of this room: from times and a budget to the best split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from precice_lb.exceptions import ModelError
from precice_lb.schedule import Schedule
from precice_lb.split.exact import branch_and_bound_split, minimax_split
from precice_lb.split.problem import Curve, Times, curves_of

__all__ = ["SplitResult", "optimize_split"]


@dataclass(frozen=True)
class SplitResult:
    """The best split and why it is.

    Attributes
    ----------
    split
        Ranks by participant. Their sum may be below the budget: ranks that make nobody faster stay unused.
    window_seconds
        Steady seconds per time window with it.
    waits
        Seconds per window that each participant waits.
    own_seconds
        Seconds per window that each participant works.
    critical_cycle
        Participants whose work sets the window time.
    gap
        Proven upper bound of (window_seconds − best)/best; 0 says that no split is better.
    bound
        What proves it, in words.
    """

    split: dict[str, int]
    window_seconds: float
    waits: dict[str, float]
    own_seconds: dict[str, float]
    critical_cycle: tuple[str, ...]
    gap: float
    bound: str = ""


def optimize_split(
    times: Mapping[str, Times],
    budget: int,
    *,
    schedule: Schedule,
    minimum_ranks: int | Mapping[str, int] = 1,
    maximum_ranks: Mapping[str, int] | None = None,
) -> SplitResult:
    """Find the split with the shortest time window, exactly.

    If the schedule makes the window time a maximum over the participants, by bisection on it (any number of
    participants and ranks); otherwise by branch and bound. Ranks left over make the slowest participant faster that can
    still get faster, then the next.

    Parameters
    ----------
    times
        Own seconds per window of each participant: an array whose entry p - 1 belongs to p ranks, which then bounds the
        ranks by its length, or a function from an array of rank counts to an array of seconds.
    budget
        Ranks to give out in all.
    schedule
        How the coupling turns own seconds into the window time.
    minimum_ranks
        Ranks that a participant gets at least, one number for all or one for each.
    maximum_ranks
        Ranks that a participant gets at most.

    Returns
    -------
    SplitResult
        The split, with gap 0.

    Raises
    ------
    InfeasibleError
        If no split satisfies budget and bounds, or if there are too many to compare.
    ModelError
        If times are missing, not finite or not positive.
    """
    if set(times) != set(schedule.participants):
        raise ModelError(
            f"expected times of {', '.join(schedule.participants)}, the participants of the coupling, "
            f"found {', '.join(times) or 'none'}"
        )
    curves = curves_of({name: times[name] for name in schedule.participants}, budget, minimum_ranks, maximum_ranks)
    weighted = {name: Curve(c.ranks, c.seconds * schedule.weights[name]) for name, c in curves.items()}
    split, needed = minimax_split(weighted, budget)
    if schedule.is_maximum:
        bound = f"a shorter window needs {needed} ranks" if needed else "the slowest is as fast as it gets"
    else:
        split, boxes = branch_and_bound_split(curves, budget, schedule.window_seconds, split)
        bound = f"{boxes} boxes of splits were bounded and none can be shorter"
        # What they leave over goes the same way as under a maximum.
        above = {name: c.cut(int(c.index_within(split[name])), len(c.ranks)) for name, c in weighted.items()}
        split, _ = minimax_split(above, budget)
    own = {name: float(c.seconds[c.index_within(split[name])]) for name, c in curves.items()}
    return SplitResult(
        split=split,
        window_seconds=float(schedule.window_seconds(own)),
        waits={name: float(wait) for name, wait in schedule.waits(own).items()},
        own_seconds=own,
        critical_cycle=schedule.critical_cycle(own),
        gap=0.0,
        bound=bound,
    )
