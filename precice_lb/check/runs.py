"""Judge recorded runs: are they good enough to learn from."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from precice_lb.check.participants import (
    DRIFT,
    CheckResult,
    Finding,
    Health,
    check_participant,
    judged_windows,
    percent,
)
from precice_lb.dataset import CoupledRun
from precice_lb.dataset.runs import cut_short, missing, unfinished
from precice_lb.dataset.series import UNLIKELY, shared_slowness, spread_of
from precice_lb.layout import Layout
from precice_lb.models.posterior import BayesRegressor

# What is worth a word: a difference between runs of this share, and such a correlation.
BETWEEN_RUNS, CORRELATION = 0.03, 0.5
# Layouts that make a curve; how far off it a reading is worth a word, and by what interval of the curve.
CURVE, OFF, SURE = 4, 0.15, 0.99
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
        findings += _whole(run)
        for name in run.participants:
            health, found = check_participant(run, name)
            healths.append(health)
            findings += found
        findings += [*_shared(run), *_crowded(run)]
    findings += [*_repeated(healths), *_off_curve(healths), *_overlapping(runs)]
    return CheckResult(tuple(healths), tuple(findings))


def _whole(run: CoupledRun) -> Iterator[Finding]:
    """Find who did not come to the end, and who is missing."""
    if end := unfinished(run):
        remedy = (
            "look into the solvers' logs for the reason; where a time limit ended it, record fewer windows or give it "
            "more time"
        )
        windows = max(len(part.windows) for part in run.participants.values())
        yield Finding("not finished", run.name, "", end, remedy, -windows)
    if run.incomplete:
        text = f"there are {run.incomplete}: the slowest may be missing"
        yield Finding("missing ranks", run.name, "", text, "give the files of all ranks")
    if cut := cut_short(run):
        yield Finding("cut short", run.name, "", cut, "copy the file of that rank anew, or record again")
    absent, remedy = missing(run)
    if absent:
        yield Finding("missing", run.name, "", absent, remedy)


def _shared(run: CoupledRun) -> Iterator[Finding]:
    """Find participants of one machine that are slow in the same windows, whatever their iterations."""
    for (one, first), (other, second) in itertools.combinations(run.participants.items(), 2):
        if first.metadata.get("hostname") != second.metadata.get("hostname"):
            continue
        if first.negligible or second.negligible or run.time.of(one) != run.time.of(other):
            continue
        series = []
        common = np.intersect1d(first.windows[judged_windows(run, first)], second.windows[judged_windows(run, second)])
        for part in (first, second):
            rows = np.isin(part.windows, common)
            series.append(part.compute_per_iteration[rows])
        correlation, z_score = shared_slowness(series[0], series[1])
        if correlation > CORRELATION and z_score > UNLIKELY and max(spread_of(s).deviation for s in series) > DRIFT:
            yield Finding(
                "other load",
                run.name,
                "",
                f"{one} and {other} are slow in the same windows (correlation {correlation:.2f} over {len(common)} "
                "windows), on the same machine",
                "look for other programs on it, its file system and its clock rate; ask for nodes of your own, and pin "
                "the ranks of each participant to cores of their own",
                correlation,
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
    """Find runs of one version with the same ranks that differ by more than their windows explain."""
    groups: dict[tuple[str, str, Layout], list[Health]] = defaultdict(list)
    for health in healths:
        if health.seconds > 0 and not health.negligible:
            groups[health.participant, health.version, health.layout].append(health)
    for (participant, _, layout), group in groups.items():
        fastest, slowest = min(group, key=_seconds), max(group, key=_seconds)
        change = _seconds(slowest) / _seconds(fastest) - 1
        known = [h.error for h in (fastest, slowest) if math.isfinite(h.error)]
        if change > max(BETWEEN_RUNS, UNLIKELY * math.hypot(*known)):
            yield Finding(
                "repeated runs",
                f"{fastest.run}, {slowest.run}",
                participant,
                f"on {layout.words} it took {percent(change)} longer{slowest.each} in {slowest.run} than in "
                f"{fastest.run}, more than the spread of their windows explains",
                "the machine differs from run to run (nodes, neighbours, placement): pin ranks, ask for the same kind "
                "of nodes, and repeat runs near the recommended split",
                change,
            )


def _off_curve(healths: Sequence[Health]) -> Iterator[Finding]:
    """Find rank counts at which a version was far from what its other runs tell: the noise of that reading."""
    groups: dict[tuple[str, str], list[Health]] = defaultdict(list)
    for health in healths:
        if health.seconds > 0 and not health.negligible:
            groups[health.participant, health.version].append(health)
    for (participant, _), group in groups.items():
        cores = np.array([float(health.layout.cores) for health in group])
        logs = np.log([_seconds(health) for health in group])
        for count in np.unique(cores)[1:-1] if len(np.unique(cores)) >= CURVE else ():
            here = cores == count
            others = BayesRegressor().fit(cores[~here], np.exp(logs[~here]))
            expected = np.log(others.predict([count])[0])
            low, high = np.log(others.predict_interval([count], SURE))[:, 0]
            off, noise = float(np.median(logs[here]) - expected), UNLIKELY * others.noise_
            if abs(off) > max(OFF, math.hypot(high - expected if off > 0 else expected - low, noise)):
                first = group[int(np.argmax(here))]
                yield Finding(
                    "off the curve",
                    ", ".join(health.run for health, mine in zip(group, here, strict=True) if mine),
                    participant,
                    f"on {first.layout.words} it took {percent(abs(math.expm1(off)))} {'longer' if off > 0 else 'less'}"
                    f"{first.each} than its runs on more and on fewer tell",
                    "it counts as a reading with noise: repeat it, and look for what was different in that run",
                    abs(off),
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
                f"both ran on {shared[0]} at the same time, for {percent(overlap / shorter)} of the shorter one",
                "run one after the other, or on nodes of their own",
                overlap / shorter,
            )


def _hosts(run: CoupledRun) -> set[str]:
    return {str(p.metadata["hostname"]) for p in run.participants.values() if p.metadata.get("hostname")}


def _time(run: CoupledRun) -> tuple[float, float]:
    """Begin and end in ns of Unix time; an end before the begin where it is not known."""
    metadata = [part.metadata for part in run.participants.values()]
    begins = [int(each["started_unix_ns"]) for each in metadata]
    ends = [int(each["ended_unix_ns"]) for each in metadata if "ended_unix_ns" in each]
    return min(begins), max(ends, default=0)


def _seconds(health: Health) -> float:
    """Give the median compute seconds per coupling iteration."""
    return health.seconds / health.iterations
