"""What was measured stands beside what is predicted: models that contradict it are not used.

Each participant's model is held against the median at every measured number of ranks, and the predicted window against
the mean window of every measured split. What noise does not explain speaks against the model; then the interpolation of
the measurements themselves is taken.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from precice_lb.dataset.records import MeasuredRun
from precice_lb.exceptions import PreciceLBError
from precice_lb.models import make_learner
from precice_lb.models.measurements import Points, measured_points
from precice_lb.recommend.case import Case, fit_model, learner_name, rows_of_case
from precice_lb.recommend.posterior import ExpectedWindowTime
from precice_lb.schedule import Schedule

Array = NDArray[np.float64]

# The learner by which a model that contradicts the measurements is replaced.
FALLBACK = "interpolation"
# A prediction within this share of a measurement is never called wrong.
LEAST_TOLERANCE = 0.10
# Without repeats, readings that are farther than this from a model, in the mean square, are not taken for noise.
LARGEST_DISCREPANCY = 0.09
# A right model is called wrong this often by any of a participant's points.
FALSE_ALARM = 0.01
# One reading may be a straggler, delayed by something else, where so many others agree.
AGREEING = 4
# A predicted window is called wrong beyond so many standard errors of the measured one.
WINDOW_ERRORS = 2.0
# Combinations of measured rank counts that are looked at.
COMBINATIONS = 4096


@dataclasses.dataclass(frozen=True)
class Rejection:
    """A model that is not used, since it contradicts what was measured."""

    # Whose model, and what learned it.
    participant: str
    learner: str
    # Where it is off most.
    ranks: int
    # Median and model there, in seconds per window.
    measured: float
    predicted: float
    # Share of the measured seconds that noise explains.
    tolerance: float
    # The learner that is used.
    instead: str

    def text(self, where: str) -> str:
        """Say what happened in one sentence: off most at so many ranks or cores."""
        used = "the measurements are interpolated" if self.instead == "interpolation" else f"{self.instead} is used"
        return (
            f"{self.participant}: {self.learner} is not used: it says {self.predicted:.4g} s at "
            f"{where}, where {self.measured:.4g} s (median) was measured and noise "
            f"explains {100 * self.tolerance:.0f} %; {used} instead."
        )


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A measured split beside its prediction."""

    # Ranks by participant.
    split: dict[str, int]
    # Mean seconds per window; of several runs, their median.
    measured: float
    # Relative, with what runs usually differ by.
    standard_error: float
    # Predicted mean seconds per window.
    predicted: float
    # The runs that measured it; none where points of single participants were put together.
    runs: tuple[str, ...]
    # Compute seconds of each participant, as they go with the measured window.
    own: dict[str, float] = dataclasses.field(default_factory=dict)

    @property
    def tolerance(self) -> float:
        """Share of the measured window by which the prediction may be off: 10 %, or two standard errors."""
        return max(LEAST_TOLERANCE, WINDOW_ERRORS * self.standard_error)

    @property
    def excess(self) -> float:
        """How far the prediction is off, in tolerances; infinite for what is no time at all."""
        if not 0 < self.predicted < math.inf:
            return math.inf
        return abs(math.log(self.predicted / self.measured)) / math.log1p(self.tolerance)

    @property
    def agrees(self) -> bool:
        """Whether the prediction is within the tolerance."""
        return self.excess <= 1.0

    def interval(self, level: float) -> tuple[float, float]:
        """Bounds of the measured window time, in seconds."""
        factor = math.exp(float(norm.ppf((1 + level) / 2)) * self.standard_error)
        return self.measured / factor, self.measured * factor

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types."""
        values = {key: value for key, value in dataclasses.asdict(self).items() if key != "own"}
        return {**values, "tolerance": self.tolerance, "agrees": self.agrees}


def _points_of_case(case: Case, name: str) -> Points | None:
    """Measured points of a participant at the values of this case; None where nothing was measured there."""
    here = rows_of_case(case.measurements, name, case.columns[name])
    if not here.any():
        return None
    rows = np.asarray(case.measurements.samples[name], dtype=np.float64)[here]
    return measured_points(rows[:, 0], rows[:, 1], case.measurements.errors(name)[here])


def trusted_model(case: Case, name: str, learners: Sequence[Any]) -> tuple[Any, Rejection | None]:
    """Fit the first of some learners whose model does not contradict a participant's measurements."""
    points = _points_of_case(case, name)
    first: Rejection | None = None
    model = fit_model(case, name, learners[0])
    for at, learner in enumerate(learners):
        if at:
            try:
                model = fit_model(case, name, learner)
            except PreciceLBError:
                continue
        found = None if points is None else _worst(name, model, points)
        if at == 0:
            first = found
        if found is None:
            break
    return model, None if first is None else dataclasses.replace(first, instead=learner_name(model))


def with_fallback(prototype: Any) -> list[Any]:
    """Learners to try for a participant: the wanted one, then what replaces it."""
    return [prototype] if learner_name(prototype) == FALLBACK else [prototype, make_learner(FALLBACK)]


def _stragglers(model: Any, points: Points) -> NDArray[np.bool_]:
    """Tell the one reading between others that is slower than a model with which at least `AGREEING` others agree."""
    off, tolerance = _off(model, points)
    found = (off > tolerance) & (points.readings == 1)
    found[[0, -1]] = False
    alone = (np.abs(off) > tolerance).sum() == 1 and len(off) > AGREEING
    return found if alone else np.zeros(len(off), dtype=np.bool_)


def _worst(name: str, model: Any, points: Points) -> Rejection | None:
    """Where a model is off most, if that is more than noise explains, at any one point or over all of them."""
    kept = ~_stragglers(model, points)
    off, tolerance = (each[kept] for each in _off(model, points))
    errors = points.errors[kept]
    overall = np.sqrt(chi2.ppf(1 - FALSE_ALARM, len(errors)) / len(errors)) * errors
    if np.sqrt(np.mean((off / errors) ** 2)) > overall[0] / errors[0] and np.abs(off).max() > LEAST_TOLERANCE / 2:
        tolerance = np.minimum(tolerance, overall)
    if (points.readings[kept] == 1).all() and np.sqrt(np.mean(off**2)) > LARGEST_DISCREPANCY:
        # Without repeats a wrong curve looks like noise: more than this is not accepted as noise.
        tolerance = np.minimum(tolerance, np.log1p(LARGEST_DISCREPANCY))
    at = int(np.argmax(np.abs(off) / tolerance))
    if abs(off[at]) <= tolerance[at]:
        return None
    measured = float(points.seconds[kept][at])
    return Rejection(
        name,
        learner_name(model),
        int(points.ranks[kept][at]),
        measured,
        float(measured * np.exp(-off[at])),
        float(np.expm1(tolerance[at])),
        "",
    )


def _off(model: Any, points: Points) -> tuple[Array, Array]:
    """How far measured points are above a model, and what noise explains at any of them, in logarithms."""
    predicted = np.asarray(model.predict(points.ranks[:, None]), dtype=np.float64)
    critical = float(norm.ppf(1 - FALSE_ALARM / 2 / len(points.ranks)))
    with np.errstate(invalid="ignore", divide="ignore"):
        off = np.log(points.seconds / predicted)
    tolerance = np.maximum(np.log1p(LEAST_TOLERANCE), critical * points.errors)
    # What is no time at all is as far off as can be.
    return np.where(np.isfinite(off), off, np.inf), tolerance


def compared_with_measured(expected: ExpectedWindowTime, runs: Sequence[MeasuredRun]) -> list[Comparison]:
    """Hold predictions against the windows of measured splits."""
    names = expected.names
    groups: dict[tuple[int, ...], list[MeasuredRun]] = {}
    for run in runs:
        if set(names) <= set(run.split):
            groups.setdefault(tuple(run.split[name] for name in names), []).append(run)
    found = []
    for ranks, group in groups.items():
        windows = np.array([_window(expected.schedule, run) for run in group])
        repeats = measured_points(np.zeros(len(windows)), windows[:, 0], windows[:, 1])
        split, measured = dict(zip(names, ranks, strict=True)), float(repeats.seconds[0])
        own = {name: float(np.median([run.compute_seconds[name] for run in group])) for name in names}
        # They sum to no more than the window leaves room for.
        steady = float(expected.schedule.window_seconds(own))
        scale = min(1.0, measured / steady) if steady > 0 else 1.0
        own = {name: seconds * scale for name, seconds in own.items()}
        runs_of = tuple(dict.fromkeys(run.name for run in group))
        predicted = float(expected.window(split).mean())
        found.append(Comparison(split, measured, float(repeats.errors[0]), predicted, runs_of, own))
    return sorted(found, key=lambda each: each.measured)


def compared_points(case: Case, expected: ExpectedWindowTime) -> list[Comparison]:
    """Put measured points of the participants together; none where there are too many ways."""
    names = expected.names
    points = {name: _points_of_case(case, name) for name in names}
    known = {name: each for name, each in points.items() if each is not None}
    if len(known) < len(names) or math.prod(len(each.ranks) for each in known.values()) > COMBINATIONS:
        return []
    at = np.array(list(itertools.product(*(range(len(known[name].ranks)) for name in names))))
    own = {name: known[name].seconds[column] for name, column in zip(names, at.T, strict=True)}
    errors = np.max([known[name].errors[column] for name, column in zip(names, at.T, strict=True)], axis=0)
    windows = expected.seconds(own)
    own = expected.mean_own(own)
    ranks = {name: known[name].ranks[column].astype(int) for name, column in zip(names, at.T, strict=True)}
    return [
        Comparison(
            {name: int(ranks[name][row]) for name in names},
            float(windows[row]),
            float(errors[row]),
            math.nan,
            (),
            {name: float(own[name][row]) for name in names},
        )
        for row in range(len(at))
    ]


def _window(schedule: Schedule, run: MeasuredRun) -> tuple[float, float]:
    """Mean seconds of the coupling's windows in a run, and their standard error: of who takes longest for them."""
    each: Mapping[str, int] = schedule.windows
    seconds = {name: each[name] * run.window_seconds[name] for name in schedule.participants}
    longest = max(seconds, key=seconds.__getitem__)
    return seconds[longest], each[longest] * run.standard_errors[longest]
