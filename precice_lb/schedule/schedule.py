"""The window time of a coupling as a function of what its participants cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import product
from pathlib import Path

import numpy as np

from precice_lb.case import AcceptedRanks, Configuration, accepted_ranks, read_configuration
from precice_lb.case.coupling import Operation, Program, period_of, programs_of, receives, sends
from precice_lb.exceptions import ScheduleError
from precice_lb.schedule.graph import Costs, EventGraph, Floats, replay
from precice_lb.text import checked_list


class Schedule:
    """How a coupling turns the costs of its participants into seconds per time window.

    A cost is what one participant needs on its own for one time window, in seconds: solve, own mapping and overhead of
    all its coupling iterations, without waiting. The iterations of a window are taken to cost the same; mapping and
    acceleration are part of the cost of the participant that does them.

    Make one by `from_config`, `parallel` or `serial`. The maximum and the sum by which Schröder (2019, table 1.1) and
    Totounferoush (2022, equations 3.10 and 3.12) stand for parallel and serial schemes are special cases.

    Parameters
    ----------
    variants
        Programs of all participants with the weight of each variant; weights sum to 1. There are several when a
        scheme needs, say, 2.4 iterations in the mean: 0.6 of the windows with 2 and 0.4 with 3.
    description
        What the coupling is, for humans.
    iterations
        Coupling iterations per time window of each participant.
    windows
        Time windows that each participant counts in one period of the coupling; by default 1.
    """

    def __init__(
        self,
        variants: Sequence[tuple[float, Mapping[str, Program]]],
        description: str,
        iterations: Mapping[str, float],
        windows: Mapping[str, int] | None = None,
    ) -> None:
        self.participants: tuple[str, ...] = tuple(variants[0][1])
        self.description = description
        self.iterations: dict[str, float] = {name: float(iterations[name]) for name in self.participants}
        self.windows: dict[str, int] = {name: int((windows or {}).get(name, 1)) for name in self.participants}
        self._windows = np.array([*self.windows.values()], dtype=np.float64)
        self._variants = [(weight, programs, EventGraph(programs)) for weight, programs in variants]
        self._per_iteration = np.array([1.0 / count for count in self.iterations.values()])
        # With how many ranks preCICE starts whom; None where no configuration is known.
        self.accepted_ranks: Mapping[str, AcceptedRanks] | None = None

    def __repr__(self) -> str:
        return f"<Schedule {self.description}>"

    @classmethod
    def from_config(
        cls,
        source: str | Path | Configuration,
        iterations: Mapping[str, float] | None = None,
        acceleration: Mapping[str, float] | None = None,
    ) -> Schedule:
        """Read the schedule out of a ``precice-config.xml``.

        Parameters
        ----------
        source
            The file, or what was read from it.
        iterations
            Mean coupling iterations per time window as measured, by participant; where the members of one implicit
            scheme differ, their mean counts. Without it a scheme that has no convergence measure takes its
            ``max-iterations``; one implicit scheme alone does without, since the window time of given costs does not
            depend on it, and several schemes are refused.
        acceleration
            The part of its compute seconds (from 0 to below 1) that a participant spends between receiving its
            partners' data and sending its own, by name. It counts for the second participant of a parallel-implicit
            scheme and the controller of a multi scheme, who accelerate while their partners wait; other names are
            passed over.

        Returns
        -------
        Schedule

        Raises
        ------
        ConfigurationError
            If the file cannot be read.
        ScheduleError
            If the coupling would hang, has time windows that never end together, or explicit windows that are no
            multiples of implicit ones, or if the number of iterations is needed and missing.

        Notes
        -----
        Where schemes have windows of different size, participants count different numbers of windows (`windows`): costs
        are then seconds per window of the participant itself, taken as proportional to its simulated time, and "the"
        window, of which all results speak, is the period after which all schemes end a window together.
        """
        configuration = source if isinstance(source, Configuration) else read_configuration(source)
        schemes, windows = configuration.coupling_schemes, period_of(configuration).windows
        counts = _iterations_of(configuration, iterations or {})
        parts = _acceleration_of(configuration, acceleration or {})
        variants = [(weight, programs_of(configuration, whole, parts)) for weight, whole in _whole_counts(counts)]
        per_window = dict.fromkeys(configuration.participants, 1.0)
        for index, count in counts.items():
            per_window |= dict.fromkeys(schemes[index].participants, count)
        texts = [
            f"{scheme.kind} {', '.join(scheme.participants)}"
            + (f" ({count:g} iterations)" if (count := counts.get(index, 1)) != 1 else "")
            for index, scheme in enumerate(schemes)
        ]
        schedule = cls(variants, "; ".join(texts), per_window, windows)
        schedule.accepted_ranks = accepted_ranks(configuration)
        return schedule

    @classmethod
    def parallel(cls, names: Sequence[str]) -> Schedule:
        """All participants work at the same time and exchange with each other: the slowest sets the window time.

        Parameters
        ----------
        names : sequence of str
            The participants.

        Returns
        -------
        Schedule
        """
        names = _distinct(names)
        first, *others = names
        # All meet where the first has heard and answered everybody else.
        programs = {first: Program([], [Operation("work"), *receives(0, first, others), *sends(0, first, others)])}
        for name in others:
            programs[name] = Program([], [Operation("work"), *sends(0, name, [first]), *receives(0, name, [first])])
        return cls([(1.0, programs)], f"parallel {', '.join(names)}", dict.fromkeys(names, 1.0))

    @classmethod
    def serial(cls, names: Sequence[str]) -> Schedule:
        """One participant works after the other: the window time is the sum.

        Parameters
        ----------
        names : sequence of str
            The participants, in the order of their work.

        Returns
        -------
        Schedule
        """
        names = _distinct(names)
        programs = {}
        for place, name in enumerate(names):
            before, after = [names[place - 1]], [names[(place + 1) % len(names)]]
            exchange = sends(0, name, after) + receives(0, name, before) if len(names) > 1 else []
            programs[name] = Program(receives(0, name, before) if place else [], [Operation("work"), *exchange])
        return cls([(1.0, programs)], f"serial {', '.join(names)}", dict.fromkeys(names, 1.0))

    @cached_property
    def _balanced(self) -> float:
        """Seconds per window where each participant alone would need 1."""
        return float(self._cycles(1.0 / self._windows[None])[0])

    @cached_property
    def is_maximum(self) -> bool:
        """Whether the window time is the maximum over the participants of windows w times cost, for all costs.

        The window time is a maximum of sums over cycles, v·c with v ≥ 0, and never below the largest w·c, since each
        participant's own steps are a cycle. If it is 1 at c = 1/w, every sum has Σ v/w ≤ 1 and so is at most that.
        """
        return self._balanced <= 1.0 + 1e-9

    @cached_property
    def is_sum(self) -> bool:
        """Whether no two participants ever work at the same time: the window time is the sum of windows times costs.

        It is sublinear in the costs, so never above that sum; if it is the sum for some positive costs, it always is.
        """
        return self._balanced >= len(self.participants) * (1.0 - 1e-9)

    def window_seconds(self, costs: Costs) -> Floats:
        """Steady seconds per time window, exact for costs that do not vary from window to window.

        Parameters
        ----------
        costs : mapping from participant to array
            Compute seconds per window, of shapes that are broadcast against each other.

        Returns
        -------
        ndarray
            Seconds per window, in the broadcast shape.

        Raises
        ------
        ScheduleError
            If a participant is missing, an unknown one is there, or a cost is negative or not finite.
        """
        rows, shape = self._rows(costs)
        return self._steady(rows).reshape(shape)

    def participant_seconds(self, costs: Costs) -> dict[str, Floats]:
        """Steady seconds per window of each participant: less than the window time where it never waits for the rest.

        With one-directional exchange the upstream participant runs ahead at its own pace.

        Parameters
        ----------
        costs : mapping from participant to array
            Compute seconds per window, of shapes that are broadcast against each other.

        Returns
        -------
        dict of str to ndarray
            In the broadcast shape.

        Raises
        ------
        ScheduleError
            As `window_seconds`.
        """
        rows, shape = self._rows(costs)
        # All who wait for the same ones are as fast; who waits for whom is the same in all variants.
        upstream = self._variants[0][2].upstream
        known = {within: self._steady(rows, within).reshape(shape) for within in set(upstream.values())}
        return {name: known[upstream[name]] for name in self.participants}

    def waits(self, costs: Costs) -> dict[str, Floats]:
        """Seconds that each participant waits per window: its seconds per window less its compute time.

        Parameters
        ----------
        costs : mapping from participant to array
            Compute seconds per window, of shapes that are broadcast against each other.

        Returns
        -------
        dict of str to ndarray
            In the broadcast shape.

        Raises
        ------
        ScheduleError
            As `window_seconds`.
        """
        return {
            name: np.maximum(seconds - self.windows[name] * np.asarray(costs[name], dtype=np.float64), 0.0)
            for name, seconds in self.participant_seconds(costs).items()
        }

    def critical_cycle(self, costs: Mapping[str, float]) -> tuple[str, ...]:
        """Participants that set the window time, in the order of their work: speeding up any other gains nothing.

        Parameters
        ----------
        costs : mapping from participant to float
            Compute seconds per window.

        Returns
        -------
        tuple of str

        Raises
        ------
        ScheduleError
            If costs are arrays, or as `window_seconds`.
        """
        rows, _ = self._rows(costs)
        if len(rows) != 1:
            raise ScheduleError(f"expected one cost per participant, found {len(rows)}")
        _, _, likeliest = max(self._variants, key=lambda variant: variant[0])
        return likeliest.critical_participants(rows[0] * self._per_iteration)

    def cut(self, costs: Floats) -> Floats:
        """Weights of costs, whose sum is nowhere above the window time and is that of these costs.

        Parameters
        ----------
        costs : array of shape (participants,)
            Compute seconds per window.

        Returns
        -------
        ndarray of shape (participants,)
        """
        scaled = costs * self._per_iteration
        return sum(weight * graph.cut(scaled) for weight, _, graph in self._variants) * self._per_iteration

    def replay(self, costs: Costs) -> Floats:
        """Completion time of each window when every window has costs of its own.

        With costs that vary the steady window time of the mean costs is only a lower bound. This is the recursion of
        Kim, Larson and Chiu (2013, equations 8 and 9), in the order in which preCICE sends and receives.

        Parameters
        ----------
        costs
            Compute seconds of each participant in each window, shape (windows,), or (..., windows) for several replays
            at once.

        Returns
        -------
        ndarray of the same shape
            Seconds from the start of the first window until the last participant has done its work of the window.

        Raises
        ------
        ScheduleError
            As for `window_seconds`.
        """
        rows, shape = self._rows(costs)
        if not shape:
            raise ScheduleError("expected one cost per window, found a single number")
        if not shape[-1]:
            return np.zeros(shape)
        columns = [partial(np.take, row.reshape(shape), axis=-1) for row in (rows * self._per_iteration).T]
        return self._replay(columns, shape[-1], range(shape[-1]))

    def replay_seconds(self, costs: Costs, factors: Mapping[str, Floats], skip: int = 0) -> Floats:
        """Mean seconds per window of replays in which costs vary by given factors; see `replay_residuals`.

        Parameters
        ----------
        costs
            Compute seconds per window of each participant, of shapes that are broadcast against each other.
        factors
            Of each participant in each window, shape (windows,).
        skip
            Windows at the beginning that do not count.

        Returns
        -------
        ndarray
            Seconds per window, in the broadcast shape of `costs`.

        Raises
        ------
        ScheduleError
            As `window_seconds`.
        """
        rows, shape = self._rows(costs)
        columns, windows = (rows * self._per_iteration).T, len(factors[self.participants[0]])
        names = self.participants
        scaled = [partial(_scaled, column, factors[name]) for name, column in zip(names, columns, strict=True)]
        # One window more, since nobody waits for what follows the last one.
        ends = self._replay(scaled, windows + 1, [skip - 1, windows - 1] if skip else [windows - 1])
        return np.asarray((ends[:, -1] - ends[:, 0] if skip else ends[:, 0]) / (windows - skip)).reshape(shape)

    def _rows(self, costs: Costs) -> tuple[Floats, tuple[int, ...]]:
        """Check costs, and give them as rows of shape (batch, participants), with the shape to give back."""
        names = self.participants
        if set(costs) != set(names):
            raise ScheduleError(f"expected costs of {', '.join(names)}, found {', '.join(costs) or 'none'}")
        arrays = np.broadcast_arrays(*(np.asarray(costs[name], dtype=np.float64) for name in names))
        rows = np.stack([array.ravel() for array in arrays], axis=1)
        if (bad := ~(np.isfinite(rows) & (rows >= 0)).all(axis=0)).any():
            raise ScheduleError(f'expected finite costs of at least 0, found others for "{names[int(np.argmax(bad))]}"')
        return rows, arrays[0].shape

    def _steady(self, rows: Floats, within: frozenset[str] | None = None) -> Floats:
        """Steady seconds per window, shape (batch,), of the coupling or of some participants in it."""
        if within is None or len(within) == len(self.participants):
            if self.is_maximum:
                return np.asarray((rows * self._windows).max(axis=1))
            if self.is_sum:
                return np.asarray(rows @ self._windows)
        return self._cycles(rows, within)

    def _cycles(self, rows: Floats, within: frozenset[str] | None = None) -> Floats:
        """Find the same in the event graphs."""
        rows = rows * self._per_iteration
        return np.asarray(sum(weight * graph.window_seconds(rows, within) for weight, _, graph in self._variants))

    def _replay(self, costs: Sequence[Callable[[int], Floats]], windows: int, wanted: Sequence[int]) -> Floats:
        return np.asarray(
            sum(weight * replay(programs, costs, windows, wanted) for weight, programs, _ in self._variants)
        )


def _distinct(names: Sequence[str]) -> list[str]:
    """Return names of participants; refuse none, a name given twice, and a text in place of a list."""
    names = checked_list(names, "names", "participants", ScheduleError)
    if not names or len(set(names)) < len(names):
        raise ScheduleError(f"expected different names of participants, found {', '.join(names) or 'none'}")
    return names


def _iterations_of(configuration: Configuration, measured: Mapping[str, float]) -> dict[int, float]:
    """Find the iterations per window of each implicit scheme, by its index."""
    if unknown := [name for name in measured if name not in configuration.participants]:
        known = ", ".join(configuration.participants)
        raise ScheduleError(f'{configuration.path}: expected iterations of {known}, found some of "{unknown[0]}"')
    counts = {}
    for index, scheme in enumerate(configuration.coupling_schemes):
        if not scheme.is_implicit:
            continue
        values = [float(measured[name]) for name in scheme.participants if name in measured]
        if not values and scheme.max_iterations is not None and not scheme.measures:
            values = [float(scheme.max_iterations)]
        elif not values and len(configuration.coupling_schemes) == 1:
            values = [1.0]
        mean = sum(values) / len(values) if values else math.nan
        if not 1 <= mean < math.inf:
            raise ScheduleError(
                f"{configuration.path}:{scheme.line}: expected the coupling iterations per time window of "
                f"{' or '.join(scheme.participants)}, found {', '.join(map(str, values)) or 'none'}; several coupling "
                "schemes together need them: give a column iterations of at least 1, or record runs"
            )
        counts[index] = mean
    return counts


def _whole_counts(counts: Mapping[int, float]) -> Iterator[tuple[float, dict[int, int]]]:
    """Whole numbers of iterations around each mean, with the weight of each choice; the weights sum to 1."""
    lows = [(math.floor(count), count % 1) for count in counts.values()]
    for choice in product(*([(low, 1 - share), (low + 1, share)] for low, share in lows)):
        if weight := math.prod(share for _, share in choice):
            yield weight, dict(zip(counts, (number for number, _ in choice), strict=True))


def _acceleration_of(configuration: Configuration, measured: Mapping[str, float]) -> dict[str, float]:
    """Keep the parts of those participants that accelerate, checked."""
    accelerating = {scheme.controller for scheme in configuration.coupling_schemes if scheme.acceleration is not None}
    parts = {name: float(part) for name, part in measured.items() if name in accelerating}
    if wrong := [name for name, part in parts.items() if not 0.0 <= part < 1.0]:
        raise ScheduleError(
            f'{configuration.path}: expected the part of "{wrong[0]}" for acceleration from 0 to below 1, found '
            f"{parts[wrong[0]]:g}"
        )
    return parts


def _scaled(column: Floats, factors: Floats, window: int) -> Floats:
    return np.asarray(column * factors[window % len(factors)])


Coupling = str | Path | Schedule


def schedule_of(coupling: Coupling, names: Sequence[str]) -> Schedule:
    """Make a schedule of a standard name for these participants, of the path of a configuration, or of a schedule."""
    if isinstance(coupling, Schedule):
        return coupling
    if coupling in ("parallel", "serial"):
        return Schedule.parallel(names) if coupling == "parallel" else Schedule.serial(names)
    if not isinstance(coupling, str | Path) or not Path(coupling).is_file():
        raise ScheduleError(f'expected "parallel", "serial" or the path of a configuration, found {coupling!r:.200}')
    return Schedule.from_config(coupling)
