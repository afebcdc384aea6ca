"""The drop-in ``Participant``: the backend's own, with the calls timed that cost time."""

from __future__ import annotations

import functools
import os
import sys
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from precice_lb.exceptions import BackendError
from precice_lb.record.backend import Backend, load_backend
from precice_lb.record.notes import note, warn_once

if TYPE_CHECKING:
    from precice_lb.record.recorder import Recorder

__all__ = ["DEFAULT_DIRECTORY", "participant_class", "recording_class"]

DEFAULT_DIRECTORY = "precice-lb-store"
"""The store directory, in the working directory, unless ``PRECICE_LB_DIR`` names another."""


@functools.lru_cache(maxsize=1)
def participant_class() -> type:
    """Return the recording ``Participant`` of this process.

    Returns
    -------
    type
        A subclass of the backend's ``Participant``.

    Raises
    ------
    BackendError
        If no backend can be loaded.
    """
    return recording_class(load_backend())


def recording_class(backend: Backend) -> type:
    """Make a recording subclass of a backend's ``Participant``.

    Only the calls that are timed or counted are overridden; all others are the backend's own, at their own cost.

    Parameters
    ----------
    backend : Backend
        The coupling backend.

    Returns
    -------
    type
        Takes the arguments of the backend's ``Participant`` and the keyword ``metadata``, a mapping as in
        ``PRECICE_LB_METADATA``.
    """
    base: Any = backend.participant
    base_advance = base.advance
    base_is_complete = base.is_time_window_complete
    base_is_ongoing = base.is_coupling_ongoing
    clock = time.perf_counter_ns
    tells_times = backend.name == "embedded"

    class Participant(base):  # type: ignore[misc, unused-ignore]
        _precice_lb_recorder: Recorder | None = None

        # An extension type takes its arguments here too, so ours have to go twice.
        def __new__(cls, *args: Any, metadata: Mapping[str, Any] | None = None, **kwargs: Any) -> Any:
            del metadata
            kwargs = _checked(backend, args, kwargs)
            return base.__new__(cls) if base.__new__ is object.__new__ else base.__new__(cls, *args, **kwargs)

        def __init__(self, *args: Any, metadata: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
            base.__init__(self, *args, **_checked(backend, args, kwargs))
            recorder = _start_recorder(backend, args, kwargs, metadata)
            if recorder is not None:
                self._precice_lb_recorder = recorder
                # Also when the participant is dropped or the interpreter ends without a call of finalize().
                weakref.finalize(self, recorder.close)

        def initialize(self) -> Any:
            recorder = self._precice_lb_recorder
            begin = clock()
            result = base.initialize(self)
            end = clock()
            if recorder is not None:
                recorder.initialized(begin, end, *(self.timing_ns if tells_times else (-1, -1)))
            return result

        def advance(self, computed_timestep_length: float) -> Any:
            begin = clock()
            result = base_advance(self, computed_timestep_length)
            end = clock()
            recorder = self._precice_lb_recorder
            if recorder is not None:
                # Nothing is caught here: it would be the exception of a signal handler, which is the solver's.
                complete = base_is_complete(self)
                ended = complete and not base_is_ongoing(self)
                mapping, wait = self.timing_ns if tells_times else (-1, -1)
                recorder.advanced(begin, end, computed_timestep_length, complete, ended, mapping, wait)
            return result

        def requires_reading_checkpoint(self) -> Any:
            result = base.requires_reading_checkpoint(self)
            if result and self._precice_lb_recorder is not None:
                self._precice_lb_recorder.repeated()
            return result

        def finalize(self) -> Any:
            result = base.finalize(self)
            if self._precice_lb_recorder is not None:
                self._precice_lb_recorder.finalized()
            return result

    for name in ("initialize", "advance", "requires_reading_checkpoint", "finalize"):
        getattr(Participant, name).__doc__ = getattr(base, name).__doc__
    Participant.__doc__ = base.__doc__
    Participant.__qualname__ = "Participant"
    Participant.__module__ = "precice_lb"
    return Participant


def _checked(backend: Backend, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments for the backend; a communicator would crash pyprecice 3.4.0 and the interpreter with it."""
    communicator = args[4] if len(args) > 4 else kwargs.get("communicator")
    if backend.name == "libprecice" and communicator is not None:
        raise BackendError(
            "Participant: expected no communicator= with pyprecice, found one; pyprecice 3.4.0 crashes on it. Leave it "
            "out (preCICE then uses all ranks of MPI_COMM_WORLD) or use PRECICE_LB_BACKEND=embedded"
        )
    if communicator is None:
        return {name: value for name, value in kwargs.items() if name != "communicator"}
    return kwargs


def _start_recorder(
    backend: Backend, args: tuple[Any, ...], kwargs: dict[str, Any], metadata: Mapping[str, Any] | None
) -> Recorder | None:
    """Start recording if wanted and possible; whatever is in the way becomes one warning."""
    try:
        names = ("solver_name", "configuration_file_name", "solver_process_index", "solver_process_size")
        participant, configuration, rank, size = ({**dict(zip(names, args, strict=False)), **kwargs}[n] for n in names)
        if isinstance(participant, bytes):
            participant = participant.decode()
        if isinstance(configuration, bytes):
            configuration = os.fsdecode(configuration)
        if backend.reason is not None and rank == 0:
            note(f"pyprecice cannot be imported ({backend.reason}); using the embedded coupling backend", sys.stderr)
        switch = os.environ.get("PRECICE_LB_RECORD", "")
        if switch == "0":
            return None
        if switch not in ("", "1"):
            warn_once(f"PRECICE_LB_RECORD is ignored: expected 0 or 1, found {switch!r}")
        # Here and not above: HDF5 may be missing or broken, and the run goes on without it.
        from precice_lb.record.at_end import at_end_action
        from precice_lb.record.metadata import run_metadata, user_metadata
        from precice_lb.record.recorder import Recorder

        values, text = run_metadata(participant, configuration, rank, size, backend)
        values.update(user_metadata(metadata))
        directory = Path(os.environ.get("PRECICE_LB_DIR") or DEFAULT_DIRECTORY).absolute()
        return Recorder(directory, values, text, at_end_action(values, directory))
    except Exception as error:
        warn_once(f"this run is not recorded: {error}")
        return None
