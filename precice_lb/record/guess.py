"""The calls of a participant that a first guess changes: what is written and read, and what a window's end brings."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Any, NoReturn

from precice_lb.exceptions import BackendError, ConfigurationError, GuessError
from precice_lb.guess.config import Channel
from precice_lb.guess.predictors import MODES
from precice_lb.precice_xml import read_configuration
from precice_lb.record.device import on_host
from precice_lb.record.participant import Backend
from precice_lb.record.shifted import ShiftedExchange
from precice_lb.record.tables import setting, warn_once


def guessing_class(cls: Any, recording: Any, backend: Backend, asked: str | None, arguments: Mapping[str, Any]) -> Any:
    """Choose a participant's class: with first guesses where they are asked for and the configuration has them.

    ``cls`` is ``recording`` or what the solver derives from it; ``asked`` is what the solver says, else the
    environment does; ``arguments`` are those of ``Participant``, by name.
    """
    for name in ("solver_name", "configuration_file_name", "solver_process_size"):
        if name not in arguments:
            raise GuessError(
                f"Participant: expected {name} for a first guess, found {', '.join(arguments) or 'nothing'}; a class "
                "derived from it with other arguments has to pass preCICE's on in __new__, as with pyprecice"
            )
    participant, configuration = _text(arguments["solver_name"]), _text(arguments["configuration_file_name"])
    if asked is not None and asked not in MODES:
        raise GuessError(f"Participant: expected guess= to be one of {', '.join(MODES)}, found {asked!r}; correct it")
    mode = asked or setting("PRECICE_LB_GUESS", "", *MODES)
    try:
        channel = Channel.of(read_configuration(configuration), participant)
    except ConfigurationError as error:
        # preCICE says better what it does not understand.
        warn_once(f"{participant} runs without a first guess: {error}")
        return cls
    if channel is not None:
        if not mode:
            return _refusing(cls, participant, configuration)
        return _guessing(cls, recording, channel, mode, arguments)
    if mode in ("hold", "linear", "quadratic") and backend.name == "embedded":
        return _native(cls, mode, participant)
    if mode:
        warn_once(
            f"{participant} runs without a first guess: {configuration} has no fields for it; make one that has them: "
            "precice-lb guess patch CONFIG -o OUT"
        )
    return cls


def _text(name: str | bytes) -> str:
    return os.fsdecode(name)


def _native(cls: Any, mode: str, participant: str) -> Any:
    """Let the embedded backend itself start time windows from an extrapolation."""

    class Native(cls):  # type: ignore[misc, unused-ignore]
        _precice_lb_guess_mode = mode

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            try:
                self.guess_first(mode)
            except BackendError as error:
                warn_once(f"{participant} runs without a first guess: {error}")

    return _named(Native, cls)


def _refusing(cls: Any, participant: str, configuration: str) -> Any:
    """Make a class that ends once its partners have met it, so that they do not wait for ever."""

    class Refusing(cls):  # type: ignore[misc, unused-ignore]
        def initialize(self) -> NoReturn:
            super().requires_initial_data()
            super().initialize()
            found = os.environ.get("PRECICE_LB_GUESS") or "nothing"
            raise GuessError(
                f"{participant}: expected PRECICE_LB_GUESS to be one of {', '.join(MODES)}, as {configuration} has "
                f"fields for a first guess, found {found}; set it for all participants, or use the configuration "
                "without them"
            )

    return _named(Refusing, cls)


def _named(made: Any, cls: Any) -> Any:
    made.__name__, made.__qualname__, made.__module__, made.__doc__ = (
        cls.__name__,
        cls.__qualname__,
        cls.__module__,
        cls.__doc__,
    )
    return made


def _guessing(cls: Any, recording: Any, channel: Channel, mode: str, arguments: Mapping[str, Any]) -> Any:
    """Make the class that exchanges shifted values; each participant has one of its own."""
    _install(recording)
    size, communicator = arguments["solver_process_size"], arguments.get("communicator")

    class Guessing(cls):  # type: ignore[misc, unused-ignore]
        _precice_lb_guess_mode = mode
        _precice_lb_guess = ShiftedExchange(_text(arguments["solver_name"]), channel, mode)
        _precice_lb_agree = staticmethod(functools.partial(_agree, size, communicator))

    return _named(Guessing, cls)


def _install(recording: Any) -> None:
    """Put the calls that a first guess changes into the recording class, below all that solvers derive from it."""
    if hasattr(recording, "_precice_lb_guess"):
        return
    recording._precice_lb_guess = None
    initialize_before, advance_before = recording.initialize, recording.advance
    write_before = recording.write_data

    def requires_initial_data(self: Any) -> Any:
        result, guess = super(recording, self).requires_initial_data(), self._precice_lb_guess
        return result if guess is None else result and guess.initializes

    def write_data(self: Any, mesh_name: Any, data_name: Any, vertex_ids: Any, values: Any) -> Any:
        values = on_host(values)
        result = write_before(self, mesh_name, data_name, vertex_ids, values)
        if self._precice_lb_guess is not None:
            self._precice_lb_guess.write(_text(mesh_name), _text(data_name), vertex_ids, values)
        return result

    def read_data(self: Any, mesh_name: Any, data_name: Any, vertex_ids: Any, relative_read_time: Any) -> Any:
        base: Any = super(recording, self)
        guess = self._precice_lb_guess
        if guess is None:
            return base.read_data(mesh_name, data_name, vertex_ids, relative_read_time)
        return guess.read(base, _text(mesh_name), _text(data_name), vertex_ids, relative_read_time)

    def initialize(self: Any) -> Any:
        base: Any = super(recording, self)
        guess = self._precice_lb_guess
        if guess is None:
            return initialize_before(self)
        guess.before_initialize(base)
        result = initialize_before(self)
        guess.after_initialize(base, self._precice_lb_agree)
        return result

    def advance(self: Any, computed_timestep_length: Any) -> Any:
        base: Any = super(recording, self)
        guess = self._precice_lb_guess
        if guess is None:
            return advance_before(self, computed_timestep_length)
        guess.before_advance(base, computed_timestep_length)
        result = advance_before(self, computed_timestep_length)
        guess.after_advance(base, computed_timestep_length, self._precice_lb_recorder)
        return result

    for method in (requires_initial_data, write_data, read_data, initialize, advance):
        method.__doc__ = getattr(recording, method.__name__).__doc__
        setattr(recording, method.__name__, method)


def _agree(size: int, communicator: Any, concerned: bool, heard: bool) -> bool:
    """Tell whether a partner is silent, by which ranks have vertices (``concerned``) and which found a word there."""
    if size > 1:
        from mpi4py import MPI

        ranks = communicator or MPI.COMM_WORLD
        # Conservative mappings may leave a rank without anything, so any rank's word counts, where all can be asked:
        # other participants may be in the same world.
        if ranks.Get_size() == size:
            concerned, heard = (bool(ranks.allreduce(each, MPI.LOR)) for each in (concerned, heard))
    return concerned and not heard
