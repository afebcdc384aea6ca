"""What a solver has beside preCICE: arrays on a device, and time in MPI.

The methods of mpi4py's classes are replaced, and neither classes nor objects. So every communicator and request is
timed, whoever made it and when, and stays what it is: to ``is`` and ``isinstance``, pickled, or given to C by handle.
Extension types refuse new attributes: their dictionaries are changed themselves, and Python's cache of methods told.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import re
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from precice_lb.record.recorder import Recorder, warn_once
from precice_lb.store.spool import raised_elsewhere

# What solvers give most often: to look for an attribute in vain takes a microsecond.
_HOST = frozenset({np.ndarray, str, bytes, list, tuple})
_WRITING = ("write_data", "write_and_map_data", "write_gradient_data")


def on_host(values: Any) -> Any:
    """Copy an array of CuPy, PyTorch or JAX to the host, from wherever it is; anything else stays as it is."""
    kind = type(values)
    # Of the class: an object's own attributes may be code of the solver's.
    if kind in _HOST or issubclass(kind, np.ndarray) or not hasattr(kind, "__dlpack__"):
        return values
    try:
        host = values
        # PyTorch's two, and CuPy's. NumPy's own conversion does for JAX, and refuses the others' on a device.
        for name in ("detach", "cpu", "get"):
            host = getattr(host, name, lambda host=host: host)()
        return np.asarray(host)
    except Exception as error:
        # Of a signal handler of the solver's.
        if raised_elsewhere(error, "cupy", "cupy_backends", "torch", "jax", "jaxlib"):
            raise
        warn_once(f"values of {kind} are given to preCICE as they are: {error}")
        return values


def writing_calls(base: Any) -> dict[str, Callable[..., Any]]:
    """Make the methods of a participant that take arrays on a device, by name."""
    return {name: _copying(getattr(base, name)) for name in _WRITING if hasattr(base, name)}


def _copying(method: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(self, *map(on_host, args), **{name: on_host(value) for name, value in kwargs.items()})

    call.__name__ = method.__name__
    return call


# What no other rank has a part in.
_LOCAL = re.compile(
    r"_.*|(Is|Set)_.*|Get_(?!status|accumulate).*|(to|from).*|py2f|f2py|free|Compare|Abort|Shift"
    r"|(Create|Free)_keyval|Delete_attr|(Create|Call)_errhandler"
)
# Libraries that call MPI without mpi4py.
_UNSEEN = ("petsc4py", "slepc4py", "dolfinx", "dolfin", "firedrake", "ngsolve", "mfem")


class MpiTime:
    """Nanoseconds in MPI since it was last set to 0; calls within calls, and of several threads at once, count once."""

    __slots__ = ("inside", "ns")

    def __init__(self) -> None:
        self.ns = 0
        self.inside = False

    def timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Make a method that takes the time of another."""
        clock = time.perf_counter_ns

        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self.inside:
                return method(*args, **kwargs)
            self.inside = True
            begin = clock()
            try:
                return method(*args, **kwargs)
            finally:
                self.ns += clock() - begin
                self.inside = False

        return call


def mpi_timed(base_advance: Callable[[Any, Any], Any], recorder: Recorder) -> Callable[[Any, Any], Any]:
    """Time mpi4py's calls from now on, and make the ``advance`` of one participant that hands over their time.

    What ``advance`` takes itself does not count. Where the time would not be the truth, there is none, and a warning.
    """
    timer = _mpi_time()
    if timer is None:
        return base_advance
    take = recorder.take_mpi

    def advance(participant: Any, computed_timestep_length: Any) -> Any:
        before = timer.ns
        result = base_advance(participant, computed_timestep_length)
        take(before)
        timer.ns = 0
        return result

    timer.ns = 0
    return advance


def _mpi_time() -> MpiTime | None:
    module = sys.modules.get("mpi4py.MPI")
    unseen = next((name for name in _UNSEEN if name in sys.modules), None)
    try:
        # Importing mpi4py here would start MPI, which is the solver's to do.
        if module is not None and unseen is None:
            return _installed(module)
        reason = "this solver does not use mpi4py" if unseen is None else f"{unseen} calls MPI by itself"
        reason += "; see a PMPI library's report instead"
    except Exception as error:
        reason = str(error)
    warn_once(f"time in MPI is not recorded: {reason}")
    return None


@functools.lru_cache(maxsize=1)
def _installed(module: ModuleType) -> MpiTime:
    """Replace the methods of all classes of mpi4py that may wait."""
    timer = MpiTime()
    kinds = (module.Comm, module.Request, module.Message, module.Win)
    for cls in {value for value in vars(module).values() if isinstance(value, type) and issubclass(value, kinds)}:
        # What a mapping proxy stands for, without a copy.
        (methods,) = gc.get_referents(cls.__dict__)
        for name, method in list(methods.items()):
            if _LOCAL.fullmatch(name):
                continue
            if isinstance(method, classmethod):
                methods[name] = classmethod(timer.timed(method.__func__))
            elif callable(method):
                methods[name] = timer.timed(method)
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(cls))
    return timer
