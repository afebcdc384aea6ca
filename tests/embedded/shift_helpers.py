"""Two ways to the same first guess: the embedded backend's own, and a change of variables by both solvers.

`Shifted` exchanges z = x - delta(t), with delta linear in a time window from delta_n to delta_{n+1} = p_{n+1} - z_n:
the constant z_n that a window starts from then is the guess p_{n+1} at its end.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from precice_lb.embedded import Participant
from precice_lb.guess.config import Route, routes

ORDERS = {"hold": 0, "linear": 1, "quadratic": 2}


def backend(way: str, kind: str) -> SimpleNamespace:
    """What stands for a backend's module: ``native`` or ``shifted``."""
    return SimpleNamespace(Participant=lambda *given: {"native": _native, "shifted": Shifted}[way](kind, *given))


def _native(kind: str, *given: Any) -> Participant:
    participant = Participant(*given)
    participant.guess_first(kind)
    return participant


def extrapolated(values: np.ndarray) -> np.ndarray:
    """The next value of a polynomial through all: the sum of the last differences of each order."""
    return values[-1] + (extrapolated(np.diff(values, axis=0)) if len(values) > 1 else 0.0)


class _Field:
    """One end of a field: what the time windows converged to, and the shift of the current one."""

    def __init__(self, first: np.ndarray, order: int, degree: int, known: bool) -> None:
        self._history = [first] if known else []
        self._order, self._degree = order, degree
        self._start = self._end = np.zeros(first.shape)
        self.written = self.exchanged = first

    def delta(self, part: float) -> np.ndarray:
        if part == 0.0:
            return self._start
        return self._end if self._degree == 0 else self._start + (self._end - self._start) * part

    def move(self, exchanged: np.ndarray) -> None:
        """Go on to the next time window from what this one exchanged last."""
        self._history = [*self._history, exchanged + self._end][-self._order - 1 :]
        self._start, self._end = self._end, extrapolated(np.array(self._history)) - exchanged


def _is_known(route: Route) -> bool:
    """Whether the reader starts from initial values: one that is initialized takes all of its direction with it."""
    ends = route.exchange.source, route.exchange.target
    return any(one.initialize and (one.source, one.target) == ends for one in route.scheme.exchanges)


class Shifted(Participant):
    """The embedded backend with the change of variables in the calls of the solver."""

    def __init__(self, kind: str, *given: Any) -> None:
        super().__init__(*given)
        self._order = ORDERS[kind]
        self._initial: dict[tuple[str, str], np.ndarray] = {}
        self._sent: dict[tuple[str, str], _Field] = {}
        self._got: dict[tuple[str, str], _Field] = {}
        self._progress = 0.0

    def initialize(self) -> None:
        super().initialize()
        self._length = self.get_max_time_step_size()
        for route in routes(self._configuration):
            degree = self._configuration.data[route.exchange.data].waveform_degree
            key = route.write_mesh, route.exchange.data
            if route.shifted and route.exchange.source == self._name:
                first = self._initial.get(key, self._zeros(*key))
                self._sent[key] = _Field(first, self._order, degree, _is_known(route))
            key = route.read_mesh, route.exchange.data
            if route.shifted and route.exchange.target == self._name:
                self._got[key] = _Field(self._all(*key), self._order, degree, _is_known(route))

    def _zeros(self, mesh: str, data: str) -> np.ndarray:
        count, components = self.get_mesh_vertex_size(mesh), self.get_data_dimensions(mesh, data)
        return np.zeros(count if components == 1 else (count, components))

    def _all(self, mesh: str, data: str) -> np.ndarray:
        count, components = self.get_mesh_vertex_size(mesh), self.get_data_dimensions(mesh, data)
        values = super().read_data(mesh, data, range(count), 0.0)
        return values if count or components == 1 else np.zeros((0, components))

    def write_data(self, mesh_name: str, data_name: str, vertex_ids: Any, values: Any) -> None:
        super().write_data(mesh_name, data_name, vertex_ids, values)
        self._initial.setdefault((mesh_name, data_name), values)
        if (field := self._sent.get((mesh_name, data_name))) is not None:
            field.written = values

    def read_data(self, mesh_name: str, data_name: str, vertex_ids: Any, relative_read_time: float) -> np.ndarray:
        values = super().read_data(mesh_name, data_name, vertex_ids, relative_read_time)
        if (field := self._got.get((mesh_name, data_name))) is None:
            return values
        return values + field.delta((self._progress + relative_read_time) / self._length)

    def advance(self, computed_timestep_length: float) -> None:
        at_end = computed_timestep_length == self.get_max_time_step_size()
        self._progress += computed_timestep_length
        for (mesh, data), field in self._sent.items():
            field.exchanged = field.written - field.delta(1.0 if at_end else self._progress / self._length)
            super().write_data(mesh, data, range(len(field.exchanged)), field.exchanged)
        super().advance(computed_timestep_length)
        if at_end:
            self._progress = 0.0
        if self.is_time_window_complete():
            self._length = self.get_max_time_step_size() or self._length
            for field in self._sent.values():
                field.move(field.exchanged)
            for key, field in self._got.items():
                field.move(self._all(*key))
