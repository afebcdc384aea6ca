"""Arrays on a device: copied to the host for preCICE and, with ``PRECICE_LB_SYNCHRONIZE=1``, waited for as solve time.

Nothing is imported here: whatever library has such arrays, the solver has imported it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from precice_lb.record.recorder import setting, warn_once
from precice_lb.store.spool import raised_elsewhere

# Whose code runs in the calls made here.
_LIBRARIES = ("cupy", "cupy_backends", "torch", "jax", "jaxlib")
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
        _leave_to_the_solver(error)
        warn_once(f"values of {kind} are given to preCICE as they are: {error}")
        return values


def synchronized(call: Callable[..., Any]) -> Callable[..., Any]:
    """Let a call wait for the device first, where that is asked for."""
    if setting("PRECICE_LB_SYNCHRONIZE", "0", "1") == "0":
        return call

    @functools.wraps(call)
    def waiting(*args: Any, **kwargs: Any) -> Any:
        synchronize()
        return call(*args, **kwargs)

    return waiting


def writing_calls(base: Any) -> dict[str, Callable[..., Any]]:
    """Make the methods of a participant that take arrays on a device, by name."""
    return {name: _copying(getattr(base, name)) for name in _WRITING if hasattr(base, name)}


def _copying(method: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(self, *map(on_host, args), **{name: on_host(value) for name, value in kwargs.items()})

    call.__name__ = method.__name__
    return synchronized(call)


def synchronize() -> None:
    """Wait until the devices that this process uses have done what they were given."""
    if not any(name in sys.modules for name in _LIBRARIES):
        warn_once(
            "PRECICE_LB_SYNCHRONIZE: expected a solver that uses CuPy, PyTorch or JAX, found that it imports none"
        )
    for name, wait in list(_WAITS.items()):
        module = sys.modules.get(name)
        if module is None:
            continue
        try:
            wait(module)
        except Exception as error:
            _leave_to_the_solver(error)
            del _WAITS[name]
            warn_once(f"{name}'s device is not synchronised any more, so solve times may lack its kernels: {error}")


def _leave_to_the_solver(error: Exception) -> None:
    """Raise what a signal handler of the solver's has raised."""
    if raised_elsewhere(error, *_LIBRARIES):
        raise error


def _wait_for_torch(torch: Any) -> None:
    for kind in ("cuda", "xpu"):
        device = getattr(torch, kind, None)
        # Asking for a device starts it otherwise, which takes its memory. ROCm's are called cuda too.
        if device is not None and device.is_initialized():
            device.synchronize()


def _wait_for_jax(jax: Any) -> None:
    bridge = sys.modules.get("jax._src.xla_bridge")
    if bridge is None or bridge.backends_are_initialized():
        jax.block_until_ready(jax.live_arrays())


_WAITS: dict[str, Callable[[Any], None]] = {
    "cupy": lambda cupy: cupy.cuda.Device().synchronize(),
    "torch": _wait_for_torch,
    "jax": _wait_for_jax,
}
