"""What another split would bring a running simulation, and when a restart would have paid for itself."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from precice_lb.dataset import Measurements
from precice_lb.exceptions import ModelError
from precice_lb.precice_xml import parse_configuration
from precice_lb.recommend import Recommendation, recommend
from precice_lb.schedule import Schedule
from precice_lb.watch.snapshot import Rebalance

__all__ = ["rebalance"]


def rebalance(
    configuration: str,
    ranks: Mapping[str, int],
    compute_seconds: Mapping[str, float],
    iterations: Mapping[str, float],
    *,
    measurements: Measurements | None = None,
    parameters: Mapping[str, float | str | None] | None = None,
    learner: str | None = None,
    restart_seconds: float = math.nan,
    restart_measured: bool = False,
) -> Rebalance:
    """Recommend for the load that a run has now.

    Curves come from earlier measurements, and each is scaled so that it gives, at the ranks the participant runs on,
    what it takes now: a load that has drifted since counts. Without earlier measurements there is one point per
    participant, and how it scales is what the learner assumes.
    """
    parsed = parse_configuration(configuration)
    total = sum(ranks.values())

    def recommended(what: Measurements, parameters: Mapping[str, float | str | None] | None) -> Recommendation:
        return recommend(
            what, total, schedule=Schedule.from_config(parsed, dict(iterations), what.overhead),
            learner=learner, parameters=parameters, present=ranks,
            spent_core_hours=None if math.isnan(restart_seconds) else restart_seconds * total / 3600,
        )  # fmt: skip

    if measurements is None:
        now = {name: np.array([[float(ranks[name]), compute_seconds[name]]]) for name in ranks}
        result = recommended(Measurements(now, {}, configuration, {}, dict(iterations), ()), None)
        basis = "this run alone, at one split"
    else:
        before = recommended(measurements, parameters)
        scaled, spread = {}, {}
        for name, samples in measurements.samples.items():
            model = before.models[name]
            factor = compute_seconds[name] / float(np.asarray(model.predict(np.array([[float(ranks[name])]])))[0])
            scaled[name] = samples * np.array([1.0, factor])
            spread[name] = np.asarray(measurements.spread.get(name, np.full(len(samples), np.nan))) * factor
        # What windows of other runs differed by belongs to another load.
        load = dataclasses.replace(measurements, samples=scaled, spread=spread, recorded=(), runs=())
        result = recommended(load, parameters)
        counts = ", ".join(f"{len(rows)} of {name}" for name, rows in measurements.samples.items())
        basis = f"earlier measurements ({counts}), scaled to the load of the latest windows"
    present = result.alternatives.get("present")
    if present is None:
        raise ModelError(" ".join(result.warnings) or "what is known says nothing about the present split")
    return Rebalance(
        split=dict(result.split),
        present=dict(ranks),
        window_seconds=result.window_seconds,
        present_seconds=present.window_seconds,
        interval=result.interval,
        gain=present.gain,
        probability=present.probability,
        restart_seconds=restart_seconds,
        restart_measured=restart_measured,
        windows_to_pay=result.payback.windows["present"] if result.payback else math.nan,
        basis=basis,
        warnings=result.warnings,
    )
