"""The calls of a participant that a first guess changes: what is written and read, and what a window's end brings."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Any, NoReturn

from precice_lb.exceptions import BackendError, ConfigurationError, GuessError
from precice_lb.guess.channel import Channel
from precice_lb.guess.choose import MODES
from precice_lb.precice_xml import read_configuration
from precice_lb.record.backend import Backend
from precice_lb.record.notes import setting, warn_once
from precice_lb.record.shifted import ShiftedExchange

__all__ = ["guessing_class"]


def guessing_class(cls: Any, backend: Backend, asked: str | None, arguments: Mapping[str, Any]) -> Any:
    """Choose a participant's class: with first guesses where they are asked for and the configuration has them.

    ``asked`` is what the solver says, else the environment does; ``arguments`` are those of ``Participant``, by name.
    """
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
        size, communicator = arguments["solver_process_size"], arguments.get("communicator")
        return _guessing(cls, channel, mode, participant, size, communicator)
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
            raise GuessError(
                f"{participant}: expected PRECICE_LB_GUESS, as {configuration} has fields for a first guess, found it "
                "not set; set it for all participants, or use the configuration without them"
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


def _guessing(cls: Any, channel: Channel, mode: str, participant: str, size: int, communicator: Any) -> Any:
    """Make the class that exchanges shifted values."""

    class Guessing(cls):  # type: ignore[misc, unused-ignore]
        _precice_lb_guess_mode = mode

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._precice_lb_guess = ShiftedExchange(participant, channel, mode)

        def requires_initial_data(self) -> Any:
            return super().requires_initial_data() and channel.initializes

        def write_data(self, mesh_name: Any, data_name: Any, vertex_ids: Any, values: Any) -> Any:
            result = super().write_data(mesh_name, data_name, vertex_ids, values)
            self._precice_lb_guess.write(mesh_name, data_name, vertex_ids, values)
            return result

        def read_data(self, mesh_name: Any, data_name: Any, vertex_ids: Any, relative_read_time: Any) -> Any:
            return self._precice_lb_guess.read(super(), mesh_name, data_name, vertex_ids, relative_read_time)

        def initialize(self) -> Any:
            self._precice_lb_guess.before_initialize(super())
            result = super().initialize()
            self._precice_lb_guess.after_initialize(super(), functools.partial(_agree, size, communicator))
            return result

        def advance(self, computed_timestep_length: Any) -> Any:
            self._precice_lb_guess.before_advance(super(), computed_timestep_length)
            result = super().advance(computed_timestep_length)
            recorder = self._precice_lb_recorder
            self._precice_lb_guess.after_advance(super(), computed_timestep_length, recorder)
            return result

    return _named(Guessing, cls)


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
