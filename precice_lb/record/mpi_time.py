"""Time that a rank spends in MPI within solve, through mpi4py; only where ``PRECICE_LB_MPI_TIME=1`` asks for it.

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

from precice_lb.record.recorder import Recorder, warn_once

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
