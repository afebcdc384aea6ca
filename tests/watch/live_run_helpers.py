"""A run that goes on while a test watches it."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from types import TracebackType

from record_helpers import configuration
from store_helpers import metadata, row, rows

from precice_lb.store import StoreWriter


class LiveRun:
    """A run of A and B, of 150 time windows, whose solvers are this process: it goes on until `end`."""

    def __init__(self, directory: Path, windows: int) -> None:
        text = configuration("parallel-explicit", 150)
        process = {"hostname": platform.node(), "pid": os.getpid(), "started_unix_ns": time.time_ns()}
        self._writers = {
            name: StoreWriter(directory, metadata(name, **process, configuration=text), text) for name in "AB"
        }
        self._windows = 0
        self.go_on(windows)

    def __enter__(self) -> LiveRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()

    def go_on(self, windows: int, compute_seconds: float = 0.2) -> None:
        """Complete more time windows, in which A computes so long and B waits for it."""
        numbers = range(self._windows + 1, self._windows + windows + 1)
        self._windows += windows
        self._writers["A"].append(rows([row(number, compute_seconds, 0.01, 0.0) for number in numbers]))
        wait = compute_seconds - 0.1
        self._writers["B"].append(rows([row(number, 0.1, wait + 0.01, wait) for number in numbers]))

    def end(self) -> None:
        """Let both participants come to the end of the coupling."""
        for writer in self._writers.values():
            writer.close(finished=True, ended_unix_ns=time.time_ns())
        self._writers = {}
