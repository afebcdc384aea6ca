"""Extra-P as a peer: a process of another environment, since it is not and never becomes a dependency."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

__all__ = ["ExtraP"]

Array = NDArray[np.float64]


class ExtraP:
    """Extra-P's single-parameter modeler with negative exponents, in a process of its own.

    Parameters
    ----------
    python
        The Python of an environment that has extrap 4.2.5.
    """

    def __init__(self, python: str) -> None:
        worker = str(Path(__file__).with_name("extrap_worker.py"))
        self._process = subprocess.Popen([python, worker], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> ExtraP:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def curve(self, ranks: Array, seconds: Array, highest: int) -> Array:
        """Predicted seconds at 1 … highest ranks, whatever their sign, shape (1, highest)."""
        pipe_in, pipe_out = self._process.stdin, self._process.stdout
        assert pipe_in is not None
        assert pipe_out is not None
        request = {"ranks": ranks.tolist(), "seconds": seconds.tolist(), "highest": highest}
        pipe_in.write(json.dumps(request) + "\n")
        pipe_in.flush()
        answer = pipe_out.readline()
        if not answer:
            raise RuntimeError(f"Extra-P's process ended with exit code {self._process.wait()}")
        return np.array([json.loads(answer)["seconds"]], dtype=np.float64)

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(timeout=30)
        if self._process.stdout is not None:
            self._process.stdout.close()
