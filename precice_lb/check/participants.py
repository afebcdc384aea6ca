"""Judge one participant of a recorded run: warm-up, length, drift, outliers and spread of its windows."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from precice_lb.check.records import Finding, Health
from precice_lb.check.threads import thread_findings
from precice_lb.dataset import CoupledRun, ParticipantRun
from precice_lb.dataset.runs import warmup_found
from precice_lb.dataset.series import LEAST_WINDOWS, Drift, Spread, drift_of, outliers_of, spread_of
from precice_lb.plural import plural

Array = NDArray[np.float64]

# What is worth a word: an error of the median of this share, outliers in this share of the windows, fewer windows than
# this after warm-up.
LARGEST_ERROR, OUTLIERS, FEWEST_WINDOWS = 0.02, 0.05, 5
# Nobody is asked to record more than so many times what was recorded.
MOST_TIMES = 10


def check_participant(run: CoupledRun, name: str) -> tuple[Health, list[Finding]]:
    """Give the numbers of one participant and what is wrong: nothing is, where its compute time is negligible."""
    part = run.participants[name]
    warmup = warmup_found(part)
    steady = judged_windows(run, part)
    own, counts = part.compute_per_iteration[steady], part.iterations[steady]
    drift = drift_of(own) if len(own) >= LEAST_WINDOWS else Drift(math.nan, 0.0)
    outliers = outliers_of(own)
    # What drifts is not spread.
    trend = 1 + drift.change * np.linspace(-0.5, 0.5, len(own)) if drift.significant else np.ones(len(own))
    spread = spread_of(own / np.maximum(trend, 0.1))
    iterations = float(np.mean(counts)) if len(own) else math.nan
    health = Health(
        run=run.name,
        participant=name,
        ranks=part.ranks,
        windows=len(part.windows),
        warmup_left_out=run.warmup_windows,
        warmup_found=warmup,
        seconds=float(np.median(own)) * iterations if len(own) else math.nan,
        iterations=iterations,
        negligible=part.negligible,
        drift=drift.change,
        drift_z_score=drift.z_score,
        outliers=len(outliers),
        deviation=spread.deviation,
        error=spread_of(own).error,
        threads=part.threads,
        version=part.version,
    )
    if part.negligible:
        return health, []
    found = _findings(run, part, health, own, outliers, spread)
    return health, list(found)


def judged_windows(run: CoupledRun, part: ParticipantRun) -> NDArray[np.bool_]:
    """Tell the windows that were measured and come after the warm-up that is left out or found, shape (W,)."""
    return np.isfinite(part.compute_seconds) & (part.windows > max(run.warmup_windows, warmup_found(part)))


def percent(share: float) -> str:
    """Write a share of one as per cent, with three digits."""
    return f"{100 * share:.3g} %"


def _findings(
    run: CoupledRun, part: ParticipantRun, health: Health, own: Array, outliers: NDArray[np.intp], spread: Spread
) -> Iterator[Finding]:
    yield from thread_findings(run.name, part)
    if len(part.windows) and not part.compute_measured:
        remedy = "; ".join(part.timing_problems) or "record with a backend that tells waits, or with profiling files"
        text = "its waits were not measured, so that its compute seconds are not known"
        yield Finding("not measured", run.name, part.participant, text, remedy)
        return
    yield from _of_warmup(run, part, health, own)
    yield from _of_hidden_wait(part, health, own)
    yield from _of_length(health, len(own))
    yield from _of_drift(health, len(own))
    yield from _of_outliers(health, own, outliers)
    if len(own) >= FEWEST_WINDOWS:
        yield from _of_spread(health, spread)


def _finding(health: Health, kind: str, text: str, remedy: str, size: float) -> Finding:
    return Finding(kind, health.run, health.participant, text, remedy, size)


def _of_warmup(run: CoupledRun, part: ParticipantRun, health: Health, own: Array) -> Iterator[Finding]:
    """Find warm-up that is not left out, or whose end is not to be seen."""
    found = health.warmup_found
    unseen = found >= part.windows[-1] // 2 if found else False
    if not len(own) or not (unseen or found > run.warmup_windows):
        return
    first = run.warmup_stated + 1 if found > run.warmup_stated else 1
    early = part.compute_per_iteration[(part.windows >= first) & (part.windows <= found)]
    change = float(np.median(early[np.isfinite(early)]) / np.median(own) - 1)
    which = f"window {first} is" if first == found else f"windows {first} to {found} are"
    word = "slower" if change > 0 else "faster"
    text = f"{which} {percent(abs(change))} {word}{health.each} than those after"
    if unseen:
        text += f"; where the warm-up ends is not to be seen in {plural(int(part.windows[-1]), 'window')}"
        remedy = "record more windows, or start from a developed state (a restart)"
    else:
        left_out = plural(run.warmup_windows, "window")
        text += f", and {left_out} {'is' if run.warmup_windows == 1 else 'are'} left out"
        remedy = f"leave out {found}: --warmup {found}, or say nothing of it and they are"
    yield _finding(health, "warm-up", text, remedy, found)


def _of_length(health: Health, left: int) -> Iterator[Finding]:
    if left >= FEWEST_WINDOWS:
        return
    count = plural(left, "window") if left else "no window"
    text = f"{count} {'are' if left > 1 else 'is'} left after warm-up"
    needed = max(health.warmup_left_out, health.warmup_found) + 10
    yield _finding(health, "windows", text, f"record at least {needed} windows", -left)


def _of_drift(health: Health, windows: int) -> Iterator[Finding]:
    if health.drifts:
        word = "grow" if health.drift > 0 else "fall"
        yield _finding(
            health,
            "drift",
            f"its seconds{health.each or ' per window'} {word} by {percent(abs(health.drift))} of their median "
            f"over {plural(windows, 'window')} ({abs(health.drift_z_score):.1f} standard deviations)",
            "the load changes (refinement, particles, contact): start calibration runs from a state that production "
            "spends its time in, or record more of it",
            abs(health.drift),
        )


def _of_outliers(health: Health, own: Array, outliers: NDArray[np.intp]) -> Iterator[Finding]:
    if len(outliers) <= OUTLIERS * len(own):
        return
    factors = own[outliers] / np.median(own)
    worst = float(factors[np.argmax(np.abs(np.log(factors)))])
    remedy = (
        "write output less often during calibration, and keep other programs off the nodes; the median of the windows "
        "withstands single ones"
        if worst > 1
        else "look into the solver's log for what it skips in those windows (steps that converge at once, updates that "
        "are not needed); the median of the windows withstands single ones"
    )
    yield _finding(
        health,
        "outliers",
        f"{len(outliers)} of {plural(len(own), 'window')} {'is' if len(outliers) == 1 else 'are'} far from the "
        f"neighbours, the worst at {worst:.2g} times the median",
        remedy,
        abs(math.log(worst)),
    )


def _of_hidden_wait(part: ParticipantRun, health: Health, own: Array) -> Iterator[Finding]:
    if part.hidden_wait > 0 and len(own):
        share = part.hidden_wait / float(np.median(own))
        yield _finding(
            health,
            "shared cores",
            f"for {part.hidden_wait:.3g} s{health.each or ' per window'} (median) inside of advance, {percent(share)} "
            "of its compute seconds, its partner worked on the same core; they count as waiting",
            "pin the ranks of each participant to cores of their own, as calibrate does",
            share,
        )


def _of_spread(health: Health, spread: Spread) -> Iterator[Finding]:
    if not spread.error > LARGEST_ERROR:
        return
    needed = max(health.warmup_left_out, health.warmup_found) + spread.windows_for(LARGEST_ERROR / 2)
    remedy = (
        f"record {needed} windows to know it to {percent(LARGEST_ERROR / 2)}, or repeat the run"
        if needed <= MOST_TIMES * health.windows
        else "repeat the run: the machine is too noisy (other programs, shared cores, clock rate), or the work changes "
        "too much from window to window, for any reasonable number of windows"
    )
    yield _finding(
        health,
        "spread",
        f"windows differ{health.each} by {percent(spread.deviation)}; after {spread.windows} of them the median is "
        f"known to {percent(spread.error)}",
        remedy,
        spread.error,
    )
