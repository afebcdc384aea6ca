"""What a running simulation looks like at one moment, and what another split would bring it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from precice_lb.case import parse_configuration
from precice_lb.dataset import Measurements, Samples
from precice_lb.dataset.series import Drift
from precice_lb.exceptions import DataError, ModelError
from precice_lb.layout import Layout, Layouts
from precice_lb.text import to_jsonable
from precice_lb.watch.convergence import Convergence

if TYPE_CHECKING:
    from precice_lb.recommend.remarks import Remark

#: Version of what `Snapshot.to_dict` gives.
FORMAT_VERSION = 1
DRIFT = 0.05
"""A load that changed by this share counts as drifting, where chance would hardly give it."""


@dataclass(frozen=True, eq=False)
class ParticipantState:
    """One participant: seconds per window in the latest windows and shares of one; NaN where not measured."""

    participant: str
    # Ranks it runs on, and those whose files are there.
    ranks: int
    ranks_seen: int
    # ``running``, ``ended``, or ``stopped`` before the coupling ended: killed, or failed.
    state: str
    # The last time window that all its ranks completed.
    windows: int
    # Medians over the latest windows: wall time, time without waiting for partners, and that waiting.
    window_seconds: float
    compute_seconds: float
    wait_seconds: float
    # Share of the wall time that it waits for partners, in the latest windows and in all after warm-up.
    wait_share: float
    wait_share_so_far: float
    # Trend of its compute seconds over all windows after warm-up, and the latest windows beside those before.
    drift: Drift
    shift: Drift
    # Why waits were not measured, with the number of ranks.
    problems: dict[str, int]
    # Of each rank.
    threads: int = 1

    @property
    def layout(self) -> Layout:
        """Ranks and their threads."""
        return Layout(self.ranks, self.threads)

    @property
    def is_drifting(self) -> bool:
        """Whether its load is not what it was."""
        return abs(self.change) > DRIFT

    @property
    def change(self) -> float:
        """The larger one of `shift` and `drift` among those that chance hardly gives; 0 where there is none."""
        return max((move.change for move in (self.shift, self.drift) if move.significant), key=abs, default=0.0)


@dataclass(frozen=True)
class Rebalance:
    """What another split would bring, by the measured models at the load of the latest windows; NaN where unknown."""

    # The split that is recommended for as many ranks, and the one that runs.
    split: dict[str, int]
    present: dict[str, int]
    # Expected seconds per time window with the one and the other, and an 80 % interval of the first.
    window_seconds: float
    present_seconds: float
    interval: tuple[float, float]
    # ``1 - window_seconds / present_seconds``, and the probability that the recommended split is faster.
    gain: float
    probability: float
    # What a restart costs, and after how many further windows it has paid for that; infinite where it never does.
    restart_seconds: float
    windows_to_pay: float
    # What the models rest on, in words, and what speaks against trusting this blindly.
    basis: str
    warnings: tuple[str, ...]
    # Of those whose splits count cores.
    layouts: Mapping[str, Layouts] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A running simulation at one moment.

    Attributes
    ----------
    run : str
        Its name.
    unix_seconds : float
        When this was seen, in seconds of Unix time.
    participants : tuple of ParticipantState
        By name.
    windows : int
        Time windows that all participants have completed.
    windows_left : int or None
        Time windows until the end that the configuration sets; None where it sets none.
    window_seconds : float
        Median wall time of the latest windows, of the slowest participant.
    waiting : float
        Share of all core time that was waiting for partners in the latest windows; NaN where not measured.
    convergence : tuple of Convergence
        How the implicit couplings converge, in the order of the configuration; none of an explicit one.
    latest : int
        How many windows the latest ones are, at most.
    rebalance : Rebalance or None
        What another split would bring; None where that cannot be told, which ``notes`` then say.
    notes : tuple of str
        What is missing, and why.
    """

    run: str
    unix_seconds: float
    participants: tuple[ParticipantState, ...]
    windows: int
    windows_left: int | None
    window_seconds: float
    waiting: float
    convergence: tuple[Convergence, ...]
    latest: int
    rebalance: Rebalance | None
    notes: tuple[str, ...] = ()

    @property
    def is_running(self) -> bool:
        """Whether some participant still runs."""
        return any(part.state == "running" for part in self.participants)

    @property
    def measures(self) -> dict[str, float]:
        """What thresholds may be set on, as shares: gain, waiting, drift; NaN where unknown."""
        return {
            "gain": self.rebalance.gain if self.rebalance else math.nan,
            "waiting": self.waiting,
            "drift": max(abs(part.change) if part.is_drifting else 0.0 for part in self.participants),
        }

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types: seconds, shares of 1, null where something is not known."""
        values = to_jsonable(self)
        for entry, part in zip(values["participants"], self.participants, strict=True):
            entry["is_drifting"] = part.is_drifting
        if (better := self.rebalance) is not None:
            layouts = {name: choices.of(better.split[name]) for name, choices in better.layouts.items()}
            values["rebalance"]["layouts"] = to_jsonable(layouts)
        measures = to_jsonable(self.measures)
        return {"format": "precice-lb-watch", "format_version": FORMAT_VERSION, **values, "measures": measures}


def rebalance(
    configuration: str,
    layouts: Mapping[str, Layout],
    compute_seconds: Mapping[str, float],
    iterations: Mapping[str, float],
    *,
    measurements: Measurements | None = None,
    parameters: Mapping[str, float | str | None] | None = None,
    versions: Mapping[str, str] | None = None,
    restart_seconds: float = math.nan,
) -> Rebalance:
    """Recommend for the load that a run has now.

    Earlier measurements of each participant, of the version that runs, are scaled so that their curve gives at its
    cores what it takes now. Without any there is one point per participant, and how it scales is what the learner
    assumes.
    """
    # They bring scipy, for which a first view does not wait.
    from precice_lb.recommend import Recommendation, recommend_split
    from precice_lb.schedule import Schedule

    parsed, cores = parse_configuration(configuration), {name: layout.cores for name, layout in layouts.items()}
    total = sum(cores.values())

    def recommended(samples: Measurements) -> Recommendation:
        schedule = Schedule.from_config(parsed, dict(iterations), samples.overhead)
        return recommend_split(samples, total, coupling=schedule, parameter=parameters, present=cores)

    frames: dict[str, Samples] = {}
    if measurements is None:
        for name, layout in layouts.items():
            frames[name] = Samples([layout.ranks], [compute_seconds[name]], layout.threads)
        result = recommended(Measurements(frames, configuration, iterations=dict(iterations)))
        basis = "this run alone, at one split"
    else:
        measurements = _of_running_versions(measurements, versions or {})
        models = recommended(measurements).models
        for name, frame in measurements.frames.items():
            factor = compute_seconds[name] / float(models[name].predict(np.array([[float(cores[name])]]))[0])
            error = frame.standard_error * factor
            frames[name] = dataclasses.replace(
                frame, seconds=frame.seconds * factor, standard_error=error, communication=math.nan
            )
        # What windows of other runs differed by belongs to another load.
        result = recommended(dataclasses.replace(measurements, frames=frames, recorded=(), runs=()))
        basis = "earlier measurements, scaled to the load of the latest windows"
    present = result.alternatives.get("present")
    if present is None:
        raise ModelError(" ".join(map(str, result.warnings)) or "what is known says nothing about the present split")
    better = result.used.get("cores", result.used["ranks"]) * result.window_seconds
    saved = total * present.window_seconds - better
    # Less than rounding is never paid back; a restart that takes an unknown time, NaN, after NaN windows.
    windows = np.ceil(restart_seconds * total / saved - 1e-9) if saved > 1e-12 * better else restart_seconds + math.inf
    return Rebalance(
        split=dict(result.split),
        present=cores,
        window_seconds=result.window_seconds,
        present_seconds=present.window_seconds,
        interval=result.interval,
        gain=present.gain,
        probability=present.probability,
        restart_seconds=restart_seconds,
        windows_to_pay=float(windows),
        basis=basis,
        warnings=tuple(map(_warning_text, result.warnings)),
        layouts=result.layouts,
    )


def _of_running_versions(measurements: Measurements, versions: Mapping[str, str]) -> Measurements:
    """Keep the measurements of the versions that run."""
    if not measurements.versions:
        return measurements
    running = {name: versions.get(name, "") for name in measurements.versions}
    for name, version in running.items():
        if version not in (known := measurements.versions[name]):
            raise DataError(
                f"expected measurements of {name} {version or 'without a version'}, which runs, found those of "
                f"{', '.join(other or 'none' for other in known)}; measure it"
            )
    return measurements.of_versions(running)


def _warning_text(warning: Remark) -> str:
    """Return the sentence of a warning; ``watch`` itself does not take the cores of a node."""
    if warning.code != "more-nodes":
        return str(warning)
    return (
        f"{warning.values['participants']} would get more ranks than ever measured, perhaps on more nodes, where "
        "solvers scale differently: precice-lb recommend takes how many cores a node has (--cores-per-node)."
    )
