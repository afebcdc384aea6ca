"""Judge one participant of a recorded run: warm-up, length, drift, outliers and spread of its windows."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset import CoupledRun, ParticipantRun
from precice_lb.dataset.runs import warmup_found
from precice_lb.dataset.series import LEAST_WINDOWS, UNLIKELY, Drift, Spread, drift_of, outliers_of, spread_of
from precice_lb.layout import Layout
from precice_lb.plain import plain
from precice_lb.plural import plural

DRIFT = 0.03
"""A drift of a larger share is worth a word."""
# Runs that are named where the same was found in several.
NAMED = 8
NUMBERS = re.compile(r"[0-9.]+")


@dataclass(frozen=True)
class Finding:
    """Something that speaks against measurements."""

    # ``warm-up``, ``drift``, ``outliers``, ``spread``, ``windows``, ``threads``, ``shared cores``, ``other load``,
    # ``repeated runs``, ``off the curve``, ``not measured``, ``not finished`` or ``missing``.
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
class FindingGroup:
    """The same finding of several runs and participants: the one to show, and the rest in the order found."""

    worst: Finding
    others: tuple[Finding, ...]

    @property
    def also(self) -> str:
        """Where else it was found, by run; empty where nowhere."""
        runs: dict[str, list[str]] = {}
        for each in self.others:
            runs.setdefault(each.run, []).append(each.participant)
        named = [f"{run}: {', '.join(who)}" if any(who) else run for run, who in runs.items()][:NAMED]
        more = f"; and {plural(len(runs) - NAMED, 'more run')}" if len(runs) > NAMED else ""
        return "; ".join(named) + more


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
    def ranks_text(self) -> str:
        """Its layout, and of how many ranks there are records where that is not all."""
        return str(self.layout) if self.recorded_ranks in (0, self.ranks) else f"{self.recorded_ranks} of {self.layout}"

    @property
    def layout(self) -> Layout:
        """Ranks and their threads."""
        return Layout(self.ranks, self.threads)

    @property
    def drifts(self) -> bool:
        """Whether the drift is worth a word: neither small nor chance."""
        return not self.negligible and abs(self.drift_z_score) > UNLIKELY and abs(self.drift) > DRIFT

    @property
    def drift_text(self) -> str:
        """The drift where it is worth a word."""
        return f"{100 * self.drift:+.1f} %" if self.drifts else "unknown" if math.isnan(self.drift) else "none"

    @property
    def each(self) -> str:
        """The words that tell seconds per iteration, where a window has several of these."""
        return " per coupling iteration" if self.iterations > 1 else ""


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
    findings: tuple[Finding, ...] = field(default=())

    @property
    def groups(self) -> tuple[FindingGroup, ...]:
        """The findings by kind and remedy, whatever numbers are in it, in the order found."""
        groups: dict[tuple[str, str], list[Finding]] = {}
        for each in self.findings:
            groups.setdefault((each.kind, NUMBERS.sub("", each.remedy)), []).append(each)
        found = []
        for group in groups.values():
            worst = max(group, key=lambda each: each.size)
            found.append(FindingGroup(worst, tuple(each for each in group if each is not worst)))
        return tuple(found)

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
            "format_version": 2,
            "warmup": self.warmup,
            "participants": plain(self.healths),
            "findings": plain(self.findings),
        }


# A solver that sleeps or waits while it solves has fewer busy cores, which say nothing of its threads.
IDLE = 0.5
# Of several threads at least so many cores are busy in the mean, or these do not share the work.
ONE_CORE = 1.2
# More than so many times the cores that a rank was told to use.
MORE = 1.5


def thread_findings(run: str, part: ParticipantRun) -> Iterator[Finding]:
    """Find a solver that ignores its threads, or takes more of them, by the busiest rank; a load of sleeps is neither.

    Stores of earlier versions and preCICE's profiling files do not tell CPU time.
    """
    busy = part.rank_busy_cores
    if not np.isfinite(busy).any() or part.metadata.get("emulated_load"):
        return
    cores, told = float(np.nanmax(busy)), part.threads
    used = f"kept {cores:.2g} cores busy while it solved"
    if told > 1 and IDLE <= cores < ONE_CORE:
        yield Finding(
            "threads",
            run,
            part.participant,
            f"each rank was told to use {plural(told, 'thread')}, and the busiest {used}: it ignores its threads, and "
            "the other cores stand idle",
            "build the solver with its threads (OpenMP, a threaded BLAS) and check the variable that it reads, such as "
            "OMP_NUM_THREADS, and the cores that it may run on; or give it threads = 1 and more ranks",
            told / max(cores, 0.1),
        )
    elif cores > MORE * told:
        yield Finding(
            "threads",
            run,
            part.participant,
            f"each rank was told to use {plural(told, 'thread')}, and the busiest {used}: it takes cores that are "
            "others' in a full machine",
            "let the split know its threads (threads of the participant in the study, PRECICE_LB_THREADS where it is "
            "started by hand), or set OMP_NUM_THREADS and the like to what it was told",
            cores / told,
        )


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
        warmup_left_out=run.warmup_of(name),
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
        windows_per_period=run.time.of(name),
        recorded_ranks=part.ranks - len(part.missing_ranks),
    )
    if part.negligible:
        return health, []
    found = _findings(run, part, health, own, outliers, spread)
    return health, list(found)


def judged_windows(run: CoupledRun, part: ParticipantRun) -> NDArray[np.bool_]:
    """Tell the windows that were measured and come after the warm-up that is left out or found, shape (W,)."""
    return np.isfinite(part.compute_seconds) & (part.windows > max(run.warmup_of(part.participant), warmup_found(part)))


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
    if not len(own) or not (unseen or found > health.warmup_left_out):
        return
    stated = run.warmup_stated * run.time.of(part.participant)
    first = stated + 1 if found > stated else 1
    early = part.compute_per_iteration[(part.windows >= first) & (part.windows <= found)]
    change = float(np.median(early[np.isfinite(early)]) / np.median(own) - 1)
    which = f"window {first} is" if first == found else f"windows {first} to {found} are"
    word = "slower" if change > 0 else "faster"
    text = f"{which} {percent(abs(change))} {word}{health.each} than those after"
    if unseen:
        text += f"; where the warm-up ends is not to be seen in {plural(int(part.windows[-1]), 'window')}"
        remedy = "record more windows, or start from a developed state (a restart)"
    else:
        left_out = plural(health.warmup_left_out, "window")
        text += f", and {left_out} {'is' if health.warmup_left_out == 1 else 'are'} left out"
        periods = run.time.periods(part.participant, found)
        remedy = f"leave out {found}: --warmup {periods}, or say nothing of it and they are"
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
    if part.hidden_wait > 0 and len(own) and np.median(own) > 0:
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
