"""The window time of a coupling as a function of what its participants cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.exceptions import ScheduleError
from precice_lb.precice_xml import Configuration, read_configuration
from precice_lb.schedule.counts import acceleration_of, description_of, duties_of, iterations_of, whole_counts
from precice_lb.schedule.graph import EventGraph
from precice_lb.schedule.periods import period_of
from precice_lb.schedule.program import Program, check_supported, parallel_programs, programs_of, serial_programs
from precice_lb.schedule.replay import replay

__all__ = ["Schedule"]

Floats = NDArray[np.float64]

# Cost vectors evaluated at once: enough for speed, little enough for memory.
_CHUNK = 8192


class Schedule:
    """How a coupling turns the costs of its participants into seconds per time window.

    A cost is what one participant needs on its own for one time window, in seconds: solve, own mapping and overhead of
    all its coupling iterations, without waiting. The iterations of a window are taken to cost the same; mapping and
    acceleration are part of the cost of the participant that does them (`duties`).

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
    duties
        What each participant does beside solving within its compute time, in words: mappings and acceleration.
    """

    def __init__(
        self,
        variants: Sequence[tuple[float, Mapping[str, Program]]],
        description: str,
        iterations: Mapping[str, float],
        windows: Mapping[str, int] | None = None,
        duties: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self._variants = [(weight, programs, EventGraph(programs)) for weight, programs in variants]
        self.participants: tuple[str, ...] = tuple(variants[0][1])
        self.description = description
        self.iterations: dict[str, float] = {name: float(iterations[name]) for name in self.participants}
        self.windows: dict[str, int] = {name: int((windows or {}).get(name, 1)) for name in self.participants}
        self.duties: dict[str, tuple[str, ...]] = {name: (duties or {}).get(name, ()) for name in self.participants}
        self._per_iteration = np.array([1.0 / self.iterations[name] for name in self.participants])

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
        Where schemes have windows of different size, preCICE lets a participant step from end to end of the windows of
        all its schemes, so that participants count different numbers of windows (`windows`). Costs are then seconds per
        window of the participant itself, taken as proportional to the simulated time of the window, and "the" window,
        of which all results speak, is the period after which all schemes end a window together.
        """
        configuration = source if isinstance(source, Configuration) else read_configuration(source)
        schemes = configuration.coupling_schemes
        check_supported(configuration)
        counts = iterations_of(configuration, dict(iterations or {}))
        parts = acceleration_of(configuration, acceleration or {})
        variants = [(w, programs_of(configuration, whole, parts)) for w, whole in whole_counts(counts)]
        per_participant = {
            name: next((counts[i] for i in counts if name in schemes[i].participants), 1.0)
            for name in configuration.participants
        }
        windows = {name: len(steps) for name, steps in period_of(configuration).steps.items()}
        text = description_of(configuration, counts)
        return cls(variants, text, per_participant, windows, duties_of(configuration))

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
        return cls._plain(names, "parallel", parallel_programs)

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
        return cls._plain(names, "serial", serial_programs)

    @classmethod
    def _plain(
        cls, names: Sequence[str], kind: str, programs: Callable[[Sequence[str]], dict[str, Program]]
    ) -> Schedule:
        if not names or len(set(names)) < len(names):
            raise ScheduleError(f"expected different names of participants, found {', '.join(names) or 'none'}")
        return cls([(1.0, programs(list(names)))], f"{kind} {', '.join(names)}", dict.fromkeys(names, 1.0))

    @cached_property
    def weights(self) -> dict[str, float]:
        """Seconds per window when only that participant costs 1 second per window and the others nothing."""
        unit = np.eye(len(self.participants))
        seconds = self._evaluate(unit)
        return dict(zip(self.participants, seconds.tolist(), strict=True))

    @cached_property
    def is_maximum(self) -> bool:
        """Whether the window time is the maximum over the participants of weight times cost, for all costs.

        The window time is a maximum of sums over cycles, v·c with v ≥ 0, and never below the largest weight times
        cost. If it is 1 at c = 1/weight, every sum has Σ v/weight ≤ 1 and so is at most the largest weight times cost.
        """
        balanced = np.array([[1.0 / self.weights[name] for name in self.participants]])
        return bool(self._evaluate(balanced)[0] <= 1.0 + 1e-9)

    def window_seconds(self, costs: Mapping[str, ArrayLike]) -> Floats:
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
        if self.is_maximum:
            weights = np.array([self.weights[name] for name in self.participants])
            return np.asarray((rows * weights).max(axis=1).reshape(shape))
        return self._evaluate(rows).reshape(shape)

    def participant_seconds(self, costs: Mapping[str, ArrayLike]) -> dict[str, Floats]:
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
        return {name: self._evaluate(rows, name).reshape(shape) for name in self.participants}

    def waits(self, costs: Mapping[str, ArrayLike]) -> dict[str, Floats]:
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
        _, shape = self._rows(costs)
        seconds = self.participant_seconds(costs)
        return {
            name: np.maximum(
                seconds[name] - self.windows[name] * np.broadcast_to(np.asarray(costs[name], float), shape), 0.0
            )
            for name in self.participants
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
        heaviest = max(self._variants, key=lambda variant: variant[0])
        return heaviest[2].critical_cycle(rows[0] * self._per_iteration)

    def replay(self, costs: Mapping[str, ArrayLike]) -> Floats:
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
        columns = [row.reshape(shape) for row in (rows * self._per_iteration).T]
        return self._replay([partial(_window_of, column) for column in columns], shape[-1])

    def replay_seconds(self, costs: Mapping[str, ArrayLike], factors: Mapping[str, Floats], skip: int = 0) -> Floats:
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
        """
        rows, shape = self._rows(costs)
        rows = rows * self._per_iteration
        windows = len(factors[self.participants[0]])
        scaled = [partial(_scaled, rows[:, i], factors[name]) for i, name in enumerate(self.participants)]
        # One window more, since nobody waits for what follows the last one.
        ends = self._replay(scaled, windows + 1, [skip - 1, windows - 1] if skip else [windows - 1])
        seconds = (ends[:, -1] - ends[:, 0] if skip else ends[:, 0]) / (windows - skip)
        return np.array(seconds, dtype=np.float64).reshape(shape)

    def _replay(
        self, costs: Sequence[Callable[[int], Floats]], windows: int, wanted: Sequence[int] | None = None
    ) -> Floats:
        """Completion times for costs per iteration, one function of the window for each participant."""
        named = dict(zip(self.participants, costs, strict=True))
        return np.asarray(sum(w * replay(programs, named, windows, wanted) for w, programs, _ in self._variants))

    def _rows(self, costs: Mapping[str, ArrayLike]) -> tuple[Floats, tuple[int, ...]]:
        """Costs as rows of shape (batch, participants), with the shape to give back."""
        if set(costs) != set(self.participants):
            raise ScheduleError(f"expected costs of {', '.join(self.participants)}, found {', '.join(costs) or 'none'}")
        arrays = np.broadcast_arrays(*(np.asarray(costs[name], dtype=np.float64) for name in self.participants))
        rows = np.stack([array.ravel() for array in arrays], axis=1)
        if not np.all(np.isfinite(rows) & (rows >= 0)):
            bad = self.participants[int(np.argwhere(~(np.isfinite(rows) & (rows >= 0)))[0, 1])]
            raise ScheduleError(f'expected finite costs that are not negative, found others for "{bad}"')
        return rows, arrays[0].shape

    def _evaluate(self, rows: Floats, participant: str | None = None) -> Floats:
        rows = rows * self._per_iteration
        result = np.zeros(len(rows))
        for weight, _, graph in self._variants:
            within = None if participant is None else graph.upstream[participant]
            for begin in range(0, len(rows), _CHUNK):
                part = slice(begin, begin + _CHUNK)
                result[part] += weight * graph.window_seconds(rows[part], within)
        return result


def _window_of(column: Floats, window: int) -> Floats:
    return np.asarray(column[..., window])


def _scaled(column: Floats, factors: Floats, window: int) -> Floats:
    return np.asarray(column * factors[window % len(factors)])
