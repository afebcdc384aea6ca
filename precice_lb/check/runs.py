"""Judge recorded runs: are they good enough to learn from."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from precice_lb.check.records import CheckResult, Finding, Health
from precice_lb.dataset import CoupledRun, ParticipantRun, warmup_found
from precice_lb.dataset.series import (
    UNLIKELY,
    Drift,
    Spread,
    drift_of,
    outliers_of,
    shared_slowness,
    spread_of,
)

__all__ = ["check_runs"]

Array = NDArray[np.float64]
# Kind, what was found, remedy.
_Text: TypeAlias = tuple[str, str, str]

# What is worth a word: a drift and a difference between runs of this share, an error of the median of this share, ...
DRIFT, BETWEEN_RUNS, LARGEST_ERROR = 0.03, 0.03, 0.02
# ... outliers in this share of the windows, fewer windows than this after warm-up, and such a correlation.
OUTLIERS, FEWEST_WINDOWS, CORRELATION = 0.05, 5, 0.5
# Runs that overlap by more than this share of the shorter one.
OVERLAP = 0.02


def check_runs(runs: Sequence[CoupledRun]) -> CheckResult:
    """Look for warm-up, drift, outliers, spread and the machine's other load.

    Parameters
    ----------
    runs
        As of `precice_lb.dataset.load_runs`; what they leave out as warm-up is compared with what is found.

    Returns
    -------
    CheckResult
    """
    healths: list[Health] = []
    findings: list[Finding] = []
    for run in runs:
        for name, part in run.participants.items():
            health, found = _participant(run, name, part)
            healths.append(health)
            findings += found
        findings += [*_shared(run), *_crowded(run)]
    findings += [*_repeated(healths), *_overlapping(runs)]
    return CheckResult(tuple(healths), tuple(findings))


def _participant(run: CoupledRun, name: str, part: ParticipantRun) -> tuple[Health, list[Finding]]:
    measured = np.isfinite(part.own_seconds)
    warmup = warmup_found(part)
    steady = measured & (part.windows > max(run.warmup_windows, warmup))
    own, iterations = part.own_per_iteration[steady], part.iterations[steady]
    drift, outliers = drift_of(own), outliers_of(own)
    # What drifts is not spread.
    trend = 1 + drift.change * np.linspace(-0.5, 0.5, len(own)) if drift.significant else np.ones(len(own))
    spread = spread_of(own / np.maximum(trend, 0.1))
    health = Health(
        run=run.name,
        participant=name,
        ranks=part.ranks,
        windows=len(part.windows),
        warmup_left_out=run.warmup_windows,
        warmup_found=warmup,
        seconds=float(np.median(own) * np.mean(iterations)) if len(own) else math.nan,
        drift=drift.change,
        drift_deviations=drift.deviations,
        outliers=len(outliers),
        deviation=spread.deviation,
        error=spread.error,
    )
    if not measured.any():
        remedy = "; ".join(part.timing_problems) or "record with a backend that tells waits, or with profiling files"
        text = "its waits were not measured, so that its own seconds are not known"
        return health, [Finding("not measured", run.name, name, text, remedy)]
    texts = [
        _of_warmup(run, part, own, warmup),
        _of_hidden_wait(part, own),
        _of_length(own, warmup),
        _of_drift(own, drift),
        _of_outliers(own, outliers),
        _of_spread(spread, max(run.warmup_windows, warmup)),
    ]
    return health, [Finding(each[0], run.name, name, each[1], each[2]) for each in texts if each is not None]


def _of_warmup(run: CoupledRun, part: ParticipantRun, own: Array, found: int) -> _Text | None:
    """Find warm-up that is not left out, or whose end is not to be seen."""
    unseen = found >= part.windows[-1] // 2 if found else False
    if not len(own) or not (unseen or found > run.warmup_windows):
        return None
    first = run.warmup_stated + 1 if found > run.warmup_stated else 1
    early = part.own_per_iteration[(part.windows >= first) & (part.windows <= found)]
    change = float(np.median(early[np.isfinite(early)]) / np.median(own) - 1)
    word = "slower" if change > 0 else "faster"
    text = f"windows {first} to {found} are {_percent(abs(change))} {word} than those after them"
    if unseen:
        return (
            "warm-up",
            f"{text}; where the warm-up ends is not to be seen in {part.windows[-1]} windows",
            "record more windows, or start from a developed state (a restart)",
        )
    text += f", and {run.warmup_windows} are left out"
    return "warm-up", text, f"leave out {found}: --warmup {found}, or say nothing of it and they are"


def _of_length(own: Array, warmup: int) -> _Text | None:
    if len(own) >= FEWEST_WINDOWS:
        return None
    return "windows", f"{len(own)} windows are left after warm-up", f"record at least {warmup + 10} windows"


def _of_drift(own: Array, drift: Drift) -> _Text | None:
    if not drift.significant or abs(drift.change) <= DRIFT:
        return None
    word = "grow" if drift.change > 0 else "fall"
    return (
        "drift",
        f"its seconds per window {word} by {_percent(abs(drift.change))} over {len(own)} windows "
        f"({abs(drift.deviations):.1f} standard deviations)",
        "the load changes (refinement, particles, contact): start calibration runs from a state that production spends "
        "its time in, or record more of it",
    )


def _of_outliers(own: Array, outliers: NDArray[np.intp]) -> _Text | None:
    if len(outliers) <= OUTLIERS * len(own):
        return None
    factors = own[outliers] / np.median(own)
    worst = float(factors[np.argmax(np.abs(np.log(factors)))])
    return (
        "outliers",
        f"{len(outliers)} of {len(own)} windows are far from their neighbours, the worst at {worst:.2g} times the "
        "median",
        "write output less often during calibration, and keep other programs off the nodes; the median of the windows "
        "withstands single ones",
    )


def _of_hidden_wait(part: ParticipantRun, own: Array) -> _Text | None:
    if not part.hidden_wait > 0:
        return None
    return (
        "shared cores",
        f"for {part.hidden_wait:.3g} s per iteration inside of advance, {_percent(part.hidden_wait / np.median(own))} "
        "of its own seconds, its partner worked on the same core; they count as waiting",
        "pin the ranks of each participant to cores of their own, as calibrate does",
    )


def _of_spread(spread: Spread, warmup: int) -> _Text | None:
    if not spread.error > LARGEST_ERROR:
        return None
    more = spread.windows_for(LARGEST_ERROR / 2)
    return (
        "spread",
        f"windows differ by {_percent(spread.deviation)}; after {spread.windows} of them the median is known to "
        f"{_percent(spread.error)}",
        f"record {warmup + more} windows to know it to {_percent(LARGEST_ERROR / 2)}, or repeat the run",
    )


def _shared(run: CoupledRun) -> Iterator[Finding]:
    """Find participants of one machine that are slow in the same windows, whatever their iterations."""
    for (one, first), (other, second) in itertools.combinations(run.participants.items(), 2):
        if first.metadata.get("hostname") != second.metadata.get("hostname"):
            continue
        series = []
        common = np.intersect1d(first.windows[_steady(run, first)], second.windows[_steady(run, second)])
        for part in (first, second):
            rows = np.isin(part.windows, common)
            series.append(part.own_per_iteration[rows])
        correlation, deviations = shared_slowness(series[0], series[1])
        if correlation > CORRELATION and deviations > UNLIKELY and max(spread_of(s).deviation for s in series) > DRIFT:
            yield Finding(
                "other load",
                run.name,
                "",
                f"{one} and {other} are slow in the same windows (correlation {correlation:.2f} over {len(common)} "
                "windows), on the same machine",
                "look for other programs on it, its file system and its clock rate; ask for nodes of your own, and pin "
                "the ranks of each participant to cores of their own",
            )


def _crowded(run: CoupledRun) -> Iterator[Finding]:
    """Find ranks that had no core of their own."""
    if run.crowding:
        yield Finding(
            "shared cores",
            run.name,
            "",
            f"{run.crowding}: times are not those of cores of their own",
            "run on as many cores as ranks, or with fewer ranks",
        )


def _repeated(healths: Sequence[Health]) -> Iterator[Finding]:
    """Find runs with the same ranks that differ by more than their windows explain."""
    groups: dict[tuple[str, int], list[Health]] = defaultdict(list)
    for health in healths:
        if math.isfinite(health.seconds):
            groups[health.participant, health.ranks].append(health)
    for (participant, ranks), group in groups.items():
        fastest, slowest = min(group, key=_seconds), max(group, key=_seconds)
        change = slowest.seconds / fastest.seconds - 1
        known = [h.error for h in (fastest, slowest) if math.isfinite(h.error)]
        if change > max(BETWEEN_RUNS, UNLIKELY * math.hypot(*known)):
            yield Finding(
                "repeated runs",
                f"{fastest.run}, {slowest.run}",
                participant,
                f"on {ranks} ranks it took {_percent(change)} longer in {slowest.run} than in {fastest.run}, more than "
                "the spread of their windows explains",
                "the machine differs from run to run (nodes, neighbours, placement): pin ranks, ask for the same kind "
                "of nodes, and repeat runs near the recommended split",
            )


def _overlapping(runs: Sequence[CoupledRun]) -> Iterator[Finding]:
    """Find coupled runs that ran at the same time on the same machine."""
    for one, other in itertools.combinations(runs, 2):
        shared = sorted(_hosts(one) & _hosts(other))
        (begin, end), (other_begin, other_end) = _time(one), _time(other)
        overlap = min(end, other_end) - max(begin, other_begin)
        shorter = min(end - begin, other_end - other_begin)
        if shared and shorter > 0 and overlap > OVERLAP * shorter:
            yield Finding(
                "other load",
                f"{one.name}, {other.name}",
                "",
                f"both ran on {shared[0]} at the same time, for {_percent(overlap / shorter)} of the shorter one",
                "run one after the other, or on nodes of their own",
            )


def _steady(run: CoupledRun, part: ParticipantRun) -> NDArray[np.bool_]:
    return np.isfinite(part.own_seconds) & (part.windows > max(run.warmup_windows, warmup_found(part)))


def _hosts(run: CoupledRun) -> set[str]:
    return {str(p.metadata["hostname"]) for p in run.participants.values() if p.metadata.get("hostname")}


def _time(run: CoupledRun) -> tuple[float, float]:
    """Begin and end in ns of Unix time; an end before the begin where it is not known."""
    metadata = [part.metadata for part in run.participants.values()]
    begins = [int(each["started_unix_ns"]) for each in metadata]
    ends = [int(each["ended_unix_ns"]) for each in metadata if "ended_unix_ns" in each]
    return min(begins), max(ends, default=0)


def _seconds(health: Health) -> float:
    return health.seconds


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
