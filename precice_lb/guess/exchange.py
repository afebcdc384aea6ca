"""The calls of a participant that a first guess changes: what is written and read, and what a window's end brings."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from precice_lb.case import read_configuration
from precice_lb.exceptions import ConfigurationError, GuessError
from precice_lb.guess.config import GuessField, GuessFields
from precice_lb.guess.predictors import Array, Delta, Guesser, Position, PredictionController, Sent
from precice_lb.record.recorder import setting, warn_once
from precice_lb.record.solver import on_host
from precice_lb.store.spool import raised_elsewhere

if TYPE_CHECKING:
    from precice_lb.record.recorder import Recorder


def participant_class(cls: Any, recording: Any, arguments: Mapping[str, Any]) -> Any:
    """Choose a participant's class: with first guesses where they are asked for and the configuration has them.

    ``cls`` is ``recording`` or what the solver derives from it; ``arguments`` are those of ``Participant``, by name.
    """
    for name in ("solver_name", "configuration_file_name", "solver_process_size"):
        if name not in arguments:
            raise GuessError(
                f"Participant: expected {name} for a first guess, found {', '.join(arguments) or 'nothing'}; a class "
                "derived from it with other arguments has to pass preCICE's on in __new__, as with pyprecice"
            )
    participant, configuration = (os.fsdecode(arguments[name]) for name in ("solver_name", "configuration_file_name"))
    is_asked_for = setting("PRECICE_LB_GUESS", "", "auto") == "auto"
    try:
        fields = GuessFields.of(read_configuration(configuration), participant)
    except ConfigurationError as error:
        # preCICE says better what it does not understand.
        warn_once(f"{participant} runs without a first guess: {error}")
        return cls
    if fields is None:
        if is_asked_for:
            warn_once(
                f"{participant} runs without a first guess: {configuration} has no fields for it; make one that has "
                "them: precice-lb guess patch CONFIG -o OUT"
            )
        return cls
    if not is_asked_for:
        return _refusing(cls, participant, configuration)
    _install(recording)
    # Each participant has a class of its own.
    is_silent = functools.partial(_agree, arguments["solver_process_size"], arguments.get("communicator"))
    return _derived(cls, _precice_lb_guess=ShiftedExchange(participant, fields, is_silent))


def _refusing(cls: Any, participant: str, configuration: str) -> Any:
    """Make a class that ends once its partners have met it, so that they do not wait for ever."""

    def initialize(self: Any) -> NoReturn:
        cls.requires_initial_data(self)
        cls.initialize(self)
        value = os.environ.get("PRECICE_LB_GUESS") or "nothing"
        raise GuessError(
            f"{participant}: expected PRECICE_LB_GUESS=auto, as {configuration} has fields for a first guess, found "
            f"{value}; set it for all participants, or use the configuration without them"
        )

    return _derived(cls, initialize=initialize)


def _derived(cls: Any, **members: Any) -> Any:
    """Derive a class that is called like its base."""
    called = {name: getattr(cls, name) for name in ("__qualname__", "__module__", "__doc__")}
    return type(cls)(cls.__name__, (cls,), {**called, **members})


@functools.cache
def _install(recording: Any) -> None:
    """Put the calls that a first guess changes into the recording class, below all that solvers derive from it."""
    for name in ("requires_initial_data", "write_data", "read_data", "initialize", "advance"):
        setattr(recording, name, _guessed(recording, getattr(recording, name), getattr(ShiftedExchange, name)))


def _guessed(recording: Any, method: Callable[..., Any], guessed: Callable[..., Any]) -> Callable[..., Any]:
    """Make the call that does another one where its participant has a first guess."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        guess = self._precice_lb_guess
        if guess is None:
            return method(self, *args, **kwargs)
        return guessed(guess, super(recording, self), functools.partial(method, self), *args, **kwargs)

    return call


def _agree(size: int, communicator: Any, concerned: bool, heard: bool) -> bool:
    """Tell whether a partner is silent, by which ranks have vertices (``concerned``) and which found a word there."""
    if size > 1:
        from mpi4py import MPI

        ranks = communicator or MPI.COMM_WORLD
        # Conservative mappings may leave a rank without anything, so any rank's word counts, where all can be asked:
        # other participants may be in the same world.
        if ranks.Get_size() == size:
            concerned, heard = (bool(ranks.allreduce(flag, MPI.LOR)) for flag in (concerned, heard))
    return concerned and not heard


_Key = tuple[str, str]

# Share of the time that learning may take.
_SHARE = 0.05


class ShiftedExchange:
    """What a participant keeps for its first guesses, and its calls with them.

    ``base`` is always the participant as the backend has it, followed by the call without a guess.
    """

    def __init__(self, participant: str, fields: GuessFields, is_silent: Callable[[bool, bool], bool]) -> None:
        self._participant, self._fields, self._is_silent = participant, fields, is_silent
        self._sent: dict[_Key, tuple[GuessField, Sent, Guesser]] = {}
        self._received: dict[_Key, tuple[GuessField, Delta]] = {}
        self._ids: dict[str, NDArray[np.int32]] = {}
        # What the solver writes before `initialize`; None after it.
        self._initial: list[tuple[_Key, Any, Any]] | None = []
        self._controller = PredictionController()
        self._position = Position(1.0)
        self._window = self._iterations = 1
        # Whether this window started from predictions, and whether the next one is to.
        self._guessed = self._guesses_next = False
        # When the coupling began, what of the time since then was learning, and our own time in this window.
        self._began_ns = time.perf_counter_ns()
        self._learning_ns = self._cost_ns = 0

    def requires_initial_data(self, base: Any, ask: Callable[[], bool]) -> bool:
        """Tell the solver whether it has initial data of its own to write."""
        return ask() and self._fields.initializes

    def initialize(self, base: Any, initialize: Callable[[], Any]) -> Any:
        """Start the coupling, if all partners take part; the shifted fields' initial values are the solver's own."""
        if not self._fields.initializes:
            # Else the solver has to ask.
            base.requires_initial_data()
        written, self._initial = self._initial or [], None
        for field in self._fields.sent:
            ids, shape = self._size(base, field)
            base.write_data(field.mesh, field.guess, ids, np.ones(shape))
            if field.route.shifted:
                sent = Sent(shape, field.degree, relaxed=field.route.relaxed, relative=field.route.relative)
                for key, some, values in written:
                    if key == (field.mesh, field.data):
                        sent.write(some, values)
                base.write_data(field.mesh, field.shifted, ids, sent.values)
                initial = sent.values.ravel().copy() if field.route.initialized else None
                self._sent[field.mesh, field.data] = field, sent, Guesser(initial)
                sent.clear()
        result = initialize()
        # The ranks find out together whether a partner does not take part.
        missing = None
        for field in self._fields.received:
            ids, shape = self._size(base, field)
            values = base.read_data(field.mesh, field.guess, ids, 0.0)
            if self._is_silent(len(ids) > 0, bool(np.any(values))):
                missing = field.route.exchange.source
            if field.route.shifted:
                # By vertex, of which there may be others in between.
                all_ids = int(ids.max(initial=-1)) + 1
                self._received[field.mesh, field.data] = field, Delta((all_ids, *shape[1:]), field.degree)
        if missing is not None:
            raise GuessError(
                f'{self._participant}: expected participant "{missing}" to take part in the first guess, found that it '
                "does not; set PRECICE_LB_GUESS for all participants and let all run through precice_lb, or use the "
                "configuration without fields for a first guess"
            )
        self._position.start_window(base.get_max_time_step_size())
        self._began_ns = time.perf_counter_ns()
        return result

    def write_data(
        self, base: Any, write: Callable[..., Any], mesh_name: Any, data_name: Any, vertex_ids: Any, values: Any
    ) -> Any:
        """Write, and take what the solver has written."""
        values, key = on_host(values), (os.fsdecode(mesh_name), os.fsdecode(data_name))
        result = write(mesh_name, data_name, vertex_ids, values)
        if self._initial is not None:
            self._initial.append((key, np.array(vertex_ids), np.array(values)))
        elif (entry := self._sent.get(key)) is not None:
            entry[1].write(vertex_ids, values)
        return result

    def read_data(
        self,
        base: Any,
        read: Callable[..., Any],
        mesh_name: Any,
        data_name: Any,
        vertex_ids: Any,
        relative_read_time: Any,
    ) -> Any:
        """Read what the solver asks for."""
        entry = self._received.get((os.fsdecode(mesh_name), os.fsdecode(data_name)))
        if entry is None:
            return read(mesh_name, data_name, vertex_ids, relative_read_time)
        field, delta = entry
        shift = delta.at(self._position.after(relative_read_time))[np.asarray(vertex_ids, dtype=np.int32)]
        return read(mesh_name, field.shifted, vertex_ids, relative_read_time) + shift

    def advance(self, base: Any, advance: Callable[[Any], Any], computed_timestep_length: Any) -> Any:
        """Advance with shifted values, and at the end of a time window with predictions."""
        begin, step = time.perf_counter_ns(), computed_timestep_length
        part = self._position.after(step)
        for field, sent, guesser in self._sent.values():
            ids = self._ids[field.mesh]
            sent.shift(part)
            base.write_data(field.mesh, field.shifted, ids, sent.shifted)
            if part >= 1.0:
                sent.predicted = self._predict(sent, guesser)
                base.write_data(field.mesh, field.guess, ids, sent.predicted)
        self._cost_ns += time.perf_counter_ns() - begin
        result = advance(step)
        # Within the time window, to its next iteration, or to the next window.
        begin = time.perf_counter_ns()
        complete = base.is_time_window_complete()
        if complete:
            self._complete(base.__self__._precice_lb_recorder)
            if base.is_coupling_ongoing():
                self._start_window(base)
            else:
                # Solvers may read what the run has ended with.
                self._position.move(step)
        elif part >= 1.0:
            self._iterations += 1
            self._position.start_window()
        else:
            self._position.move(step)
        for _, sent, _ in self._sent.values():
            sent.clear()
        self._cost_ns = 0 if complete else self._cost_ns + time.perf_counter_ns() - begin
        return result

    def _size(self, base: Any, field: GuessField) -> tuple[NDArray[np.int32], tuple[int, ...]]:
        """Return this rank's vertices of a field's mesh, and the shape of its values."""
        if field.direct:
            ids = np.asarray(base.get_mesh_vertex_ids_and_coordinates(field.mesh)[0], dtype=np.int32)
        else:
            ids = np.arange(base.get_mesh_vertex_size(field.mesh), dtype=np.int32)
        self._ids[field.mesh] = ids
        dimensions = base.get_data_dimensions(field.mesh, field.data)
        return ids, (len(ids), dimensions) if dimensions > 1 else (len(ids),)

    def _predict(self, sent: Sent, guesser: Guesser) -> Array:
        """Predict the next window's end from this iteration; where that fails, hold from then on."""
        flat = sent.values.ravel()
        try:
            predicted = guesser.propose(flat, wanted=self._guesses_next and not sent.astray)
        except Exception as error:
            self._fail(guesser, error)
            predicted = flat
        return predicted.reshape(sent.values.shape)

    def _complete(self, recorder: Recorder) -> None:
        """Take a time window that has converged, and decide how the next one but one starts."""
        self._controller.count(self._guessed, self._iterations)
        begin = time.perf_counter_ns()
        learns = self._learning_ns <= _SHARE * (begin - self._began_ns)
        for _, sent, guesser in self._sent.values():
            sent.converged()
            try:
                guesser.converged(sent.values.ravel(), fit=learns)
            except Exception as error:
                self._fail(guesser, error)
        if learns:
            self._learning_ns += time.perf_counter_ns() - begin
        guessers = [guesser for _, _, guesser in self._sent.values()]
        if guessers:
            names = ", ".join(sorted({guesser.name for guesser in guessers}))
            recorder.guessed(
                self._window, names, self._cost_ns, float(np.mean([guesser.error for guesser in guessers]))
            )
        self._guessed = self._guesses_next
        self._guesses_next = self._controller.wants()
        self._window += 1
        self._iterations = 1

    def _start_window(self, base: Any) -> None:
        self._position.start_window(base.get_max_time_step_size())
        for field, delta in self._received.values():
            ids = self._ids[field.mesh]
            predicted, shifted = (base.read_data(field.mesh, name, ids, 0.0) for name in (field.guess, field.shifted))
            delta.start_window(predicted, shifted, ids)

    def _fail(self, guesser: Guesser, error: Exception) -> None:
        if raised_elsewhere(error):
            raise error
        guesser.give_up()
        warn_once(f"{self._participant} goes on without predictions of the rank's data: {error}")
