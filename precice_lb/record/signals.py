"""Keeping the solver's signal handlers out of HDF5."""

from __future__ import annotations

import signal
import threading

# Without its conversion to enumerations, which costs more than the rest of a flush's preparation.
from _signal import getsignal  # type: ignore[import-not-found]
from types import FrameType, TracebackType
from typing import Any

__all__ = ["SignalsHeld"]

_SIGNALS = tuple(sorted(signal.valid_signals()))


class SignalsHeld:
    """A context in which Python's signal handlers do not run; they run, in the order of their signals, right after.

    A handler may raise anywhere between two lines of Python, and an exception within HDF5's callbacks breaks the file.
    Blocking the signals does not help: any other thread of the process, such as those of a linear algebra library,
    takes them then, and Python runs the handler in the main thread all the same.
    """

    def __init__(self) -> None:
        self._handlers: list[tuple[int, Any]] = []
        self._arrived: list[tuple[int, FrameType | None]] = []

    def __enter__(self) -> SignalsHeld:
        """Replace all handlers written in Python; other threads than the main one never run any."""
        if threading.current_thread() is threading.main_thread():
            try:
                for number in _SIGNALS:
                    handler = getsignal(number)
                    if callable(handler):
                        signal.signal(number, self._arrive)
                        self._handlers.append((number, handler))
            except BaseException:
                self._restore()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Put the handlers back and run those that were held."""
        handlers = dict(self._handlers)
        failure = self._restore()
        for number, frame in self._arrived:
            handlers[number](number, frame)
        if failure is not None:
            raise failure

    def _arrive(self, number: int, frame: FrameType | None) -> None:
        self._arrived.append((number, frame))

    def _restore(self) -> BaseException | None:
        """Put all handlers back; the exception of one that runs meanwhile is returned."""
        failure: BaseException | None = None
        while self._handlers:
            try:
                signal.signal(*self._handlers[-1])
                self._handlers.pop()
            except BaseException as error:
                failure = failure or error
        return failure
