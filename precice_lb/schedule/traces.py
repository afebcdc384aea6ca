"""Couplings as traces of one cycle: synchronisation points, and what is computed between them.

Traces may be seen instead of a configuration, for couplings that preCICE does not describe, such as the hub of a
climate model. What a constituent computes between two points is a fixed part of all that it computes in a cycle (D.
Kim, J. W. Larson, K. Chiu, Automatic performance prediction for load-balancing coupled models, 2013, section IV: the
fractions theta of equations 8 and 9).

Or they are made of recorded runs. Stores tell what a participant computed before each ``advance`` and how long it
waited in it, not for whom: a rank receives from several partners in one call. With whom it meets, and in which order,
is what the exchanges of the configuration say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.case.config import Configuration, parse_configuration
from precice_lb.case.coupling import Operation, Program, period_of, programs_of, receives, sends
from precice_lb.exceptions import DataError, ScheduleError
from precice_lb.schedule.schedule import Schedule
from precice_lb.text import checked_list, plural

if TYPE_CHECKING:
    from precice_lb.dataset import CoupledRun

_DATA, _END = 0, 1
Floats = NDArray[np.float64]
Integers = NDArray[np.intp]
# For those who asked for more than stores tell.
_REMEDY = "or take the coupling from the configuration, by leaving out --coupling traces"


class Point(NamedTuple):
    """One synchronisation point of a constituent.

    Attributes
    ----------
    seconds : float
        Computed since the point before.
    partners : tuple of str
        With whom.
    kind : {"exchange", "send", "receive"}
        In an exchange both sides wait for each other, as with synchronous sends. A send alone never waits.
    """

    seconds: float
    partners: tuple[str, ...]
    kind: Literal["exchange", "send", "receive"] = "exchange"


@dataclass(frozen=True)
class Trace:
    """One coupling cycle of a constituent.

    Attributes
    ----------
    points : tuple of Point
        In the order of the program.
    rest : float
        Seconds computed after the last point.
    initial : tuple of Point
        Passed once, before the first cycle: a message that is received here is one that a cycle sends for the next.
    """

    points: tuple[Point, ...]
    rest: float = 0.0
    initial: tuple[Point, ...] = ()

    @property
    def seconds(self) -> float:
        """Computed in the whole cycle, without waiting."""
        return sum(point.seconds for point in self.points) + self.rest


def schedule_of_traces(
    traces: Mapping[str, Trace], *, synchronized: bool = False, windows: Mapping[str, int] | None = None
) -> Schedule:
    """Make a schedule of recorded traces: cycles take the place of time windows.

    Parameters
    ----------
    traces : mapping from constituent to Trace
        Of all constituents.
    synchronized : bool
        Whether all wait for each other at the end of a cycle (Kim, Larson and Chiu, equation 9). Without it
        constituents go on to their next cycle, as most couplings do.
    windows : mapping from constituent to int, optional
        Time windows that each counts in a cycle.

    Returns
    -------
    Schedule
        Its costs are the seconds that each constituent computes per cycle, or per window where these are given.

    Raises
    ------
    ScheduleError
        If traces do not fit together, or would never end.
    """
    if not traces:
        raise ScheduleError("expected the trace of at least one constituent, found none")
    # The work of each is the fraction of the constituent's seconds per cycle.
    programs = {}
    for name, trace in traces.items():
        others = [other for other in traces if other != name]
        count = (windows or {}).get(name, 1)
        scale = count / trace.seconds if trace.seconds > 0 else 0.0
        steps = [step for point in trace.points for step in _steps(name, point, scale, others)]
        # A constituent that computed nothing has no fractions; what it costs then is at its end.
        steps.append(Operation("work", share=trace.rest * scale if scale else count))
        if synchronized:
            steps += sends(_END, name, others) + receives(_END, name, others)
        programs[name] = Program([step for point in trace.initial for step in _steps(name, point, 0.0, others)], steps)
    return Schedule([(1.0, programs)], f"as traced: {', '.join(traces)}", dict.fromkeys(traces, 1.0), windows)


def _steps(name: str, point: Point, scale: float, others: Sequence[str]) -> list[Operation]:
    """Return the operations of a constituent up to a point of its trace: its work, then what it sends and receives."""
    partners = checked_list(point.partners, f'trace of "{name}": partners', "constituents", ScheduleError)
    unknown = [partner for partner in partners if partner not in others]
    if unknown:
        raise ScheduleError(f'trace of "{name}": expected partners among the others traced, found "{unknown[0]}"')
    operations = []
    share = point.seconds * scale
    if share:
        operations.append(Operation("work", share=share))
    if point.kind != "receive":
        operations += sends(_DATA, name, partners)
    if point.kind != "send":
        operations += receives(_DATA, name, partners)
    return operations


class AutomaticPredictor:
    """Cycle time of a coupled model from the seconds that each constituent computes, learned from one traced cycle.

    D. Kim, J. W. Larson, K. Chiu, Automatic performance prediction for load-balancing coupled models, 2013, section IV:
    what is computed between two synchronisation points is a fixed fraction theta of the constituent's seconds per
    cycle; equations 8 and 9 carry the completion time from point to point, everybody waiting for whom they meet, and a
    factor alpha (equations 10 and 11) takes up what the recursion leaves out.

    Parameters
    ----------
    traces : mapping from constituent to Trace
        One cycle of each.
    alpha : float
        Measured over modelled cycle time; see `calibrated`.
    synchronized : bool
        Whether all constituents wait for each other at the end of a cycle, as equation 9 says. Otherwise the steady
        state of cycle after cycle counts, which also covers constituents that begin and end their loops at different
        times (which the paper handles by moving seconds from one end of a loop to the other, figure 3).

    Attributes
    ----------
    schedule : Schedule
        The same coupling without alpha, for the search for a split.

    Raises
    ------
    ScheduleError
        If traces do not fit together, or if alpha is not positive.
    """

    def __init__(self, traces: Mapping[str, Trace], *, alpha: float = 1.0, synchronized: bool = True) -> None:
        if not (np.isfinite(alpha) and alpha > 0):
            raise ScheduleError(f"expected a positive alpha, measured over modelled cycle time, found {alpha:g}")
        self.traces = dict(traces)
        self.alpha = float(alpha)
        self.synchronized = synchronized
        self.schedule: Schedule = schedule_of_traces(self.traces, synchronized=synchronized)

    @cached_property
    def fractions(self) -> dict[str, Floats]:
        """Theta of equation 8: by constituent, the part of its seconds before each point and after the last; sum 1."""
        return {
            name: np.array([*(point.seconds for point in trace.points), trace.rest]) / (trace.seconds or 1.0)
            for name, trace in self.traces.items()
        }

    def predict(self, seconds: Mapping[str, ArrayLike]) -> Floats:
        """Cycle time by equation 11.

        Parameters
        ----------
        seconds : mapping from constituent to array
            Seconds that each computes per cycle, of shapes that are broadcast against each other.

        Returns
        -------
        ndarray
            Seconds per cycle, in the broadcast shape.

        Raises
        ------
        ScheduleError
            As `Schedule.window_seconds`.
        """
        return self.alpha * self.schedule.window_seconds(seconds)

    def calibrated(self, measured: float, seconds: Mapping[str, float] | None = None) -> AutomaticPredictor:
        """Fit alpha to one measured cycle (equation 10).

        Parameters
        ----------
        measured : float
            Seconds of a cycle.
        seconds : mapping from constituent to float, optional
            What each computed in it; by default what the traces say.

        Returns
        -------
        AutomaticPredictor
            With that alpha.

        Raises
        ------
        ScheduleError
            If nobody computes anything, or as `Schedule.window_seconds`.
        """
        computed = seconds if seconds is not None else {name: trace.seconds for name, trace in self.traces.items()}
        modelled = float(self.predict(computed)) / self.alpha
        if not modelled > 0:
            raise ScheduleError("expected constituents that compute something, found none to fit alpha to")
        return AutomaticPredictor(self.traces, alpha=measured / modelled, synchronized=self.synchronized)


def cycle_windows(configuration: Configuration) -> dict[str, int]:
    """Count the time windows of each participant in one cycle.

    Parameters
    ----------
    configuration : Configuration
        What ``precice-config.xml`` says.

    Returns
    -------
    dict of str to int
        A cycle is the shortest simulated time at whose end the windows of all coupling schemes end together.

    Raises
    ------
    ScheduleError
        As of `Schedule.from_config`.
    """
    return period_of(configuration).windows


def recorded_traces(
    configuration: Configuration, seconds: Mapping[str, ArrayLike], acceleration: Mapping[str, float] | None = None
) -> dict[str, Trace]:
    """Make traces of what participants computed in each coupling iteration of each window of a cycle.

    Parameters
    ----------
    configuration : Configuration
        With whom they meet, and in which order.
    seconds : mapping from participant to array of shape (windows of its cycle, coupling iterations)
        Computed without waiting.
    acceleration : mapping from participant to float, optional
        As of `Schedule.from_config`.

    Returns
    -------
    dict of str to Trace
        In the order of the configuration.

    Raises
    ------
    ScheduleError
        If a participant or one of its windows is missing, iterations within one scheme differ, or the coupling has no
        schedule.
    """
    tables = {name: np.asarray(table, dtype=np.float64) for name, table in seconds.items()}
    for name, windows in cycle_windows(configuration).items():
        if name not in tables or tables[name].ndim != 2 or len(tables[name]) != windows:
            raise ScheduleError(
                f"{configuration.path}: expected seconds of {name} in {windows} time windows by iterations"
            )
    iterations = {}
    for index, scheme in enumerate(configuration.coupling_schemes):
        counts = {name: tables[name].shape[1] for name in scheme.participants}
        if scheme.is_implicit and len(set(counts.values())) > 1:
            raise ScheduleError(
                f"{configuration.path}:{scheme.line}: expected as many iterations of all participants of a coupling "
                f"scheme, found {', '.join(f'{count} of {name}' for name, count in counts.items())}"
            )
        iterations[index] = counts[scheme.participants[0]]
    programs = programs_of(configuration, iterations, acceleration)
    return {name: _trace(program, tables[name]) for name, program in programs.items()}


def _trace(program: Program, seconds: NDArray[np.float64]) -> Trace:
    """Put recorded seconds in place of the shares of a program, whose iterations all have as many steps of work."""
    shares = np.array([step.share for step in program.window if step.kind == "work"]).reshape(*seconds.shape, -1)
    work = iter((seconds[..., np.newaxis] * shares / shares.sum(axis=-1, keepdims=True)).ravel().tolist())
    points, since = [], 0.0
    for step in program.window:
        if step.kind == "work":
            since += next(work)
        else:
            points.append(_point(step, since))
            since = 0.0
    return Trace(tuple(points), since, tuple(_point(step, 0.0) for step in program.initial))


def _point(step: Operation, seconds: float) -> Point:
    assert step.channel is not None
    assert step.kind != "work"
    partner = step.channel.target if step.kind == "send" else step.channel.source
    return Point(seconds, (partner,), step.kind)


def predictor_of_runs(runs: Sequence[CoupledRun]) -> AutomaticPredictor:
    """Learn from recorded runs what each participant computes between its meetings with others.

    A cycle is the shortest simulated time at whose end the windows of all coupling schemes end together. With whom and
    in which order participants meet in it, the exchanges of ``precice-config.xml`` say; the fractions of equations 8
    and 9 are means over the runs, each over its whole cycles after warm-up; alpha (equation 10) is the median over the
    runs of their measured cycle over the modelled one.

    Parameters
    ----------
    runs : sequence of CoupledRun
        Runs of one case, at any splits.

    Returns
    -------
    AutomaticPredictor
        Of seconds per cycle. Nobody waits for all others at the end of one, as nobody does in preCICE.

    Raises
    ------
    DataError
        If no run has all participants, their waits and a whole cycle, or coupling iterations differ from window to
        window; and as of `precice_lb.dataset.measurements_from_runs`.
    ConfigurationError, ScheduleError
        If the configuration cannot be read, or has no schedule.
    """
    return _learned(runs)[0]


def traced_schedule(runs: Sequence[CoupledRun]) -> Schedule:
    """Make a schedule of `predictor_of_runs`, for the search for a split.

    Parameters
    ----------
    runs : sequence of CoupledRun
        Runs of one case.

    Returns
    -------
    Schedule
        Its costs are seconds per time window. It leaves alpha out, which makes all splits longer alike, and which the
        replay of recorded windows takes the place of; its description says it.

    Raises
    ------
    DataError, ConfigurationError, ScheduleError
        As of `predictor_of_runs`.
    """
    predictor, windows, count = _learned(runs)
    schedule = schedule_of_traces(predictor.traces, windows=windows)
    schedule.description = (
        f"as traced in {plural(count, 'run')}: {', '.join(predictor.traces)} "
        f"(measured cycles {predictor.alpha:.3g} times the modelled ones)"
    )
    return schedule


def _learned(runs: Sequence[CoupledRun]) -> tuple[AutomaticPredictor, dict[str, int], int]:
    """Return the predictor, time windows of each participant in a cycle, and how many runs it was learned from."""
    # Of which loading takes a while.
    from precice_lb.dataset.samples import measurements_from_runs

    measurements = measurements_from_runs(runs)
    configuration = parse_configuration(measurements.configuration or "")
    windows, cycles, problems = cycle_windows(configuration), [], []
    for run in runs:
        try:
            cycles.append((run, {name: _whole_cycles(run, name, configuration) for name in windows}))
        except DataError as problem:
            problems.append(problem)
    if not cycles:
        raise problems[0]
    measured, traced = [_mean_cycle(run, rows) for run, rows in cycles], {}
    for name in windows:
        counts = {count for run, rows in cycles for count in run.participants[name].iterations[rows[name]].ravel()}
        if len(counts) > 1:
            raise DataError(
                f"expected the same number of coupling iterations in every time window of {name}, found "
                f"{min(counts):g} to {max(counts):g}, which no trace describes; record with a fixed number "
                f"(max-iterations without convergence measures), {_REMEDY}"
            )
        tables = np.array([computed[name] for computed, _ in measured])
        totals = tables.sum(axis=(1, 2), keepdims=True)
        traced[name] = (tables / np.where(totals > 0, totals, 1.0)).mean(axis=0) * totals.mean()
    predictor = AutomaticPredictor(recorded_traces(configuration, traced, measurements.overhead), synchronized=False)
    alphas = [
        predictor.calibrated(seconds, {name: float(table.sum()) for name, table in computed.items()}).alpha
        for computed, seconds in measured
    ]
    predictor.alpha = float(np.median(alphas))
    return predictor, windows, len(cycles)


def _whole_cycles(run: CoupledRun, name: str, configuration: Configuration) -> Integers:
    """Find the windows of whole cycles of a participant after warm-up, shape (cycles, windows of a cycle).

    Without the last one, unless it is alone: preCICE does not receive for a window that will not come.
    """
    from precice_lb.dataset.runs import flaws

    if absent := flaws(run).get("missing"):
        raise DataError(f"run {run.name}: expected records of all participants, found that {'; '.join(absent)}")
    part, length = run.participants[name], cycle_windows(configuration)[name]
    implicit = [scheme for scheme in configuration.coupling_schemes if scheme.is_implicit]
    if any(name in scheme.participants for scheme in implicit) and "recording_problem" in part.metadata:
        raise DataError(
            f"run {run.name}: expected the iterations of each time window of {name}, found: "
            f"{part.metadata['recording_problem']}; import it anew with that log, {_REMEDY}"
        )
    known = np.flatnonzero(run.steady(name) & np.isfinite(part.compute_seconds))
    cycles, counts = np.unique((part.windows[known] - 1) // length, return_counts=True)
    whole = known[np.isin((part.windows[known] - 1) // length, cycles[counts == length])].reshape(-1, length)
    if not len(whole):
        raise DataError(
            f"run {run.name}: expected a whole cycle of the coupling ({plural(length, 'time window')} of {name}, "
            f"from the first on) with its waits after a warm-up of {plural(run.warmup_windows, 'window')}, found "
            f"{plural(len(part.windows), 'window')}; record longer, {_REMEDY}"
        )
    return whole[:-1] if len(whole) > 1 else whole


def _mean_cycle(run: CoupledRun, rows: Mapping[str, Integers]) -> tuple[dict[str, Floats], float]:
    """Give what participants computed in a cycle by window and iteration, and what it took: means without outliers."""
    from precice_lb.dataset.series import mean_of

    tables, seconds = {}, []
    for name, whole in rows.items():
        part = run.participants[name]
        shape = part.iteration_compute[: int(part.iterations[whole[0, 0]])]
        windows = [mean_of(column)[0] for column in part.compute_seconds[whole].T]
        tables[name] = np.outer(windows, shape / shape.sum() if shape.sum() > 0 else np.ones(len(shape)))
        seconds.append(sum(float(mean_of(column)[0]) for column in part.window_seconds[whole].T))
    # Who does not wait for others runs ahead.
    return tables, max(seconds)
