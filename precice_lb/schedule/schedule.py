"""The window time of a coupling as a function of what its participants cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.exceptions import ScheduleError
from precice_lb.precice_xml import Configuration, CouplingScheme, read_configuration
from precice_lb.schedule.graph import EventGraph
from precice_lb.schedule.program import Program, check_supported, parallel_programs, programs_of, serial_programs
from precice_lb.schedule.replay import replay

__all__ = ["Schedule"]

Floats = NDArray[np.float64]

# Cost vectors evaluated at once: enough for speed, little enough for memory.
_CHUNK = 8192


class Schedule:
    """How a coupling turns the costs of its participants into seconds per time window.

    A cost is what one participant needs on its own for one time window, in seconds: solve, own mapping and overhead of
    all its coupling iterations, without waiting. The iterations of a window are taken to cost the same; acceleration
    is part of the cost of the participant that does it.

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
    """

    def __init__(
        self,
        variants: Sequence[tuple[float, Mapping[str, Program]]],
        description: str,
        iterations: Mapping[str, float],
    ) -> None:
        self._variants = [(weight, programs, EventGraph(programs)) for weight, programs in variants]
        self.participants: tuple[str, ...] = tuple(variants[0][1])
        self.description = description
        self.iterations: dict[str, float] = {name: float(iterations[name]) for name in self.participants}
        self._per_iteration = np.array([1.0 / self.iterations[name] for name in self.participants])

    def __repr__(self) -> str:
        return f"<Schedule {self.description}>"

    @classmethod
    def from_config(cls, source: str | Path | Configuration, iterations: Mapping[str, float] | None = None) -> Schedule:
        """Read the schedule out of a ``precice-config.xml``.

        Parameters
        ----------
        source
            The file, or what was read from it.
        iterations
            Mean coupling iterations per time window as measured, by participant; where the members of one implicit
            scheme differ, their mean counts, and for participants without an implicit scheme it has no meaning.
            Without it a scheme that has no convergence measure takes its ``max-iterations``. A coupling that is one
            implicit scheme does without, since the window time of given costs does not depend on it; several schemes
            are refused.

        Raises
        ------
        ConfigurationError
            If the file cannot be read.
        ScheduleError
            If the coupling would hang, has time windows of different size at one participant, or if the number of
            iterations is needed and missing.
        """
        configuration = source if isinstance(source, Configuration) else read_configuration(source)
        schemes = configuration.coupling_schemes
        check_supported(configuration)
        counts = _iterations(configuration, dict(iterations or {}))
        # Whole numbers of iterations around each mean; one choice per scheme makes a variant.
        choices = []
        for count in counts.values():
            low, share = math.floor(count), count - math.floor(count)
            choices.append([(low, 1 - share), (low + 1, share)] if share else [(low, 1.0)])
        variants = []
        for choice in product(*choices):
            whole = {index: number for index, (number, _) in zip(counts, choice, strict=True)}
            variants.append((math.prod(share for _, share in choice), programs_of(configuration, whole)))
        per_participant = {
            name: next((counts[i] for i in counts if name in schemes[i].participants), 1.0)
            for name in configuration.participants
        }
        return cls(variants, "; ".join(_describe(s, counts.get(i)) for i, s in enumerate(schemes)), per_participant)

    @classmethod
    def parallel(cls, names: Sequence[str]) -> Schedule:
        """All participants work at the same time and exchange with each other: the slowest sets the window time."""
        return cls._plain(names, "parallel", parallel_programs)

    @classmethod
    def serial(cls, names: Sequence[str]) -> Schedule:
        """One participant works after the other: the window time is the sum."""
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
        costs
            Own seconds per window of each participant; arrays are broadcast against each other.

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
        """
        rows, shape = self._rows(costs)
        return {name: self._evaluate(rows, name).reshape(shape) for name in self.participants}

    def waits(self, costs: Mapping[str, ArrayLike]) -> dict[str, Floats]:
        """Seconds that each participant waits per window: its seconds per window less its own cost."""
        _, shape = self._rows(costs)
        seconds = self.participant_seconds(costs)
        return {
            name: np.maximum(seconds[name] - np.broadcast_to(np.asarray(costs[name], float), shape), 0.0)
            for name in self.participants
        }

    def critical_cycle(self, costs: Mapping[str, float]) -> tuple[str, ...]:
        """Participants that set the window time, in the order of their work: speeding up any other gains nothing."""
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
            Own seconds of each participant in each window, shape (windows,), or (..., windows) for several replays
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
        rows = rows * self._per_iteration
        columns = {name: rows[:, i].reshape(shape) for i, name in enumerate(self.participants)}
        return np.asarray(sum(weight * replay(programs, columns) for weight, programs, _ in self._variants))

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


def _iterations(configuration: Configuration, given: dict[str, float]) -> dict[int, float]:
    """Find the iterations per window of each implicit scheme, by its index."""
    unknown = [name for name in given if name not in configuration.participants]
    if unknown:
        known = ", ".join(configuration.participants)
        raise ScheduleError(f'{configuration.path}: expected iterations of {known}, found some of "{unknown[0]}"')
    counts = {}
    for index, scheme in enumerate(configuration.coupling_schemes):
        if not scheme.is_implicit:
            continue
        values = [float(given[name]) for name in scheme.participants if name in given]
        if values:
            counts[index] = sum(values) / len(values)
        elif not scheme.has_convergence_measure and scheme.max_iterations is not None:
            counts[index] = float(scheme.max_iterations)
        elif len(configuration.coupling_schemes) == 1:
            counts[index] = 1.0
        else:
            raise ScheduleError(
                f"{configuration.path}:{scheme.line}: expected the coupling iterations per time window of "
                f"{' or '.join(scheme.participants)}, found none; several coupling schemes together need them"
            )
        if not 1 <= counts[index] < math.inf:
            raise ScheduleError(
                f"{configuration.path}:{scheme.line}: expected at least 1 coupling iteration per time window, "
                f"found {counts[index]:g}"
            )
    return counts


def _describe(scheme: CouplingScheme, iterations: float | None) -> str:
    count = f" ({iterations:g} iterations)" if iterations is not None and iterations != 1 else ""
    return f"{scheme.kind} {', '.join(scheme.participants)}{count}"
