"""Is the data good enough to learn from? Warm-up, drift, outliers, spread and other load, with what to do."""

from __future__ import annotations

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from precice_lb.dataset import CoupledRun, ParticipantRun
from precice_lb.dataset.runs import flaws, warmup_found
from precice_lb.dataset.series import (
    LEAST_WINDOWS,
    UNLIKELY,
    Drift,
    Spread,
    drift_of,
    outliers_of,
    spread_of,
)
from precice_lb.layout import Layout
from precice_lb.store.columns import Array, Mask
from precice_lb.text import plural, to_jsonable

DRIFT = 0.03
"""A drift of a larger share is worth a word."""
_NUMBERS = re.compile(r"[0-9.]+")


@dataclass(frozen=True)
class Finding:
    """Something that speaks against measurements."""

    # ``warm-up``, ``drift``, ``outliers``, ``spread``, ``windows``, ``threads``, ``shared cores``, ``other load``,
    # ``repeated runs``, ``not measured``, ``not finished`` or ``missing``.
    kind: str
    # Name of the coupled run, or of several, and of the participant; empty for what concerns all.
    run: str
    participant: str
    # What was found, with numbers, and what to do.
    text: str
    remedy: str
    # How bad it is, to compare with others of its kind only.
    size: float = 0.0

    @property
    def where(self) -> str:
        """Run and participant."""
        return f"{self.run}: {self.participant}" if self.participant else self.run


@dataclass(frozen=True)
class Health:
    """Numbers of one participant in one run."""

    run: str
    participant: str
    ranks: int
    # Completed time windows, those left out at the start, and those that are unlike the others there.
    windows: int
    warmup_left_out: int
    warmup_found: int
    # Compute seconds per window after both: the median per coupling iteration times the mean iterations; NaN where not
    # measured.
    seconds: float
    # Mean coupling iterations per window.
    iterations: float
    # Whether its compute time is less than 1 % of its windows, so that nothing is found about it.
    negligible: bool
    # Relative change over the run (NaN where there are too few windows to tell), and how unlikely it is as in
    # `precice_lb.dataset.series.Drift`.
    drift: float
    drift_z_score: float
    # Windows far slower or faster than their neighbours.
    outliers: int
    # Relative standard deviation of a window, per iteration, and standard error of the median.
    deviation: float
    error: float
    # Of each rank.
    threads: int = 1
    # Which version of the participant ran; empty where that was not said.
    version: str = ""
    # Of its windows, as many as end together with the longest of any participant.
    windows_per_period: int = 1
    # How many of its ranks there are records of.
    recorded_ranks: int = 0

    @property
    def layout(self) -> Layout:
        """Ranks and their threads."""
        return Layout(self.ranks, self.threads)

    @property
    def ranks_text(self) -> str:
        """Its layout, and of how many ranks there are records where that is not all."""
        return str(self.layout) if self.recorded_ranks in (0, self.ranks) else f"{self.recorded_ranks} of {self.layout}"

    @property
    def drifts(self) -> bool:
        """Whether the drift is worth a word: neither small nor chance."""
        return not self.negligible and abs(self.drift_z_score) > UNLIKELY and abs(self.drift) > DRIFT

    @property
    def drift_text(self) -> str:
        """The drift where it is worth a word."""
        return f"{100 * self.drift:+.1f} %" if self.drifts else "unknown" if math.isnan(self.drift) else "none"

    @property
    def per_iteration(self) -> float:
        """Median compute seconds per coupling iteration."""
        return self.seconds / self.iterations


@dataclass(frozen=True)
class CheckResult:
    """All numbers and all findings.

    Attributes
    ----------
    healths : tuple of Health
        One per participant of each run.
    findings : tuple of Finding
        What is wrong, with remedies.
    """

    healths: tuple[Health, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def groups(self) -> tuple[list[Finding], ...]:
        """The findings by kind and remedy, whatever numbers are in it, in the order found; the worst one first."""
        groups: dict[tuple[str, str], list[Finding]] = {}
        for finding in self.findings:
            groups.setdefault((finding.kind, _NUMBERS.sub("", finding.remedy)), []).append(finding)
        for group in groups.values():
            group.insert(0, group.pop(max(range(len(group)), key=lambda number: group[number].size)))
        return tuple(groups.values())

    @property
    def warmup(self) -> int:
        """Windows (of the longest) to leave out of all runs: the most that is left out or found in any of them."""
        return max(
            (-(-max(h.warmup_left_out, h.warmup_found) // h.windows_per_period) for h in self.healths), default=0
        )

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types (seconds; shares of 1)."""
        return {
            "format": "precice-lb-check",
            "format_version": 1,
            "warmup": self.warmup,
            "participants": to_jsonable(self.healths),
            "findings": to_jsonable(self.findings),
        }


# A solver that sleeps or waits while it solves has fewer busy cores, which say nothing of its threads.
IDLE = 0.5
# Of several threads at least so many cores are busy in the mean, or these do not share the work.
ONE_CORE = 1.2
# More than so many times the cores that a rank was told to use.
MORE = 1.5
# What is worth a word: an error of the median of this share, outliers in this share of the windows, fewer windows than
# this after warm-up.
LARGEST_ERROR, OUTLIERS, FEWEST_WINDOWS = 0.02, 0.05, 5
# Nobody is asked to record more than so many times what was recorded.
MOST_TIMES = 10
# What is worth a word: a difference between runs of this share.
BETWEEN_RUNS = 0.03
# Runs that overlap by more than this share of the shorter one.
OVERLAP = 0.02

Judgement: TypeAlias = tuple[str, str, str, float]
"""Of a finding: kind, text, remedy and size."""


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

    def note(run: CoupledRun, name: str, judgements: Iterable[Judgement]) -> None:
        findings.extend(Finding(kind, run.name, name, text, remedy, size) for kind, text, remedy, size in judgements)

    for run in runs:
        note(run, "", ((kind, text, remedy, 0.0) for kind, (text, remedy) in flaws(run).items()))
        for name, part in run.participants.items():
            health = _health(run, part)
            healths.append(health)
            # Of one whose compute time is negligible nothing is wrong.
            note(run, name, () if part.negligible else [*_of_threads(part), *_of_series(run, part, health)])
    return CheckResult(tuple(healths), (*findings, *_repeated(healths), *_overlapping(runs)))


def _judged_windows(run: CoupledRun, part: ParticipantRun) -> Mask:
    """Tell the windows that were measured and come after the warm-up that is left out or found, shape (W,)."""
    return np.isfinite(part.compute_seconds) & (part.windows > max(run.warmup_of(part.participant), warmup_found(part)))


def _health(run: CoupledRun, part: ParticipantRun) -> Health:
    steady = _judged_windows(run, part)
    seconds, counts = part.compute_per_iteration[steady], part.iterations[steady]
    drift = drift_of(seconds) if len(seconds) >= LEAST_WINDOWS else Drift(math.nan, 0.0)
    iterations = float(np.mean(counts)) if len(counts) else math.nan
    return Health(
        run=run.name,
        participant=part.participant,
        ranks=part.ranks,
        windows=len(part.windows),
        warmup_left_out=run.warmup_of(part.participant),
        warmup_found=warmup_found(part),
        seconds=float(np.median(seconds)) * iterations if len(seconds) else math.nan,
        iterations=iterations,
        negligible=part.negligible,
        drift=drift.change,
        drift_z_score=drift.z_score,
        outliers=len(outliers_of(seconds)),
        deviation=_spread_of_steady(seconds).deviation,
        error=spread_of(seconds).error,
        threads=part.threads,
        version=part.version,
        windows_per_period=run.time.of(part.participant),
        recorded_ranks=part.ranks - len(part.missing_ranks),
    )


def _spread_of_steady(seconds: Array) -> Spread:
    """Spread of windows without their trend: what drifts is not spread."""
    drift = drift_of(seconds)
    trend = 1 + drift.change * np.linspace(-0.5, 0.5, len(seconds)) if drift.significant else np.ones(len(seconds))
    return spread_of(seconds / np.maximum(trend, 0.1))


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _of_series(run: CoupledRun, part: ParticipantRun, health: Health) -> Iterator[Judgement]:
    """Find what is wrong with the seconds of a participant's windows."""
    if len(part.windows) and not part.compute_measured:
        remedy = "; ".join(part.timing_problems) or "record with a backend that tells waits, or with profiling files"
        yield "not measured", "its waits were not measured, so that its compute seconds are not known", remedy, 0.0
        return
    seconds = part.compute_per_iteration[_judged_windows(run, part)]
    left, per = len(seconds), "coupling iteration" if health.iterations > 1 else "window"
    warmup = max(health.warmup_left_out, health.warmup_found)
    middle = float(np.median(seconds)) if left else 0.0
    if left:
        yield from _of_warmup(run, part, health, middle)
    if part.hidden_wait > 0 and middle > 0:
        share = part.hidden_wait / middle
        text = (
            f"for {part.hidden_wait:.3g} s per {per} (median) inside of advance, {_percent(share)} of its compute "
            "seconds, its partner worked on the same core; they count as waiting"
        )
        yield "shared cores", text, "pin the ranks of each participant to cores of their own, as calibrate does", share
    if left < FEWEST_WINDOWS:
        yield "windows", f"{plural(left, 'window')} left after warm-up", f"record at least {warmup + 10} windows", -left
    if health.drifts:
        text = (
            f"its seconds per {per} change by {100 * health.drift:+.3g} % of their median over {left} windows "
            f"({abs(health.drift_z_score):.1f} standard deviations)"
        )
        remedy = "the load changes: calibrate from a state that production spends its time in, or record more of it"
        yield "drift", text, remedy, abs(health.drift)
    if health.outliers > OUTLIERS * left:
        factors = seconds[outliers_of(seconds)] / middle
        worst = float(factors[np.argmax(np.abs(np.log(factors)))])
        text = f"{health.outliers} of {left} windows far from their neighbours, the worst {worst:.2g} times the median"
        remedy = "write output less often, keep other programs off the nodes; the median withstands single windows"
        yield "outliers", text, remedy, abs(math.log(worst))
    spread = _spread_of_steady(seconds)
    if left >= FEWEST_WINDOWS and spread.error > LARGEST_ERROR:
        needed = warmup + spread.windows_for(LARGEST_ERROR / 2)
        remedy = f"record {needed} windows to know it to {_percent(LARGEST_ERROR / 2)}, or repeat the run"
        if needed > MOST_TIMES * health.windows:
            remedy = "repeat the run: machine or work change too much for any reasonable number of windows"
        text = f"{per}s differ by {_percent(spread.deviation)}; after {left} windows the median is known to "
        yield "spread", text + _percent(spread.error), remedy, spread.error


def _of_threads(part: ParticipantRun) -> Iterator[Judgement]:
    """Find a solver that ignores its threads, or takes more of them, by the busiest rank; a load of sleeps is neither.

    CPU time is not known where runs are read from preCICE's profiling files.
    """
    busy, threads = part.rank_busy_cores, part.threads
    if not np.isfinite(busy).any() or part.metadata.get("emulated_load"):
        return
    cores = float(np.nanmax(busy))
    text = f"told to use {plural(threads, 'thread')}, the busiest rank kept {cores:.2g} cores busy while it solved"
    if threads > 1 and IDLE <= cores < ONE_CORE:
        remedy = "build it with threads, check OMP_NUM_THREADS and its cores; or give it threads = 1, and more ranks"
        yield "threads", text, remedy, threads / cores
    elif cores > MORE * threads:
        remedy = "state its threads (threads in the study, PRECICE_LB_THREADS), or set OMP_NUM_THREADS to what was told"
        yield "threads", text, remedy, cores / threads


def _of_warmup(run: CoupledRun, part: ParticipantRun, health: Health, middle: float) -> Iterator[Judgement]:
    """Find warm-up that is not left out, or whose end is not to be seen."""
    last, left_out, windows = health.warmup_found, health.warmup_left_out, int(part.windows[-1])
    is_unseen = last >= windows // 2
    if not last or not (is_unseen or last > left_out):
        return
    stated = run.warmup_stated * run.time.of(part.participant)
    first = stated + 1 if last > stated else 1
    early = part.compute_per_iteration[(part.windows >= first) & (part.windows <= last)]
    change = 100 * float(np.median(early[np.isfinite(early)]) / middle - 1)
    text = f"windows up to {last} are {change:+.3g} % beside those after ({left_out} left out)"
    remedy = f"leave out {last}: --warmup {run.time.periods(part.participant, last)}, or say nothing of it"
    if is_unseen:
        text = f"{text}; where the warm-up ends is not to be seen in {windows} windows"
        remedy = "record more windows, or start from a developed state (a restart)"
    yield "warm-up", text, remedy, last


def _repeated(healths: Sequence[Health]) -> Iterator[Finding]:
    """Find runs of one version with the same ranks that differ by more than their windows explain."""
    groups: dict[tuple[str, str, Layout], list[Health]] = defaultdict(list)
    for health in healths:
        if health.seconds > 0 and not health.negligible:
            groups[health.participant, health.version, health.layout].append(health)
    for (participant, _, layout), group in groups.items():
        alike = sorted(group, key=lambda health: health.per_iteration)
        fastest, slowest = alike[0], alike[-1]
        change = slowest.per_iteration / fastest.per_iteration - 1
        known = [h.error for h in (fastest, slowest) if math.isfinite(h.error)]
        if change > max(BETWEEN_RUNS, UNLIKELY * math.hypot(*known)):
            text = f"on {layout.words} it took {_percent(change)} longer in {slowest.run} than in {fastest.run}"
            remedy = "pin ranks, ask for the same kind of nodes, and repeat runs near the recommended split"
            yield Finding("repeated runs", f"{fastest.run}, {slowest.run}", participant, text, remedy, change)


def _overlapping(runs: Sequence[CoupledRun]) -> Iterator[Finding]:
    """Find coupled runs that ran at the same time on the same machine."""
    places = []
    for run in runs:
        metadata = [part.metadata for part in run.participants.values()]
        begin = min(int(data["started_unix_ns"]) for data in metadata)
        # 0 where it is not known.
        end = max(int(data.get("ended_unix_ns", 0)) for data in metadata)
        places.append((run.name, begin, end, {str(data["hostname"]) for data in metadata if data.get("hostname")}))
    for (one, begin, end, hosts), (other, other_begin, other_end, others) in itertools.combinations(places, 2):
        overlap = min(end, other_end) - max(begin, other_begin)
        shorter = min(end - begin, other_end - other_begin)
        if hosts & others and shorter > 0 and overlap > OVERLAP * shorter:
            share = overlap / shorter
            text = f"both ran on {min(hosts & others)} at the same time, for {_percent(share)} of the shorter one"
            yield Finding(
                "other load", f"{one}, {other}", "", text, "run one after the other, or on other nodes", share
            )
