"""What one run alone says of its split: which would be faster, by how much, how sure that is, and what to run next."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from precice_lb.dataset import CoupledRun
from precice_lb.exceptions import DataError, PreciceLBError
from precice_lb.recommend import Recommendation, recommend_split
from precice_lb.report.blocks import percent, ranks_text, short_names
from precice_lb.report.efficiency import measured_schedule
from precice_lb.report.page import Evidence, next_text
from precice_lb.report.recommendation import recommended_text, unit_of


@dataclass(frozen=True, eq=False)
class Answer:
    """The split that a run speaks for, on as many cores as it had; why there is none, in ``problem``."""

    # Cores by participant, as they ran and as recommended.
    present: dict[str, int]
    split: dict[str, int] = field(default_factory=dict)
    # Seconds per window of the recommended split, and their interval.
    window_seconds: float = math.nan
    interval: tuple[float, float] = (math.nan, math.nan)
    # What that saves of a window, and the interval of it; whether all of this is above 0.
    gain: float = math.nan
    gain_interval: tuple[float, float] = (math.nan, math.nan)
    is_faster: bool = False
    # Probability that the intervals hold.
    level: float = math.nan
    # Cores by participant of the run to make next; none where none is worth it.
    next_run: dict[str, int] = field(default_factory=dict)
    problem: str = ""
    # All of it as people read it.
    text: str = ""


def answer_of(run: CoupledRun) -> Answer:
    """Recommend on as many cores as a run had, from this run alone."""
    present = {name: part.cores for name, part in run.participants.items()}
    try:
        if len(present) == 1:
            raise DataError(f"only {next(iter(present))} was recorded; give the directories of its partners, too")
        measurements, schedule = measured_schedule(run)
        recommendation = recommend_split(measurements, sum(present.values()), coupling=schedule, present=present)
    except PreciceLBError as error:
        more = "precice-lb recommend takes more runs, and a coupling (--coupling)"
        return Answer(present, problem=str(error), text=f"This run alone speaks for no split: {error}. {more}.")
    return _answer(recommendation, Evidence(recommendation, [run], ()), present)


def _answer(recommendation: Recommendation, evidence: Evidence, present: dict[str, int]) -> Answer:
    expected, level = recommendation.expected, recommendation.level
    gains = 1 - expected.window(recommendation.split) / expected.window(present)
    low, high = np.quantile(gains, [(1 - level) / 2, (1 + level) / 2]).tolist()
    gain = recommendation.alternatives["present"].gain
    unit, (least, most) = unit_of(recommendation), recommendation.interval
    names = short_names(present, 24)
    split = recommended_text(recommendation, names)
    saves = f"{percent(gain)} less ({percent(level, 0)} interval {percent(low)} to {percent(high)})"
    if low > 0:
        text = (
            f"This run speaks for another split of its cores: {split} should take {saves}, "
            f"{unit.text(recommendation.window_seconds)} per time window ({unit.number(least)} to {unit.text(most)})."
        )
    else:
        text = f"The present split is fine: {ranks_text(present, names, recommendation.layouts)}."
        if recommendation.split != present:
            text += f" No other one is surely faster; {split} may take {saves}."
    following = [one.split for one in evidence.prospects.runs] or [recommendation.split] * (low > 0)
    ahead = next_text(evidence) if evidence.prospects.runs or not following else "Run it next."
    text += f" How participants scale is assumed, as one run does not tell it. {ahead}"
    return Answer(
        present,
        split=recommendation.split,
        window_seconds=recommendation.window_seconds,
        interval=recommendation.interval,
        gain=gain,
        gain_interval=(low, high),
        is_faster=low > 0,
        level=level,
        next_run=following[0] if following else {},
        text=text,
    )
