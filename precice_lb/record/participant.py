"""The drop-in ``Participant``: the backend's own, with the calls timed that cost time."""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import os
import sys
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from precice_lb.exceptions import BackendError
from precice_lb.record.launch import at_end_action, common_communicator, launch_id, run_metadata
from precice_lb.record.meshes import MeshNotes, mesh_calls
from precice_lb.record.recorder import Recorder, note, setting, warn_once
from precice_lb.record.solver import writing_calls
from precice_lb.rooms import hooks, room
from precice_lb.store.spool import StoreWriter

_CHOICES = ("libprecice", "embedded")


@dataclass(frozen=True)
class Backend:
    """A coupling backend, its Python API, its own ``Participant``, and why it stands in for another, if it does."""

    name: str
    module: ModuleType
    participant: type
    reason: str | None = None


@functools.lru_cache(maxsize=1)
def load_backend() -> Backend:
    """Load the backend that ``PRECICE_LB_BACKEND`` names, else pyprecice, else the embedded one, once per process.

    A pyprecice that is installed and cannot be imported is a broken environment and refused: with another backend in
    its place the solver would couple with nobody else's.
    """
    choice = os.environ.get("PRECICE_LB_BACKEND", "")
    if choice not in ("", *_CHOICES):
        raise BackendError(
            f"PRECICE_LB_BACKEND: expected one of {', '.join(_CHOICES)}, found {choice!r}; correct or unset it"
        )
    reason = None
    if choice != "embedded":
        try:
            module = importlib.import_module("precice")
            if getattr(module, "__file__", None) is not None:
                if hasattr(module, "Participant"):
                    return Backend("libprecice", module, module.Participant)
                raise ImportError(f"{module.__file__} has no Participant: expected pyprecice 3.2 or newer")
            # A directory of that name is imported as an empty namespace package.
            reason = f"{', '.join(module.__path__)} is no pyprecice"
        # Whatever an import may raise: mpi4py raises RuntimeError where it finds no MPI library.
        except Exception as error:
            # Not a module that pyprecice itself lacks.
            if not (isinstance(error, ModuleNotFoundError) and error.name == "precice"):
                raise BackendError(
                    f"pyprecice is installed but cannot be imported: {type(error).__name__}: {error}; correct the "
                    "environment (libprecice's directory in LD_LIBRARY_PATH, one MPI for libprecice, mpi4py and "
                    "mpiexec), or say PRECICE_LB_BACKEND=embedded to couple without libprecice"
                ) from error
            reason = str(error)
    if choice == "libprecice":
        raise BackendError(
            f"PRECICE_LB_BACKEND=libprecice: expected an importable pyprecice, found: {reason}; install libprecice and "
            "the extra precice, or use PRECICE_LB_BACKEND=embedded"
        )
    embedded = room("embedded")
    if embedded is None:
        raise BackendError(
            "expected the embedded backend or an importable pyprecice, found neither in this installation; install "
            "libprecice and the extra precice"
        )
    return Backend("embedded", embedded, embedded.Participant, reason)


def timed_advance(base: Any, recorder: Recorder, base_advance: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Make the ``advance`` of one participant, of that of the backend's class ``base`` or what stands around it."""
    base_is_complete = base.is_time_window_complete
    clock, cpu, real = time.perf_counter_ns, time.process_time_ns, float
    take = recorder.take
    left = 1

    # Nothing is caught here: it would be the exception of a signal handler, which is the solver's.
    def advance(self: Any, computed_timestep_length: Any) -> Any:
        nonlocal left
        dt = computed_timestep_length
        cpu_begin = cpu()
        begin = clock()
        result = base_advance(self, dt)
        # The clock comes first. What is no float may be changed by the solver before the flush.
        end = clock()
        complete = base_is_complete(self)
        take((begin, end, dt if dt.__class__ is real else real(dt), complete, cpu_begin, cpu()))
        if complete:
            left -= 1
            if left <= 0:
                left = recorder.flush_due()
        else:
            recorder.stayed()
        return result

    return advance


DEFAULT_DIRECTORY = "precice-lb-store"
"""The store directory, in the working directory, unless ``PRECICE_LB_DIR`` names another."""

# What launchers say of a launch's ranks, and of this one among them: Open MPI, MPICH and its like, Slurm.
_LAUNCHED = (
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"), ("PMI_SIZE", "PMI_RANK"), ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID")
)  # fmt: skip
_ARGUMENTS = ("solver_name", "configuration_file_name", "solver_process_index", "solver_process_size", "communicator")


class _Unrecorded:
    """Takes what a recorder takes where there is none."""

    is_open = False

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *_, **__: None


@functools.lru_cache(maxsize=1)
def participant_class() -> type:
    """Return the recording ``Participant`` of this process."""
    return recording_class(load_backend())


def recording_class(backend: Backend) -> type:
    """Make a recording subclass of a backend's ``Participant``.

    Only the calls that are timed or counted, or that take arrays on a device, are overridden; all others are the
    backend's own, at their own cost.
    """
    base: Any = backend.participant
    clock = time.perf_counter_ns

    class Participant(base):  # type: ignore[misc, unused-ignore]
        _precice_lb_recorder: Any = _Unrecorded()
        _precice_lb_meshes: MeshNotes | None = None
        _precice_lb_coupled = False
        _precice_lb_guess: Any = None
        _precice_lb_advance: Callable[[Any, Any], Any] = staticmethod(base.advance)

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            named = _by_name(args, kwargs)
            # Here, where libprecice refuses it.
            _warn_if_serial(named)
            if "PRECICE_LB_GUESS" in os.environ or _has_guesses(named):
                for choose_class in hooks("participant_class"):
                    cls = choose_class(cls, Participant, named)
            # An extension type takes its arguments here too.
            return base.__new__(cls) if base.__new__ is object.__new__ else base.__new__(cls, *args, **kwargs)

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            base.__init__(self, *args, **kwargs)
            mode = None if self._precice_lb_guess is None else "auto"
            recorder = _start_recorder(backend, _by_name(args, kwargs), mode)
            if recorder is not None:
                self._precice_lb_recorder = recorder
                # The interpreter may end without a call of finalize() and without dropping the participant.
                weakref.finalize(self, _close, weakref.ref(self), recorder)
                self._precice_lb_advance = timed_advance(base, recorder, base.advance)
                if noting:
                    self._precice_lb_meshes = MeshNotes(keeps_points)

        def __del__(self) -> None:
            _close(lambda: self, self._precice_lb_recorder)

        def initialize(self) -> Any:
            recorder = self._precice_lb_recorder
            if self._precice_lb_meshes is not None:
                # Before the call: it may be the one that such meshes make fail.
                recorder.write_meshes(self._precice_lb_meshes)
            self._precice_lb_meshes = None
            begin = clock()
            result = base.initialize(self)
            end = clock()
            if recorder.is_open and setting("PRECICE_LB_MPI_TIME", "0", "1") == "1":
                from precice_lb.record.solver import mpi_timed

                self._precice_lb_advance = timed_advance(base, recorder, mpi_timed(base.advance, recorder))
            recorder.initialized(begin, end)
            self._precice_lb_coupled = True
            return result

        def advance(self, computed_timestep_length: float) -> Any:
            return self._precice_lb_advance(self, computed_timestep_length)

        def requires_reading_checkpoint(self) -> Any:
            result = base.requires_reading_checkpoint(self)
            if result:
                self._precice_lb_recorder.repeated()
            return result

        def start_profiling_section(self, event_name: Any) -> Any:
            result = base.start_profiling_section(self, event_name)
            self._precice_lb_recorder.section_started(event_name)
            return result

        def stop_last_profiling_section(self) -> Any:
            end = clock()
            result = base.stop_last_profiling_section(self)
            self._precice_lb_recorder.section_stopped(end)
            return result

        def count(self, feature: str, number: float) -> None:
            """Say how much of a feature this rank holds from now on, to learn what a unit of it costs.

            Parameters
            ----------
            feature : str
                What is counted, such as ``porous`` or ``cells of order 2``.
            number : float
                How much of it this rank holds, not negative; the last number counts. What is wrong is one warning.
            """
            self._precice_lb_recorder.count(feature, number)

        def finalize(self) -> Any:
            # Not to be asked any more whether it is ongoing: libprecice prints an error then.
            self._precice_lb_coupled = False
            result = base.finalize(self)
            self._precice_lb_recorder.close(finished=True)
            return result

    def _close(find: Callable[[], Any], recorder: Recorder) -> None:
        """Complete the store of a participant that was not finalised, while it may still be there to be asked."""
        participant = find()
        if participant is None:
            # The collector of cycles calls this before the destructor, which knows more; there may be none of ours.
            if recorder.is_open:
                atexit.register(recorder.close, finished=False, keep_spool=True)
        elif recorder.is_open:
            finished = False
            if participant._precice_lb_coupled:
                with contextlib.suppress(Exception):
                    finished = not base.is_coupling_ongoing(participant)
            recorder.close(finished=finished, keep_spool=True)

    noting, keeps_points = ({}, False) if os.environ.get("PRECICE_LB_RECORD") == "0" else mesh_calls(base)
    for name, method in {**noting, **writing_calls(base)}.items():
        setattr(Participant, name, method)
    for name, method in vars(Participant).items():
        if callable(method) and name[0] != "_" and hasattr(base, name):
            method.__doc__ = getattr(base, name).__doc__
    Participant.__doc__ = base.__doc__
    Participant.__qualname__ = "Participant"
    Participant.__module__ = "precice_lb"
    return Participant


def _by_name(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    return {**dict(zip(_ARGUMENTS, args, strict=False)), **kwargs}


def _warn_if_serial(arguments: Mapping[str, Any]) -> None:
    """Warn, on the first of several ranks of a launch, where each of them starts preCICE as the only one."""
    with contextlib.suppress(Exception):
        ranks = next((int(os.environ[size]) for size, rank in _LAUNCHED if os.environ.get(rank) == "0"), 1)
        if ranks == 1 or arguments["solver_process_size"] != 1 or os.environ.get("PRECICE_LB_RECORD") == "0":
            return
        # Where MPI says 1 as well, the communicator is a part, or the launcher another MPI's.
        if common_communicator(arguments.get("communicator"), 0, 1) is None:
            warn_once(
                f"{arguments['solver_name']} starts preCICE as rank 0 of 1 on each of {ranks} ranks: it runs on one "
                "rank only; start one (maximum_ranks = 1 in a study), or give preCICE the rank and size that MPI says"
            )


def _has_guesses(arguments: Mapping[str, Any]) -> bool:
    """Whether a configuration has fields for a first guess, by its bytes: reading XML takes longer than recording."""
    try:
        content = Path(os.fsdecode(arguments["configuration_file_name"])).read_bytes()
        # Without the zeros of UTF-16.
        return b'"Guess-of-' in content.replace(b"\0", b"")
    except (KeyError, TypeError, OSError):
        return False


def _start_recorder(backend: Backend, arguments: Mapping[str, Any], guess: str | None) -> Recorder | None:
    """Start recording if wanted; whatever is in the way of a store file becomes one warning.

    ``guess`` is ``auto`` where the run makes a first guess.
    """
    try:
        participant, configuration = (os.fsdecode(arguments[name]) for name in _ARGUMENTS[:2])
        rank, size = (arguments[name] for name in _ARGUMENTS[2:4])
        if backend.reason is not None and rank == 0:
            note(f"pyprecice cannot be imported ({backend.reason}); using the embedded coupling backend", sys.stderr)
        if setting("PRECICE_LB_RECORD", "1", "0") == "0":
            return None
        values, text = run_metadata(participant, configuration, rank, size, backend, guess)
        directory = Path(os.environ.get("PRECICE_LB_DIR") or DEFAULT_DIRECTORY).absolute()
        launch, settle = launch_id(values, directory, arguments.get("communicator"))
        if launch is not None:
            values["launch"] = launch
        keep_spool = setting("PRECICE_LB_STORE", "hdf5", "spool") == "spool"
        writer = StoreWriter(directory, values, text, keep_spool=keep_spool)
        return Recorder(writer, at_end_action(values, directory), settle)
    except Exception as error:
        warn_once(f"this run is not recorded: {error}")
        return None


def attribute(name: str) -> Any:
    """Look up a name that the backend's API has; ``Participant`` is the recording one."""
    return participant_class() if name == "Participant" else getattr(load_backend().module, name)


def names() -> list[str]:
    """List the public names of the backend's API."""
    module = load_backend().module
    return sorted({"__version__", *(getattr(module, "__all__", None) or [n for n in dir(module) if n[0] != "_"])})


def recording_spec(name: str) -> ModuleSpec | None:
    """Specify what a solver gets that imports ``precice`` or ``cyprecice``; None while the backend imports them."""
    return None if _Loader.busy else ModuleSpec(name, _Loader())


class _Loader(Loader):
    """Puts the recording ``Participant`` into preCICE's modules, or makes them where the embedded backend stands in."""

    busy = False

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        _Loader.busy = True
        try:
            backend = load_backend()
            if backend.name == "embedded":
                module = ModuleType(spec.name, backend.module.__doc__)
                module.__dict__.update({name: attribute(name) for name in names()})
                return module
            for name in ("precice", "cyprecice"):
                importlib.import_module(name).Participant = participant_class()  # type: ignore[attr-defined]
        finally:
            _Loader.busy = False
        module = sys.modules[spec.name]
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give a real module its own specification back; it has been executed when it was created."""
        spec = module.__spec__
        module.__spec__ = (spec and spec.loader_state) or spec
