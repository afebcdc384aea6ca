"""A recommendation and its evidence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.dataset import Measurements
from precice_lb.layout import Layout, Layouts
from precice_lb.models.base import formula_of
from precice_lb.recommend.plan import Alternative, FailedSplit, Plan
from precice_lb.recommend.posterior import Comparison, ExpectedWindowTime
from precice_lb.recommend.remarks import Remark
from precice_lb.recommend.sources import measured_rows, rows_at
from precice_lb.split.admissible import Limits
from precice_lb.text import to_jsonable

#: Format and format version of what `Recommendation.to_dict` returns.
FORMAT = "precice-lb-recommendation"
FORMAT_VERSION = 1
RECOMMENDATION_FILE = "recommendation.json"
# What a recommendation is made with, and no part of what is written.
_WORKING = ("models", "measurements", "expected", "limits", "modelled")


@dataclass(frozen=True, eq=False)
class Recommendation:
    """The recommended split, what it should give, and what that rests on.

    Attributes
    ----------
    split : dict of str to int
        Ranks by participant (cores of those in `layouts`), in the coupling's order. Their sum is below ``total_ranks``
        where more ranks do not help.
    window_seconds : float
        Expected seconds per time window: with a learner that draws curves, their geometric mean.
    interval : (float, float)
        Bounds of the window time that hold it with probability ``level``, in seconds; NaN for a learner that has none.
    level : float
        Of the intervals, between 0 and 1.
    rank_intervals : dict of str to (int, int)
        By participant, bounds that hold with probability ``level`` the ranks that are really best for it within the
        budget; empty for a learner that draws no curves, and where cores are shared or of several kinds.
    compute_seconds, waits : dict of str to float
        Predicted seconds per time window that each participant works on its own and waits for others (means again).
    imbalance : float
        Load imbalance (max - min) / max of the participants' compute seconds, in the same time where their windows
        differ in size.
    total_ranks : int
        The budget, in ``unit``.
    schedule : str
        The coupling, in words.
    learner : str
        Name of the learner.
    models : dict of str to estimator
        The fitted models: seconds per time window over ranks.
    measurements : Measurements
        What was learned from.
    expected : ExpectedWindowTime
        The curves that this was decided on, with what sharing cores costs, and the coupling. Whatever is said later
        of the recommendation is judged by them.
    limits : Limits
        What bounds the split.
    parameters : dict of str to float or str
        The case that this is for, where measurements are of several.
    modelled : dict of str to dict of str to float
        By participant, the parameters that its model knows beside the ranks, at their values of this case.
    alternatives : dict of str to Alternative
        ``"equal"``, ``"degrees-of-freedom"`` where those of all participants are known, both as near as the bounds
        allow, ``"present"`` where the split in use was given, and ``"in-turns"``, all of them on all cores, where no
        two participants ever work at the same time.
    warnings : tuple of Remark
        What speaks against trusting this blindly: codes with their numbers; as strings, sentences.
    critical : tuple of str
        Participants whose work sets the window time, in the order in which they wait for each other.
    unit : {"ranks", "cores", "nodes"}
        What ``total_ranks`` counts.
    used : dict of str to int
        Ranks, and where it matters cores and nodes, that the split occupies.
    gap : float
        By what share of the least possible window time this one is above it, at most. The optimum for the mean curves
        is below the expected window time of any split (its logarithm is convex), so it proves that.
    proof : str
        What proves that optimum, as of `precice_lb.split.SplitResult`.
    plan : Plan or None
        Splits that are nearly as good, and window time against core-hours, where asked for and models are used.
    comparisons : tuple of Comparison
        Every measured split beside its prediction, the shortest measured window first.
    failed_splits : tuple of FailedSplit
        Splits whose runs failed, which were not to be chosen.
    versions : dict of str to str
        The version recommended of each participant that has several.
    choices : tuple of VersionChoice
        Every combination of versions with its own best split, the recommended one first.
    """

    split: dict[str, int]
    window_seconds: float
    interval: tuple[float, float]
    level: float
    rank_intervals: dict[str, tuple[int, int]]
    compute_seconds: dict[str, float]
    waits: dict[str, float]
    imbalance: float
    total_ranks: int
    schedule: str
    learner: str
    models: dict[str, Any]
    measurements: Measurements
    expected: ExpectedWindowTime
    limits: Limits
    parameters: dict[str, float | str]
    modelled: dict[str, dict[str, float]]
    alternatives: dict[str, Alternative]
    warnings: tuple[Remark, ...]
    critical: tuple[str, ...] = ()
    unit: str = "ranks"
    used: dict[str, int] = field(default_factory=dict)
    gap: float = math.nan
    proof: str = ""
    plan: Plan | None = None
    comparisons: tuple[Comparison, ...] = ()
    failed_splits: tuple[FailedSplit, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    choices: tuple[VersionChoice, ...] = ()

    @property
    def layouts(self) -> Mapping[str, Layouts]:
        """Ranks and threads of participants that are split by cores; of the others the split counts ranks."""
        return self.limits.layouts

    @property
    def ranks(self) -> dict[str, int]:
        """MPI ranks of each participant at the split."""
        return {name: self.limits.machine.layouts(name, "").of(count).ranks for name, count in self.split.items()}

    @property
    def counted(self) -> str:
        """What the budget and the split count, in a word, which is cores where a participant is split by them."""
        return "cores" if self.layouts and self.unit == "ranks" else self.unit

    def predicted(self, name: str, ranks: ArrayLike) -> NDArray[np.float64]:
        """Seconds per time window that a participant's model gives in this case.

        Parameters
        ----------
        name : str
            The participant.
        ranks : array of shape (n,)
            Ranks.

        Returns
        -------
        ndarray, shape (n,)
        """
        return np.asarray(self.models[name].predict(rows_at(ranks, self.modelled[name])), dtype=np.float64)

    def measured_here(self, name: str) -> NDArray[np.bool_]:
        """Which of a participant's measurements are of this case, and not of a smaller mesh, say.

        Parameters
        ----------
        name : str
            The participant.

        Returns
        -------
        ndarray of bool, shape (n,)
        """
        frame = self.measurements.frames[name]
        same = [frame.parameters[key] == value for key, value in self.modelled[name].items()]
        return np.asarray(np.all([np.ones(len(frame), dtype=np.bool_), *same], axis=0))

    def predicted_again(self, name: str) -> NDArray[np.float64]:
        """Seconds per time window that a participant's model gives for each of its measurements.

        Parameters
        ----------
        name : str
            The participant.

        Returns
        -------
        ndarray, shape (n,)
        """
        rows = measured_rows(self.measurements.frames[name], self.modelled[name])
        return np.asarray(self.models[name].predict(rows), dtype=np.float64)

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types (times in seconds; null where something is not known)."""
        measured = self.measurements
        plain = {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name not in _WORKING}
        document: dict[str, Any] = to_jsonable(
            {
                **{"format": FORMAT, "format_version": FORMAT_VERSION},
                **plain,
                "layouts": {name: kind.of(self.split[name]) for name, kind in self.layouts.items()},
                "models": {name: _describe(model) for name, model in self.models.items()},
                "measurements": {
                    "sources": measured.sources,
                    "degrees_of_freedom": measured.degrees_of_freedom,
                    "iterations": measured.iterations,
                    "core_hours": measured.core_hours,
                    "samples": {name: self._samples(name) for name in measured.samples},
                },
            }
        )
        return document

    def _samples(self, name: str) -> list[dict[str, Any]]:
        frame, columns = self.measurements.frames[name], self.measurements.parameters[name]
        threaded = self.measurements.layouts.get(name, Layouts()) != Layouts()
        return [
            {"ranks": layout.ranks, **({"threads": layout.threads} if threaded else {})}
            | {"seconds": frame.seconds[row], "standard_error": frame.standard_error[row]}
            | ({"parameters": {key: values[row] for key, values in columns.items()}} if columns else {})
            for row, layout in enumerate(frame.layouts)
        ]


@dataclass(frozen=True)
class VersionChoice:
    """A combination of versions, and what is recommended with it."""

    # The version of each participant that has several.
    versions: dict[str, str]
    # Why it has no split; empty where it has one.
    problem: str = ""
    # Its best split, the layouts of participants that are split by cores, and the rest as of a `Recommendation`.
    split: dict[str, int] = field(default_factory=dict)
    layouts: dict[str, Layout] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    window_seconds: float = math.nan
    interval: tuple[float, float] = (math.nan, math.nan)
    # 1 minus the window time of the recommended combination over its own, and the probability that it is slower.
    gain: float = math.nan
    probability: float = math.nan


def versions_text(versions: Mapping[str, str]) -> str:
    """Write versions: Fluid gpu, Solid cpu."""
    return ", ".join(f"{name} {version or 'without a version'}" for name, version in versions.items())


def _describe(model: Any) -> dict[str, Any]:
    kind = type(model).__name__
    formula = formula_of(model)
    if formula is None:
        return {"estimator": kind}
    return {"estimator": kind, "formula": formula, "text": formula.text()}
